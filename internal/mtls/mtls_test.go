package mtls_test

import (
	"crypto/tls"
	"crypto/x509"
	"testing"

	"github.com/mcpbridge/mcpbridge/internal/mtls"
)

// rustls and webpki reject a certificate authority as the certificate of either side, and every verifier but Go's wants
// the authority to say that it is one. Backends on OpenSSL, BoringSSL and Java's TLS are the kits of
// bridgetest.Programs; one on rustls is examples/plain-rust.
func TestCertificatesAreValidForOneSideOnly(t *testing.T) {
	keys, err := mtls.New()
	if err != nil {
		t.Fatal(err)
	}
	server, err := tls.X509KeyPair(keys.Server, keys.Server)
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM(keys.Authority) {
		t.Fatal("the authority is not a certificate")
	}
	for name, side := range map[string]struct {
		cert tls.Certificate
		is   x509.ExtKeyUsage
		not  x509.ExtKeyUsage
	}{
		"client": {keys.Client, x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		"server": {server, x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	} {
		leaf := side.cert.Leaf
		if leaf.IsCA || !leaf.BasicConstraintsValid || leaf.KeyUsage != x509.KeyUsageDigitalSignature {
			t.Errorf("%s: authority %v, basic constraints %v, key usage %b", name, leaf.IsCA,
				leaf.BasicConstraintsValid, leaf.KeyUsage)
		}
		if leaf.Issuer.String() == leaf.Subject.String() {
			t.Errorf("%s: it looks self-signed: issuer and subject are %s", name, leaf.Issuer)
		}
		verify := func(usage x509.ExtKeyUsage) error {
			_, err := leaf.Verify(x509.VerifyOptions{
				Roots: trusted, DNSName: "localhost",
				KeyUsages: []x509.ExtKeyUsage{usage},
			})
			return err
		}
		if err := verify(side.is); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if verify(side.not) == nil {
			t.Errorf("the certificate of the %s is good for the other side", name)
		}
	}
	others, err := mtls.New()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := others.Client.Leaf.Verify(
		x509.VerifyOptions{Roots: trusted, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err == nil {
		t.Error("the client of another launch is trusted")
	}
}
