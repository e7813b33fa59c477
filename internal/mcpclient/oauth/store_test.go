package oauth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"github.com/rs/zerolog"
)

// credentialsFile returns the only credentials file in dir.
func credentialsFile(t *testing.T, dir string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(names) != 1 {
		t.Fatalf("got credentials files %v, %v, want one", names, err)
	}
	return names[0]
}

func TestCredentialsArePrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have no modes")
	}
	w := newFixture(t)
	dir := filepath.Join(t.TempDir(), "a", "credentials")
	w.mustSucceed(w.transport(func(o *Options) { o.Dir = dir }))
	for _, name := range append([]string{dir}, must(filepath.Glob(filepath.Join(dir, "*")))...) {
		if info := must(os.Stat(name)); info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
	name := credentialsFile(t, dir)
	if left := must(filepath.Glob(filepath.Join(dir, "*.new"))); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
	// Files that other users can access are not used.
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
		w.mustFail(w.transport(func(o *Options) { o.Dir = dir }), "run chmod 600 on it")
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{Server: w.mcp.URL, Dir: dir}); err == nil ||
		!strings.Contains(err.Error(), "run chmod 700 on it") {
		t.Errorf("directory that others can read: got %v", err)
	}
	if len(w.authRequests) != 1 {
		t.Errorf("got %d logins", len(w.authRequests))
	}
}

func TestProcessesShareCredentials(t *testing.T) {
	w := newFixture(t)
	dir := filepath.Join(t.TempDir(), "c")
	in := func(o *Options) { o.Dir = dir }
	w.mustSucceed(w.transport(in))
	w.mustSucceed(w.transport(in))
	if len(w.authRequests) != 1 || len(w.tokenRequests) != 1 || len(w.registrations) != 1 {
		t.Errorf("got %d logins, %d token requests, %d registrations", len(w.authRequests), len(w.tokenRequests),
			len(w.registrations))
	}
	w.revoke()
	w.mustSucceed(w.transport(func(o *Options) { in(o); o.Browser = nil }))
	if len(w.authRequests) != 1 || w.tokenRequest().Get("grant_type") != "refresh_token" {
		t.Errorf("got %d logins, then %v", len(w.authRequests), w.tokenRequest())
	}
	// Another configured client does not use the grants of this one.
	w.mustFail(w.transport(func(o *Options) { in(o); o.Browser = nil; o.ClientID = "another" }), "log in elsewhere")
	// Nor does another server of the same authorization server, but it has the same client there.
	other := newFixture(t)
	other.prm[metadataPath].(map[string]any)["authorization_servers"] = []string{w.as.URL}
	other.accepts = func(string) bool { return true }
	tr := other.transport(in)
	if status, err := other.call(tr); err == nil && status == 200 {
		t.Error("the other server accepted an unknown token")
	}
	if got := w.authRequest().Get("resource"); got != other.mcp.URL+"/mcp" || len(w.registrations) > 2 {
		t.Errorf("asked for %s, after %d registrations", got, len(w.registrations))
	}
	for _, b := range other.bearers[:1] {
		if b != "" {
			t.Error("the other server got a token of the first")
		}
	}
}

// Two processes that refresh at the same time use the refresh token once.
func TestTwoProcessesRefreshOnce(t *testing.T) {
	w := newFixture(t)
	dir := filepath.Join(t.TempDir(), "c")
	in := func(o *Options) { o.Dir = dir; o.Browser = browse }
	w.mustSucceed(w.transport(in))
	w.revoke()
	var all []*Transport
	for range 10 {
		all = append(all, w.transport(func(o *Options) { in(o); o.Browser = nil }))
	}
	var wg sync.WaitGroup
	for _, tr := range all {
		wg.Go(func() {
			if status, err := w.call(tr); err != nil || status != 200 {
				t.Error(status, err)
			}
		})
	}
	wg.Wait()
	if len(w.tokenRequests) != 2 {
		t.Errorf("got %d token requests, want the first and one refresh", len(w.tokenRequests))
	}
}

// obstruct prevents writes of a credentials file by a directory in its place, until restore is called.
func obstruct(t *testing.T, file string) (restore func()) {
	t.Helper()
	if err := errors.Join(os.Rename(file, file+".aside"), os.MkdirAll(filepath.Join(file, "x"), 0o700)); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := errors.Join(os.RemoveAll(file), os.Rename(file+".aside", file)); err != nil {
			t.Fatal(err)
		}
	}
}

// A token that cannot be written is used, because the one that it replaces is invalid, and written later.
func TestUnwrittenToken(t *testing.T) {
	for name, then := range map[string]func(*fixture, *Transport){
		"written by the next refresh": func(w *fixture, tr *Transport) { w.revoke(); w.mustSucceed(tr) },
		"written at the end":          func(_ *fixture, tr *Transport) { tr.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			dir := filepath.Join(t.TempDir(), "c")
			in := func(o *Options) { o.Dir = dir }
			tr := w.transport(in)
			w.mustSucceed(tr)
			var restore func()
			w.update(func() {
				w.token = func(url.Values, string) (int, map[string]any) {
					if restore == nil {
						restore = obstruct(t, credentialsFile(t, dir))
					}
					return 0, nil
				}
			})
			w.revoke()
			w.mustSucceed(tr)
			if log := w.log.String(); !strings.Contains(log, "cannot write OAuth credentials") {
				t.Errorf("no warning in the log: %s", log)
			}
			restore()
			then(w, tr)
			w.revoke()
			w.mustSucceed(w.transport(func(o *Options) { in(o); o.Browser = nil }))
			if len(w.authRequests) != 1 {
				t.Errorf("got %d logins", len(w.authRequests))
			}
		})
	}
	t.Run("of a login", func(t *testing.T) {
		w := newFixture(t)
		dir := filepath.Join(t.TempDir(), "c")
		tr := w.transport(func(o *Options) { o.Dir = dir })
		w.token = func(url.Values, string) (int, map[string]any) {
			obstruct(t, credentialsFile(t, dir))
			return 0, nil
		}
		w.mustSucceed(tr)
		w.mustSucceed(tr)
		if log := w.log.String(); len(w.authRequests) != 1 || !strings.Contains(log, "cannot store the login") {
			t.Errorf("got %d logins, log: %s", len(w.authRequests), log)
		}
	})
}

// If no file can be written, tokens are kept in memory and used, with one warning. Modes do not stop root, so a file is
// in the place of the directory, or a directory in that of a file.
func TestReadOnlyCredentials(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, w *fixture, dir string){
		"directory cannot be created": func(t *testing.T, _ *fixture, dir string) {
			t.Helper()
			if err := os.WriteFile(filepath.Dir(dir), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"files cannot be locked": func(t *testing.T, w *fixture, dir string) {
			t.Helper()
			s := &store{dir: dir}
			for _, issuer := range []string{w.as.URL, w.as.URL + "/"} {
				if err := os.MkdirAll(s.fileName(issuer)+".lock", 0o700); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			dir := filepath.Join(t.TempDir(), "above", "c")
			spoil(t, w, dir)
			tr := w.transport(func(o *Options) { o.Dir = dir })
			w.mustSucceed(tr)
			w.mustSucceed(tr)
			w.revoke()
			w.mustSucceed(tr) // with the refresh token
			if log := w.log.String(); len(w.authRequests) != 1 || strings.Count(log, "in memory") != 1 {
				t.Errorf("got %d logins, log: %s", len(w.authRequests), log)
			}
		})
	}
}

// A delayed write does not replace a newer grant of another process, but one that the other process found invalid.
func TestDelayedWrite(t *testing.T) {
	const issuer, server = "https://as.example", "https://mcp.example/mcp"
	for name, row := range map[string]struct {
		other *grant
		want  string
	}{
		"the other has a newer grant": {&grant{Access: "third", Refresh: "r3"}, "r3"},
		"the other was rejected":      {&grant{Access: "first"}, "r2"},
		"the other has the old grant": {&grant{Access: "first", Refresh: "r1"}, "r2"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "c")
			s, other := must(openStore(dir, zerolog.Nop())), must(openStore(dir, zerolog.Nop()))
			put := func(s *store, g *grant, meanwhile func()) {
				t.Helper()
				if err := s.update(t.Context(), issuer, func(c *credentials) error {
					c.Grants[server] = g
					meanwhile()
					return nil
				}); err != nil {
					t.Fatal(err)
				}
			}
			put(s, &grant{Access: "first", Refresh: "r1"}, func() {})
			file := s.fileName(issuer)
			var restore func()
			put(s, &grant{Access: "second", Refresh: "r2"}, func() { restore = obstruct(t, file) })
			restore()
			put(other, row.other, func() {})
			s.flush(t.Context())
			if got := must(s.read(file)).Grants[server]; got.Refresh != row.want {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestCorruptedCredentials(t *testing.T) {
	for name, change := range map[string]func([]byte) []byte{
		"empty":        func([]byte) []byte { return nil },
		"cut":          func(b []byte) []byte { return b[:len(b)/2] },
		"not JSON":     func([]byte) []byte { return []byte("\x00\xff") },
		"another type": func([]byte) []byte { return []byte(`{"issuer":"x","grants":[1]}`) },
		"a null":       func([]byte) []byte { return []byte(`{"issuer":"ISSUER","grants":{"SERVER":null}}`) },
		"too long":     func(b []byte) []byte { return append(b, bytes.Repeat([]byte(" "), maxFile)...) },
		"another's": func(b []byte) []byte {
			return bytes.Replace(b, []byte(`"issuer": "`), []byte(`"issuer": "https://x`), 1)
		},
		"another's key": func(b []byte) []byte {
			return bytes.Replace(b, []byte(`"access_token"`), []byte(`"key": "AAAA", "access_token"`), 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			dir := filepath.Join(t.TempDir(), "c")
			in := func(o *Options) { o.Dir = dir }
			w.mustSucceed(w.transport(in))
			file := credentialsFile(t, dir)
			text := bytes.ReplaceAll(change(must(os.ReadFile(file))), []byte("SERVER"), []byte(w.mcp.URL+"/mcp"))
			if err := os.WriteFile(file, bytes.ReplaceAll(text, []byte("ISSUER"), []byte(w.as.URL)),
				0o600); err != nil {
				t.Fatal(err)
			}
			w.mustSucceed(w.transport(in))
			if len(w.authRequests) != 2 {
				t.Errorf("got %d logins", len(w.authRequests))
			}
			if !json.Valid(must(os.ReadFile(file))) {
				t.Error("the file was not replaced")
			}
			w.mustSucceed(w.transport(in))
			if len(w.authRequests) != 2 {
				t.Errorf("after the restart: got %d logins", len(w.authRequests))
			}
		})
	}
}

func TestExpiredRegistrationIsNotUsed(t *testing.T) {
	w := newFixture(t)
	withSecret("client_secret_post")(w)
	dir := filepath.Join(t.TempDir(), "c")
	w.register = func(map[string]any) (int, map[string]any) {
		return 201, map[string]any{
			"client_id": "r", "client_secret": "s",
			"client_secret_expires_at": time.Now().Unix() - 1,
		}
	}
	w.noRefresh = true
	tr := w.transport(func(o *Options) { o.Dir = dir })
	w.mustSucceed(tr)
	w.revoke()
	w.mustSucceed(tr)
	if len(w.registrations) != 2 {
		t.Errorf("got %d registrations", len(w.registrations))
	}
}

// The authorization server has deleted the registration.
func TestForgottenRegistration(t *testing.T) {
	w := newFixture(t)
	w.noRefresh = true
	tr := w.transport(nil)
	w.mustSucceed(tr)
	w.revoke()
	w.update(func() {
		w.token = func(f url.Values, _ string) (int, map[string]any) {
			if f.Get("client_id") == "registered-1" {
				return 401, map[string]any{"error": "invalid_client"}
			}
			return 0, nil
		}
	})
	w.mustFail(tr, "invalid_client")
	w.mustSucceed(tr)
	if len(w.registrations) != 2 {
		t.Errorf("got %d registrations", len(w.registrations))
	}
}

// The callback uses the registered port, and a new registration if that is in use.
func TestPortOfTheRegistration(t *testing.T) {
	w := newFixture(t)
	w.noRefresh = true
	tr := w.transport(nil)
	w.mustSucceed(tr)
	first := w.authRequest().Get("redirect_uri")
	w.revoke()
	w.mustSucceed(tr)
	if got := w.authRequest().Get("redirect_uri"); got != first || len(w.registrations) != 1 {
		t.Errorf("at %s first, then at %s; %d registrations", first, got, len(w.registrations))
	}
	l, err := listenAt(must(url.Parse(first)).Host)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w.revoke()
	w.mustSucceed(tr)
	if got := w.authRequest().Get("redirect_uri"); got == first || len(w.registrations) != 2 {
		t.Errorf("at %s again; %d registrations", got, len(w.registrations))
	}
	// A configured address is required.
	w.revoke()
	w.mustFail(w.transport(func(o *Options) { o.Redirect = first }), "free it, or configure and register another")
	l.Close()
	w.mustSucceed(w.transport(func(o *Options) { o.Redirect = strings.Replace(first, "127.0.0.1", "localhost", 1) }))
}

// Concurrent logins at one authorization server need two registrations, because the registered port is in use. Each
// grant is refreshed by its own client.
func TestGrantsKeepTheirRegistrations(t *testing.T) {
	w := newFixture(t)
	withSecret("client_secret_post")(w)
	w.register = func(map[string]any) (int, map[string]any) {
		n := strconv.Itoa(len(w.registrations))
		return 201, map[string]any{"client_id": "r" + n, "client_secret": "s" + n}
	}
	clients := map[string]string{} // by refresh token
	w.token = func(f url.Values, _ string) (int, map[string]any) {
		id, of := f.Get("client_id"), f.Get("refresh_token")
		if f.Get("client_secret") != strings.Replace(id, "r", "s", 1) || of != "" && clients[of] != id {
			return 400, map[string]any{"error": "invalid_client"}
		}
		access, refresh := w.secret("access"), w.secret("refresh")
		w.tokens[access], clients[refresh] = nil, id
		return 200, map[string]any{"access_token": access, "refresh_token": refresh, "token_type": "Bearer"}
	}
	dir := filepath.Join(t.TempDir(), "c")
	in := func(query string, browser func(context.Context, string) error) *Transport {
		return w.transport(func(o *Options) { o.Dir, o.Browser, o.Server = dir, browser, o.Server+query })
	}
	w.mustSucceed(in("?one", func(ctx context.Context, address string) error {
		w.mustSucceed(in("?two", browse))
		return browse(ctx, address)
	}))
	if len(w.registrations) != 2 {
		t.Fatalf("got %d registrations", len(w.registrations))
	}
	for range 2 {
		for _, query := range []string{"?one", "?two"} {
			w.revoke()
			w.mustSucceed(in(query, nil))
		}
	}
	if len(w.authRequests) != 2 {
		t.Errorf("got %d logins", len(w.authRequests))
	}
}

// Stored grants without a registration belong to the client that was registered last.
func TestGrantsWithoutRegistration(t *testing.T) {
	for id, logins := range map[string]int{"r1": 0, "r0": 1} {
		w := newFixture(t)
		withSecret("client_secret_post")(w)
		w.token = func(f url.Values, _ string) (int, map[string]any) {
			if f.Get("client_id") != "r1" || f.Get("client_secret") != "s1" {
				return 401, map[string]any{"error": "invalid_client"}
			}
			return 0, nil
		}
		w.refresh["refresh-canary"] = ""
		w.canaries = append(w.canaries, "refresh-canary", "s1")
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		file := (&store{dir: dir}).fileName(w.as.URL)
		text := strings.NewReplacer("AS", w.as.URL, "MCP", w.mcp.URL+"/mcp", "ID", id).Replace(`{
  "issuer": "AS",
  "client": {
    "client_id": "r1",
    "client_secret": "s1",
    "token_endpoint_auth_method": "client_secret_post",
    "redirect_uri": "http://127.0.0.1:0/callback"
  },
  "grants": {
    "MCP": {
      "resource": "MCP",
      "client_id": "ID",
      "access_token": "spent",
      "refresh_token": "refresh-canary",
      "expiry": "2026-01-01T00:00:00Z"
    }
  }
}`)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		tr := w.transport(func(o *Options) { o.Dir, o.Browser = dir, nil })
		if logins > 0 {
			w.mustFail(tr, "log in elsewhere")
			continue
		}
		w.mustSucceed(tr)
		if f := w.tokenRequest(); f.Get("grant_type") != "refresh_token" || len(w.tokenRequests) != 1 ||
			len(w.registrations) != 0 {
			t.Errorf("got %d token requests, the last one %v, and %d registrations", len(w.tokenRequests), f,
				len(w.registrations))
		}
		if !strings.Contains(string(must(os.ReadFile(file))), `"registration"`) {
			t.Error("the stored grant has no registration")
		}
	}
}

func TestLockTimeout(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s := &store{dir: dir}
	lock := flock.New(s.fileName("x") + ".lock")
	if err := lock.Lock(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*lockInterval)
	defer cancel()
	err := s.update(ctx, "x", func(*credentials) error { return nil })
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "another process") {
		t.Error(err)
	}
	lock.Close()
	if err := s.update(t.Context(), "x", func(*credentials) error { return nil }); err != nil {
		t.Error(err)
	}
}
