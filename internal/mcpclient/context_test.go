package mcpclient

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/mcpbridge/mcpbridge/bridge"
)

// counting is a context that counts the contexts derived from it.
type counting struct {
	context.Context //nolint:containedctx // it is a context
	dependents      atomic.Int64
}

// Value hides the parent, because derived contexts would register with it instead.
func (c *counting) Value(any) any { return nil }

func (c *counting) AfterFunc(f func()) func() bool {
	c.dependents.Add(1)
	stop := context.AfterFunc(c.Context, f)
	return func() bool {
		c.dependents.Add(-1)
		return stop()
	}
}

// A completed call leaves no derived context behind, however its response arrived.
func TestCallsLeakNothing(t *testing.T) {
	for _, format := range []string{"%s", "data: %s\n\n", "data: [%s,{}]\n\n"} {
		for _, mine := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				c, err := New(Options{URL: "http://server.test/mcp", Transport: answering(format)})
				if err != nil {
					t.Fatal(err)
				}
				parent := &counting{Context: c.ctx}
				c.ctx = parent
				p := c.newPeer()
				c.newStreamable(p)
				p.setRev(bridge.LatestLegacy)
				for range 100 {
					x, err := p.begin("tools/list", purpose{acceptsRequests: mine})
					if err != nil {
						t.Fatal(err)
					}
					x.body = []byte(`{}`)
					p.start(x)
					if m, err := x.await(t.Context()); err != nil || m == nil {
						t.Fatal(m, err)
					}
					p.end(x)
				}
				synctest.Wait() // until the streams have ended
				if n := parent.dependents.Load(); n != 0 {
					t.Errorf("%q, mine %t: %d contexts are left after 100 calls", format, mine, n)
				}
				p.close()
				c.cancel()
			})
		}
	}
}

// A closed HTTP+SSE connection sends nothing, even if a call has begun before.
func TestNothingIsPostedAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var posts atomic.Int64
		c, err := New(Options{
			URL: "http://server.test/sse",
			Transport: roundTripper(func(*http.Request) (*http.Response, error) {
				posts.Add(1)
				return nil, context.Canceled
			}),
		})
		if err != nil {
			t.Fatal(err)
		}
		p := c.newPeer()
		w := &sse2024{endpoint: c.url}
		w.attach(p, w.notify)
		w.wg.Go(p.out.run)
		p.wire = w
		x, err := p.begin("tools/list", purpose{})
		if err != nil {
			t.Fatal(err)
		}
		x.body = []byte(`{}`)
		p.close()
		p.start(x)
		synctest.Wait()
		if _, err := x.await(t.Context()); err == nil || posts.Load() != 0 {
			t.Errorf("%d requests: %v", posts.Load(), err)
		}
		p.end(x)
		c.cancel()
	})
}

// answering returns a transport that responds to the nth request with an empty result for the ID n, in the given
// format.
func answering(format string) http.RoundTripper {
	var n atomic.Int64
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		w.Header().Set("Content-Type", "application/json")
		if format != "%s" {
			w.Header().Set("Content-Type", "text/event-stream")
		}
		fmt.Fprintf(w, format, `{"jsonrpc":"2.0","id":`+strconv.FormatInt(n.Add(1), 10)+`,"result":{}}`)
		res := w.Result()
		res.Request = r
		return res, nil
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
