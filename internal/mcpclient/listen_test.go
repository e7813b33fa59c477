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

// A publisher is a program that records its subscriptions. It can hold back its responses to requests about resources.
type publisher struct {
	mu         sync.Mutex
	subscribed map[string]bool // the resources with a subscription
	held       [][]byte        // the responses held back
	send       func(...string)
	// holds is true while responses about resources are held back.
	holds bool
}

func (p *publisher) serve() *script {
	p.subscribed = map[string]bool{}
	return &script{on: func(m *jsonrpc.Message, send func(...string)) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.send = send
		switch m.Method {
		case "initialize":
			send(strings.Replace(initializeResponse, `{"tools":{}}`, `{"resources":{"subscribe":true}}`, 1))
		case "resources/subscribe", "resources/unsubscribe":
			if p.holds {
				p.held = append(p.held, slices.Concat([]byte(m.Method+" "), m.ID, []byte(" "),
					rawjson.Get(m.Params, "uri")))
				break
			}
			p.subscribed[string(rawjson.Get(m.Params, "uri"))] = m.Method == "resources/subscribe"
			send(emptyResponse)
		case "notifications/cancelled":
			p.held = slices.DeleteFunc(p.held, func(h []byte) bool {
				return bytes.Equal(bytes.Split(h, []byte(" "))[1], rawjson.Get(m.Params, "requestId"))
			})
		}
		return true
	}}
}

// hold makes it hold back responses about resources.
func (p *publisher) hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds = true
}

// let sends the responses held back, as errors if refuse is true, and holds back no others.
func (p *publisher) let(refuse bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds = false
	for _, h := range p.held {
		words := bytes.Split(h, []byte(" "))
		if refuse {
			p.send(`{"jsonrpc":"2.0","id":` + string(words[1]) + `,"error":{"code":-32603,"message":"not now"}}`)
			continue
		}
		p.subscribed[string(words[2])] = string(words[0]) == "resources/subscribe"
		p.send(`{"jsonrpc":"2.0","id":` + string(words[1]) + `,"result":{}}`)
	}
	p.held = nil
}

// subscriptions returns the resources with a subscription.
func (p *publisher) subscriptions() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var uris []string
	for uri := range maps.Keys(p.subscribed) {
		if p.subscribed[uri] {
			uris = append(uris, strings.Trim(uri, `"`))
		}
	}
	slices.Sort(uris)
	return strings.Join(uris, " ")
}

// A reader subscribes to resources until it disconnects.
type reader struct {
	leave func()

	mu    sync.Mutex
	acked []string // nil before the acknowledgment
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

// to returns the resources in the acknowledgment.
func (r *reader) to() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.acked == nil {
		return "nothing yet"
	}
	return strings.Join(r.acked, " ")
}

// A subscriber with an acknowledged resource receives its changes, whatever other subscribers of the resource do.
func TestSubscribersReceiveChanges(t *testing.T) {
	for name, do := range map[string]func(t *testing.T, c *mcpclient.Client, p *publisher) *reader{
		"the first is refused": func(t *testing.T, c *mcpclient.Client, p *publisher) *reader {
			t.Helper()
			p.hold()
			first := listenTo(t, c, "a:1")
			second := listenTo(t, c, "a:1")
			if got := second.to(); got != "nothing yet" {
				t.Errorf("before the server's response, the second reader's acknowledgment is %s", got)
			}
			p.let(true)
			synctest.Wait()
			if got := first.to(); got != "" {
				t.Errorf("the first reader's acknowledgment is %s", got)
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
		"the first is acknowledged": func(t *testing.T, c *mcpclient.Client, p *publisher) *reader {
			t.Helper()
			p.hold()
			first := listenTo(t, c, "a:1")
			second := listenTo(t, c, "a:1")
			p.let(false)
			synctest.Wait()
			first.leave()
			return second
		},
		"the last is unsubscribing": func(t *testing.T, c *mcpclient.Client, p *publisher) *reader {
			t.Helper()
			last := listenTo(t, c, "a:0", "a:1")
			p.hold()
			last.leave()
			synctest.Wait()
			next := listenTo(t, c, "a:1") // while the server has yet to respond to the unsubscription of a:0
			p.let(false)
			return next
		},
		"the last has unsubscribed": func(t *testing.T, c *mcpclient.Client, p *publisher) *reader {
			t.Helper()
			last := listenTo(t, c, "a:1")
			p.hold()
			last.leave()
			synctest.Wait()
			next := listenTo(t, c, "a:1")
			if got := next.to(); got != "nothing yet" {
				t.Errorf("before the server's response, the next reader's acknowledgment is %s", got)
			}
			p.let(false)
			return next
		},
		"another stops waiting": func(t *testing.T, c *mcpclient.Client, p *publisher) *reader {
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
				c, end := startScript(t, mcpclient.Options{Revision: bridge.Rev20241105}, p.serve())
				if err := c.Ready(t.Context()); err != nil {
					t.Fatal(err)
				}
				r := do(t, c, p)
				synctest.Wait()
				if got, subscribed := r.to(), p.subscriptions(); got != "a:1" || subscribed != "a:1" {
					t.Errorf("the reader is subscribed to %q, the server has subscriptions to %q", got, subscribed)
				}
				r.leave()
				synctest.Wait()
				if subscribed := p.subscriptions(); subscribed != "" {
					t.Errorf("without readers, the server has subscriptions to %q", subscribed)
				}
				if n := c.Topics(); n != 0 {
					t.Errorf("%d resources are still registered", n)
				}
				if err := end(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// If a restarted server supports fewer or other subscriptions than before, all that they covered is reported as
// changed.
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
			s.on = func(m *jsonrpc.Message, send func(...string)) bool {
				switch m.Method {
				case "initialize":
					can := tt.before
					if s.starts.Load() > 1 {
						can = tt.after
					}
					send(strings.Replace(initializeResponse, none, can, 1))
				case "resources/subscribe":
					send(emptyResponse)
				case "tools/call":
					send(helloResponse)
					return false
				}
				return true
			}
			bubble(t, mcpclient.Options{}, s.serve, func(t *testing.T, c *mcpclient.Client) {
				t.Helper()
				ctx, cancel := context.WithCancel(t.Context())
				var changes []string
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
							changes = append(changes, "tools")
						case e.Change.GetResourcesListChanged() != nil:
							changes = append(changes, "resources")
						case e.Change.GetResourceUpdated() != nil:
							changes = append(changes, e.Change.GetResourceUpdated().GetUri())
						}
						return nil
					})
				}()
				synctest.Wait()
				call(t, c, "t", "{}")   // the program exits
				time.Sleep(time.Minute) //nolint:forbidigo // by the bubble's clock
				cancel()
				<-done
				want := strings.Fields(tt.want)
				slices.Sort(want)
				slices.Sort(changes)
				if n := s.starts.Load(); n != 2 || !slices.Equal(changes, want) {
					t.Errorf("after %d starts, received changes of %q, want %q", n, changes, want)
				}
			})
		})
	}
}
