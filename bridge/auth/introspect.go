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
	// maxAsked bounds how many tokens are remembered.
	maxAsked = 10_000
)

// An introspections is what an issuer has said about tokens. The zero value knows nothing.
type introspections struct {
	mu   sync.Mutex
	said map[[sha256.Size]byte]introspection
}

type introspection struct {
	principal *pb.Principal
	err       error
	until     time.Time
}

// introspect returns whose token it is, for a resource of this server, by asking the issuer (RFC 7662).
func (i *issuer) introspect(ctx context.Context, token, resource string) (*pb.Principal, error) {
	sum := sha256.Sum256([]byte(token + "\n" + resource)) // a header has one line
	i.asked.mu.Lock()
	in, ok := i.asked.said[sum]
	i.asked.mu.Unlock()
	now := time.Now()
	if ok && now.Before(in.until) {
		return in.principal, in.err
	}
	form := url.Values{"token": {token}, "token_type_hint": {"access_token"}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, i.Introspection.URL, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, unavailable("%v", err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.SetBasicAuth(url.QueryEscape(i.Introspection.ClientID), url.QueryEscape(i.Introspection.ClientSecret)) // RFC 6749, 2.3.1
	var answer jsontext.Value
	if err := i.exchange(req, &answer); err != nil {
		return nil, unavailable("%s cannot be asked about a token: %v", i.URL, err)
	}
	if in, err = i.judge(answer, resource, now); err != nil {
		return nil, unavailable("%s has answered what says nothing about a token: %v", i.URL, err)
	}
	i.asked.mu.Lock()
	defer i.asked.mu.Unlock()
	if len(i.asked.said) >= maxAsked || i.asked.said == nil {
		i.asked.said = map[[sha256.Size]byte]introspection{} // it costs asking again, and no bookkeeping
	}
	i.asked.said[sum] = in
	return in.principal, in.err
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
	c, err := readClaims(answer)
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
