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

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

const (
	// goodFor and badFor are how long it is not asked again whether a token is good.
	goodFor = time.Minute
	badFor  = 10 * time.Second
	// maxAsked bounds how many good tokens are remembered, and how many bad ones.
	maxAsked = 10_000
	// maxAsking bounds how many are asked about at a time, and askWithin how long it may take until there is an answer.
	maxAsking = 32
	askWithin = 10 * time.Second
)

// An introspections is what an issuer has said about tokens, and is being asked.
type introspections struct {
	asking chan struct{} // holds a token for each question under way

	mu sync.Mutex // guards what follows
	// good and bad are what was said, apart: tokens that somebody makes up push no good ones out.
	good, bad map[[sha256.Size]byte]introspection
}

type introspection struct {
	principal *pb.Principal
	err       error
	until     time.Time
}

// known returns what was said about a token, if that still counts.
func (a *introspections) known(sum [sha256.Size]byte) (introspection, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	in, ok := a.good[sum]
	if !ok {
		in, ok = a.bad[sum]
	}
	return in, ok && time.Now().Before(in.until)
}

func (a *introspections) remember(sum [sha256.Size]byte, in introspection) {
	a.mu.Lock()
	defer a.mu.Unlock()
	said, other := &a.good, a.bad
	if in.err != nil {
		said, other = &a.bad, a.good
	}
	if len(*said) >= maxAsked || *said == nil {
		*said = map[[sha256.Size]byte]introspection{} // it costs asking again, and no bookkeeping
	}
	(*said)[sum] = in
	delete(other, sum)
}

// introspect returns whose token it is, for a resource of this server, by asking the issuer (RFC 7662). Anybody can make up tokens: those
// that are too many to be asked about at a time wait for their turn.
func (i *issuer) introspect(ctx context.Context, token, resource string) (*pb.Principal, error) {
	sum := sha256.Sum256([]byte(token + "\n" + resource)) // a header has one line
	if in, ok := i.asked.known(sum); ok {
		return in.principal, in.err
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	select {
	case i.asked.asking <- struct{}{}:
		defer func() { <-i.asked.asking }()
	case <-ctx.Done():
		return nil, unavailable("%s is asked about %d tokens at a time, and this one has waited for its turn: %v", i.URL, maxAsking, ctx.Err())
	}
	if in, ok := i.asked.known(sum); ok { // somebody has asked about it meanwhile
		return in.principal, in.err
	}
	in, err := i.ask(ctx, token, resource)
	if err != nil {
		return nil, err
	}
	i.asked.remember(sum, in)
	return in.principal, in.err
}

// ask asks the issuer about a token. The error is that it has not said anything about it.
func (i *issuer) ask(ctx context.Context, token, resource string) (introspection, error) {
	form := url.Values{"token": {token}, "token_type_hint": {"access_token"}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, i.Introspection.URL, strings.NewReader(form.Encode()))
	if err != nil {
		return introspection{}, unavailable("%v", err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.SetBasicAuth(url.QueryEscape(i.Introspection.ClientID), url.QueryEscape(i.Introspection.ClientSecret)) // RFC 6749, 2.3.1
	var answer jsontext.Value
	now := time.Now()
	if err := i.exchange(req, &answer); err != nil {
		return introspection{}, unavailable("%s cannot be asked about a token: %v", i.URL, err)
	}
	in, err := i.judge(answer, resource, now)
	if err != nil {
		return introspection{}, unavailable("%s has answered what says nothing about a token: %v", i.URL, err)
	}
	return in, nil
}

// judge returns what an issuer's answer says of a token. The error is that it is none (RFC 7662, 2.2), which says nothing of the token.
func (i *issuer) judge(answer jsontext.Value, resource string, now time.Time) (introspection, error) {
	var said struct {
		Active *bool `json:"active"`
	}
	switch err := json.Unmarshal(answer, &said); {
	case err != nil:
		return introspection{}, err
	case said.Active == nil:
		return introspection{}, errors.New(`it has no "active"`)
	}
	bad := now.Add(badFor)
	if !*said.Active {
		return introspection{err: invalidToken("%s says that the token is not good", i.URL), until: bad}, nil
	}
	c, err := readClaims(answer, &i.limits)
	if err != nil {
		return introspection{}, err
	}
	in := introspection{until: bad}
	if in.principal, in.err = i.accept(answer, c, resource, true); in.err != nil {
		return in, nil //nolint:nilerr // it is what is said of the token
	}
	in.until = now.Add(goodFor)
	if c.Expiry != nil {
		if end := c.Expiry.Time().Add(skew); end.Before(in.until) {
			in.until = end
		}
	}
	return in, nil
}
