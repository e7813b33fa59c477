package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mcpjson"
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

func TestListIsCachedForItsTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{ttl: proto.Int64(1000)}
		b.set(newTool("a", intSchema))
		c := New(b, Options{})
		first := listTools(t, c, as("x"))
		b.set(newTool("b", intSchema))
		pass(999 * time.Millisecond)
		if again := listTools(t, c, as("x")); !slices.Equal(again.GetTools(), first.GetTools()) {
			t.Error("got different tools")
		}
		pass(time.Millisecond)
		expect(t, "tools afterwards", names(listTools(t, c, as("x"))), []string{"b"})
		expect(t, "lists", b.listCount(), 2)
	})
}

// A cached list has the remaining TTL, so that downstream caches do not exceed the backend's.
func TestCachedListHasTheRemainingTTL(t *testing.T) {
	for _, m := range []*bridge.Method{
		bridge.ListTools, bridge.ListPrompts, bridge.ListResources,
		bridge.ListResourceTemplates,
	} {
		synctest.Test(t, func(t *testing.T) {
			b := &backend{ttl: proto.Int64(1000)}
			b.set(newTool("a", intSchema))
			c := New(b, Options{})
			list := func() proto.Message {
				r, err := c.Handle(t.Context(), &bridge.Call{Method: m, Request: m.NewRequest(as("x"))}, nil)
				if err != nil {
					t.Fatal(err)
				}
				return r.Complete
			}
			first := proto.Clone(list())
			for _, tt := range []struct {
				passes time.Duration
				left   int64
			}{
				{0, 1000},
				{time.Microsecond, 1000},
				{400*time.Millisecond - time.Microsecond, 600},
				{599 * time.Millisecond, 1},
				{time.Millisecond, 1000},
			} {
				pass(tt.passes)
				want := proto.Clone(first)
				want.ProtoReflect().Set(want.ProtoReflect().Descriptor().Fields().ByName("ttl_ms"),
					protoreflect.ValueOfInt64(tt.left))
				if diff := cmp.Diff(want, list(), protocmp.Transform()); diff != "" {
					t.Errorf("%s, %v later: %s", m.Name, tt.passes, diff)
				}
			}
			expect(t, "lists", b.listCount(), 2)
		})
	}
}

func TestListWithoutTTLIsNotCached(t *testing.T) {
	for name, ttl := range map[string]*int64{"absent": nil, "zero": proto.Int64(0), "negative": proto.Int64(-5)} {
		t.Run(name, func(t *testing.T) {
			b := &backend{ttl: ttl}
			b.set(newTool("a", intSchema))
			c := New(b, Options{})
			first := listTools(t, c, as("x"))
			if listTools(t, c, as("x")) != first {
				t.Error("the same response is another message")
			}
			b.set(newTool("b", intSchema))
			expect(t, "tools afterwards", names(listTools(t, c, as("x"))), []string{"b"})
			expect(t, "lists", b.listCount(), 3)
		})
	}
}

func TestListIsCachedWhileChangesAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{}
		b.set(newTool("a", intSchema))
		c := New(b, Options{})
		listTools(t, c, as("x"))
		events := 0
		end := listening(c, &events)
		expect(t, "before", names(listTools(t, c, as("x"))), []string{"a"})
		expect(t, "lists: a list from before the subscription may be outdated", b.listCount(), 2)
		listTools(t, c, as("x"))
		expect(t, "lists while listening", b.listCount(), 2)

		b.set(newTool("b", intSchema))
		b.listens[0] <- toolsChanged
		synctest.Wait()
		expect(t, "events", events, 2)
		expect(t, "after the change", names(listTools(t, c, as("x"))), []string{"b"})
		listTools(t, c, as("x"))
		expect(t, "lists after the change", b.listCount(), 3)

		end()
		listTools(t, c, as("x"))
		listTools(t, c, as("x"))
		expect(t, "lists without a subscription", b.listCount(), 5)
		defer listening(c, &events)()
		listTools(t, c, as("x"))
		listTools(t, c, as("x"))
		expect(t, "lists with another subscription", b.listCount(), 6)
	})
}

// A tool that has changed may declare other headers than before.
func TestHeadersFollowTheListAfterAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{}
		b.set(newTool("f", intSchema))
		c := New(b, Options{})
		events := 0
		defer listening(c, &events)()
		call := func() error {
			_, err := c.Handle(t.Context(), &bridge.Call{
				Method: bridge.CallTool, Header: map[string][]string{"Mcp-Param-N": {"2"}},
				Request: &pb.CallToolRequest{Context: as("x"), Name: "f", Arguments: []byte(`{"n":1}`)},
			}, func(context.Context, bridge.Event) error { return nil })
			return err
		}
		if err := call(); err != nil {
			t.Fatal(err)
		}
		lists := b.listCount()
		if err := call(); err != nil || b.listCount() != lists {
			t.Errorf("%v, and the tools were listed again", err)
		}
		b.set(newTool("f", strings.Replace(intSchema, `"type":"integer"`, `"type":"integer","x-mcp-header":"N"`, 1)))
		b.listens[0] <- toolsChanged
		synctest.Wait()
		if err := call(); err == nil || !bridge.AsError(err).BadHeader {
			t.Errorf("a call was sent whose header differs from its argument: %v", err)
		}
	})
}

func TestListWithZeroTTLIsNotCachedDespiteListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{ttl: proto.Int64(0)}
		c := New(b, Options{})
		events := 0
		defer listening(c, &events)()
		listTools(t, c, as("x"))
		listTools(t, c, as("x"))
		expect(t, "lists", b.listCount(), 2)
	})
}

func TestUnacknowledgedListenCachesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{silent: true}
		c := New(b, Options{})
		events := 0
		defer listening(c, &events)()
		listTools(t, c, as("x"))
		listTools(t, c, as("x"))
		expect(t, "lists", b.listCount(), 2)
	})
}

func TestChangeDropsListsOfItsKindOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{ttl: proto.Int64(100_000)}
		c := New(b, Options{})
		events := 0
		defer listening(c, &events)()
		all := func() {
			for _, m := range []*bridge.Method{
				bridge.ListTools, bridge.ListPrompts, bridge.ListResources,
				bridge.ListResourceTemplates,
			} {
				if _, err := c.Handle(t.Context(), &bridge.Call{Method: m, Request: m.NewRequest(as("x"))},
					nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		all()
		all()
		expect(t, "lists", b.listCount(), 4)
		for _, step := range []struct {
			change *pb.ListenResponse
			lists  int
		}{
			{toolsChanged, 5},
			{
				&pb.ListenResponse{Event: &pb.ListenResponse_PromptsListChanged{PromptsListChanged: &pb.ListChanged{}}},
				6,
			},
			{&pb.ListenResponse{Event: &pb.ListenResponse_ResourcesListChanged{
				ResourcesListChanged: &pb.ListChanged{},
			}}, 8},
			{&pb.ListenResponse{Event: &pb.ListenResponse_ResourceUpdated{
				ResourceUpdated: &pb.ResourceUpdated{Uri: "a"},
			}}, 8},
		} {
			b.listens[0] <- step.change
			synctest.Wait()
			all()
			expect(t, fmt.Sprintf("lists after %v", step.change), b.listCount(), step.lists)
		}
	})
}

func TestBrokenListenDropsTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{ttl: proto.Int64(100_000)}
		b.set(newTool("a", intSchema))
		c := New(b, Options{})
		events := 0
		end := listening(c, &events)
		listTools(t, c, as("x"))
		b.listens[0] <- ended
		synctest.Wait()
		end()
		listTools(t, c, as("x"))
		expect(t, "lists after the break", b.listCount(), 2)
		defer listening(c, &events)()
		b.set(newTool("b", intSchema))
		expect(t, "after listening again", names(listTools(t, c, as("x"))), []string{"b"})
	})
}

func TestListsAreNotSharedBetweenPrincipals(t *testing.T) {
	b := &backend{ttl: proto.Int64(100_000)}
	b.set(newTool("a", intSchema))
	c := New(b, Options{})
	callers := []*pb.CallContext{
		nil,
		{},
		legacy(nil),
		{Verified: &pb.VerifiedCaller{ProtocolVersion: "2025-06-18"}},
		as("x"), as("y"),
		legacy(&pb.Principal{Issuer: "j", Subject: "x"}),
		legacy(&pb.Principal{Issuer: "ix"}),
		legacy(&pb.Principal{}),
		legacy(&pb.Principal{Issuer: "i", Subject: "x", Scopes: []string{"admin"}}),
		{ClientCapabilities: &pb.ClientCapabilities{Elicitation: &pb.ElicitationCapability{}}},
		{ClientCapabilities: &pb.ClientCapabilities{Elicitation: &pb.ElicitationCapability{Url: &pb.Capability{}}}},
		{ClientCapabilities: &pb.ClientCapabilities{Roots: &pb.RootsCapability{}}},
		{ClientCapabilities: &pb.ClientCapabilities{Extensions: `{"a":"` + strings.Repeat("x", 1000) + `"}`}},
		{ClientCapabilities: &pb.ClientCapabilities{Extensions: `{"b":"` + strings.Repeat("x", 1000) + `"}`}},
		{ClientCapabilities: &pb.ClientCapabilities{}}, // the same as none
	}
	for range 2 {
		for _, cc := range callers {
			listTools(t, c, cc)
		}
	}
	expect(t, "lists", b.listCount(), len(callers)-2) // no context and empty ones are the same
	listTools(t, c, as("x"), "")
	expect(t, "an empty cursor is one", b.listCount(), len(callers)-1)
}

func TestListWithUnknownMembersIsPassedOn(t *testing.T) {
	b := &backend{ttl: proto.Int64(100_000)}
	b.set(newTool("good", intSchema), newTool("bad", `null`))
	c := New(b, Options{})
	for range 2 {
		r, err := c.Handle(t.Context(),
			&bridge.Call{Method: bridge.ListTools, Request: &pb.ListToolsRequest{Extra: `{"filter":"x"}`}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		expect(t, "tools", names(r.Complete.(*pb.ListToolsResponse)), []string{"good"})
	}
	expect(t, "lists", b.listCount(), 2)
}

func TestConcurrentListsShareACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{hold: make(chan struct{})}
		b.set(newTool("a", intSchema))
		c := New(b, Options{})
		got := make([]*pb.ListToolsResponse, 10)
		var wg sync.WaitGroup
		for i := range got {
			wg.Go(func() { got[i] = listTools(t, c, as("x")) })
		}
		synctest.Wait()
		close(b.hold)
		wg.Wait()
		expect(t, "lists", b.listCount(), 1)
		for _, l := range got {
			if l != got[0] {
				t.Error("got different messages")
			}
		}
	})
}

func TestCanceledCallerDoesNotCancelASharedList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{hold: make(chan struct{})}
		b.set(newTool("a", intSchema))
		c := New(b, Options{})
		first, leave := context.WithCancel(t.Context())
		impatient, giveUp := context.WithCancel(t.Context())
		call := &bridge.Call{Method: bridge.ListTools, Request: &pb.ListToolsRequest{Context: as("x")}}
		var wg sync.WaitGroup
		wait := func(ctx context.Context, want error) {
			wg.Go(func() {
				if _, err := c.Handle(ctx, call, nil); !errors.Is(err, want) {
					t.Errorf("got %v, want %v", err, want)
				}
			})
			synctest.Wait()
		}
		wait(first, context.Canceled)
		wait(impatient, context.Canceled)
		wait(t.Context(), nil)
		giveUp()
		synctest.Wait()
		expect(t, "lists", b.listCount(), 1)
		leave() // its call requests the list from the backend
		synctest.Wait()
		expect(t, "lists when the first has left", b.listCount(), 2)
		close(b.hold)
		wg.Wait()
	})
}

func TestListThatBeganBeforeAChangeIsNotCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{hold: make(chan struct{}), ttl: proto.Int64(100_000)}
		b.set(newTool("a", intSchema))
		c := New(b, Options{})
		events := 0
		defer listening(c, &events)()
		var wg sync.WaitGroup
		wg.Go(func() { listTools(t, c, as("x")) })
		synctest.Wait()
		b.set(newTool("b", intSchema))
		b.listens[0] <- toolsChanged
		synctest.Wait()
		wg.Go(func() { expect(t, "listed after the change", names(listTools(t, c, as("x"))), []string{"b"}) })
		synctest.Wait()
		close(b.hold)
		wg.Wait()
		expect(t, "lists", b.listCount(), 2)
		expect(t, "kept", names(listTools(t, c, as("x"))), []string{"b"})
		expect(t, "lists", b.listCount(), 2)
	})
}

func TestErrorsAreNotCached(t *testing.T) {
	b := &backend{ttl: proto.Int64(100_000), listErr: bridge.Errorf(codes.InvalidArgument, "no such cursor")}
	c := New(b, Options{})
	for range 2 {
		_, err := c.Handle(t.Context(), &bridge.Call{Method: bridge.ListTools, Request: &pb.ListToolsRequest{}}, nil)
		expect(t, "code", bridge.AsError(err).Code, codes.InvalidArgument)
	}
	b.listErr = nil
	listTools(t, c, nil)
	expect(t, "lists", b.listCount(), 3)
}

func TestPagesAreLimited(t *testing.T) {
	b := &backend{ttl: proto.Int64(100_000)}
	c := New(b, Options{})
	for i := range maxPages + 10 {
		listTools(t, c, as(strconv.Itoa(i)))
	}
	expect(t, "pages", len(c.pages), maxPages)
	listTools(t, c, as("11")) // the oldest cached list
	listTools(t, c, as("5"))
	expect(t, "lists", b.listCount(), maxPages+11)

	b = &backend{ttl: proto.Int64(100_000)}
	b.set(&pb.Tool{Name: "big", Description: proto.String(strings.Repeat("x", maxPageBytes/4))})
	c = New(b, Options{})
	for i := range 10 {
		listTools(t, c, as(strconv.Itoa(i)))
	}
	if c.bytes > maxPageBytes || len(c.pages) != 3 {
		t.Errorf("got %d bytes in %d pages", c.bytes, len(c.pages))
	}
	b.set(&pb.Tool{Name: "huge", Description: proto.String(strings.Repeat("x", maxPageBytes+1))})
	listTools(t, c, as("huge"))
	expect(t, "pages when one is larger than all", len(c.pages), 3)
	sum := 0
	for _, p := range c.pages {
		sum += p.size
	}
	expect(t, "bytes", c.bytes, sum)
}

// Clients may send any cursor: only short ones are cached, and they count toward the limit.
func TestCursorsOfClientsAreLimited(t *testing.T) {
	for n := maxCursor - 1; n <= maxCursor+1; n++ {
		c := New(bridge.HandlerFunc(func(context.Context, *bridge.Call, bridge.Emit) (*bridge.Result, error) {
			return &bridge.Result{Complete: &pb.ListToolsResponse{TtlMs: proto.Int64(100_000)}}, nil
		}), Options{})
		for i := range maxPages + 10 {
			listTools(t, c, as("x"), fmt.Sprintf("%0*d", n, i))
		}
		kept, bytes := 0, 0
		if n <= maxCursor {
			kept, bytes = maxPages, maxPages*n
		}
		if len(c.pages) != kept || c.bytes < bytes {
			t.Errorf("cursors of %d bytes: %d pages of %d bytes, want %d of %d", n, len(c.pages), c.bytes, kept, bytes)
		}
	}
}

func TestToolCacheIsBounded(t *testing.T) {
	bridgetest.SkipIfShort(t)
	b := &backend{ttl: proto.Int64(100_000)}
	var all []*pb.Tool
	for i := range 2_000 {
		all = append(all, newTool("t"+strconv.Itoa(i), intSchema))
	}
	b.set(all...)
	c := New(b, Options{})
	for i := range 40 {
		listTools(t, c, as(strconv.Itoa(i)))
	}
	if c.count > maxKnown || len(c.known) != maxKnown/2_000 {
		t.Errorf("got %d tools of %d callers", c.count, len(c.known))
	}
	expect(t, "schemas", len(c.schemas), 1)

	c = New(&backend{}, Options{}) // without tools
	for i := range maxCallers + 10 {
		listTools(t, c, as(strconv.Itoa(i)))
	}
	expect(t, "callers", len(c.known), maxCallers)

	c = New(b, Options{})
	for i := range 100 {
		b.set(newTool("t", `{"type":"object","description":"`+strings.Repeat("x", usual.Schema-100)+strconv.Itoa(i)+
			`"}`))
		listTools(t, c, as("x"+strconv.Itoa(i)))
	}
	if c.text > maxText || len(c.schemas) > 64 {
		t.Errorf("got %d bytes of %d schemas", c.text, len(c.schemas))
	}
	expect(t, "a caller that was forgotten", callTool(t, c, as("x1"), "t", `{}`), "called")
}

func TestBadToolsAreDroppedWithOneWarningEach(t *testing.T) {
	var log bytes.Buffer
	b := &backend{}
	long := strings.Repeat("n", usual.ToolName)
	b.set(
		newTool("good", intSchema), newTool("none", ""), newTool("", intSchema), newTool("good", stringSchema),
		newTool("text", `{"type":"object"`),
		newTool("twice", `{"type":"object","type":"object"}`), newTool("null", `null`),
		newTool("list", `{"type":"array"}`),
		newTool("untyped", `{}`),
		newTool("large", `{"type":"object","description":"`+strings.Repeat("x", usual.Schema)+`"}`),
		newTool("many", `{"type":"object","enum":[`+strings.Repeat("0,", usual.SchemaValues)+`0]}`),
		newTool("elsewhere", `{"type":"object","properties":{"a":{"$ref":"https://example.com/a.json"}}}`),
		newTool("with space", intSchema), newTool(long, intSchema),
		&pb.Tool{Name: "output", InputSchema: intSchema, OutputSchema: `{"type":`},
		newTool("header", `{"type":"object","properties":{"a":{"type":"number","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"B"}}}`),
		newTool("last", intSchema), newTool(long+"n", intSchema), newTool(strings.Repeat("n", 1<<20), intSchema),
		newTool("a\nb", intSchema),
		newTool("a\u202eb", intSchema), newTool("a\u200bb", intSchema), newTool("a\x1b[31m", intSchema),
		&pb.Tool{Name: "meta", Meta: `[`}, &pb.Tool{Name: "metas", Meta: `[]`}, &pb.Tool{Name: "extra", Extra: `5`},
		&pb.Tool{Name: "annotated", Annotations: &pb.ToolAnnotations{Extra: `{"a":1,"a":2}`}},
		&pb.Tool{Name: "executed", Execution: &pb.ToolExecution{Extra: `{}{}`}},
		&pb.Tool{Name: "icon", Icons: []*pb.Icon{{}, {Extra: "{\"\xff\":1}"}}},
		&pb.Tool{Name: "all", Meta: `{}`, Extra: `{"a":1}`, Icons: []*pb.Icon{{Extra: `{}`}}},
	)
	c := New(b, Options{Log: zerolog.New(&log)})
	first := listTools(t, c, as("x"))
	expect(t, "tools", names(first), []string{"good", "none", "with space", long, "header", "last", "all"})
	expect(t, "schema without its bad annotation", first.GetTools()[4].GetInputSchema(),
		`{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"string","x-mcp-header":"B"}}}`)
	if b.tools[15].InputSchema == "" || !strings.Contains(b.tools[15].InputSchema, `"A"`) {
		t.Error("the backend's own tool was modified")
	}
	text := log.String()
	contains(
		t, text, `"tool":"good","reason":"there is another tool of the same name before it"`,
		`"tool":"","reason":"it has no name"`,
		`"tool":"text"`, `duplicate name`, `"tool":"null","reason":"its input schema is not a JSON object"`,
		`"tool":"list","reason":"its input schema has not the type object"`,
		`"tool":"untyped"`, `"tool":"large","reason":"its input schema is too large`, `"tool":"many"`,
		`"tool":"elsewhere"`,
		`"tool":"with space","reason":"it should be 1 to 128`, `its name has 129 bytes`, `its name has 1048576 bytes`,
		`"tool":"a\nb","reason":"its name has invisible characters`, `its output schema is not JSON`,
		`x-mcp-header at \"/properties/a\"`,
	)
	contains(
		t, text, `"tool":"meta","reason":"its _meta: must be a JSON object, not [`, `"tool":"metas"`,
		`"tool":"extra","reason":"its unknown members must be a JSON object, not 5`,
		`"tool":"annotated","reason":"its annotations: unknown members are not strict JSON`, `"tool":"executed"`,
		`"tool":"icon"`,
	)
	expect(t, "warnings", strings.Count(text, "\n"), 25)
	if listTools(t, c, as("x")) != first {
		t.Error("the same response is another message")
	}
	listTools(t, c, as("y"))
	expect(t, "warnings, later", strings.Count(log.String(), "\n"), 25)
}

// Entries of a list that cannot be sent or used are dropped; the others remain.
func TestBadEntriesAreDropped(t *testing.T) {
	nan := &pb.Annotations{Priority: proto.Float64(math.NaN())}
	for _, tt := range []struct {
		method       *bridge.Method
		request      bridge.Request
		list, want   proto.Message
		first, other string // the members of two of them
	}{
		{
			bridge.ListPrompts, &pb.ListPromptsRequest{Context: as("x")},
			&pb.ListPromptsResponse{NextCursor: proto.String("n"), Prompts: []*pb.Prompt{
				{Name: "good"},
				{Name: "meta", Meta: `[`},
				{},
				{Name: "argument", Arguments: []*pb.PromptArgument{{Name: "a", Extra: `5`}}},
				{Name: "last"},
			}},
			&pb.ListPromptsResponse{
				NextCursor: proto.String("n"),
				Prompts:    []*pb.Prompt{{Name: "good"}, {Name: "last"}},
			},
			`"prompt":"","reason":"it has no name","message":"prompt dropped"`,
			`"prompt":"argument","reason":"its arguments[0]: unknown members must be`,
		},
		{
			bridge.ListResources, &pb.ListResourcesRequest{Context: as("x")},
			&pb.ListResourcesResponse{Resources: []*pb.Resource{
				{Uri: "a:1", Annotations: nan},
				{Uri: "a:2"},
				{Name: "none"},
			}},
			&pb.ListResourcesResponse{Resources: []*pb.Resource{{Uri: "a:2"}}},
			`"resource":"a:1","reason":"its annotations.priority: NaN is not a number of JSON"`,
			`"resource":"","reason":"it has no uri"`,
		},
		{
			bridge.ListResourceTemplates, &pb.ListResourceTemplatesRequest{Context: as("x")},
			&pb.ListResourceTemplatesResponse{ResourceTemplates: []*pb.ResourceTemplate{
				{},
				{UriTemplate: "a:{b}", Icons: []*pb.Icon{{Extra: `{"a":1,"a":2}`}}},
			}},
			&pb.ListResourceTemplatesResponse{},
			`"template":"","reason":"it has no uri_template"`,
			`"template":"a:{b}","reason":"its icons[0]: unknown members are not strict JSON`,
		},
	} {
		var log bytes.Buffer
		c := New(bridge.HandlerFunc(func(context.Context, *bridge.Call, bridge.Emit) (*bridge.Result, error) {
			return &bridge.Result{Complete: tt.list}, nil
		}), Options{Log: zerolog.New(&log)})
		for range 2 {
			r, err := c.Handle(t.Context(), &bridge.Call{Method: tt.method, Request: tt.request}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if !proto.Equal(r.Complete, tt.want) {
				t.Errorf("%s: got %v", tt.method.Name, r.Complete)
			}
		}
		contains(t, log.String(), tt.first, tt.other)
		if _, err := mcpjson.Append(nil, tt.list, bridge.LatestLegacy); err == nil {
			t.Errorf("%s: the list was not reported as invalid", tt.method.Name)
		}
	}
}

func TestPagingEndsAndRepeatsNoTool(t *testing.T) {
	b := &backend{pageSize: 2, ttl: proto.Int64(100_000)}
	b.set(newTool("a", intSchema), newTool("b", intSchema), newTool("c", intSchema), newTool("a", intSchema),
		newTool("b", intSchema), newTool("d", intSchema))
	c := New(b, Options{})
	var got [][]string
	for l := listTools(t, c, as("x")); ; l = listTools(t, c, as("x"), l.GetNextCursor()) {
		got = append(got, names(l))
		if l.NextCursor == nil {
			break
		}
	}
	expect(t, "pages", got, [][]string{{"a", "b"}, {"c"}, {"d"}})

	var many []*pb.Tool
	for i := range usual.Tools + 100 {
		many = append(many, newTool("t"+strconv.Itoa(i), intSchema))
	}
	b = &backend{}
	b.set(many...)
	expect(t, "tools on one page", len(listTools(t, New(b, Options{}), as("x")).GetTools()), usual.Tools)
	b.pageSize = 1_000
	c, total := New(b, Options{}), 0
	for l := listTools(t, c, as("x")); ; l = listTools(t, c, as("x"), l.GetNextCursor()) {
		total += len(l.GetTools())
		if l.NextCursor == nil {
			break
		}
	}
	expect(t, "tools on several pages", total, usual.Tools)
}

// With an endless list, a call reads up to the limit of pages, and fewer if a cursor repeats.
func TestEndlessListsFail(t *testing.T) {
	bridgetest.SkipIfShort(t)
	for _, tc := range []struct {
		what string
		next func(cursor string) string
		most int
	}{
		{"the same", func(string) string { return "same" }, 2},
		{"an empty one", func(string) string { return "" }, 2},
		{
			"another one", func(c string) string { return "c" + strconv.Itoa(len(c)) + c[:min(len(c), 8)] },
			limits.ListPages,
		},
		{"ever longer ones", func(c string) string { return c + strings.Repeat("c", 1000) }, limits.ListPages},
	} {
		lists := 0
		c := New(bridge.HandlerFunc(func(_ context.Context, call *bridge.Call, _ bridge.Emit) (*bridge.Result, error) {
			if r, ok := call.Request.(*pb.ListToolsRequest); ok {
				lists++
				return &bridge.Result{Complete: &pb.ListToolsResponse{
					NextCursor: proto.String(tc.next(r.GetCursor())),
				}}, nil
			}
			return &bridge.Result{Complete: bridgetest.Text("called")}, nil
		}), Options{})
		expect(t, tc.what, callTool(t, c, as("x"), "f", `{}`), "called")
		if lists > tc.most {
			t.Errorf("%s: got requests for %d pages", tc.what, lists)
		}
		for key := range c.before {
			if len(key.cursor) > maxCursor {
				t.Fatalf("%s: the page before a cursor of %d bytes is cached, so that every later page looks it up",
					tc.what, len(key.cursor))
			}
		}
	}
}

func TestArgumentsAreValidated(t *testing.T) {
	b := &backend{}
	b.set(newTool("f", intSchema), newTool("any", ""))
	c := New(b, Options{})
	expect(t, "good", callTool(t, c, as("x"), "f", `{"n":1}`), "called")
	got := callTool(t, c, as("x"), "f", `{"n":"one"}`)
	expect(t, "bad", got, "error: The arguments do not fit the tool \"f\", and it was not called:\n- /n: expected "+
		"an integer, got the string \"one\"\nIt is called like this: f(n: integer)")
	contains(t, callTool(t, c, as("x"), "f", ``), "error: ", "/n: expected integer, got nothing: it is required")
	expect(t, "any", callTool(t, c, as("x"), "any", ``), "called")
	expect(t, "calls", b.calls, []string{`{"n":1}`, ``})
	expect(t, "unchecked", callTool(t, New(b, Options{SkipArguments: true}), as("x"), "f", `{}`), "called")
}

func TestUnknownToolIsPassedToTheBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{}
		b.set(newTool("f", intSchema))
		c := New(b, Options{})
		for range 10 {
			expect(t, "unknown", callTool(t, c, as("x"), "g", `{}`), "called")
		}
		expect(t, "lists", b.listCount(), 1)
		pass(searchInterval)
		b.set(newTool("g", intSchema))
		contains(t, callTool(t, c, as("x"), "g", `{}`), "error: ")
	})
}

func TestToolIsFoundOnAnyPage(t *testing.T) {
	b := &backend{pageSize: 1}
	b.set(newTool("a", intSchema), newTool("b", intSchema), newTool("c", intSchema), newTool("d", intSchema))
	c := New(b, Options{})
	contains(t, callTool(t, c, as("x"), "c", `{}`), "error: ")
	expect(t, "lists", b.listCount(), 3)
	expect(t, "good", callTool(t, c, as("x"), "c", `{"n":1}`), "called")
	expect(t, "lists", b.listCount(), 3)
}

func TestCallProceedsWithoutAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{listErr: bridge.Errorf(codes.Unimplemented, "no lists")}
		c := New(b, Options{})
		expect(t, "list fails", callTool(t, c, as("x"), "f", `{}`), "called")
		b.hold = make(chan struct{}) // never receives
		began := time.Now()
		expect(t, "list hangs", callTool(t, c, as("x"), "f", `{}`), "called")
		expect(t, "how long it is waited for", time.Since(began), limits.FindTimeout)
	})
}

func TestCallCanBeCanceledDuringTheList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{hold: make(chan struct{})}
		c := New(b, Options{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.Handle(ctx, &bridge.Call{Method: bridge.CallTool, Request: &pb.CallToolRequest{Name: "f"}}, nil)
		if !errors.Is(err, context.DeadlineExceeded) || len(b.calls) > 0 {
			t.Errorf("%v, %q", err, b.calls)
		}
	})
}

func TestConcurrentCallsShareTheList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{hold: make(chan struct{})}
		b.set(newTool("f", intSchema))
		c := New(b, Options{})
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() { expect(t, "call", callTool(t, c, as("x"), "f", `{"n":1}`), "called") })
		}
		synctest.Wait()
		close(b.hold)
		wg.Wait()
		expect(t, "lists", b.listCount(), 1)
	})
}

func TestStaleSchemaNeverRejectsArguments(t *testing.T) {
	b := &backend{}
	b.set(newTool("f", intSchema))
	c := New(b, Options{})
	callTool(t, c, as("x"), "f", `{"n":1}`)
	expect(t, "lists", b.listCount(), 1)
	b.set(newTool("f", stringSchema))
	expect(t, "what the old schema takes", callTool(t, c, as("x"), "f", `{"n":1}`), "called")
	expect(t, "lists", b.listCount(), 1)
	expect(t, "what the new schema takes", callTool(t, c, as("x"), "f", `{"n":"one"}`), "called")
	expect(t, "lists", b.listCount(), 2)
	contains(t, callTool(t, c, as("x"), "f", `{"n":1}`), "/n: expected a string, got the number 1")
	expect(t, "lists: a refusal has its own", b.listCount(), 3)

	b.set()
	expect(t, "a tool that is gone is for the backend to refuse", callTool(t, c, as("x"), "f", `{}`), "called")
	b.listErr = errors.New("down")
	expect(t, "and when there is no list", callTool(t, c, as("x"), "f", `{}`), "called")
}

func TestListForAValidationUsesTheCallersPrincipal(t *testing.T) {
	b := &backend{}
	b.set(newTool("f", intSchema))
	cc := as("x")
	cc.Meta, cc.ProgressWanted, cc.Verified.Headers = `{"progressToken":1}`, true, map[string]string{"h": "v"}
	callTool(t, New(b, Options{}), cc, "f", `{}`)
	got := b.lastList
	v := got.GetVerified()
	if v.GetPrincipal().GetSubject() != "x" || v.GetProtocolVersion() != "2025-11-25" ||
		v.GetHeaders()["h"] != "v" || got.GetMeta() != "" || got.GetProgressWanted() {
		t.Errorf("requests with %v", got)
	}
}

func TestUnusableSchemaIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	b := &backend{}
	b.set(newTool("dialect", `{"$schema":"https://example.com/d","type":"object","required":["a"]}`),
		newTool("ref", `{"type":"object","$ref":"#/nowhere"}`),
		newTool("pattern", `{"type":"object","properties":{"a":{"type":"string","pattern":"(?=x)"}}}`))
	c := New(b, Options{Log: zerolog.New(&log)})
	expect(t, "tools", len(listTools(t, c, as("x")).GetTools()), 3)
	for range 3 {
		for _, name := range []string{"dialect", "ref", "pattern"} {
			expect(t, name, callTool(t, c, as("x"), name, `{"a":"b"}`), "called")
		}
	}
	contains(t, log.String(), "dialect that is not known", "nowhere", `(?=x)`)
	expect(t, "warnings", strings.Count(log.String(), "\n"), 3)
	contains(t, callTool(t, c, as("x"), "pattern", `{"a":1}`), "/a: expected a string")
}

const returnsInt = `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`

func TestOutputIsValidated(t *testing.T) {
	tool := &pb.Tool{Name: "f", InputSchema: `{"type":"object"}`, OutputSchema: returnsInt}
	for _, c := range []struct {
		name, output string
		isError      bool
		want         string // part of an error's text
	}{
		{name: "conforms", output: `{"n":1}`},
		{name: "wrong", output: `{"n":"secret"}`, want: `/n: expected an integer, got the string "secret"`},
		{name: "missing member", output: `{}`, want: "/n: expected integer, got nothing"},
		{name: "missing", output: ``, want: "the structured content: expected one, got nothing"},
		{name: "null", output: `null`, want: "the structured content: expected an object, got null"},
		{name: "array", output: `[1]`, want: "the structured content: expected an object, got an array of 1 item"},
		{name: "not JSON", output: `{"n":`, want: "the structured content: it is not JSON"},
		{name: "U-17: an error may return anything", output: ``, isError: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log bytes.Buffer
			b := &backend{result: &pb.CallToolResult{
				StructuredContent: []byte(c.output), IsError: &c.isError,
				Meta: `{"a":1}`,
			}}
			b.set(tool)
			catalog := New(b, Options{Log: zerolog.New(&log)})
			r, err := catalog.Handle(t.Context(),
				&bridge.Call{Method: bridge.CallTool, Request: &pb.CallToolRequest{Name: "f", Context: as("x")}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if c.want == "" {
				if r.Complete != b.result || log.Len() > 0 {
					t.Errorf("got %v, log %s", r.Complete, &log)
				}
				return
			}
			got := r.Complete.(*pb.CallToolResult)
			if !got.GetIsError() || got.StructuredContent != nil || got.Meta != "" {
				t.Errorf("got %v", got)
			}
			contains(t, got.GetContent()[0].GetText().GetText(), `The tool "f" was called`, c.want, "{n: integer}")
			contains(t, log.String(), `"level":"error"`, `"tool":"f"`, `"code":"Internal"`)
			expect(t, "unchecked", callTool(t, New(b, Options{SkipOutput: true}), as("x"), "f", `{}`), c.output)
		})
	}
}

// If a value is too expensive to validate, the error contains the reason and the outcome: for arguments the tool was
// not called, for a result it was.
func TestUndecidableValidationFails(t *testing.T) {
	const itself = `{"type":"object","$ref":"#","minProperties":1}`
	branches := of(`{"items":{"anyOf":[` + commas(500, always(`{"type":"string"}`)) + `]}}`)
	unequal := of(`{"type":"array","items":{"type":"string"}}`)
	for _, c := range []struct{ name, schema, value, why string }{
		{"endless", itself, `{"a":1}`, " it cannot be compared with a schema that refers to itself without end"},
		{
			"too long", branches, with(items(1_000, "1")),
			" it takes too long to be compared with the schema: more than about 100 ms",
		},
		{
			"too large", unequal, with(`[` + items(90_000, "777") + `,` + items(90_000, "777") + `]`),
			" it is too large to be compared with the schema: it would take more than 4 MiB of memory",
		},
		{"too many digits", unequal, with(`[1e1000000000]`), "- /a/0: expected a number of at most 1000 digits"},
	} {
		var log bytes.Buffer
		b := &backend{result: &pb.CallToolResult{StructuredContent: []byte(c.value)}}
		b.set(&pb.Tool{Name: "f", InputSchema: c.schema}, &pb.Tool{Name: "g", OutputSchema: c.schema})
		catalog := New(b, Options{Log: zerolog.New(&log)})
		got := callTool(t, catalog, as("x"), "f", c.value)
		contains(t, got, `error: The arguments of the tool "f" could not be compared with its input schema, and it was not called:`,
			c.why, "less at a time", "skipArguments")
		if strings.Contains(got, "do not fit") || len(b.calls) > 0 {
			t.Errorf("%s: called with %d bytes of arguments: %s", c.name, len(b.calls), got)
		}
		if c.name == "too large" {
			continue // a result may be larger
		}
		got = callTool(t, catalog, as("x"), "g", `{}`)
		contains(t, got, `error: The tool "g" was called and did its work. Its result could not be compared with its output schema, and is withheld:`,
			c.why, "less at a time", "skipOutput")
		contains(t, log.String(), `"level":"error"`, `"tool":"g"`, `"code":"ResourceExhausted"`, c.why[3:],
			"could not be compared", "skipOutput")
		if text := got + log.String(); strings.Contains(text, "fault") || strings.Contains(text, "does not allow") ||
			len(b.calls) != 1 {
			t.Errorf("%s: called %d times: %s", c.name, len(b.calls), text)
		}
		expect(t, c.name, callTool(t, New(b, Options{SkipOutput: true}), as("x"), "g", `{}`), c.value)
	}
}

func TestStaleSchemaNeverRejectsOutput(t *testing.T) {
	b := &backend{result: &pb.CallToolResult{StructuredContent: []byte(`{"n":1}`)}}
	b.set(&pb.Tool{Name: "f", OutputSchema: returnsInt})
	c := New(b, Options{})
	expect(t, "old", callTool(t, c, as("x"), "f", `{}`), `{"n":1}`)
	b.set(&pb.Tool{Name: "f", OutputSchema: stringSchema})
	b.result = &pb.CallToolResult{StructuredContent: []byte(`{"n":"one"}`)}
	expect(t, "new", callTool(t, c, as("x"), "f", `{}`), `{"n":"one"}`)
	b.set(&pb.Tool{Name: "f"})
	b.result = &pb.CallToolResult{}
	expect(t, "without", callTool(t, c, as("x"), "f", `{}`), ``)
}

func TestInputRequiredIsNotValidatedAsOutput(t *testing.T) {
	needs := &pb.InputRequired{RequestState: []byte("s")}
	c := New(bridge.HandlerFunc(func(_ context.Context, call *bridge.Call, _ bridge.Emit) (*bridge.Result, error) {
		if call.Method == bridge.ListTools {
			return &bridge.Result{Complete: &pb.ListToolsResponse{
				Tools: []*pb.Tool{{Name: "f", OutputSchema: returnsInt}},
			}}, nil
		}
		return &bridge.Result{InputRequired: needs}, nil
	}), Options{})
	r, err := c.Handle(t.Context(), &bridge.Call{Method: bridge.CallTool, Request: &pb.CallToolRequest{Name: "f"}}, nil)
	if err != nil || r.InputRequired != needs {
		t.Errorf("%v, %v", r, err)
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
