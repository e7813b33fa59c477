package mcpclient_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/bridge/jsonrpc"
	"github.com/mcpbridge/mcpbridge/bridge/mcpclient"
)

// A restless server is one without a network whose streams end: get says what becomes of each GET.
type restless struct {
	serverless

	get func(r *http.Request) (status int, body io.ReadCloser)

	mu   sync.Mutex
	gets []time.Time
}

func (s *restless) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := s.serverless.RoundTrip(r)
	if err != nil || r.Method != http.MethodGet {
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

// A server that wants us back after some time, and is not there then or does not take us yet, is asked again after that time: what it said
// last holds (2025-11-25: basic/transports, sending messages).
func TestStreamsAreResumedWhenTheServerWants(t *testing.T) {
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
					return http.StatusOK, io.NopCloser(strings.NewReader("data: " + string(jsonrpc.AppendResult(nil, id, []byte(hello))) + "\n\n"))
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
