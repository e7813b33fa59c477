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

// kept returns the one file of credentials in dir.
func keptFile(t *testing.T, dir string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(names) != 1 {
		t.Fatalf("files of credentials: %v, %v", names, err)
	}
	return names[0]
}

func TestCredentialsAreForUsAlone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("its files have no modes")
	}
	w := newWorld(t)
	dir := filepath.Join(t.TempDir(), "a", "credentials")
	w.works(w.transport(func(o *Options) { o.Dir = dir }))
	for _, name := range append([]string{dir}, must(filepath.Glob(filepath.Join(dir, "*")))...) {
		if info := must(os.Stat(name)); info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
	name := keptFile(t, dir)
	if left := must(filepath.Glob(filepath.Join(dir, "*.new"))); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
	// What others could have read or written is not used.
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
		w.fails(w.transport(func(o *Options) { o.Dir = dir }), "run chmod 600 on it")
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{Server: w.mcp.URL, Dir: dir}); err == nil || !strings.Contains(err.Error(), "run chmod 700 on it") {
		t.Errorf("a directory for all: %v", err)
	}
	if len(w.asked) != 1 {
		t.Errorf("%d logins", len(w.asked))
	}
}

func TestAnotherProcessUsesWhatIsKept(t *testing.T) {
	w := newWorld(t)
	dir := filepath.Join(t.TempDir(), "c")
	in := func(o *Options) { o.Dir = dir }
	w.works(w.transport(in))
	w.works(w.transport(in))
	if len(w.asked) != 1 || len(w.forms) != 1 || len(w.regs) != 1 {
		t.Errorf("%d logins, %d token requests, %d registrations", len(w.asked), len(w.forms), len(w.regs))
	}
	w.revoke()
	w.works(w.transport(func(o *Options) { in(o); o.Browser = nil }))
	if len(w.asked) != 1 || w.form().Get("grant_type") != "refresh_token" {
		t.Errorf("%d logins, then %v", len(w.asked), w.form())
	}
	// Another client of the configuration does not use what this one has been granted.
	w.fails(w.transport(func(o *Options) { in(o); o.Browser = nil; o.ClientID = "another" }), "log in where it can")
	// Neither does another server of the same authorization server, but it is the same client there.
	other := newWorld(t)
	other.prm[metadataPath].(map[string]any)["authorization_servers"] = []string{w.as.URL}
	other.accepts = func(string) bool { return true }
	tr := other.transport(in)
	if status, err := other.call(tr); err == nil && status == 200 {
		t.Error("the other server has taken a token that it does not know")
	}
	if got := w.question().Get("resource"); got != other.mcp.URL+"/mcp" || len(w.regs) > 2 {
		t.Errorf("asked for %s, after %d registrations", got, len(w.regs))
	}
	for _, b := range other.bearers[:1] {
		if b != "" {
			t.Error("the other server was sent a token of the first")
		}
	}
}

// A refresh token is good for once: two processes that need it at the same time use it once.
func TestTwoProcessesRefreshOnce(t *testing.T) {
	w := newWorld(t)
	dir := filepath.Join(t.TempDir(), "c")
	in := func(o *Options) { o.Dir = dir; o.Browser = browse }
	w.works(w.transport(in))
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
	if len(w.forms) != 2 {
		t.Errorf("%d token requests, want the first and one refresh", len(w.forms))
	}
}

// obstruct has nothing written to a file of credentials, for a directory is in its place. It returns what takes that away.
func obstruct(t *testing.T, file string) (free func()) {
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

// A token that cannot be written down is used all the same: the one that it replaces is spent. It is written when that can be done.
func TestTokenThatCannotBeWritten(t *testing.T) {
	for name, then := range map[string]func(*world, *Transport){
		"written by the next refresh": func(w *world, tr *Transport) { w.revoke(); w.works(tr) },
		"written at the end":          func(_ *world, tr *Transport) { tr.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			dir := filepath.Join(t.TempDir(), "c")
			in := func(o *Options) { o.Dir = dir }
			tr := w.transport(in)
			w.works(tr)
			var free func()
			w.do(func() {
				w.token = func(url.Values, string) (int, map[string]any) {
					if free == nil {
						free = obstruct(t, keptFile(t, dir))
					}
					return 0, nil
				}
			})
			w.revoke()
			w.works(tr)
			if log := w.log.String(); !strings.Contains(log, "cannot be written down") {
				t.Errorf("the log says nothing of it: %s", log)
			}
			free()
			then(w, tr)
			w.revoke()
			w.works(w.transport(func(o *Options) { in(o); o.Browser = nil }))
			if len(w.asked) != 1 {
				t.Errorf("%d logins", len(w.asked))
			}
		})
	}
	t.Run("of a login", func(t *testing.T) {
		w := newWorld(t)
		dir := filepath.Join(t.TempDir(), "c")
		tr := w.transport(func(o *Options) { o.Dir = dir })
		w.token = func(url.Values, string) (int, map[string]any) {
			obstruct(t, keptFile(t, dir))
			return 0, nil
		}
		w.works(tr)
		w.works(tr)
		if log := w.log.String(); len(w.asked) != 1 || !strings.Contains(log, "cannot be written down") {
			t.Errorf("%d logins, and the log says: %s", len(w.asked), log)
		}
	})
}

// Where nothing can be written, from the first token on, tokens are kept in memory, and used, with one warning. The root of the machine may run
// this, whom no mode of a directory stops: so there is a file where the directory, or a directory where a file would be.
func TestNothingCanBeWritten(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, w *world, dir string){
		"no directory can be made": func(t *testing.T, _ *world, dir string) {
			t.Helper()
			if err := os.WriteFile(filepath.Dir(dir), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"nothing can be locked": func(t *testing.T, w *world, dir string) {
			t.Helper()
			s := &store{dir: dir}
			for _, issuer := range []string{w.as.URL, w.as.URL + "/"} {
				if err := os.MkdirAll(s.name(issuer)+".lock", 0o700); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			dir := filepath.Join(t.TempDir(), "above", "c")
			spoil(t, w, dir)
			tr := w.transport(func(o *Options) { o.Dir = dir })
			w.works(tr)
			w.works(tr)
			w.revoke()
			w.works(tr) // by the refresh token
			if log := w.log.String(); len(w.asked) != 1 || strings.Count(log, "kept in memory") != 1 {
				t.Errorf("%d logins, and the log says: %s", len(w.asked), log)
			}
		})
	}
}

// What another process has been granted since holds, and what it has found to be spent does not.
func TestGrantThatIsWrittenLater(t *testing.T) {
	const issuer, server = "https://as.example", "https://mcp.example/mcp"
	for name, row := range map[string]struct {
		other *grant
		want  string
	}{
		"the other has got another one":  {&grant{Access: "third", Refresh: "r3"}, "r3"},
		"the other was refused":          {&grant{Access: "first"}, "r2"},
		"the other has not looked at it": {&grant{Access: "first", Refresh: "r1"}, "r2"},
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
			file := s.name(issuer)
			var free func()
			put(s, &grant{Access: "second", Refresh: "r2"}, func() { free = obstruct(t, file) })
			free()
			put(other, row.other, func() {})
			s.settle(t.Context())
			if got := must(s.read(file)).Grants[server]; got.Refresh != row.want {
				t.Errorf("%+v is kept", got)
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
			w := newWorld(t)
			dir := filepath.Join(t.TempDir(), "c")
			in := func(o *Options) { o.Dir = dir }
			w.works(w.transport(in))
			file := keptFile(t, dir)
			text := bytes.ReplaceAll(change(must(os.ReadFile(file))), []byte("SERVER"), []byte(w.mcp.URL+"/mcp"))
			if err := os.WriteFile(file, bytes.ReplaceAll(text, []byte("ISSUER"), []byte(w.as.URL)), 0o600); err != nil {
				t.Fatal(err)
			}
			w.works(w.transport(in))
			if len(w.asked) != 2 {
				t.Errorf("%d logins", len(w.asked))
			}
			if !json.Valid(must(os.ReadFile(file))) {
				t.Error("it is not written anew")
			}
			w.works(w.transport(in))
			if len(w.asked) != 2 {
				t.Errorf("then %d logins", len(w.asked))
			}
		})
	}
}

func TestExpiredRegistrationIsNotUsed(t *testing.T) {
	w := newWorld(t)
	withSecret("client_secret_post")(w)
	dir := filepath.Join(t.TempDir(), "c")
	w.register = func(map[string]any) (int, map[string]any) {
		return 201, map[string]any{"client_id": "r", "client_secret": "s", "client_secret_expires_at": time.Now().Unix() - 1}
	}
	w.noRefresh = true
	tr := w.transport(func(o *Options) { o.Dir = dir })
	w.works(tr)
	w.revoke()
	w.works(tr)
	if len(w.regs) != 2 {
		t.Errorf("%d registrations", len(w.regs))
	}
}

// An authorization server that has forgotten us is registered with anew.
func TestForgottenRegistration(t *testing.T) {
	w := newWorld(t)
	w.noRefresh = true
	tr := w.transport(nil)
	w.works(tr)
	w.revoke()
	w.do(func() {
		w.token = func(f url.Values, _ string) (int, map[string]any) {
			if f.Get("client_id") == "registered-1" {
				return 401, map[string]any{"error": "invalid_client"}
			}
			return 0, nil
		}
	})
	w.fails(tr, "invalid_client")
	w.works(tr)
	if len(w.regs) != 2 {
		t.Errorf("%d registrations", len(w.regs))
	}
}

// We come back at the port that we are registered with, and register anew if it is taken.
func TestPortOfTheRegistration(t *testing.T) {
	w := newWorld(t)
	w.noRefresh = true
	tr := w.transport(nil)
	w.works(tr)
	first := w.question().Get("redirect_uri")
	w.revoke()
	w.works(tr)
	if got := w.question().Get("redirect_uri"); got != first || len(w.regs) != 1 {
		t.Errorf("at %s first, then at %s; %d registrations", first, got, len(w.regs))
	}
	l, err := listenAt(must(url.Parse(first)).Host)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w.revoke()
	w.works(tr)
	if got := w.question().Get("redirect_uri"); got == first || len(w.regs) != 2 {
		t.Errorf("at %s again; %d registrations", got, len(w.regs))
	}
	// A configured address is that or nothing.
	w.revoke()
	w.fails(w.transport(func(o *Options) { o.Redirect = first }), "free it, or configure and register another")
	l.Close()
	w.works(w.transport(func(o *Options) { o.Redirect = strings.Replace(first, "127.0.0.1", "localhost", 1) }))
}

// Two servers of one authorization server are logged in to at once: the port of the registration is taken, so there are two of us.
// Each refreshes as who it was granted to, secret and all.
func TestGrantsAreOfTheirRegistrations(t *testing.T) {
	w := newWorld(t)
	withSecret("client_secret_post")(w)
	w.register = func(map[string]any) (int, map[string]any) {
		n := strconv.Itoa(len(w.regs))
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
	w.works(in("?one", func(ctx context.Context, address string) error {
		w.works(in("?two", browse))
		return browse(ctx, address)
	}))
	if len(w.regs) != 2 {
		t.Fatalf("%d registrations", len(w.regs))
	}
	for range 2 {
		for _, query := range []string{"?one", "?two"} {
			w.revoke()
			w.works(in(query, nil))
		}
	}
	if len(w.asked) != 2 {
		t.Errorf("%d logins", len(w.asked))
	}
}

// What was written before grants had their registrations beside them is of the client that was registered last.
func TestGrantsWithoutTheirRegistrationAreTheLastClients(t *testing.T) {
	for id, logins := range map[string]int{"r1": 0, "r0": 1} {
		w := newWorld(t)
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
		file := (&store{dir: dir}).name(w.as.URL)
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
			w.fails(tr, "log in where it can")
			continue
		}
		w.works(tr)
		if f := w.form(); f.Get("grant_type") != "refresh_token" || len(w.forms) != 1 || len(w.regs) != 0 {
			t.Errorf("%d token requests, the last one %v, and %d registrations", len(w.forms), f, len(w.regs))
		}
		if !strings.Contains(string(must(os.ReadFile(file))), `"registration"`) {
			t.Error("the grant has no registration still")
		}
	}
}

func TestLockIsWaitedForAsLongAsTheContext(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s := &store{dir: dir}
	lock := flock.New(s.name("x") + ".lock")
	if err := lock.Lock(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*lockEvery)
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
