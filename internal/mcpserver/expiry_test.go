package mcpserver

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/auth"
	"github.com/mcpbridge/mcpbridge/internal/feed"
	"github.com/mcpbridge/mcpbridge/internal/mcphttp"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// skew is the time for which an expired token is accepted.
const skew = time.Minute

// A changing is a worker with a list of tools that a test can change.
type changing struct {
	*worker

	changes chan struct{}
}

func (h changing) Handle(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
	switch call.Method {
	case bridge.Discover:
		return &bridge.Result{Complete: &pb.DiscoverResponse{
			Capabilities: &pb.ServerCapabilities{Tools: &pb.ToolsCapability{ListChanged: proto.Bool(true)}},
		}}, nil
	case bridge.Listen:
	default:
		return h.worker.Handle(ctx, call, emit)
	}
	err := emit(ctx, bridge.Event{Change: &pb.ListenResponse{Event: &pb.ListenResponse_Acknowledged{
		Acknowledged: &pb.SubscriptionsAcknowledged{Notifications: call.Request.(*pb.ListenRequest).GetNotifications()},
	}}})
	for err == nil {
		select {
		case <-h.changes:
			err = emit(ctx, bridge.Event{
				Change: &pb.ListenResponse{
					Event: &pb.ListenResponse_ToolsListChanged{ToolsListChanged: &pb.ListChanged{}},
				},
			})
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	return nil, err
}

// change changes the list of tools.
func (h changing) change() {
	h.changes <- struct{}{}
	synctest.Wait()
}

// An aging is a server whose callers have a token with a settable expiry.
type aging struct {
	*testing.T

	h   changing
	s   *Server
	end atomic.Int64
}

// age makes the tokens expire after a duration.
func (a *aging) age(d time.Duration) { a.end.Store(time.Now().Add(d).Unix()) }

func testAging(t *testing.T, test func(*aging)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := &aging{T: t, h: changing{newWorker(), make(chan struct{})}}
		a.s = New(a.h, Options{
			Principal: func(*http.Request) *pb.Principal {
				return &pb.Principal{Issuer: "i", Subject: "ada", Claims: fmt.Sprintf(`{"exp":%d}`, a.end.Load())}
			},
			AccessExpiry: auth.Until,
		})
		defer a.s.Close()
		test(a)
	})
}

// takeAll returns the messages since the last call.
func takeAll(received chan string) string {
	var all strings.Builder
	for len(received) > 0 {
		all.WriteString(<-received)
	}
	return all.String()
}

// A subscription stream ends when the token that opened it expires.
func TestStreamsEndWhenTheirTokenExpires(t *testing.T) {
	for name, c := range map[string]struct{ method, body, last string }{
		"GET": {http.MethodGet, "", ""},
		"subscriptions/listen": {
			http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` +
				`"_meta":{"` + metaVersion + `":"2026-07-28","` + metaCapabilities + `":{}}}}`,
			`"resultType":"complete"`,
		},
	} {
		testAging(t, func(a *aging) {
			a.age(time.Minute)
			r := httptest.NewRequestWithContext(a.Context(), c.method, "/mcp", strings.NewReader(c.body))
			r.Header.Set("Accept", mcphttp.JSON+", "+mcphttp.EventStream)
			r.Header.Set("Content-Type", mcphttp.JSON)
			if c.method == http.MethodGet {
				r.Header.Set(mcphttp.HeaderSession, beginSession(a.T, a.s))
			} else {
				r.Header.Set(mcphttp.HeaderVersion, "2026-07-28")
				r.Header.Set(mcphttp.HeaderMethod, "subscriptions/listen")
			}
			received, over := make(chan string, 100), make(chan struct{})
			go func() {
				defer close(over)
				a.s.ServeHTTP(&lossy{http.Header{}, r.Context(), received}, r)
			}()
			pass(time.Minute + skew - 1)
			a.h.change()
			if got := takeAll(received); !strings.Contains(got, feed.NotifyToolsList) {
				a.Errorf("%s: until the token ends, it receives %q", name, got)
			}
			pass(1)
			select {
			case <-over:
			default:
				a.Fatalf("%s: the stream outlives its token", name)
			}
			if got := takeAll(received); !strings.Contains(got, c.last) {
				a.Errorf("%s: it ends with %q, want %s", name, got, c.last)
			}
		})
	}
}

// An HTTP+SSE stream is a session: it lasts as long as its client sends messages with valid tokens. Calls in flight get
// their responses after the expiry.
func TestHTTPSSESessionEndsWhenItsLastTokenExpires(t *testing.T) {
	testAging(t, func(a *aging) {
		a.age(time.Minute)
		o := openSSEClient(a.T, a.s)
		pass(time.Minute)
		a.age(time.Minute)
		o.send(202, workBody)
		pass(time.Minute + skew - 1)
		a.h.change()
		if got := takeAll(o.received); !strings.Contains(got, feed.NotifyToolsList) {
			a.Errorf("with a new token, it receives %q", got)
		}
		pass(1)
		a.h.change()
		pass(10 * time.Minute)
		close(a.h.letGo)
		synctest.Wait()
		if got := takeAll(o.received); !strings.Contains(got, "it went well") ||
			strings.Contains(got, feed.NotifyToolsList) {
			a.Errorf("the call that had begun receives %q", got)
		}
		if n := a.s.count(); n != 0 {
			a.Errorf("%d sessions afterwards", n)
		}
	})
}

// While the stream outlives its token for a call in flight, a message with a new token renews the subscription, with a
// resync.
func TestHTTPSSESessionSurvivesALateToken(t *testing.T) {
	testAging(t, func(a *aging) {
		a.age(time.Minute)
		o := openSSEClient(a.T, a.s)
		o.send(202, workBody)
		for range 2 {
			pass(time.Minute + skew)
			takeAll(o.received)
			a.h.change()
			if got := takeAll(o.received); got != "" {
				a.Errorf("without a token, it receives %q", got)
			}
			a.age(time.Minute)
			o.send(202, `{"jsonrpc":"2.0","method":"notifications/x"}`)
			if got := takeAll(o.received); strings.Count(got, feed.NotifyToolsList) != 1 {
				a.Errorf("for missed changes, it receives %q", got)
			}
			a.h.change()
			if got := takeAll(o.received); strings.Count(got, feed.NotifyToolsList) != 1 {
				a.Errorf("with a new token, it receives %q for a change", got)
			}
		}
		close(a.h.letGo)
		pass(time.Minute + skew - 1)
		a.h.change()
		if got := takeAll(o.received); !strings.Contains(got, "it went well") ||
			!strings.Contains(got, feed.NotifyToolsList) {
			a.Errorf("until the token ends, it receives %q", got)
		}
		pass(1)
		if n := a.s.count(); n != 0 {
			a.Errorf("%d sessions afterwards", n)
		}
	})
}
