package mcpclient_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/mcpclient"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// padded returns a message with a megabyte of padding.
func padded(msg string) string {
	return strings.TrimSuffix(msg, "}") + `,"x":"` + strings.Repeat("x", 1<<20) + `"}`
}

// heap returns the number of bytes in use.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // two collections empty a sync.Pool
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// checkKept fails the test if much more memory is in use than before.
func checkKept(t *testing.T, before uint64) {
	t.Helper()
	if now := heap(); now > before+8<<20 {
		t.Errorf("%d MiB are retained", (now-before)>>20)
	}
}

// many is the number of messages with little content in a long text.
const many = 64

// Events of a call that waits for input are kept without the text of their message, and limited in number.
func TestEventsOfAPendingCall(t *testing.T) {
	bridgetest.SkipIfShort(t)
	for what, tt := range map[string]struct {
		message    string
		pad        func(string) string
		sent, want int
	}{
		"in long texts": {"m", padded, many, many},
		"too often":     {"m", strings.Clone, 1100, 1024},
		"too long":      {strings.Repeat("m", 64<<10), strings.Clone, many, 16},
	} {
		t.Run(what, func(t *testing.T) {
			pending, read := make(chan struct{}), make(chan struct{})
			c := startPrograms(t, mcpclient.Options{Revision: bridge.Rev20250618},
				func(int64) func(*jsonrpc.Message, func(...string)) {
					var id string
					return func(m *jsonrpc.Message, send func(...string)) {
						switch {
						case m.Method == "tools/call":
							id = string(m.ID)
							send(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create",` +
								`"params":{"message":"m","requestedSchema":{"type":"object","properties":{}}}}`)
							go func() {
								<-pending
								for i := range tt.sent {
									send(tt.pad(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress",`+
										`"params":{"progressToken":ID,"progress":%d,"message":%q}}`, i, tt.message)))
								}
								send(`{"jsonrpc":"2.0","id":"read","method":"ping"}`)
							}()
						case m.IsResponse() && string(m.ID) == `"read"`:
							close(read)
						case m.IsResponse():
							send(strings.Replace(helloResponse, "ID", id, 1))
						}
					}
				})
			call := callOf("t", `{}`, "a")
			call.Context().ProgressWanted = true
			n := requiredInput(t, c, call)
			before := heap()
			close(pending)
			<-read
			checkKept(t, before)
			events := 0
			res, err := c.Handle(t.Context(), call.Retry(answers(n, `{}`), n.RequestState),
				func(context.Context, bridge.Event) error { events++; return nil })
			if err != nil || res.Complete == nil || events != tt.want {
				t.Errorf("%v %v, got %d progress events", res, err, events)
			}
		})
	}
}

// Input requests during initialization are kept for a call, and then for its caller's input.
func TestInputRequestsDoNotRetainTheirMessage(t *testing.T) {
	c := startPrograms(t, mcpclient.Options{Revision: bridge.Rev20250618, ProbeTimeout: time.Minute},
		func(me int64) func(*jsonrpc.Message, func(...string)) {
			return func(m *jsonrpc.Message, send func(...string)) {
				switch {
				case m.Method == "notifications/initialized" && me > 1:
					for i := range 32 {
						send(padded(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"roots/list"}`, i)))
					}
				case m.Method == "tools/call":
					send(helloResponse)
				}
			}
		})
	before := heap()
	call := callOf("t", `{}`, "a")
	n := requiredInput(t, c, call)
	checkKept(t, before)
	if got := callText(t, c, call.Retry(roots(n, "file:///a"), n.RequestState)); got != "hello" ||
		len(n.GetInputRequests()) != 32 {
		t.Errorf("got %d input requests and %q", len(n.GetInputRequests()), got)
	}
}

// Lists are cached by caller and by content.
func TestListsDoNotRetainTheirMessage(t *testing.T) {
	bridgetest.SkipIfShort(t)
	c := startPrograms(t, mcpclient.Options{Revision: bridge.Rev20250618},
		func(int64) func(*jsonrpc.Message, func(...string)) {
			return func(m *jsonrpc.Message, send func(...string)) {
				if m.Method == "tools/list" {
					send(padded(`{"jsonrpc":"2.0","id":ID,"result":{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}}`))
				}
			}
		})
	before := heap()
	var lists []*bridge.Result
	for range many {
		res, err := c.Handle(t.Context(), &bridge.Call{Method: bridge.ListTools, Request: &pb.ListToolsRequest{}},
			ignore)
		if err != nil {
			t.Fatal(err)
		}
		lists = append(lists, res)
	}
	checkKept(t, before)
	runtime.KeepAlive(lists)
}

// startChanging returns a client of a program whose tool sends messages that report changes, and the changes of a://
// and the tools as a subscriber receives them. The subscriber waits until each is read.
func startChanging(t *testing.T, onCall func(send func(...string))) (*mcpclient.Client, <-chan *pb.ListenResponse) {
	t.Helper()
	s := &script{on: func(m *jsonrpc.Message, send func(...string)) bool {
		switch m.Method {
		case "initialize":
			send(strings.Replace(initializeResponse, `{"tools":{}}`,
				`{"tools":{"listChanged":true},"resources":{"subscribe":true}}`, 1))
		case "resources/subscribe", "resources/unsubscribe":
			send(emptyResponse)
		case "tools/call":
			onCall(send)
			send(helloResponse)
		}
		return true
	}}
	c := run(t, mcpclient.Options{Command: []string{"pipe"}, Revision: bridge.Rev20250618},
		func(c *mcpclient.Client) { c.Pipe(s.serve) })
	changes, done := make(chan *pb.ListenResponse), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(done)
		_, _ = c.Handle(ctx, &bridge.Call{Method: bridge.Listen, Request: &pb.ListenRequest{
			Notifications: &pb.SubscriptionFilter{
				ToolsListChanged:      proto.Bool(true),
				ResourceSubscriptions: []string{"a://"},
			},
		}}, func(ctx context.Context, e bridge.Event) error {
			select {
			case changes <- e.Change:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	t.Cleanup(func() { cancel(); <-done })
	if first := <-changes; first.GetAcknowledged() == nil {
		t.Fatalf("received %v", first)
	}
	return c, changes
}

// Changes are buffered for their subscriber.
func TestChangesDoNotRetainTheirMessage(t *testing.T) {
	bridgetest.SkipIfShort(t)
	c, changes := startChanging(t, func(send func(...string)) {
		for i := range many {
			send(padded(fmt.Sprintf(
				`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a://%d","_meta":{}}}`,
				i)))
		}
	})
	before := heap()
	call(t, c, "t", "{}")
	checkKept(t, before)
	for i := range many {
		if got, want := (<-changes).GetResourceUpdated().GetUri(), fmt.Sprint("a://", i); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// If the changes are too many or too long for a subscriber's buffer, everything that it subscribes to is reported as
// changed.
func TestTooManyChanges(t *testing.T) {
	for what, tt := range map[string]struct {
		changes int
		uri     string
	}{
		"too many": {2100, "a://%d"},
		"too long": {256, "a://%d" + strings.Repeat("x", 64<<10)},
	} {
		times := 0
		c, changes := startChanging(t, func(send func(...string)) {
			if times++; times > 1 {
				send(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a://end"}}`)
				return
			}
			for i := range tt.changes {
				send(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"` +
					fmt.Sprintf(tt.uri, i) + `"}}`)
			}
		})
		call(t, c, "t", "{}")
		size, tools, resources, end := 0, false, false, make(chan struct{})
		go func() {
			defer close(end)
			for change := range changes {
				uri := change.GetResourceUpdated().GetUri()
				if uri == "a://end" {
					return
				}
				size += proto.Size(change)
				tools = tools || change.GetToolsListChanged() != nil
				resources = resources || uri == "a://"
			}
		}()
		for ended := false; !ended; {
			call(t, c, "t", "{}") // the end may be one message too many as well
			select {
			case <-end:
				ended = true
			default:
			}
		}
		if !tools || !resources || size > 3<<20 {
			t.Errorf("%s: got changes of the tools %v, of the resources %v, in %d bytes", what, tools, resources, size)
		}
	}
}
