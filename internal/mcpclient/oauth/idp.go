package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// An IDP is an identity provider whose users may use the MCP server, because their enterprise says so
// (io.modelcontextprotocol/enterprise-managed-authorization). All of it is required but the secret.
type IDP struct {
	// TokenEndpoint is where it exchanges tokens.
	TokenEndpoint string
	// ClientID, ClientSecret: who we are to it. An empty secret: a public client.
	ClientID, ClientSecret string
	// IDToken returns the user's ID token.
	IDToken func(context.Context) (string, error)
}

// The names of RFC 8693 and of the identity assertion authorization grant.
const (
	tokenExchange = "urn:ietf:params:oauth:grant-type:token-exchange" //nolint:gosec // a name
	typeIDToken   = "urn:ietf:params:oauth:token-type:id_token"       //nolint:gosec // a name
	typeIDJAG     = "urn:ietf:params:oauth:token-type:id-jag"         //nolint:gosec // a name
)

// trust makes the identity provider the one that makes assertions.
func (t *Transport) trust(p *IDP) error {
	u, err := url.Parse(p.TokenEndpoint)
	if err != nil || p.ClientID == "" || p.IDToken == nil {
		return errors.New("the identity provider needs a token endpoint, a client ID, and an ID token")
	}
	if !isSafe(u) {
		return fmt.Errorf("the identity provider's token endpoint %q does not begin with https://", p.TokenEndpoint)
	}
	t.egress.named.Store(hostPort(u), true)
	t.o.Assertion = func(ctx context.Context, to Target) (string, error) { return t.exchange(ctx, p, to) }
	return nil
}

// exchange has the identity provider make an assertion of the user's ID token.
func (t *Transport) exchange(ctx context.Context, p *IDP, to Target) (string, error) {
	subject, err := p.IDToken(ctx)
	if err != nil {
		return "", fmt.Errorf("the user's ID token: %w", err)
	}
	params := url.Values{
		"grant_type": {tokenExchange}, "requested_token_type": {typeIDJAG}, "audience": {to.Issuer}, "resource": {to.Resource},
		"subject_token": {subject}, "subject_token_type": {typeIDToken},
	}
	config := clientcredentials.Config{
		ClientID: p.ClientID, ClientSecret: p.ClientSecret, TokenURL: p.TokenEndpoint, AuthStyle: oauth2.AuthStyleInParams,
		EndpointParams: params,
	}
	if p.ClientSecret != "" {
		config.AuthStyle = oauth2.AuthStyleInHeader
	}
	tok, err := config.Token(context.WithValue(ctx, oauth2.HTTPClient, t.egress.post))
	if no, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return "", fmt.Errorf("the identity provider: %w", &tokenError{no.ErrorCode, redact(no.ErrorDescription, params, p.ClientSecret)})
	}
	if err != nil {
		return "", fmt.Errorf("the identity provider %s: %s", p.TokenEndpoint, words(redact(cause(err), params, p.ClientSecret), ""))
	}
	if kind, _ := tok.Extra("issued_token_type").(string); kind != typeIDJAG {
		return "", fmt.Errorf("the identity provider: it has issued a %q, and not an ID-JAG", words(kind, ""))
	}
	return tok.AccessToken, nil
}
