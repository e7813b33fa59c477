package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/mcpbridge/mcpbridge/bridge"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

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
