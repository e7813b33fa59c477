package bridge_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/url"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge"
)

// Names of different kinds in certificates of the same authority are different principals, however they are written.
func TestNamesOfCertificatesAreDistinguished(t *testing.T) {
	uri := func(s string) *x509.Certificate {
		u, err := url.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		return &x509.Certificate{URIs: []*url.URL{u}}
	}
	dns := func(s string) *x509.Certificate { return &x509.Certificate{DNSNames: []string{s}} }
	seen := map[string]string{}
	for name, tt := range map[string]struct {
		cert *x509.Certificate
		want string
	}{
		"SPIFFE id":                 {uri("spiffe://example.org/x"), "spiffe://example.org/x"},
		"DNS name like a SPIFFE id": {dns("spiffe://example.org/x"), "dns:spiffe://example.org/x"},
		"DNS name":                  {dns("me.example.org"), "me.example.org"},
		"URI like a DNS name":       {uri("me.example.org"), "uri:me.example.org"},
		"URI like a marked name":    {uri("dns:spiffe://example.org/x"), "uri:dns:spiffe://example.org/x"},
		"subject":                   {&x509.Certificate{Subject: pkix.Name{CommonName: "me"}}, "CN=me"},
		"DNS name like a subject":   {dns("CN=me"), "dns:CN=me"},
		"URI like a subject":        {uri("CN=me"), "uri:CN=me"},
		"number":                    {&x509.Certificate{SerialNumber: big.NewInt(255)}, "serial:ff"},
		"URI like a number":         {uri("serial:ff"), "uri:serial:ff"},
		"DNS name like a number":    {dns("serial:ff"), "dns:serial:ff"},
	} {
		got := bridge.CertificatePrincipal(&tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{tt.cert}}}).
			GetSubject()
		if got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
		if other, ok := seen[got]; ok {
			t.Errorf("%s and %s are both %q", name, other, got)
		}
		seen[got] = name
	}
}
