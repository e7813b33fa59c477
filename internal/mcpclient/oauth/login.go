package oauth

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
)

// errNoBrowser says that a user is needed, and there is none.
var errNoBrowser = errors.New("somebody has to log in with a browser, which cannot be opened here; log in where it can, with the same directory of credentials, or configure the grant client_credentials")

// login gets a grant from the user: an authorization code, with PKCE (OAuth 2.1, 4.1), sent to a port of this machine
// (RFC 8252, 7.3).
func (t *Transport) login(ctx context.Context, s *site, g *grant) (*grant, error) {
	if t.o.Browser == nil {
		return nil, errNoBrowser
	}
	patient, stop := context.WithTimeout(ctx, t.o.LoginTimeout)
	defer stop()
	back, err := t.listen(patient, s)
	if err != nil {
		return nil, err
	}
	defer back.close()
	c, err := t.client(patient, s, back.redirect)
	if err != nil {
		return nil, err
	}
	scopes := g.Scopes
	options := []oauth2.AuthCodeOption{oauth2.SetAuthURLParam("resource", s.resource)}
	if slices.Contains(s.as.Scopes, offline) && len(scopes) > 0 {
		// OpenID providers give a refresh token only to a user who has been asked (OpenID Connect Core, 11).
		scopes = append(scopes[:len(scopes):len(scopes)], offline)
		options = append(options, oauth2.SetAuthURLParam("prompt", "consent"))
	}
	verifier := oauth2.GenerateVerifier()
	config := oauth2.Config{
		ClientID: c.ID, RedirectURL: back.redirect, Scopes: scopes,
		Endpoint: oauth2.Endpoint{AuthURL: s.as.Authorization},
	}
	address := config.AuthCodeURL(back.state, append(options, oauth2.S256ChallengeOption(verifier))...)
	t.log.Info().Str("issuer", s.as.Issuer).Str("scopes", clean(strings.Join(scopes, " "), maxError)).Msg("waiting for a login in the browser")
	code, err := back.wait(patient, func(ctx context.Context) error { return t.o.Browser(ctx, address) })
	if err != nil {
		return nil, fmt.Errorf("login at %s: %w", s.as.Issuer, err)
	}
	return t.request(ctx, s, c, url.Values{
		"grant_type": {string(AuthorizationCode)}, "code": {code}, "redirect_uri": {back.redirect}, "code_verifier": {verifier},
	}, g)
}

// maxCallback is how many bytes the header of a browser's request may have: browsers send what all programs of this machine have
// set as cookies, and some the address where they come from.
const maxCallback = 256 << 10

// A callback waits at a port of this machine for what an authorization server has its user's browser say.
type callback struct {
	redirect string // its address
	host     string // of redirect
	path     string
	state    string // what only the browser that we have opened knows
	issuer   string // who answers
	named    bool   // and says so

	server *http.Server
	wg     sync.WaitGroup // of the server and the browser
	once   sync.Once
	answer chan answer   // has room for one
	shown  chan struct{} // closed unless something opens the browser
	stop   func()        // ends it
}

type answer struct {
	code string
	err  error
}

// listen opens a callback for a login at the site's authorization server. If it has registered us with a port, and that is
// free, it is that one.
func (t *Transport) listen(ctx context.Context, s *site) (*callback, error) {
	want := t.redirect // of the configuration
	if want == nil {
		want = &url.URL{Scheme: "http", Host: "127.0.0.1:0", Path: "/callback"}
		err := t.store.update(ctx, s.as.Issuer, func(c *credentials) error {
			if c.Client != nil {
				if u, err := parseRedirect(c.Client.Redirect); err == nil {
					want = u
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	host := want.Hostname()
	if strings.EqualFold(host, "localhost") {
		host = "127.0.0.1"
	}
	port := want.Port()
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil && t.redirect == nil {
		l, err = new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0") // we register anew
	}
	if err != nil {
		return nil, fmt.Errorf("the address %s to be called back at after the login: %w; free it, or configure and register another", want, err)
	}
	_, port, _ = net.SplitHostPort(l.Addr().String())
	at := url.URL{Scheme: "http", Host: net.JoinHostPort(want.Hostname(), port), Path: want.Path}
	b := &callback{
		redirect: at.String(), host: at.Host, path: want.Path, state: rand.Text(), issuer: s.as.Issuer, named: s.as.Names,
		answer: make(chan answer, 1), shown: make(chan struct{}), stop: func() {},
	}
	close(b.shown)
	b.server = &http.Server{
		Handler: b, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second,
		MaxHeaderBytes: maxCallback, ErrorLog: log.New(io.Discard, "", 0), // what strangers send is of no interest
	}
	b.wg.Go(func() { b.server.Serve(l) }) //nolint:errcheck // it ends with the server
	return b, nil
}

// parseRedirect returns the address of a callback, if it is one of this machine.
func parseRedirect(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" || !isLoopback(u.Hostname()) || u.Port() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("redirect address %q: it must be like http://127.0.0.1:3000/callback", s)
	}
	if u.Path == "" {
		u.Path = "/"
	}
	return u, nil
}

// wait has the browser opened and waits for the answer.
func (b *callback) wait(ctx context.Context, open func(context.Context) error) (string, error) {
	ctx, b.stop = context.WithCancel(ctx)
	b.shown = make(chan struct{})
	opened := make(chan error, 1)
	b.wg.Go(func() {
		defer close(b.shown)
		opened <- open(ctx)
	})
	for {
		select {
		case a := <-b.answer:
			return a.code, a.err
		case err := <-opened:
			if err != nil {
				return "", fmt.Errorf("opening a browser: %w", err)
			}
			opened = nil
		case <-ctx.Done():
			return "", fmt.Errorf("nobody has logged in: %w", ctx.Err())
		}
	}
}

// close ends the callback once the page that it has answered with is sent, and the browser has it.
func (b *callback) close() {
	ctx, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	b.server.Shutdown(ctx) //nolint:errcheck // whoever is slower than that sees no page
	b.server.Close()
	select {
	case <-b.shown:
	case <-ctx.Done():
	}
	b.stop()
	b.wg.Wait()
}

const page = `<!doctype html><meta charset="utf-8"><title>mcpbridge</title><p>%s</p>` + "\n"

// ServeHTTP takes the authorization response. Whatever does not know the state is not the response, and changes nothing.
func (b *callback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer") // the code is in the address
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Connection", "close")
	say := func(status int, text string) {
		w.WriteHeader(status)
		fmt.Fprintf(w, page, text)
	}
	q, err := url.ParseQuery(r.URL.RawQuery)
	switch {
	case r.Method != http.MethodGet || r.URL.Path != b.path || !strings.EqualFold(r.Host, b.host):
		say(http.StatusNotFound, "There is nothing here.")
		return
	case err != nil || len(q["state"]) != 1 || subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(b.state)) != 1:
		say(http.StatusBadRequest, "This is not the login that mcpbridge is waiting for.")
		return
	}
	first := false
	b.once.Do(func() {
		first = true
		code, err := b.read(q)
		if err != nil {
			say(http.StatusBadRequest, "The login has failed. mcpbridge says why.")
		} else {
			say(http.StatusOK, "You are logged in. mcpbridge goes on; you can close this window.")
		}
		b.answer <- answer{code, err}
	})
	if !first {
		say(http.StatusGone, "This login is over.")
	}
}

// read returns the code of an authorization response. Who it comes from is looked at first: of a stranger's response, not
// even the error is used (RFC 9207, 2.4; 2026-07-28: authorization, authorization response validation).
func (b *callback) read(q url.Values) (string, error) {
	for _, name := range []string{"code", "iss", "error"} {
		if len(q[name]) > 1 {
			return "", fmt.Errorf("the response has more than one %s", name)
		}
	}
	switch _, has := q["iss"]; {
	case has && q.Get("iss") != b.issuer:
		return "", errors.New("the response comes from another authorization server than the one that was asked (iss)")
	case !has && b.named:
		return "", errors.New("the response does not say which authorization server it comes from (iss), and this one says that it does")
	case q.Has("error"):
		return "", &tokenError{q.Get("error"), q.Get("error_description")}
	case q.Get("code") == "":
		return "", errors.New("the response has no code")
	}
	return q.Get("code"), nil
}
