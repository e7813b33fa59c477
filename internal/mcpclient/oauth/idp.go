package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// An IDP is the identity provider of an enterprise whose users may use the MCP server
// (io.modelcontextprotocol/enterprise-managed-authorization). All fields but ClientSecret are required.
type IDP struct {
	// TokenEndpoint is the URL for token exchanges.
	TokenEndpoint string
	// ClientID and ClientSecret authenticate mcpbridge. If ClientSecret is empty, it is a public client.
	ClientID, ClientSecret string
	// IDToken returns the user's ID token.
	IDToken func(context.Context) (string, error)
}

// Names of RFC 8693 and of the identity assertion authorization grant.
const (
	tokenExchange = "urn:ietf:params:oauth:grant-type:token-exchange" //nolint:gosec // a name
	typeIDToken   = "urn:ietf:params:oauth:token-type:id_token"       //nolint:gosec // a name
	typeIDJAG     = "urn:ietf:params:oauth:token-type:id-jag"         //nolint:gosec // a name
)

// useIDP configures t to obtain assertions from p.
func (t *Transport) useIDP(p *IDP) error {
	u, err := url.Parse(p.TokenEndpoint)
	if err != nil || p.ClientID == "" || p.IDToken == nil {
		return errors.New("the identity provider needs a token endpoint, a client ID, and an ID token")
	}
	if !isSecure(u) {
		return fmt.Errorf("the identity provider's token endpoint %q does not begin with https://", p.TokenEndpoint)
	}
	t.egress.trusted.Store(hostPort(u), true)
	t.o.Assertion = func(ctx context.Context, to Target) (string, error) { return t.exchangeIDToken(ctx, p, to) }
	return nil
}

// exchangeIDToken exchanges the user's ID token for an assertion.
func (t *Transport) exchangeIDToken(ctx context.Context, p *IDP, to Target) (string, error) {
	subject, err := p.IDToken(ctx)
	if err != nil {
		return "", fmt.Errorf("the user's ID token: %w", err)
	}
	params := url.Values{
		"grant_type": {tokenExchange}, "requested_token_type": {typeIDJAG}, "audience": {to.Issuer},
		"resource": {to.Resource}, "subject_token": {subject}, "subject_token_type": {typeIDToken},
	}
	config := clientcredentials.Config{
		ClientID: p.ClientID, ClientSecret: p.ClientSecret, TokenURL: p.TokenEndpoint,
		AuthStyle: oauth2.AuthStyleInParams, EndpointParams: params,
	}
	if p.ClientSecret != "" {
		config.AuthStyle = oauth2.AuthStyleInHeader
	}
	tok, err := config.Token(context.WithValue(ctx, oauth2.HTTPClient, t.egress.post))
	if e, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		text := redact(e.ErrorDescription, params, p.ClientSecret)
		return "", fmt.Errorf("the identity provider: %w", &tokenError{e.ErrorCode, text})
	}
	if err != nil {
		text := sanitizeError(redact(libraryError(err), params, p.ClientSecret), "")
		return "", fmt.Errorf("the identity provider %s: %s", p.TokenEndpoint, text)
	}
	if tokenType, _ := tok.Extra("issued_token_type").(string); tokenType != typeIDJAG {
		return "", fmt.Errorf("the identity provider issued a token of type %q, want an ID-JAG",
			sanitizeError(tokenType, ""))
	}
	return tok.AccessToken, nil
}
