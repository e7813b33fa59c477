package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"path"

	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/internal/auth"
	"github.com/mcpbridge/mcpbridge/internal/problem"
)

// NewAuth returns the authentication of callers over HTTP.
func (l *Config) NewAuth(log zerolog.Logger) (*auth.Auth, error) {
	c := &l.Serve.HTTP.Auth
	o := auth.Options{
		Resource: c.Resource, Scopes: c.Scopes, Certificates: l.Serve.HTTP.TLS.ClientCA != "",
		Limits: l.Limits, Log: log,
	}
	for _, i := range c.Issuers {
		issuer := auth.Issuer{URL: i.URL, Audiences: i.Audiences, JWKS: i.JWKS}
		if in := i.Introspection; in.URL != "" {
			issuer.Introspection = &auth.Introspection{
				URL: in.URL, ClientID: in.ClientID, ClientSecret: in.ClientSecret,
			}
		}
		o.Issuers = append(o.Issuers, issuer)
	}
	for _, t := range c.Tokens {
		l.Secrets.add("a token of serve.http.auth", t.Token)
		o.Tokens = append(o.Tokens, auth.Token{Token: t.Token, Subject: t.Subject, Scopes: t.Scopes})
	}
	o.Endpoints = map[string]string{}
	for _, b := range l.Backends {
		o.Endpoints[path.Join(l.Serve.HTTP.Path, b.Name)] = "/" + b.Name
		for _, scopes := range b.ToolScopes {
			o.MoreScopes = append(o.MoreScopes, scopes...)
		}
	}
	a, err := auth.New(o)
	if err != nil {
		return nil, l.problem("serve.http.auth", "correct its settings", "authentication over HTTP: %v", err)
	}
	return a, nil
}

// ServerTLS returns the TLS configuration of HTTP, or nil. Client certificates are required if tokens are not accepted.
func (l *Config) ServerTLS() (*tls.Config, error) {
	t := l.Serve.HTTP.TLS
	if t.Cert == "" {
		return nil, nil //nolint:nilnil // no TLS is no error
	}
	fileProblem := func(what string, err error) error {
		return &problem.Error{
			Exit: problem.ExitConfig, Code: "tls",
			What: what + " cannot be used", Where: l.Where("serve.http.tls"), Why: err.Error(),
			Fix: "name files in PEM form that mcpbridge may read", Cause: err,
		}
	}
	cert, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return nil, fileProblem("the certificate or its key", err)
	}
	c := &tls.Config{
		Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1"},
	}
	if t.ClientCA == "" {
		return c, nil
	}
	pem, err := os.ReadFile(t.ClientCA)
	if err != nil {
		return nil, fileProblem("the certificate authorities of clients", err)
	}
	c.ClientCAs = x509.NewCertPool()
	if !c.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fileProblem("the certificate authorities of clients",
			errors.New(t.ClientCA+" has no certificate in it"))
	}
	c.ClientAuth = tls.RequireAndVerifyClientCert
	if l.Serve.HTTP.Auth.Enabled() {
		c.ClientAuth = tls.VerifyClientCertIfGiven
	}
	return c, nil
}
