package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpbridge/mcpbridge/internal/limits"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

const (
	// activeTTL and inactiveTTL are how long results are cached.
	activeTTL   = time.Minute
	inactiveTTL = 10 * time.Second
	// maxCached is the maximum number of cached active tokens, and of inactive ones.
	maxCached = 10_000
)

// An introspectionCache caches the results of introspection, and limits its concurrency.
type introspectionCache struct {
	inFlight chan struct{} // semaphore of requests in flight

	mu sync.Mutex // guards what follows
	// active and inactive are separate so that invented tokens do not evict active ones.
	active, inactive map[[sha256.Size]byte]introspection
}

type introspection struct {
	principal *pb.Principal
	err       error
	until     time.Time
}

// get returns the cached result for a token, if it has not expired.
func (a *introspectionCache) get(sum [sha256.Size]byte) (introspection, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	in, ok := a.active[sum]
	if !ok {
		in, ok = a.inactive[sum]
	}
	return in, ok && time.Now().Before(in.until)
}

func (a *introspectionCache) add(sum [sha256.Size]byte, in introspection) {
	a.mu.Lock()
	defer a.mu.Unlock()
	cache, other := &a.active, a.inactive
	if in.err != nil {
		cache, other = &a.inactive, a.active
	}
	if len(*cache) >= maxCached || *cache == nil {
		*cache = map[[sha256.Size]byte]introspection{} // simpler than eviction, and rare
	}
	(*cache)[sum] = in
	delete(other, sum)
}

// introspect returns the principal of a token for a resource of this server (RFC 7662). Clients can send invented
// tokens, so requests above the concurrency limit wait.
func (i *issuer) introspect(ctx context.Context, token, resource string) (*pb.Principal, error) {
	sum := sha256.Sum256([]byte(token + "\n" + resource)) // a token has no line break
	if in, ok := i.cache.get(sum); ok {
		return in.principal, in.err
	}
	ctx, cancel := context.WithTimeout(ctx, limits.AuthTimeout)
	defer cancel()
	select {
	case i.cache.inFlight <- struct{}{}:
		defer func() { <-i.cache.inFlight }()
	case <-ctx.Done():
		return nil, unavailable("too many concurrent token introspections at %s (limit %d): %v",
			i.URL, limits.AuthRequests, ctx.Err())
	}
	if in, ok := i.cache.get(sum); ok { // cached while waiting
		return in.principal, in.err
	}
	in, err := i.requestIntrospection(ctx, token, resource)
	if err != nil {
		return nil, err
	}
	i.cache.add(sum, in)
	return in.principal, in.err
}

// requestIntrospection sends an introspection request. The error does not depend on the token.
func (i *issuer) requestIntrospection(ctx context.Context, token, resource string) (introspection, error) {
	form := url.Values{"token": {token}, "token_type_hint": {"access_token"}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, i.Introspection.URL, strings.NewReader(form.Encode()))
	if err != nil {
		return introspection{}, unavailable("%v", err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	// The ID and the secret are encoded (RFC 6749, 2.3.1).
	req.SetBasicAuth(url.QueryEscape(i.Introspection.ClientID), url.QueryEscape(i.Introspection.ClientSecret))
	var response jsontext.Value
	now := time.Now()
	if err := i.exchange(req, &response); err != nil {
		return introspection{}, unavailable("%s: introspection request failed: %v", i.URL, err)
	}
	in, err := i.parseIntrospection(response, resource, now)
	if err != nil {
		return introspection{}, unavailable("%s returned an invalid introspection response: %v", i.URL, err)
	}
	return in, nil
}

// parseIntrospection returns the result in an introspection response, or an error if the response is invalid (RFC
// 7662, 2.2).
func (i *issuer) parseIntrospection(response jsontext.Value, resource string, now time.Time) (introspection, error) {
	var status struct {
		Active *bool `json:"active"`
	}
	switch err := json.Unmarshal(response, &status); {
	case err != nil:
		return introspection{}, err
	case status.Active == nil:
		return introspection{}, errors.New(`"active" is missing`)
	}
	inactiveUntil := now.Add(inactiveTTL)
	if !*status.Active {
		return introspection{err: invalidToken("%s reports the token as inactive", i.URL), until: inactiveUntil}, nil
	}
	c, err := readClaims(response, &i.limits)
	if err != nil {
		return introspection{}, err
	}
	in := introspection{until: inactiveUntil}
	if in.principal, in.err = i.checkClaims(response, c, resource, true); in.err != nil {
		return in, nil //nolint:nilerr // in.err is the result
	}
	in.until = now.Add(activeTTL)
	if c.Expiry != nil {
		if end := c.Expiry.Time().Add(skew); end.Before(in.until) {
			in.until = end
		}
	}
	return in, nil
}
