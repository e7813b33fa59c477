package oauth

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
)

// An acquisition is one attempt to obtain a grant, shared by all requests that wait for it.
type acquisition struct {
	need  need          // of the first request
	done  chan struct{} // closed when the fields below are set
	grant *grant
	err   error
}

// covers reports whether the failure of an acquisition applies to another need, too.
func (a *acquisition) covers(n need) bool {
	switch {
	case a.need.storedOnly:
		return n.stepUp && n.required == a.need.required
	case a.need.proactive:
		return n.proactive
	}
	return true
}

// A failure is returned to all requests until the next attempt is due.
type failure struct {
	err   error
	until time.Time
}

// A stepUp counts how often scopes were granted that did not suffice.
type stepUp struct {
	count int
	last  time.Time
}

const (
	maxStepUps      = 2                // for the same scopes
	maxStepUpScopes = 64               // different scopes that are counted
	stepUpWindow    = 10 * time.Minute // after which they are requested again
)

// A need is the reason to obtain another grant.
type need struct {
	challenge

	previous   *grant // the grant that was rejected or expires soon, or nil
	stepUp     bool   // previous is valid, but lacks scopes
	required   string // the scopes of a step-up
	proactive  bool   // previous is still valid: refresh it, but do not involve the user
	storedOnly bool   // maxStepUps is reached: only a grant that another process stored can help
}

// current returns the grant for a request. It refreshes one that expires soon, if that needs no user.
func (t *Transport) current(ctx context.Context) *grant {
	t.mu.Lock()
	g, s := t.grant, t.resourceServer
	t.mu.Unlock()
	if g == nil || !g.expired(refreshMargin) || g.Refresh == "" && t.o.Grant == AuthorizationCode {
		return g
	}
	renewed, err := t.acquire(ctx, need{challenge: challenge{dpop: g.proof != nil}, previous: g, proactive: true})
	if err != nil {
		t.log.Debug().Err(err).Str("issuer", s.as.Issuer).
			Msg("cannot refresh the token; using it as long as the server accepts it")
		return g
	}
	return renewed
}

// resetStepUps clears the count of scopes after the server accepted a request with them.
func (t *Transport) resetStepUps(scopes string) {
	if scopes == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.stepUps, scopes)
}

// acquire returns a grant other than n.previous. Concurrent requests share one acquisition.
func (t *Transport) acquire(ctx context.Context, n need) (*grant, error) {
	for {
		a, g, err := t.join(n)
		if a == nil {
			return g, err
		}
		select {
		case <-a.done:
			if a.err != nil && !a.covers(n) {
				continue
			}
			return a.grant, a.err
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return nil, ctx.Err()
			}
			return nil, unauthorized(codes.Unauthenticated,
				"deadline exceeded during authorization, which continues; call again later: %w", ctx.Err())
		}
	}
}

// join returns the acquisition in progress, or starts one. If another request has obtained a grant, it returns that
// grant instead. Until the next attempt is due, it returns the error of the last one.
func (t *Transport) join(n need) (*acquisition, *grant, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	switch {
	case t.closed:
		return nil, nil, unauthorized(codes.Unauthenticated, "the bridge is shutting down")
	case t.grant != nil && t.grant != n.previous:
		return nil, t.grant, nil // another request obtained it
	case t.acquisition != nil:
		return t.acquisition, nil, nil
	case t.failure != nil && now.Before(t.failure.until):
		return nil, nil, t.failure.err
	}
	if n.stepUp {
		count := t.recentStepUps(n.required, now)
		n.storedOnly = count >= maxStepUps || len(t.stepUps) >= maxStepUpScopes && count == 0
	}
	a := &acquisition{need: n, done: make(chan struct{})}
	t.acquisition = a
	t.wg.Go(func() {
		var s *resourceServer
		var g *grant
		var err error
		defer func() { t.finish(a, s, g, err) }()
		defer t.panics.Recover("getting a token", func(e *bridge.Error) { err = e })
		s, g, err = t.newGrant(t.ctx, n)
	})
	return a, nil, nil
}

// recentStepUps returns how often scopes were granted within stepUpWindow. The caller holds t.mu.
func (t *Transport) recentStepUps(scopes string, now time.Time) int {
	s := t.stepUps[scopes]
	if now.Sub(s.last) > stepUpWindow {
		return 0
	}
	return s.count
}

// finish sets the result of an acquisition.
func (t *Transport) finish(a *acquisition, s *resourceServer, g *grant, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.acquisition = nil
	if err != nil {
		a.err = toBridgeError(err)
		// The pause spares the user and the authorization server. It is not needed if the token was only to be
		// refreshed proactively, or only the store was read.
		if !a.need.proactive && !a.need.storedOnly {
			t.failure = &failure{a.err, time.Now().Add(t.pause)}
			t.log.Warn().Err(a.err).Msg("not authorized")
		}
	} else {
		a.grant, t.grant, t.resourceServer, t.failure = g, g, s, nil
		if now := time.Now(); a.need.stepUp && g.source == sourceIssued {
			t.stepUps[a.need.required] = stepUp{t.recentStepUps(a.need.required, now) + 1, now}
		}
	}
	close(a.done)
}

// newGrant returns a stored grant, refreshes one, or obtains a new one.
func (t *Transport) newGrant(ctx context.Context, n need) (*resourceServer, *grant, error) {
	noUser, cancel := context.WithTimeout(ctx, noUserTimeout)
	defer cancel()
	s, err := t.discoverFor(noUser, n)
	if err != nil {
		return nil, nil, err
	}
	stored, before, err := t.storedGrant(noUser, s, n)
	if err != nil || stored != nil {
		return s, stored, err
	}
	if n.storedOnly {
		return nil, nil, unauthorized(codes.PermissionDenied,
			"the server still requires the scopes %q after they were granted; contact its operator",
			printable(n.required, maxError))
	}
	if n.proactive && t.o.Grant == AuthorizationCode {
		return nil, nil, errors.New("no valid refresh token")
	}
	if n.previous.rejected(sourceIssued) && !n.proactive {
		return nil, nil, fmt.Errorf("the server rejects a token that its authorization server %s just issued",
			s.as.Issuer)
	}
	g, err := t.requestedGrant(s, n.challenge, t.scopes(s, n.challenge, before))
	if err != nil {
		return nil, nil, err
	}
	if t.o.Grant == AuthorizationCode {
		g, err = t.login(ctx, s, g)
	} else {
		g, err = t.requestWithoutUser(noUser, s, g)
	}
	if err != nil {
		return nil, nil, errors.Join(err, t.forgetRejected(ctx, s, err))
	}
	g.source = sourceIssued
	t.log.Info().Str("issuer", s.as.Issuer).Str("scopes", printable(strings.Join(g.Scopes, " "), maxError)).
		Time("expires", g.Expiry).Msg("authorized")
	if err := t.store.update(ctx, s.as.Issuer, func(c *credentials) error {
		c.Grants[t.o.Server] = g
		return nil
	}); err != nil {
		t.log.Warn().Err(err).Msg("cannot store the login; using it until this process exits")
	}
	return s, g, nil
}

// discoverFor discovers the resource server again, unless the server rejected nothing or only the store is read.
func (t *Transport) discoverFor(ctx context.Context, n need) (*resourceServer, error) {
	t.mu.Lock()
	s := t.resourceServer
	t.mu.Unlock()
	if s != nil && (n.proactive || n.storedOnly) {
		return s, nil
	}
	if n.metadataURL == "" && s != nil {
		return t.discover(ctx, s.metadataURL) // not every challenge has it
	}
	return t.discover(ctx, n.metadataURL)
}

// storedGrant returns the stored grant if it fulfills the need: this process, an earlier one or another one obtained
// it, or it can be refreshed. It also returns the scopes that were requested before. It holds the lock of the store,
// because a refresh token may be used only once.
func (t *Transport) storedGrant(ctx context.Context, s *resourceServer, n need) (g *grant, before []string, err error) {
	err = t.store.update(ctx, s.as.Issuer, func(c *credentials) error {
		stored := c.Grants[t.o.Server]
		if stored == nil || stored.Resource != s.resource || t.clientOf(c, stored) == nil {
			delete(c.Grants, t.o.Server)
			return nil
		}
		before = stored.Scopes
		if stored.Key != nil && stored.proof == nil {
			if stored.proof, err = newProofKey(stored.Key); err != nil {
				delete(c.Grants, t.o.Server)
				return nil //nolint:nilerr // an invalid key is as good as none
			}
		}
		enough := !n.stepUp || len(mergeScopes(stored.Scopes, n.scopes)) == len(mergeScopes(stored.Scopes))
		other := n.previous == nil || n.previous.Access != stored.Access
		if other && enough && !stored.expired(refreshMargin) {
			g = stored
			return nil
		}
		if !enough || stored.Refresh == "" || !other && (n.stepUp || n.previous.rejected(sourceRefreshed)) {
			return nil
		}
		g, err = t.refreshStored(ctx, s, c, stored)
		if g != nil {
			c.Grants[t.o.Server] = g
		}
		return err
	})
	return g, before, err
}

// refreshStored refreshes a grant. It returns nil if a new grant must be requested: the refresh token is invalid, or
// the client was rejected and no user is needed or one is present.
func (t *Transport) refreshStored(
	ctx context.Context, s *resourceServer, c *credentials, stored *grant,
) (*grant, error) {
	g, err := t.refresh(ctx, s, t.clientOf(c, stored), stored)
	rejection, rejected := errors.AsType[*tokenError](err)
	switch {
	case rejected && rejection.code == "invalid_grant": // the only code about the refresh token itself (RFC 6749, 5.2)
		t.log.Info().Str("issuer", s.as.Issuer).Str("why", rejection.Error()).
			Msg("the refresh token is no longer valid")
		expired := stored.copy()
		expired.Refresh = ""
		c.Grants[t.o.Server] = expired
		return nil, nil //nolint:nilnil // documented above
	case rejected && (t.o.Browser != nil || t.o.Grant != AuthorizationCode):
		t.log.Info().Str("issuer", s.as.Issuer).Str("why", rejection.Error()).
			Msg("cannot refresh the token; requesting a new one")
		return nil, nil //nolint:nilnil // documented above
	case err != nil:
		return nil, fmt.Errorf("refreshing the token at %s: %w", s.as.Issuer, err)
	default:
		t.log.Debug().Str("issuer", s.as.Issuer).Time("expires", g.Expiry).Msg("token refreshed")
		return g, nil
	}
}

// clientOf returns the client of a grant, or nil if the current configuration has another one. Grants of older versions
// were stored without their registration and belong to the last one.
func (t *Transport) clientOf(c *credentials, g *grant) *client {
	switch {
	case t.o.ClientID != "":
		if g.Client == t.o.ClientID {
			return &client{ID: g.Client, Secret: t.o.ClientSecret}
		}
	case g.Registered != nil:
		return g.Registered
	case g.Client != "" && g.Client == t.o.ClientMetadataURL:
		return &client{ID: g.Client}
	case c.Client != nil && c.Client.ID == g.Client:
		return c.Client
	}
	return nil
}

// forgetRejected deletes from the store what the authorization server rejected: the scopes or the registration.
func (t *Transport) forgetRejected(ctx context.Context, s *resourceServer, err error) error {
	rejection, ok := errors.AsType[*tokenError](err)
	if !ok {
		return nil
	}
	return t.store.update(ctx, s.as.Issuer, func(c *credentials) error {
		switch rejection.code {
		case "invalid_scope":
			if g := c.Grants[t.o.Server]; g != nil {
				g = g.copy()
				g.Scopes = nil
				c.Grants[t.o.Server] = g
			}
		case "invalid_client", "unauthorized_client":
			c.Client = nil
		}
		return nil
	})
}
