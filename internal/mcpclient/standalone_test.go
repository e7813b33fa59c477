package mcpclient_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/mcpclient"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// The client resumes the standalone stream after its last event, even if that arrived on an earlier stream, and not
// before the server's retry interval.
func TestStandaloneStreamIsResumed(t *testing.T) {
	bridgetest.SkipIfShort(t)
	const wait = 500 * time.Millisecond
	type get struct {
		last  string
		after time.Duration // after the end of the previous stream
	}
	gets := make(chan get, 10)
	listens := make(chan struct{})
	var ended time.Time
	n := 0
	f := newFake(t, false, func(w http.ResponseWriter, _ *http.Request, m *jsonrpc.Message) { result(w, m, `{}`) })
	f.capabilities = `{"tools":{"listChanged":true},"resources":{"subscribe":true}}`
	updated := func(n int) string {
		return fmt.Sprintf(`data: {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a://%d"}}`+"\n\n", n)
	}
	f.get = func(w http.ResponseWriter, r *http.Request) { // one at a time
		n++
		gets <- get{r.Header.Get("Last-Event-Id"), time.Since(ended)}
		stream(w, ": hello\n\n")
		<-listens
		switch n {
		case 1:
			stream(w, fmt.Sprintf("retry: %d\nid: e1\n", wait.Milliseconds())+updated(1))
		case 2:
			stream(w, updated(2)) // without an ID
		default:
			stream(w, "id: e3\n"+updated(3))
			<-r.Context().Done()
		}
		ended = time.Now()
	}
	c := run(t, mcpclient.Options{URL: f.URL}, quick)
	ctx, cancel := context.WithCancel(t.Context())
	changes, done := make(chan *pb.ListenResponse, 10), make(chan struct{})
	go func() {
		defer close(done)
		_, _ = c.Handle(ctx, &bridge.Call{
			Method: bridge.Listen,
			Request: &pb.ListenRequest{Notifications: &pb.SubscriptionFilter{
				ToolsListChanged: proto.Bool(true), ResourceSubscriptions: []string{"a://"},
			}},
		}, func(_ context.Context, e bridge.Event) error {
			changes <- e.Change
			return nil
		})
	}()
	defer func() { cancel(); <-done }()
	if got := <-changes; got.GetAcknowledged() == nil {
		t.Fatalf("received %v", got)
	}
	close(listens)
	// Each event arrives once; resumption loses none.
	for i := 1; i <= 3; i++ {
		if got, want := (<-changes).GetResourceUpdated().GetUri(), fmt.Sprintf("a://%d", i); got != want {
			t.Errorf("received a change of %q, want %s", got, want)
		}
	}
	for i, last := range []string{"", "e1", "e1"} {
		got := <-gets
		if got.last != last || i == 1 && got.after < wait {
			t.Errorf("GET %d resumed after event %q and %v", i+1, got.last, got.after)
		}
	}
}

// A changed list is reported whichever process of a program sends the notification. Changes of resources are reported
// by the first process, which has the subscription.
func TestChangesOfSeveralProcesses(t *testing.T) {
	var starts atomic.Int64
	serve := func(ctx context.Context, in io.Reader, out io.Writer) {
		me, subscribed := starts.Add(1), false
		s := &script{on: func(m *jsonrpc.Message, send func(...string)) bool {
			switch m.Method {
			case "initialize":
				send(strings.Replace(initializeResponse, `{"tools":{}}`,
					`{"tools":{"listChanged":true},"resources":{"subscribe":true}}`, 1))
			case "resources/subscribe":
				subscribed = true
				send(emptyResponse)
			case "resources/unsubscribe":
				send(emptyResponse)
			case "tools/call":
				if me == 2 {
					send(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
				}
				if subscribed {
					send(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a://"}}`)
				}
				send(strings.Replace(helloResponse, "hello", strconv.FormatInt(me, 10), 1))
			}
			return true
		}}
		s.serve(ctx, in, out)
	}
	bubble(t, mcpclient.Options{}, serve, func(t *testing.T, c *mcpclient.Client) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		var changes []string
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = c.Handle(ctx, &bridge.Call{Method: bridge.Listen, Request: &pb.ListenRequest{
				Context: callOf("", "", "a").Context(),
				Notifications: &pb.SubscriptionFilter{
					ToolsListChanged:      proto.Bool(true),
					ResourceSubscriptions: []string{"a://"},
				},
			}}, func(_ context.Context, e bridge.Event) error {
				changes = append(changes, strings.TrimPrefix(fmt.Sprintf("%T", e.Change.GetEvent()),
					"*mcpbridgev1.ListenResponse_"))
				return nil
			})
		}()
		synctest.Wait()
		for i, tt := range []struct {
			call *bridge.Call
			want []string
		}{
			{callOf("t", `{}`, "a"), []string{"Acknowledged", "ToolsListChanged"}},
			{toolCall("t", `{}`), []string{"Acknowledged", "ToolsListChanged", "ResourceUpdated"}},
		} {
			if got := callText(t, c, tt.call); got != strconv.Itoa(2-i) {
				t.Errorf("process %s responded", got)
			}
			synctest.Wait()
			if !slices.Equal(changes, tt.want) {
				t.Errorf("received %q, want %q", changes, tt.want)
			}
		}
		cancel()
		<-done
	})
}

// An input request that the server cancels is dropped; the others remain.
func TestInputRequestsAreCanceledWithTheirCall(t *testing.T) {
	answered := make(chan string, 10)
	s := &script{}
	var open string
	question := `{"jsonrpc":"2.0","id":"ID?","method":"elicitation/create","params":{"message":"ID?","requestedSchema":{"type":"object","properties":{}}}}`
	s.on = func(m *jsonrpc.Message, send func(...string)) bool {
		switch {
		case m.Method == "initialize":
			send(strings.Replace(initializeResponse, "2024-11-05", "2025-11-25", 1))
		case m.Method == "tools/call":
			open = string(m.ID)
			send(strings.ReplaceAll(question, "ID?", "one"), strings.ReplaceAll(question, "ID?", "two"),
				`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"\u006fne"}}`) // ID "one"
		case m.IsResponse():
			answered <- string(m.ID)
			send(strings.Replace(helloResponse, "ID", open, 1))
		}
		return true
	}
	bubble(t, mcpclient.Options{}, s.serve, func(t *testing.T, c *mcpclient.Client) {
		t.Helper()
		call := callOf("ask", `{}`, "a")
		n := requiredInput(t, c, call)
		var messages []string
		for _, r := range n.GetInputRequests() {
			messages = append(messages, r.GetElicit().GetForm().GetMessage())
		}
		if !slices.Equal(messages, []string{"two"}) {
			t.Errorf("got input requests %q, want two", messages)
		}
		if got := callText(t, c, call.Retry(answers(n, `{}`), n.RequestState)); got != "hello" {
			t.Errorf("got %s", got)
		}
		if n, first := len(answered), <-answered; n != 1 || first != `"two"` {
			t.Errorf("got %d responses, the first to %s, want one to two", n, first)
		}
	})
}

// server/discover is never sent again to a program that crashed on it, even if the client probes again because
// initialize failed.
func TestDiscoverThatCrashedAProgramIsNotRepeated(t *testing.T) {
	discovers := 0
	s := &script{}
	s.on = func(m *jsonrpc.Message, send func(...string)) bool {
		switch m.Method {
		case "server/discover":
			discovers++
			return false
		case "initialize":
			if s.starts.Load() == 3 { // this time initialize fails
				return false
			}
			send(initializeResponse)
		case "tools/call":
			send(helloResponse)
			return strings.Contains(string(m.Params), `"t"`)
		}
		return true
	}
	synctest.Test(t, func(t *testing.T) {
		c, end := started(t, mcpclient.Options{}, s)
		if err := c.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"die", "t"} { // the program exits on the first
			if got := callText(t, c, toolCall(name, `{}`)); got != "hello" {
				t.Errorf("%s: got %s", name, got)
			}
			bridgetest.Pass(time.Minute) // until the program has restarted
		}
		if n := s.starts.Load(); n != 4 || discovers != 1 {
			t.Errorf("got %d starts and %d server/discover requests, want 4 and 1", n, discovers)
		}
		if err := end(); err != nil {
			t.Error(err)
		}
	})
}
