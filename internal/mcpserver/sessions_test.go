package mcpserver

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mcphttp"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// remove ends a session with DELETE and returns the status.
func remove(t *testing.T, s *Server, id string) int {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodDelete, "/mcp", http.NoBody)
	r.Header.Set(mcphttp.HeaderSession, id)
	s.ServeHTTP(w, r)
	return w.Code
}

// The limit of sessions applies to all servers together. A session that ends frees one place, in whatever way it ends.
func TestSessionsOfSeveralServersAreCountedTogether(t *testing.T) {
	const ttl = time.Hour
	for _, bound := range []struct {
		max    limits.Limits
		status int
	}{{limits.Limits{Sessions: 3}, 503}, {limits.Limits{SessionsPerCaller: 3}, 429}} {
		// begin starts a session at a and returns a function that ends it.
		for name, begin := range map[string]func(t *testing.T, a, other *Server, h *worker, keep func()) (end func()){
			"DELETE": func(t *testing.T, a, _ *Server, _ *worker, _ func()) func() {
				t.Helper()
				id := beginSession(t, a)
				return func() {
					if first, second := remove(t, a, id), remove(t, a, id); first != 204 || second != 404 {
						t.Errorf("DELETE: got %d, and then %d", first, second)
					}
				}
			},
			"it is used too late": func(t *testing.T, a, _ *Server, _ *worker, keep func()) func() {
				t.Helper()
				id := beginSession(t, a)
				return func() {
					keep()
					for range 2 {
						if res := post(t, a, id, pingBody); res.StatusCode != 404 {
							t.Errorf("an idle one: %s", res.Status)
						}
					}
				}
			},
			"it is idle, and a request reaches another server": func(t *testing.T, a, _ *Server, _ *worker,
				keep func(),
			) func() {
				t.Helper()
				beginSession(t, a)
				return keep
			},
			"its stream of HTTP+SSE ends": func(t *testing.T, a, _ *Server, _ *worker, _ func()) func() {
				t.Helper()
				o := openSSEClient(t, a)
				return func() {
					o.drop()
					synctest.Wait()
				}
			},
			"its last call ends after the stream": func(t *testing.T, a, _ *Server, h *worker, _ func()) func() {
				t.Helper()
				o := openSSEClient(t, a)
				o.send(202, workBody)
				o.drop()
				synctest.Wait()
				return func() {
					close(h.letGo)
					synctest.Wait()
				}
			},
			"its server ends": func(t *testing.T, a, _ *Server, _ *worker, _ func()) func() {
				t.Helper()
				beginSession(t, a)
				return a.Close
			},
			"its server ends, and its stream of HTTP+SSE": func(t *testing.T, a, _ *Server, _ *worker,
				_ func(),
			) func() {
				t.Helper()
				openSSEClient(t, a)
				return func() {
					a.Close()
					synctest.Wait()
				}
			},
		} {
			synctest.Test(t, func(t *testing.T) {
				all, h := NewSessions(bound.max), newWorker()
				o := Options{Sessions: all, Limits: limits.Limits{SessionIdle: ttl}, Principal: testPrincipal}
				a, b, c := New(h, o), New(h, o), New(h, o)
				defer a.Close()
				defer b.Close()
				defer c.Close()
				ids := map[string]*Server{}
				end := begin(t, a, b, h, func() { // uses all places but one
					pass(ttl)
					for id, s := range ids {
						if res := post(t, s, id, pingBody); res.StatusCode != 200 {
							t.Errorf("%s: another one: %s", name, res.Status)
						}
					}
					pass(1)
				})
				next := func(s *Server, want int) {
					t.Helper()
					res := post(t, s, "", beginBody)
					if res.StatusCode != want || want != 200 && res.Header.Get("Retry-After") == "" {
						t.Errorf("%s, %+v: %s", name, bound.max, res.Status)
					}
					if id := res.Header.Get(mcphttp.HeaderSession); id != "" {
						ids[id] = s
					}
				}
				next(b, 200)          // one below
				next(c, 200)          // at the limit
				next(b, bound.status) // one above
				next(c, bound.status)
				end()
				next(b, 200)
				next(c, bound.status)
				for id, s := range ids {
					if status := remove(t, s, id); status != 204 {
						t.Errorf("%s: end of another session: %d", name, status)
					}
				}
				a.Close()
				if all.n != 0 {
					t.Errorf("%s: counted %d sessions when there were none", name, all.n)
				}
				for range 3 {
					next(b, 200) // no other server has any, either
				}
				next(b, bound.status)
			})
		}
	}
}

// With concurrent starts and ends at several servers, the limit is never exceeded, and in the end no session is
// counted.
func TestConcurrentSessionStartAndEnd(t *testing.T) {
	const most = 4
	all := NewSessions(limits.Limits{Sessions: most})
	o := Options{Sessions: all, Limits: limits.Limits{SessionIdle: time.Nanosecond}, Principal: testPrincipal}
	var servers []*Server
	for range 3 {
		servers = append(servers, New(newWorker(), o))
	}
	var wg sync.WaitGroup
	for n := range 16 {
		wg.Go(func() {
			for i := range 50 {
				s := servers[(n+i)%len(servers)]
				id := post(t, s, "", beginBody).Header.Get(mcphttp.HeaderSession)
				if i%3 == 0 {
					all.sweep(0)
				}
				if id == "" {
					continue
				}
				var ends sync.WaitGroup
				ends.Go(func() { remove(t, s, id) })
				ends.Go(func() { post(t, s, id, pingBody) }) // too late
				ends.Wait()
			}
			if n == 7 {
				servers[0].Close()
			}
		})
	}
	stop, counted := make(chan struct{}), make(chan int)
	go func() {
		seen := 0
		for {
			select {
			case <-stop:
				counted <- seen
				return
			default:
			}
			all.mu.Lock()
			seen = max(seen, all.n)
			all.mu.Unlock()
		}
	}()
	wg.Wait()
	close(stop)
	if seen := <-counted; seen > most {
		t.Errorf("got %d sessions", seen)
	}
	for _, s := range servers {
		s.Close()
	}
	if all.n != 0 || len(all.servers) != 0 {
		t.Errorf("counted %d sessions of %d servers when there were none", all.n, len(all.servers))
	}
}

// The limit of event logs applies to all servers together. The log that ended first is dropped first, whichever server
// it belongs to.
func TestServersShareTheEventLogLimit(t *testing.T) {
	const most = 3000
	for over := -1; over <= 1; over++ {
		o := Options{Sessions: NewSessions(limits.Limits{Replay: most})}
		a, b := New(&discoverHandler{}, o), New(&discoverHandler{}, o)
		log := func(s *Server) *eventLog { return s.sessions[beginSession(t, s)].newLog() }
		var logs []*eventLog
		for i, s := range []*Server{a, b, a} {
			l := log(s)
			size := most / 3
			if i == 2 {
				size += over
			}
			l.append(make([]byte, size), true)
			logs = append(logs, l)
		}
		kept := func() (all [3]bool) {
			for i, l := range logs {
				all[i] = l.resumableAfter(-1)
			}
			return all
		}
		if got, want := kept(), [3]bool{over <= 0, true, true}; got != want {
			t.Errorf("%+d: kept %v, want %v", over, got, want)
		}
		log(a).append(make([]byte, most/3), true) // drops the next log, which belongs to the other server
		if got, want := kept(), [3]bool{false, over <= 0, true}; got != want {
			t.Errorf("%+d, and one more: kept %v, want %v", over, got, want)
		}
		a.Close()
		b.Close()
		if n := o.Sessions.replay.size.Load(); n != 0 || o.Sessions.replay.ended.Len() != 0 {
			t.Errorf("%+d: counted %d bytes of %d logs when there were none", over, n, o.Sessions.replay.ended.Len())
		}
	}
}

// At the limit, new sessions replace unused anonymous ones: first those without notifications/initialized, then those
// of the address with the most sessions, the oldest first. A session that was used, has an open stream or belongs to an
// authenticated caller is kept, unless its address has three quarters of all and the new one has another address.
func TestUnusedSessionsAreClosedForNewOnes(t *testing.T) {
	const ready = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	type prefixedConn struct{ from, is string }
	for name, c := range map[string]struct {
		there []prefixedConn
		from  string
		gone  int // index of the closed session; -1: the new one is rejected
	}{
		"the oldest": {[]prefixedConn{
			{"10.0.0.1", "ready"},
			{"10.0.0.1", "ready"},
			{"10.0.0.1", "ready"},
			{"10.0.0.1", "ready"},
		}, "10.0.0.2", 0},
		"one without notifications/initialized": {[]prefixedConn{
			{"10.0.0.1", "ready"},
			{"10.0.0.1", "ready"},
			{"10.0.0.2", ""},
			{"10.0.0.1", "ready"},
		}, "10.0.0.2", 2},
		"one of the address that has most": {[]prefixedConn{
			{"10.0.0.1", "ready"},
			{"10.0.0.2", "ready"},
			{"10.0.0.2", "ready"},
			{"10.0.0.3", "ready"},
		}, "10.0.0.4", 1},
		"one of the network that has most": {[]prefixedConn{
			{"[2001:db8::1]", "ready"},
			{"[2001:db8:1::1]", "ready"},
			{"[2001:db8:1::2]", "ready"},
			{"10.0.0.3", "used"},
		}, "10.0.0.4", 1},
		"an unused one": {[]prefixedConn{
			{"10.0.0.1", "used"},
			{"10.0.0.1", "used"},
			{"10.0.0.2", "ready"},
			{"10.0.0.1", "used"},
		}, "10.0.0.2", 2},
		"no used one": {[]prefixedConn{
			{"10.0.0.1", "used"},
			{"10.0.0.1", "used"},
			{"10.0.0.2", "used"},
			{"10.0.0.2", "used"},
		}, "10.0.0.3", -1},
		"one of an address that has all": {[]prefixedConn{
			{"10.0.0.1", "used"},
			{"10.0.0.1", "used"},
			{"10.0.0.1", "used"},
			{"10.0.0.2", "used"},
		}, "10.0.0.3", 0},
		"none for an address that has all itself": {[]prefixedConn{
			{"10.0.0.1", "used"},
			{"10.0.0.1", "used"},
			{"10.0.0.1", "used"},
			{"10.0.0.2", "used"},
		}, "10.0.0.1", -1},
		"none with a stream": {[]prefixedConn{
			{"10.0.0.1", "stream"},
			{"10.0.0.1", "ready"},
			{"10.0.0.1", "ready"},
			{"10.0.0.1", "ready"},
		}, "10.0.0.1", 1},
		"none of verified callers": {[]prefixedConn{
			{"10.0.0.1", "verified"},
			{"10.0.0.1", "verified"},
			{"10.0.0.1", "verified"},
			{"10.0.0.1", "verified"},
		}, "10.0.0.2", -1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := NewSessions(limits.Limits{Sessions: len(c.there)})
				o := Options{Sessions: all, Principal: func(r *http.Request) *pb.Principal {
					if r.Header.Get("X-Who") == "" {
						return nil
					}
					return &pb.Principal{Subject: "x"}
				}}
				servers := []*Server{New(&discoverHandler{}, o), New(&discoverHandler{}, o)}
				defer servers[0].Close()
				defer servers[1].Close()
				post := func(s *Server, from, id, body string, who bool) *http.Response {
					w := httptest.NewRecorder()
					r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", strings.NewReader(body))
					r.RemoteAddr = from + ":1234"
					r.Header.Set("Content-Type", mcphttp.JSON)
					r.Header.Set("Accept", mcphttp.JSON+", "+mcphttp.EventStream)
					if id != "" {
						r.Header.Set(mcphttp.HeaderSession, id)
					}
					if who {
						r.Header.Set("X-Who", "x")
					}
					s.ServeHTTP(w, r)
					return w.Result()
				}
				var ids []string
				for i, b := range c.there {
					s, who := servers[i%2], b.is == "verified"
					id := post(s, b.from, "", beginBody, who).Header.Get(mcphttp.HeaderSession)
					if b.is != "" {
						post(s, b.from, id, ready, who)
					}
					if b.is == "used" || who {
						post(s, b.from, id, pingBody, who)
					}
					if b.is == "stream" {
						defer s.sessions[id].attach(func([]byte) {})()
					}
					ids = append(ids, id)
					pass(time.Millisecond)
				}
				res := post(servers[0], c.from, "", beginBody, false)
				if (res.StatusCode == 200) != (c.gone >= 0) || res.StatusCode != 200 && res.StatusCode != 503 {
					t.Errorf("new session: %s", res.Status)
				}
				for i, id := range ids {
					_, there := servers[i%2].sessions[id]
					if there != (i != c.gone) {
						t.Errorf("session %d exists: %t", i, there)
					}
				}
			})
		})
	}
}
