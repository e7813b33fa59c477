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

var errNoBrowser = errors.New("a user must log in with a browser, and this process cannot open one;" +
	" log in elsewhere with the same credentials directory, or configure the grant client_credentials")

// login obtains a grant from the user: an authorization code with PKCE (OAuth 2.1, 4.1), redirected to a port of this
// machine (RFC 8252, 7.3).
func (t *Transport) login(ctx context.Context, s *resourceServer, g *grant) (*grant, error) {
	if t.o.Browser == nil {
		return nil, errNoBrowser
	}
	loginCtx, cancel := context.WithTimeout(ctx, t.o.LoginTimeout)
	defer cancel()
	callback, err := t.listen(loginCtx, s)
	if err != nil {
		return nil, err
	}
	defer callback.close()
	c, err := t.client(loginCtx, s, callback.redirect)
	if err != nil {
		return nil, err
	}
	scopes := g.Scopes
	options := []oauth2.AuthCodeOption{oauth2.SetAuthURLParam("resource", s.resource)}
	if slices.Contains(s.as.Scopes, offlineAccess) && len(scopes) > 0 {
		// OpenID providers issue refresh tokens only with the user's consent (OpenID Connect Core, 11).
		scopes = append(scopes[:len(scopes):len(scopes)], offlineAccess)
		options = append(options, oauth2.SetAuthURLParam("prompt", "consent"))
	}
	verifier := oauth2.GenerateVerifier()
	config := oauth2.Config{
		ClientID: c.ID, RedirectURL: callback.redirect, Scopes: scopes,
		Endpoint: oauth2.Endpoint{AuthURL: s.as.Authorization},
	}
	address := config.AuthCodeURL(callback.state, append(options, oauth2.S256ChallengeOption(verifier))...)
	t.log.Info().Str("issuer", s.as.Issuer).Str("scopes", printable(strings.Join(scopes, " "), maxError)).
		Msg("waiting for a login in the browser")
	code, err := callback.wait(loginCtx, func(ctx context.Context) error { return t.o.Browser(ctx, address) })
	if err != nil {
		return nil, fmt.Errorf("login at %s: %w", s.as.Issuer, err)
	}
	return t.request(ctx, s, c, url.Values{
		"grant_type": {string(AuthorizationCode)}, "code": {code}, "redirect_uri": {callback.redirect},
		"code_verifier": {verifier},
	}, g)
}

// maxCallbackHeader is large because browsers send the cookies of all programs that listen on this machine.
const maxCallbackHeader = 256 << 10

// A callbackServer receives the authorization response at a port of this machine.
type callbackServer struct {
	redirect      string // its URL
	host          string // of redirect
	path          string
	state         string // of the authorization request, unknown to other local programs
	issuer        string
	requireIssuer bool // the response must have iss

	server  *http.Server
	wg      sync.WaitGroup // of the server and the browser
	once    sync.Once
	result  chan loginResult // with capacity 1
	browser chan struct{}    // closed unless the browser is being opened
	cancel  func()           // cancels the opening of the browser
}

type loginResult struct {
	code string
	err  error
}

// listen starts the callback server of a login, at the registered port if that is free.
func (t *Transport) listen(ctx context.Context, s *resourceServer) (*callbackServer, error) {
	want := t.redirect
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
		l, err = new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0") // another registration follows
	}
	if err != nil {
		return nil, fmt.Errorf("redirect address %s: %w; free it, or configure and register another", want, err)
	}
	_, port, _ = net.SplitHostPort(l.Addr().String())
	at := url.URL{Scheme: "http", Host: net.JoinHostPort(want.Hostname(), port), Path: want.Path}
	b := &callbackServer{
		redirect: at.String(), host: at.Host, path: want.Path, state: rand.Text(), issuer: s.as.Issuer,
		requireIssuer: s.as.SendsIssuer, result: make(chan loginResult, 1),
		browser: make(chan struct{}), cancel: func() {},
	}
	close(b.browser)
	b.server = &http.Server{
		Handler: b, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second,
		MaxHeaderBytes: maxCallbackHeader, ErrorLog: log.New(io.Discard, "", 0), // any local program can cause errors
	}
	b.wg.Go(func() { b.server.Serve(l) }) //nolint:errcheck // returns when the server is closed
	return b, nil
}

// parseRedirect parses a redirect URL, which must be one of this machine.
func parseRedirect(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" || !isLoopback(u.Hostname()) || u.Port() == "" || u.User != nil ||
		u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("redirect address %q: must be like http://127.0.0.1:3000/callback", s)
	}
	if u.Path == "" {
		u.Path = "/"
	}
	return u, nil
}

// wait opens the browser and waits for the authorization response.
func (b *callbackServer) wait(ctx context.Context, open func(context.Context) error) (string, error) {
	ctx, b.cancel = context.WithCancel(ctx)
	b.browser = make(chan struct{})
	opened := make(chan error, 1)
	b.wg.Go(func() {
		defer close(b.browser)
		opened <- open(ctx)
	})
	for {
		select {
		case r := <-b.result:
			return r.code, r.err
		case err := <-opened:
			if err != nil {
				return "", fmt.Errorf("opening a browser: %w", err)
			}
			opened = nil
		case <-ctx.Done():
			return "", fmt.Errorf("the user did not log in: %w", ctx.Err())
		}
	}
}

// close stops the server, and gives it and the browser a second to send and show the page.
func (b *callbackServer) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	b.server.Shutdown(ctx) //nolint:errcheck // a slower browser shows no page
	b.server.Close()
	select {
	case <-b.browser:
	case <-ctx.Done():
	}
	b.cancel()
	b.wg.Wait()
}

const page = `<!doctype html><meta charset="utf-8"><title>mcpbridge</title><p>%s</p>` + "\n"

// ServeHTTP receives the authorization response. A request without the state has no effect.
func (b *callbackServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer") // the code is in the URL
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Connection", "close")
	respond := func(status int, text string) {
		w.WriteHeader(status)
		fmt.Fprintf(w, page, text)
	}
	q, err := url.ParseQuery(r.URL.RawQuery)
	switch {
	case r.Method != http.MethodGet || r.URL.Path != b.path || !strings.EqualFold(r.Host, b.host):
		respond(http.StatusNotFound, "Not found.")
		return
	case err != nil || len(q["state"]) != 1 || subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(b.state)) != 1:
		respond(http.StatusBadRequest, "This is not the login that mcpbridge is waiting for.")
		return
	}
	first := false
	b.once.Do(func() {
		first = true
		code, err := b.parseResponse(q)
		if err != nil {
			respond(http.StatusBadRequest, "The login failed. See the log of mcpbridge.")
		} else {
			respond(http.StatusOK, "You are logged in. You can close this window.")
		}
		b.result <- loginResult{code, err}
	})
	if !first {
		respond(http.StatusGone, "This login is over.")
	}
}

// parseResponse returns the code of an authorization response. It checks the issuer first, because not even the error
// of another server may be used (RFC 9207, 2.4; 2026-07-28: authorization, authorization response validation).
func (b *callbackServer) parseResponse(q url.Values) (string, error) {
	for _, name := range []string{"code", "iss", "error"} {
		if len(q[name]) > 1 {
			return "", fmt.Errorf("the authorization response has more than one %s", name)
		}
	}
	switch _, has := q["iss"]; {
	case has && q.Get("iss") != b.issuer:
		return "", errors.New("the authorization response is of another authorization server (iss)")
	case !has && b.requireIssuer:
		return "", errors.New("the authorization response has no iss, which its server declares to send")
	case q.Has("error"):
		return "", &tokenError{q.Get("error"), q.Get("error_description")}
	case q.Get("code") == "":
		return "", errors.New("the authorization response has no code")
	}
	return q.Get("code"), nil
}
