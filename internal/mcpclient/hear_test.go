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

// The stream of what is no answer is taken up after its last event, also when that came on an earlier one, and not
// before the server wants it.
func TestStandaloneStreamIsResumed(t *testing.T) {
	bridgetest.SkipIfShort(t)
	const wait = 500 * time.Millisecond
	type get struct {
		last  string
		after time.Duration // the end of the one before
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
			stream(w, updated(2)) // without an id
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
		t.Fatalf("told %v", got)
	}
	close(listens)
	// Nothing is told but what the streams say: what is resumed has missed nothing.
	for i := 1; i <= 3; i++ {
		if got, want := (<-changes).GetResourceUpdated().GetUri(), fmt.Sprintf("a://%d", i); got != want {
			t.Errorf("told of %q, want %s", got, want)
		}
	}
	for i, last := range []string{"", "e1", "e1"} {
		got := <-gets
		if got.last != last || i == 1 && got.after < wait {
			t.Errorf("GET %d came after %q and %v", i+1, got.last, got.after)
		}
	}
}

// That a list has changed is told whichever process of a program says it; of resources the first one tells, which is
// subscribed to.
func TestChangesOfSeveralProcesses(t *testing.T) {
	var starts atomic.Int64
	serve := func(ctx context.Context, in io.Reader, out io.Writer) {
		me, subscribed := starts.Add(1), false
		s := &script{on: func(m *jsonrpc.Message, say func(...string)) bool {
			switch m.Method {
			case "initialize":
				say(strings.Replace(initialized, `{"tools":{}}`,
					`{"tools":{"listChanged":true},"resources":{"subscribe":true}}`, 1))
			case "resources/subscribe":
				subscribed = true
				say(pong)
			case "resources/unsubscribe":
				say(pong)
			case "tools/call":
				if me == 2 {
					say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
				}
				if subscribed {
					say(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a://"}}`)
				}
				say(strings.Replace(said1, "hello", strconv.FormatInt(me, 10), 1))
			}
			return true
		}}
		s.serve(ctx, in, out)
	}
	bubble(t, mcpclient.Options{}, serve, func(t *testing.T, c *mcpclient.Client) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		var told []string
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = c.Handle(ctx, &bridge.Call{Method: bridge.Listen, Request: &pb.ListenRequest{
				Context: asking("", "", "a").Context(),
				Notifications: &pb.SubscriptionFilter{
					ToolsListChanged:      proto.Bool(true),
					ResourceSubscriptions: []string{"a://"},
				},
			}}, func(_ context.Context, e bridge.Event) error {
				told = append(told, strings.TrimPrefix(fmt.Sprintf("%T", e.Change.GetEvent()),
					"*mcpbridgev1.ListenResponse_"))
				return nil
			})
		}()
		synctest.Wait()
		for i, tt := range []struct {
			call *bridge.Call
			want []string
		}{
			{asking("t", `{}`, "a"), []string{"Acknowledged", "ToolsListChanged"}},
			{toolCall("t", `{}`), []string{"Acknowledged", "ToolsListChanged", "ResourceUpdated"}},
		} {
			if got := said(t, c, tt.call); got != strconv.Itoa(2-i) {
				t.Errorf("process %s answers", got)
			}
			synctest.Wait()
			if !slices.Equal(told, tt.want) {
				t.Errorf("told %q, want %q", told, tt.want)
			}
		}
		cancel()
		<-done
	})
}

// What the server takes back is not asked any more, and the rest is.
func TestInputRequestsAreCanceledWithTheirCall(t *testing.T) {
	answered := make(chan string, 10)
	s := &script{}
	var open string
	question := `{"jsonrpc":"2.0","id":"ID?","method":"elicitation/create","params":{"message":"ID?","requestedSchema":{"type":"object","properties":{}}}}`
	s.on = func(m *jsonrpc.Message, say func(...string)) bool {
		switch {
		case m.Method == "initialize":
			say(strings.Replace(initialized, "2024-11-05", "2025-11-25", 1))
		case m.Method == "tools/call":
			open = string(m.ID)
			say(strings.ReplaceAll(question, "ID?", "one"), strings.ReplaceAll(question, "ID?", "two"),
				`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"\u006fne"}}`) // the same id
		case m.IsResponse():
			answered <- string(m.ID)
			say(strings.Replace(said1, "ID", open, 1))
		}
		return true
	}
	bubble(t, mcpclient.Options{}, s.serve, func(t *testing.T, c *mcpclient.Client) {
		t.Helper()
		ask := asking("ask", `{}`, "a")
		n := needs(t, c, ask)
		var asked []string
		for _, r := range n.GetInputRequests() {
			asked = append(asked, r.GetElicit().GetForm().GetMessage())
		}
		if !slices.Equal(asked, []string{"two"}) {
			t.Errorf("it asks %q, want two", asked)
		}
		if got := said(t, c, ask.Retry(answers(n, `{}`), n.RequestState)); got != "hello" {
			t.Errorf("got %s", got)
		}
		if n, first := len(answered), <-answered; n != 1 || first != `"two"` {
			t.Errorf("%d answers, the first to %s, want one to two", n, first)
		}
	})
}

// A program that did not survive server/discover is never sent it again, also when it is found anew because it did not
// begin.
func TestDiscoverThatCrashedAProgramIsNotRepeated(t *testing.T) {
	discovers := 0
	s := &script{}
	s.on = func(m *jsonrpc.Message, say func(...string)) bool {
		switch m.Method {
		case "server/discover":
			discovers++
			return false
		case "initialize":
			if s.starts.Load() == 3 { // it does not begin this time
				return false
			}
			say(initialized)
		case "tools/call":
			say(said1)
			return strings.Contains(string(m.Params), `"t"`)
		}
		return true
	}
	synctest.Test(t, func(t *testing.T) {
		c, end := started(t, mcpclient.Options{}, s)
		if err := c.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"die", "t"} { // the first is the last thing that the program does
			if got := said(t, c, toolCall(name, `{}`)); got != "hello" {
				t.Errorf("%s: got %s", name, got)
			}
			time.Sleep(time.Minute) //nolint:forbidigo // by the bubble's clock: until it is there again
		}
		if n := s.starts.Load(); n != 4 || discovers != 1 {
			t.Errorf("%d starts and %d times server/discover, want 4 and 1", n, discovers)
		}
		if err := end(); err != nil {
			t.Error(err)
		}
	})
}
