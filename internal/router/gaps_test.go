package router_test

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/router"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// can returns the context of a caller with a connection of its own to legacy servers.
func can() *pb.CallContext {
	return &pb.CallContext{ClientCapabilities: &pb.ClientCapabilities{Sampling: &pb.SamplingCapability{}}}
}

func toolsOf(t *testing.T, r *router.Router, caller *pb.CallContext) (names []string, ttl *int64) {
	t.Helper()
	l, err := request[*pb.ListToolsResponse](t, r, bridge.ListTools, &pb.ListToolsRequest{Context: caller})
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range l.GetTools() {
		names = append(names, tool.GetName())
	}
	return names, l.TtlMs
}

// A list waits for a server that starts, however long that takes, and is complete.
func TestListsWaitForAServerThatStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		slow, fast := &server{hang: true}, &server{pages: [][]string{{"x"}}}
		started := make(chan struct{})
		r := routed(t, &log, router.Route{
			Name: "slow", Handler: slow,
			Started: func(ctx context.Context, _ bridge.Era) error {
				select {
				case <-started:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			},
		}, router.Route{Name: "fast", Handler: fast})
		time.AfterFunc(25*time.Second, func() {
			slow.set(func(s *server) { s.hang, s.pages = false, [][]string{{"y"}} })
			close(started)
		})
		names, _ := toolsOf(t, r, can())
		equal(t, "tools", names, []string{"slow_y", "fast_x"})
		if log.Len() > 0 {
			t.Errorf("no error for the server: %s", &log)
		}
	})
}

// A list without the part of a server is reported as changed once the part is available, even if the server reports
// nothing.
func TestListChangeIsSentWhenAMissingServerAppears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := &server{err: down}, &server{pages: [][]string{{"x"}}}
		r := route(t, nil, a, b)
		want := &pb.SubscriptionFilter{ToolsListChanged: proto.Bool(true), PromptsListChanged: proto.Bool(true)}
		before := listen(t, r, want)
		before.expect(t, acknowledged(want))
		names, ttl := toolsOf(t, r, can())
		equal(t, "tools", names, []string{"b_x"})
		if ttl == nil || *ttl != 0 {
			t.Errorf("an incomplete list has the TTL %v", ttl)
		}
		after := listen(t, r, want) // a later subscriber receives it too
		after.expect(t, acknowledged(want))
		a.set(func(s *server) { s.err, s.pages = nil, [][]string{{"y"}} })
		before.expect(t, toolsChanged())
		after.expect(t, toolsChanged())
		names, _ = toolsOf(t, r, can())
		equal(t, "tools", names, []string{"a_y", "b_x"})
		n := len(calls[*pb.ListToolsRequest](a))
		<-time.After(time.Hour)
		if m := len(calls[*pb.ListToolsRequest](a)); m != n {
			t.Errorf("a complete list was requested %d more times", m-n)
		}
		before.end(t)
		after.end(t)

		a.set(func(s *server) { s.err = down })
		toolsOf(t, r, can())
		n = len(calls[*pb.ListToolsRequest](a))
		<-time.After(time.Hour)
		if m := len(calls[*pb.ListToolsRequest](a)); m != n {
			t.Errorf("without a subscriber the list was requested %d times", m-n)
		}
	})
}

// An own is a legacy server with one connection for callers without capabilities, and one for each other caller.
type own struct {
	*server
	made chan struct{}
}

func (o *own) Handle(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
	if call.Method != bridge.ListTools || proto.Size(call.Context().GetClientCapabilities()) == 0 {
		return o.server.Handle(ctx, call, emit)
	}
	select {
	case <-o.made:
		return complete(&pb.ListToolsResponse{Tools: []*pb.Tool{{Name: "own"}}})
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// While a caller's connection is being established, a list has the entries for callers without capabilities and TTL 0,
// and is reported as changed once the connection is ready.
func TestSharedListIsUsedUntilTheCallersConnectionIsReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		a := &own{&server{pages: [][]string{{"all"}}, ttl: proto.Int64(60_000)}, make(chan struct{})}
		b := &server{pages: [][]string{{"x"}}, ttl: proto.Int64(60_000)}
		r := routed(t, &log, router.Route{Name: "a", Handler: a}, router.Route{Name: "b", Handler: b})
		want := &pb.SubscriptionFilter{ToolsListChanged: proto.Bool(true)}
		l := listen(t, r, want)
		l.expect(t, acknowledged(want))
		names, ttl := toolsOf(t, r, can())
		equal(t, "tools", names, []string{"a_all", "b_x"})
		if ttl == nil || *ttl != 0 || !strings.Contains(log.String(), "without capabilities") {
			t.Errorf("the list has the TTL %v; log: %s", ttl, &log)
		}
		close(a.made)
		l.expect(t, toolsChanged())
		names, ttl = toolsOf(t, r, can())
		equal(t, "tools", names, []string{"a_own", "b_x"})
		if ttl == nil || *ttl != 0 { // a's own list has no TTL
			t.Errorf("the list has the TTL %v", ttl)
		}
		l.end(t)
	})
}

// The number of remembered gaps is limited. Subscribers with an incomplete list above the limit receive the changes for
// the other gaps.
func TestRememberedGapsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := &server{err: down}, &server{pages: [][]string{{"x"}}}
		r := route(t, nil, a, b)
		for i := range 300 {
			toolsOf(t, r, &pb.CallContext{Verified: &pb.VerifiedCaller{ProtocolVersion: strconv.Itoa(i)}})
			<-time.After(time.Second)
		}
		n := len(calls[*pb.ListToolsRequest](a))
		a.set(func(s *server) { s.err = nil })
		want := &pb.SubscriptionFilter{ToolsListChanged: proto.Bool(true)}
		l := listen(t, r, want)
		l.expect(t, acknowledged(want))
		l.expect(t, toolsChanged())
		synctest.Wait()
		if n = len(calls[*pb.ListToolsRequest](a)) - n; n != 256 {
			t.Errorf("got requests for %d parts", n)
		}
		l.cancel()
	})
}
