// Package mtls makes the certificates with which a host and the one backend that it launches authenticate each other.
package mtls

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

// Keys authenticate the two sides of one launch.
//
// A certificate authority that exists only while New runs signs a certificate for each side. The certificates are not
// authorities themselves: rustls and webpki reject one that is (CaUsedAsEndEntity).
type Keys struct {
	// Authority is the authority's certificate in PEM: what the backend trusts.
	Authority []byte
	// Client is the host's certificate and private key.
	Client tls.Certificate
	// Server is the backend's private key (PKCS #8) and its certificate for localhost, in PEM.
	Server []byte
}

// New returns keys for one launch.
//
// The curve is P-256, not go-plugin's P-521, which takes 20 ms longer, and which gRPC for Python before 1.60 does not
// support.
func New() (*Keys, error) {
	authority, err := issue(nil, &x509.Certificate{
		Subject: pkix.Name{CommonName: "mcpbridge"}, KeyUsage: x509.KeyUsageCertSign,
		BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
	})
	if err != nil {
		return nil, err
	}
	var leaves [2]*tls.Certificate
	for i, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth} {
		leaves[i], err = issue(authority, &x509.Certificate{
			Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"}, BasicConstraintsValid: true,
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage},
		})
		if err != nil {
			return nil, err
		}
	}
	client, server := leaves[0], leaves[1]
	secret, err := x509.MarshalPKCS8PrivateKey(server.PrivateKey)
	if err != nil {
		return nil, err
	}
	return &Keys{
		Authority: certificatePEM(authority),
		Client:    *client,
		Server: append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
			certificatePEM(server)...),
	}, nil
}

// issue returns a new key with a certificate that parent signs, or that signs itself if parent is nil.
func issue(parent *tls.Certificate, template *x509.Certificate) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return nil, err
	}
	now := time.Now()
	template.NotBefore, template.NotAfter = now.Add(-30*time.Second), now.AddDate(30, 0, 0)
	signer, by := template, any(key)
	if parent != nil {
		signer, by = parent.Leaf, parent.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, signer, key.Public(), by)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}

func certificatePEM(c *tls.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Leaf.Raw})
}
