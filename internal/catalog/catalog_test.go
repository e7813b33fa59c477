package catalog

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A backend is a Handler with replaceable tools. It counts requests.
type backend struct {
	mu       sync.Mutex
	tools    []*pb.Tool
	pageSize int
	ttl      *int64
	listErr  error
	result   *pb.CallToolResult
	lists    int
	calls    []string // the arguments of calls
	// If hold is not nil, each list request receives from it first.
	hold     chan struct{}
	silent   bool // it does not acknowledge Listens
	listens  []chan *pb.ListenResponse
	lastList *pb.CallContext
}

func (b *backend) Handle(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
	switch r := call.Request.(type) {
	case *pb.ListToolsRequest:
		return b.list(ctx, r)
	case *pb.ListPromptsRequest:
		b.count()
		return &bridge.Result{Complete: &pb.ListPromptsResponse{TtlMs: b.ttl}}, nil
	case *pb.ListResourcesRequest:
		b.count()
		return &bridge.Result{Complete: &pb.ListResourcesResponse{TtlMs: b.ttl}}, nil
	case *pb.ListResourceTemplatesRequest:
		b.count()
		return &bridge.Result{Complete: &pb.ListResourceTemplatesResponse{TtlMs: b.ttl}}, nil
	case *pb.CallToolRequest:
		b.mu.Lock()
		defer b.mu.Unlock()
		b.calls = append(b.calls, string(r.GetArguments()))
		if b.result != nil {
			return &bridge.Result{Complete: b.result}, nil
		}
		return &bridge.Result{Complete: bridgetest.Text("called")}, nil
	case *pb.ListenRequest:
		return b.listen(ctx, r, emit)
	}
	return &bridge.Result{Complete: call.Method.NewResult()}, nil
}

func (b *backend) count() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lists++
}

func (b *backend) list(ctx context.Context, r *pb.ListToolsRequest) (*bridge.Result, error) {
	b.mu.Lock()
	b.lists++
	b.lastList = r.GetContext()
	hold, err := b.hold, b.listErr
	res := &pb.ListToolsResponse{TtlMs: b.ttl}
	from, _ := strconv.Atoi(r.GetCursor())
	size := b.pageSize
	if size == 0 {
		size = len(b.tools)
	}
	for _, t := range b.tools[from:min(from+size, len(b.tools))] {
		res.Tools = append(res.Tools, proto.CloneOf(t)) // as over a wire
	}
	if from+size < len(b.tools) {
		res.NextCursor = proto.String(strconv.Itoa(from + size))
	}
	b.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if err != nil {
		return nil, err
	}
	return &bridge.Result{Complete: res}, nil
}

func (b *backend) listen(ctx context.Context, r *pb.ListenRequest, emit bridge.Emit) (*bridge.Result, error) {
	ch := make(chan *pb.ListenResponse)
	b.mu.Lock()
	b.listens = append(b.listens, ch)
	b.mu.Unlock()
	if !b.silent {
		err := emit(ctx, bridge.Event{Change: &pb.ListenResponse{Event: &pb.ListenResponse_Acknowledged{
			Acknowledged: &pb.SubscriptionsAcknowledged{Notifications: r.GetNotifications()},
		}}})
		if err != nil {
			return nil, err
		}
	}
	for {
		select {
		case e := <-ch:
			if e.GetResult() != nil {
				return &bridge.Result{Complete: e.GetResult()}, nil
			}
			if err := emit(ctx, bridge.Event{Change: e}); err != nil {
				return nil, err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// set replaces the tools.
func (b *backend) set(tools ...*pb.Tool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tools = tools
}

func (b *backend) listCount() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lists
}

var (
	toolsChanged = &pb.ListenResponse{Event: &pb.ListenResponse_ToolsListChanged{ToolsListChanged: &pb.ListChanged{}}}
	ended        = &pb.ListenResponse{Event: &pb.ListenResponse_Result{Result: &pb.ListenResult{}}}
)

// listening subscribes to all changes of c and returns a function that ends the subscription. It must be called in a
// bubble.
func listening(c *Catalog, events *int) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		yes := proto.Bool(true)
		call := &bridge.Call{Method: bridge.Listen, Request: &pb.ListenRequest{Notifications: &pb.SubscriptionFilter{
			ToolsListChanged: yes, PromptsListChanged: yes, ResourcesListChanged: yes,
		}}}
		_, _ = c.Handle(ctx, call, func(context.Context, bridge.Event) error { *events++; return nil })
	}()
	synctest.Wait()
	return func() { cancel(); <-done }
}

// pass advances the bubble's clock.
func pass(d time.Duration) { <-time.After(d) }

func newTool(name, input string) *pb.Tool { return &pb.Tool{Name: name, InputSchema: input} }

const (
	intSchema    = `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`
	stringSchema = `{"type":"object","properties":{"n":{"type":"string"}},"required":["n"]}`
)

func as(subject string) *pb.CallContext {
	return legacy(&pb.Principal{Issuer: "i", Subject: subject})
}

func legacy(principal *pb.Principal) *pb.CallContext {
	return &pb.CallContext{Verified: &pb.VerifiedCaller{ProtocolVersion: "2025-11-25", Principal: principal}}
}

func listTools(t *testing.T, c *Catalog, cc *pb.CallContext, cursor ...string) *pb.ListToolsResponse {
	t.Helper()
	req := &pb.ListToolsRequest{Context: cc}
	if len(cursor) > 0 {
		req.Cursor = &cursor[0]
	}
	r, err := c.Handle(t.Context(), &bridge.Call{Method: bridge.ListTools, Request: req}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r.Complete.(*pb.ListToolsResponse)
}

func names(l *pb.ListToolsResponse) []string {
	var all []string
	for _, t := range l.GetTools() {
		all = append(all, t.GetName())
	}
	return all
}

// callTool returns the text of a call's result, with the prefix "error: " if it is an error.
func callTool(t *testing.T, c *Catalog, cc *pb.CallContext, name, arguments string) string {
	t.Helper()
	r, err := c.Handle(t.Context(), &bridge.Call{Method: bridge.CallTool, Request: &pb.CallToolRequest{
		Context: cc, Name: name, Arguments: []byte(arguments),
	}}, nil)
	if err != nil {
		return err.Error()
	}
	res := r.Complete.(*pb.CallToolResult)
	text := ""
	if len(res.GetContent()) > 0 {
		text = res.GetContent()[0].GetText().GetText()
	}
	if res.GetIsError() {
		return "error: " + text
	}
	return text + string(res.GetStructuredContent())
}

func expect[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q lacks %q", text, p)
		}
	}
}

func TestOtherCallsPassThroughUntouched(t *testing.T) {
	var got *bridge.Call
	result := &bridge.Result{}
	c := New(bridge.HandlerFunc(func(_ context.Context, call *bridge.Call, _ bridge.Emit) (*bridge.Result, error) {
		got = call
		return result, nil
	}), Options{})
	for _, m := range []*bridge.Method{bridge.Discover, bridge.ReadResource, bridge.GetPrompt, bridge.Complete} {
		call := &bridge.Call{Method: m, Request: m.NewRequest(nil)}
		if n := testing.AllocsPerRun(100, func() {
			if r, err := c.Handle(t.Context(), call, nil); r != result || err != nil || got != call {
				t.Errorf("%s: %v, %v", m.Name, r, err)
			}
		}); n > 0 {
			t.Errorf("%s: %v allocations", m.Name, n)
		}
	}
}

// The invariants hold for concurrent calls of many kinds while the tools change.
func TestConcurrentCallers(t *testing.T) {
	h := bridgetest.New()
	c := New(h, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		call := &bridge.Call{
			Method:  bridge.Listen,
			Request: &pb.ListenRequest{Notifications: &pb.SubscriptionFilter{ToolsListChanged: proto.Bool(true)}},
		}
		_, _ = c.Handle(ctx, call, func(context.Context, bridge.Event) error { return nil })
	})
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			cc := as(strconv.Itoa(i % 3))
			for n := range 50 {
				if got := callTool(t, c, cc, "echo", `{"a":1}`); got != `{"a":1}` {
					t.Errorf("echo: %s", got)
				}
				for l := listTools(t, c, cc); l.NextCursor != nil; l = listTools(t, c, cc, l.GetNextCursor()) {
					continue
				}
				if i == 0 {
					h.Add("more" + strconv.Itoa(n))
				}
			}
		})
	}
	callers.Wait()
	cancel()
	wg.Wait()
}
