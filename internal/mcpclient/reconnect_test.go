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

// A restless server is one without a network whose streams end: get says what becomes of each GET.
type restless struct {
	serverless

	// session is its session, if it has one.
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
		return nil, errors.New("nobody is there")
	}
	res.StatusCode, res.Status = status, strconv.Itoa(status)
	if body != nil {
		res.Body = body
		res.Header.Set("Content-Type", "text/event-stream")
	}
	return res, nil
}

// asked notes that a GET has come, and returns how many there were.
func (s *restless) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gets = append(s.gets, time.Now())
	return len(s.gets)
}

// checkGaps checks that as much time as is wanted was between each GET and the next.
func (s *restless) checkGaps(t *testing.T, want time.Duration) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, at := range s.gets[1:] {
		if gap := at.Sub(s.gets[i]); gap < want {
			t.Errorf("GET %d comes %v after the one before, want %v at least", i+2, gap, want)
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

// until returns a stream that goes on until the request ends.
func until(r *http.Request) io.ReadCloser {
	out, in := io.Pipe()
	context.AfterFunc(r.Context(), func() { in.Close() })
	return out
}

// A server that wants us back after some time, and is not there then or does not take us yet, is asked again after that
// time: what it said last holds (2025-11-25: basic/transports, sending messages).
func TestStreamsResumeAfterTheServersRetryTime(t *testing.T) {
	for name, tt := range map[string]struct {
		retry  string
		gap    time.Duration
		status int
		times  int // how often it is so
	}{
		"it is down":                         {"retry: 1000\n", time.Second, 503, 3},
		"it cannot be reached":               {"retry: 1000\n", time.Second, 0, 3},
		"it is there, and says nothing":      {"retry: 1000\n", time.Second, 200, 3},
		"the old stream is still there":      {"", 100 * time.Millisecond, 409, 2},
		"it has too much to do":              {"", 100 * time.Millisecond, 429, 2},
		"it wants us at once, and is not up": {"retry: 0\n", 200 * time.Millisecond, 503, 4},
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
				case s.asked() > tt.times:
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

// A server that had a stream of what is no answer, and then refuses it for an hour, is asked for it all the while, but
// not often; who listens is told that everything may have changed.
func TestLostStreamMayReturn(t *testing.T) {
	for name, tt := range map[string]struct {
		session string
		status  int
		first   string
		gap     time.Duration
	}{
		"the old one is still there":        {"s1", 409, ": hello\n\n", 100 * time.Millisecond},
		"it has none":                       {"s1", 405, ": hello\n\n", 100 * time.Millisecond},
		"it wants credentials":              {"s1", 401, ": hello\n\n", 100 * time.Millisecond},
		"a proxy knows nothing":             {"", 404, ": hello\n\n", 100 * time.Millisecond},
		"a proxy understands nothing":       {"", 400, ": hello\n\n", 100 * time.Millisecond},
		"it is down":                        {"", 503, ": hello\n\n", 100 * time.Millisecond},
		"it is down, and wants us later":    {"", 503, "retry: 20000\n\n", 20 * time.Second},
		"it has no events, which is no GET": {"", 202, ": hello\n\n", 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			var since time.Time
			s := &restless{
				session:    tt.session,
				serverless: func(*http.Request, *jsonrpc.Message) io.ReadCloser { return nil },
			}
			s.get = func(r *http.Request) (int, io.ReadCloser) {
				switch n := s.asked(); {
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
				told := make(chan *pb.ListenResponse, 10)
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() {
					defer close(done)
					_, _ = c.Handle(ctx, &bridge.Call{Method: bridge.Listen, Request: &pb.ListenRequest{
						Context:       &pb.CallContext{},
						Notifications: &pb.SubscriptionFilter{ToolsListChanged: proto.Bool(true)},
					}}, func(_ context.Context, e bridge.Event) error {
						told <- e.Change
						return nil
					})
				}()
				<-told
				select {
				case change := <-told:
					if took := time.Since(since); change.GetToolsListChanged() == nil || took < time.Hour ||
						took > time.Hour+31*time.Second {
						t.Errorf("told %v after %v", change, took)
					}
				case <-time.After(2 * time.Hour):
					t.Errorf("nothing is told after %d GETs", s.asked())
				}
				cancel()
				<-done
				s.checkGaps(t, tt.gap)
				if n := s.asked(); n > 200 {
					t.Errorf("%d GETs in an hour", n)
				}
			})
		})
	}
}

// A server that does not take us yet does not say that an event is forgotten: it is asked again for what came after it,
// and nothing is missed. The TypeScript and Go SDKs answer 409 to Last-Event-ID for as long as they take the old stream
// for open.
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
				switch s.asked() {
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
				var told []string
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				_, _ = c.Handle(ctx, &bridge.Call{Method: bridge.Listen, Request: &pb.ListenRequest{
					Context:       &pb.CallContext{},
					Notifications: &pb.SubscriptionFilter{ToolsListChanged: proto.Bool(true)},
				}}, func(_ context.Context, e bridge.Event) error {
					told = append(told, fmt.Sprintf("%T", e.Change.GetEvent()))
					return nil
				})
				synctest.Wait()
				if want := []string{"", "1", "1", "1", "1", "1"}; !slices.Equal(last, want) {
					t.Errorf("the stream was to go on after %q, want %q", last, want)
				}
				if want := []string{
					"*mcpbridgev1.ListenResponse_Acknowledged",
					"*mcpbridgev1.ListenResponse_ToolsListChanged",
				}; !slices.Equal(told, want) {
					t.Errorf("told %q, want %q", told, want)
				}
				s.checkGaps(t, 100*time.Millisecond)
			})
		})
	}
}
