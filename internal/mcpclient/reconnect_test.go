package mcpclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/mcpclient"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A restless server works without a network and ends its streams: get handles each GET.
type restless struct {
	serverless

	// session is the session ID, if any.
	session string
	get     func(r *http.Request) (status int, body io.ReadCloser)

	mu   sync.Mutex
	gets []time.Time
}

func (s *restless) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := s.serverless.RoundTrip(r)
	if err != nil || r.Method != http.MethodGet {
		if err == nil && s.session != "" {
			res.Header.Set("Mcp-Session-Id", s.session)
		}
		return res, err
	}
	status, body := s.get(r)
	if status == 0 {
		return nil, errors.New("connection refused")
	}
	res.StatusCode, res.Status = status, strconv.Itoa(status)
	if body != nil {
		res.Body = body
		res.Header.Set("Content-Type", "text/event-stream")
	}
	return res, nil
}

// requests records a GET and returns the number of GETs.
func (s *restless) requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gets = append(s.gets, time.Now())
	return len(s.gets)
}

// checkGaps checks that at least the wanted time passed between each GET and the next.
func (s *restless) checkGaps(t *testing.T, want time.Duration) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, at := range s.gets[1:] {
		if gap := at.Sub(s.gets[i]); gap < want {
			t.Errorf("GET %d was sent %v after the previous one, want at least %v", i+2, gap, want)
		}
	}
}

// bubbled runs f in a bubble with a client of the server.
func bubbled(t *testing.T, s *restless, f func(t *testing.T, c *mcpclient.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c, err := mcpclient.New(mcpclient.Options{URL: "http://server/", Transport: s, Revision: bridge.Rev20251125})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		if err := c.Ready(ctx); err != nil {
			t.Error(err)
		} else {
			f(t, c)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// until returns a stream that stays open until the request ends.
func until(r *http.Request) io.ReadCloser {
	out, in := io.Pipe()
	context.AfterFunc(r.Context(), func() { in.Close() })
	return out
}

// If a server is unreachable or rejects the GET at the end of its retry interval, the client tries again after the same
// interval: the last value of retry applies (2025-11-25: basic/transports, sending messages).
func TestStreamsResumeAfterTheServersRetryTime(t *testing.T) {
	for name, tt := range map[string]struct {
		retry  string
		gap    time.Duration
		status int
		times  int // how often that happens
	}{
		"it is down":                     {"retry: 1000\n", time.Second, 503, 3},
		"it cannot be reached":           {"retry: 1000\n", time.Second, 0, 3},
		"an open stream without events":  {"retry: 1000\n", time.Second, 200, 3},
		"the old stream is still open":   {"", 100 * time.Millisecond, 409, 2},
		"it is overloaded":               {"", 100 * time.Millisecond, 429, 2},
		"retry at once, and unreachable": {"retry: 0\n", 200 * time.Millisecond, 503, 4},
	} {
		t.Run(name, func(t *testing.T) {
			var id []byte
			s := &restless{serverless: func(_ *http.Request, m *jsonrpc.Message) io.ReadCloser {
				if m.Method != "tools/call" {
					return nil
				}
				id = m.ID
				return io.NopCloser(strings.NewReader("id: 1\n" + tt.retry + "data:\n\n"))
			}}
			s.get = func(r *http.Request) (int, io.ReadCloser) {
				switch {
				case r.Header.Get("Last-Event-Id") == "":
					return http.StatusMethodNotAllowed, nil
				case s.requests() > tt.times:
					return http.StatusOK, io.NopCloser(
						strings.NewReader("data: " + string(jsonrpc.AppendResult(nil, id, []byte(hello))) + "\n\n"))
				case tt.status == http.StatusOK:
					return tt.status, http.NoBody
				}
				return tt.status, nil
			}
			bubbled(t, s, func(t *testing.T, c *mcpclient.Client) {
				t.Helper()
				if _, err := c.Handle(t.Context(), toolCall("t", "{}"), ignore); err != nil {
					t.Error(err)
				}
				s.checkGaps(t, tt.gap)
			})
		})
	}
}

// If a server had a standalone stream and then rejects it for an hour, the client keeps trying at long intervals, and
// subscribers receive a resync.
func TestLostStreamMayReturn(t *testing.T) {
	for name, tt := range map[string]struct {
		session string
		status  int
		first   string
		gap     time.Duration
	}{
		"the old stream is still open": {"s1", 409, ": hello\n\n", 100 * time.Millisecond},
		"it has no standalone stream":  {"s1", 405, ": hello\n\n", 100 * time.Millisecond},
		"it requires credentials":      {"s1", 401, ": hello\n\n", 100 * time.Millisecond},
		"a proxy responds with 404":    {"", 404, ": hello\n\n", 100 * time.Millisecond},
		"a proxy responds with 400":    {"", 400, ": hello\n\n", 100 * time.Millisecond},
		"it is down":                   {"", 503, ": hello\n\n", 100 * time.Millisecond},
		"unreachable, and retry later": {"", 503, "retry: 20000\n\n", 20 * time.Second},
		"it responds to GET with 202":  {"", 202, ": hello\n\n", 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			var since time.Time
			s := &restless{
				session:    tt.session,
				serverless: func(*http.Request, *jsonrpc.Message) io.ReadCloser { return nil },
			}
			s.get = func(r *http.Request) (int, io.ReadCloser) {
				switch n := s.requests(); {
				case n == 1:
					since = time.Now()
					return http.StatusOK, io.NopCloser(strings.NewReader(tt.first))
				case time.Since(since) < time.Hour:
					return tt.status, nil
				}
				return http.StatusOK, until(r)
			}
			bubbled(t, s, func(t *testing.T, c *mcpclient.Client) {
				t.Helper()
				changes := make(chan *pb.ListenResponse, 10)
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() {
					defer close(done)
					_, _ = c.Handle(ctx, &bridge.Call{Method: bridge.Listen, Request: &pb.ListenRequest{
						Context:       &pb.CallContext{},
						Notifications: &pb.SubscriptionFilter{ToolsListChanged: proto.Bool(true)},
					}}, func(_ context.Context, e bridge.Event) error {
						changes <- e.Change
						return nil
					})
				}()
				<-changes
				select {
				case change := <-changes:
					if took := time.Since(since); change.GetToolsListChanged() == nil || took < time.Hour ||
						took > time.Hour+31*time.Second {
						t.Errorf("received %v after %v", change, took)
					}
				case <-time.After(2 * time.Hour):
					t.Errorf("no change received after %d GETs", s.requests())
				}
				cancel()
				<-done
				s.checkGaps(t, tt.gap)
				if n := s.requests(); n > 200 {
					t.Errorf("got %d GETs in an hour", n)
				}
			})
		})
	}
}

// A rejected GET does not mean that the event ID has expired: the client tries again with the same Last-Event-ID and
// misses nothing. The TypeScript and Go SDKs respond with 409 to Last-Event-ID while they consider the old stream open.
func TestUnavailableStreamResumesAfterItsLastEvent(t *testing.T) {
	for _, status := range []int{401, 403, 409, 429, 503} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			var last []string
			s := &restless{
				session:    "s1",
				serverless: func(*http.Request, *jsonrpc.Message) io.ReadCloser { return nil },
			}
			s.get = func(r *http.Request) (int, io.ReadCloser) {
				last = append(last, r.Header.Get("Last-Event-Id"))
				switch s.requests() {
				case 1:
					return http.StatusOK, io.NopCloser(strings.NewReader("id: 1\ndata:\n\n"))
				case 2, 3, 4:
					return status, nil
				case 5:
					return http.StatusOK, io.NopCloser(
						strings.NewReader(`data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` +
							"\n\n"))
				}
				return http.StatusOK, until(r)
			}
			bubbled(t, s, func(t *testing.T, c *mcpclient.Client) {
				t.Helper()
				var changes []string
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				_, _ = c.Handle(ctx, &bridge.Call{Method: bridge.Listen, Request: &pb.ListenRequest{
					Context:       &pb.CallContext{},
					Notifications: &pb.SubscriptionFilter{ToolsListChanged: proto.Bool(true)},
				}}, func(_ context.Context, e bridge.Event) error {
					changes = append(changes, fmt.Sprintf("%T", e.Change.GetEvent()))
					return nil
				})
				synctest.Wait()
				if want := []string{"", "1", "1", "1", "1", "1"}; !slices.Equal(last, want) {
					t.Errorf("the stream was resumed after %q, want %q", last, want)
				}
				if want := []string{
					"*mcpbridgev1.ListenResponse_Acknowledged",
					"*mcpbridgev1.ListenResponse_ToolsListChanged",
				}; !slices.Equal(changes, want) {
					t.Errorf("received %q, want %q", changes, want)
				}
				s.checkGaps(t, 100*time.Millisecond)
			})
		})
	}
}
