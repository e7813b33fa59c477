package mcpserver

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A discoverHandler responds to Discover, or fails.
type discoverHandler struct {
	err      error
	requests int
}

func (m *discoverHandler) Handle(context.Context, *bridge.Call, bridge.Emit) (*bridge.Result, error) {
	m.requests++
	if m.err != nil {
		return nil, m.err
	}
	return &bridge.Result{Complete: &pb.DiscoverResponse{Instructions: new("be kind")}}, nil
}

func TestOverloadDoesNotChangeTheEra(t *testing.T) {
	overloaded := bridge.Failed(codes.ResourceExhausted, bridge.OutcomeNotExecuted, bridge.ReasonOverloaded,
		"too many calls")
	gone := bridge.Errorf(codes.Unavailable, "the backend has ended")
	synctest.Test(t, func(t *testing.T) {
		h := &discoverHandler{err: overloaded}
		s := New(h, Options{})
		defer s.Close()
		if _, err := s.discover(t.Context(), bridge.ModernEra); err == nil {
			t.Error("got a result that was never returned")
		}
		h.err = nil
		if _, err := s.discover(t.Context(), bridge.ModernEra); err != nil {
			t.Fatal(err)
		}
		pass(2 * discoverInterval)
		h.err, h.requests = overloaded, 0
		for range 3 {
			if k, err := s.discover(t.Context(), bridge.ModernEra); err != nil || k.GetInstructions() != "be kind" {
				t.Errorf("%v, %v", k, err)
			}
		}
		if h.requests != 1 {
			t.Errorf("an overloaded backend received %d requests", h.requests)
		}
		pass(2 * discoverInterval)
		h.err = gone
		if _, err := s.discover(t.Context(), bridge.ModernEra); err == nil {
			t.Error("the result of a lost backend is still returned")
		}
	})
}

// Extensions and _meta reach clients of all revisions, except for tasks, which the bridge does not support.
func TestExtensionsReachOldClients(t *testing.T) {
	d := &declaration{DiscoverResponse: &pb.DiscoverResponse{
		Capabilities: &pb.ServerCapabilities{
			Extensions: `{"io.modelcontextprotocol/ui":{"a":1},"io.modelcontextprotocol/tasks":{}}`,
		},
		Meta: `{"example.com/build":7}`,
	}}
	for _, rev := range bridge.Revisions()[:4] {
		got, err := (&Server{opts: Options{}.withDefaults()}).initializeResult(d, rev)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			`"extensions":{"io.modelcontextprotocol/ui":{"a":1}}`,
			`"_meta":{"example.com/build":7}`,
		} {
			if !strings.Contains(string(got), want) {
				t.Errorf("%s: %s lacks %s", rev, got, want)
			}
		}
	}
}
