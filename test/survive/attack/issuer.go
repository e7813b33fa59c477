package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"time"
)

// An issuer issues valid and invalid tokens.
type issuer struct {
	url   string
	rsa   *rsa.PrivateKey
	ec    *ecdsa.PrivateKey
	srv   *http.Server
	ended chan struct{}
}

var b64 = base64.RawURLEncoding

func newIssuer() (*issuer, error) {
	i := &issuer{ended: make(chan struct{})}
	var err error
	if i.rsa, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
		return nil, err
	}
	if i.ec, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	point, err := i.ec.PublicKey.Bytes()
	if err != nil {
		return nil, err
	}
	keys, err := json.Marshal(map[string]any{"keys": []any{
		map[string]string{
			"kty": "RSA", "kid": "r", "alg": "RS256", "use": "sig",
			"n": b64.EncodeToString(i.rsa.N.Bytes()), "e": b64.EncodeToString(big.NewInt(int64(i.rsa.E)).Bytes()),
		},
		map[string]string{
			"kty": "EC", "kid": "e", "alg": "ES256", "use": "sig", "crv": "P-256",
			"x": b64.EncodeToString(point[1:33]), "y": b64.EncodeToString(point[33:]),
		},
	}})
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	i.url = "http://" + ln.Addr().String()
	i.srv = &http.Server{
		ReadHeaderTimeout: time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(keys) // a client that disconnects needs none
		}),
	}
	go func() { // ends with close
		defer close(i.ended)
		_ = i.srv.Serve(ln) // ErrServerClosed
	}()
	return i, nil
}

func (i *issuer) close() {
	i.srv.Close()
	<-i.ended
}

// jwt issues a token with changes: "alg=NAME", "kid=ID", "sign=KEY", "header.NAME=JSON", "exp=SECONDS" from now (also
// nbf and iat), "-CLAIM" removes a claim, "CLAIM=JSON or text" sets it.
func (i *issuer) jwt(changes ...string) (string, error) {
	now := time.Now()
	header := map[string]any{"alg": "RS256", "kid": "r", "typ": "JWT"}
	claims := map[string]any{
		"iss": i.url, "aud": "http://127.0.0.1:8080/mcp", "sub": "carol", "exp": now.Add(5 * time.Minute).Unix(),
		"scope": "tools",
		"note":  carolCanary,
	}
	sign := "rsa"
	for _, c := range changes {
		name, text, _ := strings.Cut(c, "=")
		var value any = text
		if json.Unmarshal([]byte(text), &value) != nil {
			value = text
		}
		switch {
		case strings.HasPrefix(name, "-"):
			delete(claims, name[1:])
		case name == "alg" || name == "kid":
			header[name] = text
		case name == "sign":
			sign = text
		case strings.HasPrefix(name, "header."):
			header[strings.TrimPrefix(name, "header.")] = value
		case name == "exp" || name == "nbf" || name == "iat":
			if seconds, ok := value.(float64); ok {
				value = now.Unix() + int64(seconds)
			}
			claims[name] = value
		default:
			claims[name] = value
		}
	}
	h, err := json.Marshal(header)
	if err != nil {
		return "", err
	}
	c, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	text := b64.EncodeToString(h) + "." + b64.EncodeToString(c)
	sum := sha256.Sum256([]byte(text))
	var sig []byte
	switch sign {
	case "rsa":
		sig, err = rsa.SignPKCS1v15(rand.Reader, i.rsa, crypto.SHA256, sum[:])
	case "other":
		var other *rsa.PrivateKey
		if other, err = rsa.GenerateKey(rand.Reader, 2048); err == nil {
			sig, err = rsa.SignPKCS1v15(rand.Reader, other, crypto.SHA256, sum[:])
		}
	case "ec":
		r, s, serr := ecdsa.Sign(rand.Reader, i.ec, sum[:])
		err = serr
		sig = append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	case "hmac": // with the public key as the secret
		der, derr := x509.MarshalPKIXPublicKey(&i.rsa.PublicKey)
		err = derr
		mac := hmac.New(sha256.New, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
		mac.Write([]byte(text))
		sig = mac.Sum(nil)
	case "none":
	default:
		err = fmt.Errorf("unknown signature %q", sign)
	}
	return text + "." + b64.EncodeToString(sig), err
}

// funcs are the functions of templates in the table.
func (i *issuer) funcs() template.FuncMap {
	f := template.FuncMap{
		"jwt":    i.jwt,
		"repeat": func(n int, s string) string { return strings.Repeat(s, n) },
		"alice":  func() string { return aliceToken },
		"bob":    func() string { return bobToken },
		"issuer": func() string { return i.url },
		"b64":    func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
		"bytes":  unquote,
		// numbered repeats a text with an increasing %d.
		"numbered": func(n int, s string) string {
			var b strings.Builder
			for k := range n {
				if k > 0 {
					b.WriteByte(',')
				}
				fmt.Fprintf(&b, s, k)
			}
			return b.String()
		},
	}
	return maps.Clone(f)
}

// certificate writes cert.pem and key.pem for this machine to a directory, and returns a client configuration that
// trusts them.
func certificate(dir string) (*tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for name, data := range map[string][]byte{
		"cert.pem": cert,
		"key.pem":  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return nil, err
		}
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(cert)
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}
