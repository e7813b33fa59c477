// Package oauth obtains access tokens for MCP servers. Its Transport is an http.RoundTripper that discovers the
// authorization server, obtains a token, refreshes it, and requests more scopes when the server requires them. It
// follows the authorization pages of 2025-03-26 to 2026-07-28 and trusts neither the server nor its authorization
// server.
package oauth

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/contain"
)

// A Transport adds an access token to requests to the MCP server, and to no others. It implements http.RoundTripper and
// is safe for concurrent use: requests that need a token at the same time share one acquisition. Close ends it.
//
// A request that cannot be authorized returns a *bridge.Error with the outcome not_executed and a fix. Requests that
// the server rejected are repeated with a new token if their bodies can be read again (GetBody).
type Transport struct {
	o        Options
	server   *url.URL
	redirect *url.URL // if nil, any
	base     http.RoundTripper
	egress   *egress
	store    *store
	key      *signingKey // nil if not configured
	log      zerolog.Logger
	panics   *contain.Panics
	pause    time.Duration // after a failure, in which the same error is returned

	ctx    context.Context // until Close
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu             sync.Mutex // guards what follows
	closed         bool
	grant          *grant          // in use, or nil
	resourceServer *resourceServer // of the grant
	acquisition    *acquisition    // in progress, or nil
	failure        *failure
	stepUps        map[string]stepUp // by scopes
}

const (
	maxRounds = 6       // of one request
	maxError  = 2 << 10 // bytes of an error
)

// Close cancels the acquisition in progress, waits for it, and writes credentials that could not be written before.
// Requests that need a token fail from then on.
func (t *Transport) Close() error {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.cancel()
	t.wg.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	t.store.flush(ctx)
	t.egress.transport.CloseIdleConnections()
	return nil
}

// CloseIdleConnections implements the interface of http.Client.CloseIdleConnections.
func (t *Transport) CloseIdleConnections() {
	t.egress.transport.CloseIdleConnections()
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if origin(req.URL) != origin(t.server) || req.Header.Get("Authorization") != "" {
		return t.base.RoundTrip(req)
	}
	g := t.current(req.Context())
	var requested string // scopes, in a step-up for this request
	for round := 1; ; round++ {
		attempt, err := t.authorize(req, g, round > 1)
		if err != nil {
			closeBody(req)
			return nil, err
		}
		resp, err := t.base.RoundTrip(attempt)
		if err != nil {
			return nil, err
		}
		c, refused := parseChallenge(resp)
		if g != nil && g.proof != nil && g.proof.updateNonce(req.URL, resp.Header) && c.code == "use_dpop_nonce" &&
			round < maxRounds && isRepeatable(req) {
			drain(resp)
			continue
		}
		if resp.StatusCode != http.StatusUnauthorized && g != nil {
			g.accepted.Store(true)
		}
		if !refused {
			t.resetStepUps(requested)
			return resp, nil
		}
		if !isRepeatable(req) {
			return resp, nil
		}
		drain(resp)
		n := need{challenge: c, previous: g}
		if resp.StatusCode == http.StatusForbidden {
			n.required = strings.Join(slices.Sorted(slices.Values(c.scopes)), " ")
			n.stepUp, requested = true, n.required
		}
		if round == maxRounds {
			return nil, unauthorized(codes.Unauthenticated,
				"the server rejected %d requests with new tokens", maxRounds)
		}
		if g, err = t.acquire(req.Context(), n); err != nil {
			return nil, err
		}
	}
}

// authorize returns the request with the token of g, if there is one.
func (t *Transport) authorize(req *http.Request, g *grant, repeat bool) (*http.Request, error) {
	if g == nil && !repeat {
		return req, nil
	}
	r := req.Clone(req.Context())
	if repeat && req.GetBody != nil {
		body, err := req.GetBody()
		if err != nil {
			return nil, err
		}
		r.Body = body
	}
	if g == nil {
		return r, nil
	}
	if g.proof == nil {
		r.Header.Set("Authorization", "Bearer "+g.Access)
		return r, nil
	}
	proof, err := g.proof.proof(r.Method, r.URL, g.Access)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "DPoP "+g.Access)
	r.Header.Set("Dpop", proof)
	return r, nil
}

func isRepeatable(req *http.Request) bool {
	return req.Body == nil || req.Body == http.NoBody || req.GetBody != nil
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

// drain reads the rest of a short response, so that its connection can be reused, and closes it.
func drain(resp *http.Response) {
	io.CopyN(io.Discard, resp.Body, 16<<10) //nolint:errcheck // then the connection is closed
	resp.Body.Close()
}

// unauthorized returns the error of a request that was not executed because it was not authorized.
func unauthorized(code codes.Code, format string, args ...any) *bridge.Error {
	reason := "UPSTREAM_UNAUTHENTICATED"
	if code == codes.PermissionDenied {
		reason = "UPSTREAM_FORBIDDEN"
	}
	return bridge.Failed(code, bridge.OutcomeNotExecuted, reason, format, args...)
}

// toBridgeError returns err, which may have text of the servers, as the error of a request. The timeout of a login or
// of a token request must not be reported as that of the caller's deadline.
func toBridgeError(err error) error {
	if e, ok := errors.AsType[*bridge.Error](err); ok {
		return e
	}
	e := unauthorized(codes.Unauthenticated, "not authorized: %s", printable(err.Error(), maxError))
	if !errors.Is(err, context.DeadlineExceeded) {
		e.Cause = err
	}
	return e
}
