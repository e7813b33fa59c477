package oauth

import (
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

func TestRefresh(t *testing.T) {
	t.Run("rotates", func(t *testing.T) {
		w := newFixture(t)
		tr := w.transport(nil)
		w.mustSucceed(tr)
		for range 3 {
			w.revoke()
			w.mustSucceed(tr)
		}
		if len(w.authRequests) != 1 || len(w.tokenRequests) != 4 || len(w.refresh) != 1 {
			t.Errorf("got %d logins, %d token requests, %d refresh tokens", len(w.authRequests), len(w.tokenRequests),
				len(w.refresh))
		}
		if f := w.tokenRequest(); f.Get("grant_type") != "refresh_token" || f.Get("resource") != w.mcp.URL+"/mcp" ||
			f.Get("client_id") != "registered-1" || f.Has("code") {
			t.Errorf("refresh request: %v", f)
		}
	})
	t.Run("keeps what is not replaced", func(t *testing.T) {
		w := newFixture(t)
		w.token = func(f url.Values, _ string) (int, map[string]any) {
			if f.Get("grant_type") != "refresh_token" {
				return 0, nil
			}
			access := w.secret("access")
			w.tokens[access] = nil
			return 200, map[string]any{"access_token": access, "token_type": "Bearer"}
		}
		tr := w.transport(nil)
		w.mustSucceed(tr)
		w.revoke()
		w.mustSucceed(tr)
		w.revoke()
		w.mustSucceed(tr)
		if len(w.authRequests) != 1 ||
			w.tokenRequests[1].Get("refresh_token") != w.tokenRequests[2].Get("refresh_token") {
			t.Errorf("got %d logins; %v", len(w.authRequests), w.tokenRequests)
		}
	})
	t.Run("before it expires", func(t *testing.T) {
		w := newFixture(t)
		w.lifetime = int(refreshMargin/time.Second) - 1
		tr := w.transport(nil)
		w.mustSucceed(tr)
		w.mustSucceed(tr)
		if len(w.authRequests) != 1 || w.count("POST as /token") != 2 || slices.Contains(w.bearers[1:], "") {
			t.Errorf("%v %q", w.requests(), w.bearers)
		}
	})
	t.Run("not long before it expires", func(t *testing.T) {
		w := newFixture(t)
		w.lifetime = int(refreshMargin/time.Second) + 60
		tr := w.transport(nil)
		w.mustSucceed(tr)
		w.mustSucceed(tr)
		if w.count("POST as /token") != 1 {
			t.Errorf("%v", w.requests())
		}
	})
	t.Run("rejected, then a login", func(t *testing.T) {
		w := newFixture(t)
		tr := w.transport(nil)
		w.mustSucceed(tr)
		w.update(func() { clear(w.tokens); clear(w.refresh) })
		w.mustSucceed(tr)
		if len(w.authRequests) != 2 {
			t.Errorf("got %d logins", len(w.authRequests))
		}
	})
	t.Run("rejected for concurrent requests", func(t *testing.T) {
		w := newFixture(t)
		w.lifetime = 1 // so that every request tries to refresh it
		tr := w.transport(nil)
		w.mustSucceed(tr)
		w.update(func() { clear(w.refresh); clear(w.tokens) })
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if status, err := w.call(tr); err != nil || status != http.StatusOK {
					t.Error(status, err)
				}
			})
		}
		wg.Wait()
		if len(w.authRequests) != 2 {
			t.Errorf("got %d logins", len(w.authRequests))
		}
	})
	t.Run("unavailable, without a login", func(t *testing.T) {
		w := newFixture(t)
		tr := w.transport(nil)
		w.mustSucceed(tr)
		status := 503
		w.update(func() {
			clear(w.tokens)
			w.token = func(url.Values, string) (int, map[string]any) {
				if status == 0 {
					return 0, nil
				}
				return status, map[string]any{"error": "server_error"}
			}
		})
		w.mustFail(tr, "503")
		w.update(func() { status = 429 })
		w.mustFail(tr, "429")
		w.update(func() { status = 0 })
		w.mustSucceed(tr)
		if len(w.authRequests) != 1 {
			t.Errorf("got %d logins", len(w.authRequests))
		}
	})
	t.Run("not an OAuth response, without a login", func(t *testing.T) {
		w := newFixture(t)
		tr := w.transport(nil)
		w.mustSucceed(tr)
		status := 403
		w.update(func() {
			clear(w.tokens)
			w.token = func(url.Values, string) (int, map[string]any) {
				if status == 0 {
					return 0, nil
				}
				return status, map[string]any{"message": "not here"}
			}
		})
		w.mustFail(tr, "403")
		w.update(func() { status = 404 })
		w.mustFail(tr, "404")
		w.update(func() { status = 0 })
		w.mustSucceed(tr)
		if len(w.authRequests) != 1 {
			t.Errorf("got %d logins", len(w.authRequests))
		}
	})
	for _, code := range []string{"invalid_client", "unauthorized_client", "invalid_scope", "invalid_request", ""} {
		t.Run("token is kept after the error "+code, func(t *testing.T) {
			w := newFixture(t)
			dir := filepath.Join(t.TempDir(), "c")
			in := func(o *Options) { o.Dir = dir; o.ClientID = "us"; o.Browser = nil }
			w.mustSucceed(w.transport(func(o *Options) { in(o); o.Browser = browse }))
			refuses := true
			w.update(func() {
				clear(w.tokens)
				w.token = func(url.Values, string) (int, map[string]any) {
					if !refuses {
						return 0, nil
					}
					return 400, map[string]any{"error": code, "error_description": "not now"}
				}
			})
			w.mustFail(w.transport(in), "refreshing the token at "+w.as.URL+": ")
			// With a user, a login is tried.
			w.mustFail(w.transport(func(o *Options) { in(o); o.Browser = browse }), "not authorized: ")
			if len(w.authRequests) != 2 {
				t.Errorf("got %d logins", len(w.authRequests))
			}
			w.update(func() { refuses = false })
			w.mustSucceed(w.transport(in))
			if f := w.tokenRequest(); f.Get("grant_type") != "refresh_token" || len(w.authRequests) != 2 {
				t.Errorf("got %d logins, then %v", len(w.authRequests), f)
			}
		})
	}
	t.Run("with a rejected token, then a login and an error", func(t *testing.T) {
		w := newFixture(t)
		tr := w.transport(nil)
		w.mustSucceed(tr)
		w.update(func() { w.accepts = func(string) bool { return false } })
		w.mustFail(tr, "just issued")
		if len(w.authRequests) != 2 {
			t.Errorf("got %d logins", len(w.authRequests))
		}
	})
}

// A request with a token that was replaced in the meantime gets the new one without further requests.
func TestReplacedTokenIsNotReplacedAgain(t *testing.T) {
	w := newFixture(t)
	tr := w.transport(nil)
	w.mustSucceed(tr)
	before := len(w.requests())
	g, err := tr.acquire(t.Context(), need{previous: &grant{Access: "old"}})
	if err != nil || g.Access != w.bearers[len(w.bearers)-1] || len(w.requests()) != before {
		t.Errorf("got %v, %v, after %v", g, err, w.requests()[before:])
	}
}

// The failure of a proactive refresh does not fail a request that the server rejected.
func TestRefusedRequestWaitsForMoreThanARenewal(t *testing.T) {
	w := newFixture(t)
	w.lifetime = 1
	tr := w.transport(nil)
	w.mustSucceed(tr)
	arrived, proceed := make(chan struct{}), make(chan struct{})
	inner := w.as.Config.Handler
	w.as.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" && arrived != nil {
			close(arrived)
			arrived = nil
			<-proceed
		}
		inner.ServeHTTP(rw, r)
	})
	w.update(func() { clear(w.refresh) })
	had, began := tr.grant, arrived
	soon, refused := make(chan error), make(chan error)
	go func() {
		_, err := tr.acquire(t.Context(), need{previous: had, proactive: true})
		soon <- err
	}()
	<-began
	go func() {
		_, err := tr.acquire(t.Context(), need{previous: had})
		refused <- err
	}()
	close(proceed)
	if err := <-soon; err == nil {
		t.Error("want an error of the proactive refresh")
	}
	if err := <-refused; err != nil || len(w.authRequests) != 2 {
		t.Errorf("got %v after %d logins, want 2", err, len(w.authRequests))
	}
}
