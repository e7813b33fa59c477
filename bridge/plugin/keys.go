package plugin

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"time"
)

// A keyPair is a private key and its self-signed certificate.
type keyPair struct {
	cert tls.Certificate
	pem  []byte // the certificate
	both []byte // the private key and the certificate
}

// newKeyPair makes a key pair for one run of a plugin, good for either side of its connection.
//
// The curve is P-256, not go-plugin's P-521: that one takes 20 ms longer, and gRPC for Python could not do it before 1.60.
func newKeyPair() (*keyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: "localhost"},
		DNSNames:     []string{"localhost"},
		NotBefore:    now.Add(-30 * time.Second),
		NotAfter:     now.AddDate(30, 0, 0),
		KeyUsage:     x509.KeyUsageDigitalSignature | x509.KeyUsageKeyAgreement | x509.KeyUsageCertSign,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		// It vouches for itself. Go does not ask for this, stricter verifiers do.
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return &keyPair{
		cert: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		pem:  cert,
		both: append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), cert...),
	}, nil
}
