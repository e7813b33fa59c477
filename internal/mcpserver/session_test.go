package mcpserver

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/feed"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mcphttp"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// pass advances the bubble's clock and runs what is due.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// post returns the response to a legacy client's POST, in a session unless that is empty.
func post(t *testing.T, s *Server, session, body string) *http.Response {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", mcphttp.JSON)
	r.Header.Set("Accept", mcphttp.JSON+", "+mcphttp.EventStream)
	if session != "" {
		r.Header.Set(mcphttp.HeaderSession, session)
	}
	s.ServeHTTP(w, r)
	return w.Result()
}

const (
	beginBody = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	pingBody  = `{"jsonrpc":"2.0","id":2,"method":"ping"}`
)

// beginSession starts a session and returns its ID.
func beginSession(t *testing.T, s *Server) string {
	t.Helper()
	res := post(t, s, "", beginBody)
	if res.StatusCode != http.StatusOK {
		t.Fatal(res.Status)
	}
	return res.Header.Get(mcphttp.HeaderSession)
}

// A session expires without other requests.
func TestIdleSessionExpires(t *testing.T) {
	const ttl = 30 * time.Minute // the default
	for name, body := range map[string]string{
		"request":      pingBody,
		"notification": `{"jsonrpc":"2.0","method":"notifications/initialized"}`,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := New(&discoverHandler{}, Options{})
			defer s.Close()
			id := beginSession(t, s)
			for _, idle := range []time.Duration{ttl - 1, ttl, ttl - 1} { // each restarts the timeout
				pass(idle)
				if res := post(t, s, id, body); res.StatusCode/100 != 2 {
					t.Errorf("%s after %v: %s", name, idle, res.Status)
				}
			}
			pass(ttl + 1)
			for range 2 {
				if res := post(t, s, id, body); res.StatusCode != http.StatusNotFound {
					t.Errorf("%s after %v: %s", name, ttl+1, res.Status)
				}
			}
			if n := len(s.sessions) + s.hub.Len(); n > 0 {
				t.Errorf("%s: %d sessions and subscriptions are left", name, n)
			}
		})
	}
}

// A request may have found its session before the session ends, and look up its subscriptions after that.
func TestEndedSessionHasNoSubscriptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := bridgetest.New()
		s := New(h, Options{})
		defer s.Close()
		id := beginSession(t, s)
		ss := s.sessions[id]
		s.endSession(id)
		_, _ = ss.listen()
		synctest.Wait()
		if n := s.hub.Len() + h.Listeners(); n > 0 {
			t.Errorf("%d sessions and subscriptions are left", n)
		}
	})
}

// Changes of subscriptions that request nothing new do not wait for a handler that has yet to acknowledge those of
// others.
func TestOnlySubscribeWaitsForTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := bridgetest.New()
		s := New(bridge.HandlerFunc(
			func(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
				if r, ok := call.Request.(*pb.ListenRequest); ok &&
					len(r.GetNotifications().GetResourceSubscriptions()) > 0 {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return h.Handle(ctx, call, emit)
			}), Options{})
		defer s.Close()
		id, received := beginSession(t, s), make(chan string, 100)
		post(t, s, id, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		other := s.sessions[beginSession(t, s)]
		for _, c := range []struct {
			what string
			do   func()
			want time.Duration
		}{
			{"resources/subscribe", func() {
				post(t, s, id, `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"test://a"}}`)
			}, 6 * time.Second},
			{"a stream of another", func() { other.attach(func(msg []byte) { received <- string(msg) }) }, 0},
			{"resources/unsubscribe", func() {
				post(t, s, id, `{"jsonrpc":"2.0","id":1,"method":"resources/unsubscribe","params":{"uri":"test://a"}}`)
			}, 0},
		} {
			began := time.Now()
			c.do()
			if took := time.Since(began); took != c.want {
				t.Errorf("%s takes %v, want %v", c.what, took, c.want)
			}
		}
		pass(time.Minute)
		if got := takeAll(received); got != "" {
			t.Errorf("another client received %s", got)
		}
		h.Add("new")
		synctest.Wait()
		if got := takeAll(received); !strings.Contains(got, feed.NotifyToolsList) {
			t.Errorf("another client received the change %q", got)
		}
	})
}

// An open stream keeps its session alive, however long it is idle.
func TestSessionWithAStreamDoesNotExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(&discoverHandler{}, Options{Limits: limits.Limits{SessionIdle: time.Second}})
		defer s.Close()
		id := beginSession(t, s)
		detach := s.sessions[id].attach(func([]byte) {})
		pass(time.Hour)
		if res := post(t, s, id, pingBody); res.StatusCode != http.StatusOK {
			t.Errorf("with a stream: %s", res.Status)
		}
		detach()
		pass(time.Second + 1)
		if res := post(t, s, id, pingBody); res.StatusCode != http.StatusNotFound {
			t.Errorf("without: %s", res.Status)
		}
	})
}

// Expired sessions make room for others at every server, and their event logs are no longer counted.
func TestIdleSessionsAreClosedForNewOnes(t *testing.T) {
	for name, most := range map[string]limits.Limits{"of all": {Sessions: 1}, "of a caller": {SessionsPerCaller: 1}} {
		for over := range 2 {
			synctest.Test(t, func(t *testing.T) {
				o := Options{
					Sessions: NewSessions(most), Limits: limits.Limits{SessionIdle: time.Second},
					Principal: testPrincipal,
				}
				s, other := New(&discoverHandler{}, o), New(&discoverHandler{}, o)
				defer s.Close()
				defer other.Close()
				old := s.sessions[beginSession(t, s)]
				old.notify(&pb.ListenResponse{}) // waits for a stream
				old.standaloneLog().push([]byte("a change"))
				pass(time.Second + time.Duration(over))
				res := post(t, other, "", beginBody)
				if ok := res.StatusCode == http.StatusOK; ok != (over > 0) {
					t.Errorf("%s, after %v: %s", name, time.Second+time.Duration(over), res.Status)
				}
				if kept := o.Sessions.replay.size.Load(); len(s.sessions)+len(other.sessions) != 1 ||
					(kept == 0) != (over > 0) || (old.ctx.Err() != nil) != (over > 0) {
					t.Errorf("%s: %d sessions, %d bytes of streams, old one ended: %t", name,
						len(s.sessions)+len(other.sessions), kept, old.ctx.Err() != nil)
				}
			})
		}
	}
}

// testPrincipal authenticates every request as the same principal.
func testPrincipal(*http.Request) *pb.Principal { return &pb.Principal{Subject: "someone"} }

// While the limit is reached, the sessions are scanned once per Retry-After interval: there may be very many.
func TestRejectionIsCheap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(&discoverHandler{}, Options{
			Sessions: NewSessions(limits.Limits{Sessions: 1}),
			Limits:   limits.Limits{SessionIdle: 2 * time.Second}, Principal: testPrincipal,
		})
		defer s.Close()
		beginSession(t, s)
		for _, c := range []struct {
			pass time.Duration
			want int
		}{{2 * time.Second, 503}, {1, 503}, {time.Second - 2, 503}, {1, 200}} {
			pass(c.pass)
			if res := post(t, s, "", beginBody); res.StatusCode != c.want {
				t.Errorf("after %v more: %s", c.pass, res.Status)
			}
		}
	})
}

// A change during the opening of the standalone stream is sent on it.
func TestChangesDuringStreamOpeningAreSent(t *testing.T) {
	s := New(bridgetest.New(), Options{})
	defer s.Close()
	ss := s.sessions[post(t, s, "", beginBody).Header.Get(mcphttp.HeaderSession)]
	// A long change takes time to be delivered to subscribers that had no stream before.
	change := &pb.ListenResponse{
		Event: &pb.ListenResponse_ResourceUpdated{
			ResourceUpdated: &pb.ResourceUpdated{Uri: strings.Repeat("x", 900<<10)},
		},
	}
	for range 50 {
		received, begun := make(chan struct{}, 2), make(chan struct{})
		var notifying sync.WaitGroup
		notifying.Go(func() { close(begun); ss.notify(change) })
		<-begun
		for range 100 {
			runtime.Gosched()
		}
		ss.mu.Lock()
		detach := ss.attachLocked(func([]byte) { received <- struct{}{} })
		notifying.Wait()
		select {
		case <-received:
		default:
			t.Fatal("the change was not sent on the stream")
		}
		detach()
	}
}

// Under concurrent requests, a client receives changes of exactly its subscribed resources.
func TestConcurrentSubscriptionsAreCounted(t *testing.T) {
	bridgetest.SkipIfShort(t)
	synctest.Test(t, func(t *testing.T) {
		h := bridgetest.New()
		s := New(h, Options{})
		defer s.Close()
		id := beginSession(t, s)
		post(t, s, id, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		ss, received := s.sessions[id], make(chan string, 100)
		for i := range 900 { // many take some time, during which other requests arrive
			ss.uris = append(ss.uris, fmt.Sprint("test://other/", i))
		}
		_, _ = ss.listen()
		defer ss.attach(func(msg []byte) { received <- string(msg) })()
		var before []string
		for round := range 100 {
			var now []string
			var requests sync.WaitGroup
			request := func(method, uri string) {
				requests.Go(func() {
					res := post(t, s, id, fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":%q,"params":{"uri":%q}}`,
						method+uri, method, uri))
					if body, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(body), `"result":{}`) {
						t.Errorf("%s of %s: %s, %v", method, uri, body, err)
					}
				})
			}
			for i := range 4 {
				now = append(now, fmt.Sprintf("test://%d/%d", round, i))
				request("resources/subscribe", now[i])
			}
			for _, uri := range before {
				request("resources/unsubscribe", uri)
			}
			requests.Wait()
			pass(time.Second)
			var want strings.Builder
			for _, uri := range slices.Concat(before, now) {
				h.Update(uri)
			}
			for _, uri := range now {
				fmt.Fprintf(&want, `{"jsonrpc":"2.0","method":%q,"params":{"uri":%q}}`, feed.NotifyUpdated, uri)
			}
			synctest.Wait()
			if got := takeAll(received); got != want.String() {
				t.Fatalf("round %d: received %s, want %s", round, got, want.String())
			}
			before = now
		}
	})
}
