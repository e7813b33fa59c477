package mcpclient_test

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/mcpclient"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A publisher is a program that answers what it is asked about resources when it is let, and notes what it is
// subscribed to.
type publisher struct {
	mu   sync.Mutex
	told map[string]bool // the resources of which it tells
	held [][]byte        // what it has yet to answer
	say  func(...string)
	// holds says that it answers nothing about resources.
	holds bool
}

func (p *publisher) serve() *script {
	p.told = map[string]bool{}
	return &script{on: func(m *jsonrpc.Message, say func(...string)) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.say = say
		switch m.Method {
		case "initialize":
			say(strings.Replace(initialized, `{"tools":{}}`, `{"resources":{"subscribe":true}}`, 1))
		case "resources/subscribe", "resources/unsubscribe":
			if p.holds {
				p.held = append(p.held, slices.Concat([]byte(m.Method+" "), m.ID, []byte(" "),
					rawjson.Get(m.Params, "uri")))
				break
			}
			p.told[string(rawjson.Get(m.Params, "uri"))] = m.Method == "resources/subscribe"
			say(pong)
		case "notifications/cancelled":
			p.held = slices.DeleteFunc(p.held, func(h []byte) bool {
				return bytes.Equal(bytes.Split(h, []byte(" "))[1], rawjson.Get(m.Params, "requestId"))
			})
		}
		return true
	}}
}

// hold makes it answer nothing about resources until it is let.
func (p *publisher) hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds = true
}

// let makes it answer everything again, and what it has not answered yet: by an error if it refuses that.
func (p *publisher) let(refuse bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds = false
	for _, h := range p.held {
		words := bytes.Split(h, []byte(" "))
		if refuse {
			p.say(`{"jsonrpc":"2.0","id":` + string(words[1]) + `,"error":{"code":-32603,"message":"not now"}}`)
			continue
		}
		p.told[string(words[2])] = string(words[0]) == "resources/subscribe"
		p.say(`{"jsonrpc":"2.0","id":` + string(words[1]) + `,"result":{}}`)
	}
	p.held = nil
}

// tells returns the resources of which it tells.
func (p *publisher) tells() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var uris []string
	for uri := range maps.Keys(p.told) {
		if p.told[uri] {
			uris = append(uris, strings.Trim(uri, `"`))
		}
	}
	slices.Sort(uris)
	return strings.Join(uris, " ")
}

// A reader listens to resources until it leaves.
type reader struct {
	leave func()

	mu    sync.Mutex
	acked []string // nil: it is not acknowledged
}

func listenTo(t *testing.T, c *mcpclient.Client, uris ...string) *reader {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	r := &reader{leave: func() { cancel(); <-done }}
	go func() {
		defer close(done)
		_, err := c.Handle(ctx, &bridge.Call{Method: bridge.Listen, Request: &pb.ListenRequest{
			Context: &pb.CallContext{}, Notifications: &pb.SubscriptionFilter{ResourceSubscriptions: uris},
		}}, func(_ context.Context, e bridge.Event) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			if ack := e.Change.GetAcknowledged(); ack != nil {
				r.acked = append([]string{}, ack.GetNotifications().GetResourceSubscriptions()...)
			}
			return nil
		})
		if code := bridge.AsError(err).Code; code != codes.Canceled {
			t.Errorf("listening to %q: %v", uris, err)
		}
	}()
	synctest.Wait()
	return r
}

// to returns what the reader was told that it listens to.
func (r *reader) to() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.acked == nil {
		return "nothing yet"
	}
	return strings.Join(r.acked, " ")
}

// Who is told that it listens to a resource is told when that changes, whatever others do at the time who listen to it,
// too.
func TestSubscribersReceiveChanges(t *testing.T) {
	for name, do := range map[string]func(t *testing.T, c *mcpclient.Client, p *publisher) *reader{
		"the first is refused": func(t *testing.T, c *mcpclient.Client, p *publisher) *reader {
			t.Helper()
			p.hold()
			first := listenTo(t, c, "a:1")
			second := listenTo(t, c, "a:1")
			if got := second.to(); got != "nothing yet" {
				t.Errorf("before the server answers, the second listens to %s", got)
			}
			p.let(true)
			synctest.Wait()
			if got := first.to(); got != "" {
				t.Errorf("the first listens to %s", got)
			}
			first.leave()
			return second
		},
		"the first leaves": func(t *testing.T, c *mcpclient.Client, p *publisher) *reader {
			t.Helper()
			p.hold()
			first := listenTo(t, c, "a:1")
			second := listenTo(t, c, "a:1")
			first.leave()
			synctest.Wait()
			p.let(false)
			return second
		},
		"the first is taken": func(t *testing.T, c *mcpclient.Client, p *publisher) *reader {
			t.Helper()
			p.hold()
			first := listenTo(t, c, "a:1")
			second := listenTo(t, c, "a:1")
			p.let(false)
			synctest.Wait()
			first.leave()
			return second
		},
		"the last has just left": func(t *testing.T, c *mcpclient.Client, p *publisher) *reader {
			t.Helper()
			last := listenTo(t, c, "a:0", "a:1")
			p.hold()
			last.leave()
			synctest.Wait()
			next := listenTo(t, c, "a:1") // while the server has yet to answer that nobody listens to a:0
			p.let(false)
			return next
		},
		"the last has left": func(t *testing.T, c *mcpclient.Client, p *publisher) *reader {
			t.Helper()
			last := listenTo(t, c, "a:1")
			p.hold()
			last.leave()
			synctest.Wait()
			next := listenTo(t, c, "a:1")
			if got := next.to(); got != "nothing yet" {
				t.Errorf("before the server answers, the next listens to %s", got)
			}
			p.let(false)
			return next
		},
		"another gives up waiting": func(t *testing.T, c *mcpclient.Client, p *publisher) *reader {
			t.Helper()
			p.hold()
			first := listenTo(t, c, "a:1")
			second := listenTo(t, c, "a:1")
			second.leave()
			p.let(false)
			synctest.Wait()
			return first
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := &publisher{}
			synctest.Test(t, func(t *testing.T) {
				c, end := started(t, mcpclient.Options{Revision: bridge.Rev20241105}, p.serve())
				if err := c.Ready(t.Context()); err != nil {
					t.Fatal(err)
				}
				r := do(t, c, p)
				synctest.Wait()
				if got, tells := r.to(), p.tells(); got != "a:1" || tells != "a:1" {
					t.Errorf("it listens to %q, and the server tells of %q", got, tells)
				}
				r.leave()
				synctest.Wait()
				if tells := p.tells(); tells != "" {
					t.Errorf("nobody listens, and the server tells of %q", tells)
				}
				if n := c.Topics(); n != 0 {
					t.Errorf("%d resources are remembered", n)
				}
				if err := end(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A server that comes back and tells less, or other things, than it did may have changed in all of that.
func TestServerThatStopsReportingChanges(t *testing.T) {
	const all, none = `{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true}}`, `{"tools":{}}`
	for name, tt := range map[string]struct{ before, after, want string }{
		"nothing":  {all, none, "tools a:1 resources"},
		"the same": {all, all, "tools a:1 resources"},
		"others":   {`{"tools":{"listChanged":true}}`, `{"resources":{"listChanged":true}}`, "tools resources"},
		"more":     {none, `{"tools":{"listChanged":true}}`, "tools"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{}
			s.on = func(m *jsonrpc.Message, say func(...string)) bool {
				switch m.Method {
				case "initialize":
					can := tt.before
					if s.starts.Load() > 1 {
						can = tt.after
					}
					say(strings.Replace(initialized, none, can, 1))
				case "resources/subscribe":
					say(pong)
				case "tools/call":
					say(said1)
					return false
				}
				return true
			}
			bubble(t, mcpclient.Options{}, s.serve, func(t *testing.T, c *mcpclient.Client) {
				t.Helper()
				ctx, cancel := context.WithCancel(t.Context())
				var told []string
				done := make(chan struct{})
				go func() {
					defer close(done)
					_, _ = c.Handle(ctx, &bridge.Call{Method: bridge.Listen, Request: &pb.ListenRequest{
						Context: &pb.CallContext{}, Notifications: &pb.SubscriptionFilter{
							ToolsListChanged: proto.Bool(true), ResourcesListChanged: proto.Bool(true),
							ResourceSubscriptions: []string{"a:1"},
						},
					}}, func(_ context.Context, e bridge.Event) error {
						switch {
						case e.Change.GetToolsListChanged() != nil:
							told = append(told, "tools")
						case e.Change.GetResourcesListChanged() != nil:
							told = append(told, "resources")
						case e.Change.GetResourceUpdated() != nil:
							told = append(told, e.Change.GetResourceUpdated().GetUri())
						}
						return nil
					})
				}()
				synctest.Wait()
				call(t, c, "t", "{}")   // it ends
				time.Sleep(time.Minute) //nolint:forbidigo // by the bubble's clock
				cancel()
				<-done
				want := strings.Fields(tt.want)
				slices.Sort(want)
				slices.Sort(told)
				if n := s.starts.Load(); n != 2 || !slices.Equal(told, want) {
					t.Errorf("after %d starts, told of %q, want %q", n, told, want)
				}
			})
		})
	}
}
