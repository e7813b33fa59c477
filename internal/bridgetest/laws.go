package bridgetest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// Laws checks that a chain of adapters around a Handler behaves like the Handler: every call has the same events in
// the same order, and the same result or error. A new chain is one call of Laws.
func Laws(t *testing.T, wrap func(t *testing.T, h bridge.Handler) bridge.Handler) {
	t.Helper()
	laws(t, Kit(), wrap(t, Kit()), true)
}

// ProgramLaws checks that a program with the tools of the contract kit behaves like the Kit, except for its choices:
// pages, caching hints, and the messages of its own errors. A new program is one call of ProgramLaws.
func ProgramLaws(t *testing.T, program bridge.Handler) {
	t.Helper()
	laws(t, normalized(Kit()), normalized(program), false)
}

// laws compares two Handlers. pages also compares the pages of lists.
func laws(t *testing.T, bare, chain bridge.Handler, pages bool) {
	t.Helper()
	for _, s := range scenarios {
		if s.pages && !pages {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			want, got := s.play(t.Context(), bare), s.play(t.Context(), chain)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("cancelling ends the call", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		failed := make(chan error, 1)
		go func() {
			_, err := chain.Handle(ctx, toolCall("wait", `{"n":1}`), ignore)
			failed <- err
		}()
		expectText(t, chain, "started", `{"n":1}`, "started")
		cancel()
		if code := bridge.AsError(<-failed).Code.String(); code != "Canceled" {
			t.Errorf("ended with %s", code)
		}
		expectText(t, chain, "ended", `{"n":1}`, "ended")
	})
	t.Run("a listener receives changes", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		changes := make(chan string)
		done := make(chan struct{})
		yes := true
		filter := &pb.SubscriptionFilter{ToolsListChanged: &yes, ResourceSubscriptions: []string{"test://a"}}
		call := &bridge.Call{Method: bridge.Listen, Request: &pb.ListenRequest{Context: caller, Notifications: filter}}
		go func() {
			defer close(done)
			_, err := chain.Handle(ctx, call, func(ctx context.Context, e bridge.Event) error {
				select {
				case changes <- text(e.Change):
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
			if ctx.Err() == nil {
				t.Errorf("listening ended by itself: %v", err)
				cancel()
			}
		}()
		// A change may be delivered more than once: after a late acknowledgment, all of them are.
		expectChange := func(want string) {
			t.Helper()
			for {
				select {
				case got := <-changes:
					if strings.Contains(got, want) {
						return
					}
				case <-ctx.Done():
					t.Errorf("%s is not reported", want)
					return
				}
			}
		}
		expectChange("acknowledged")
		expectText(t, chain, "update", `{"uri":"test://a"}`, "updated")
		expectChange("test://a")
		expectText(t, chain, "add", `{"name":"new"}`, "added")
		expectChange("toolsListChanged")
		if !listsTool(t, chain, "new") {
			t.Error("the tool that was added is not listed")
		}
		expectText(t, chain, "new", `{}`, "new")
		expectText(t, chain, "remove", `{"name":"new"}`, "removed")
		expectChange("toolsListChanged")
		if listsTool(t, chain, "new") {
			t.Error("the tool that was removed is still listed")
		}
		cancel()
		<-done
	})
	t.Run("calls side by side do not mix", func(t *testing.T) {
		const calls = 200
		results := make(chan string, calls)
		for i := range calls {
			go func() {
				args := fmt.Sprintf(`{"n":%d}`, i)
				res, err := chain.Handle(t.Context(), toolCall("echo", args), ignore)
				for err != nil && bridge.AsError(err).Code == codes.ResourceExhausted && notExecuted(err) {
					res, err = chain.Handle(t.Context(), toolCall("echo", args), ignore)
				}
				if err != nil || resultText(res) != args {
					results <- fmt.Sprintf("%s: %v %v", args, res, err)
					return
				}
				results <- ""
			}()
		}
		for range calls {
			if r := <-results; r != "" {
				t.Error(r)
			}
		}
	})
}

func notExecuted(err error) bool {
	return bridge.AsError(err).Outcome == bridge.OutcomeNotExecuted
}

// ignore drops events.
func ignore(context.Context, bridge.Event) error { return nil }

// resultText returns the text of a tool's result.
func resultText(res *bridge.Result) string {
	r, _ := res.Complete.(*pb.CallToolResult)
	if len(r.GetContent()) != 1 {
		return text(r)
	}
	return r.GetContent()[0].GetText().GetText()
}

// expectText checks the text that a tool returns.
func expectText(t *testing.T, h bridge.Handler, tool, args, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	res, err := h.Handle(ctx, toolCall(tool, args), ignore)
	if err != nil {
		t.Fatalf("%s %s: %v", tool, args, err)
	}
	if got := resultText(res); got != want {
		t.Errorf("%s %s returns %q, want %q", tool, args, got, want)
	}
}

// listsTool reports whether a tool is in the list.
func listsTool(t *testing.T, h bridge.Handler, tool string) bool {
	t.Helper()
	req := &pb.ListToolsRequest{Context: caller}
	for {
		res, err := h.Handle(t.Context(), &bridge.Call{Method: bridge.ListTools, Request: req}, ignore)
		if err != nil {
			t.Fatal(err)
		}
		page := res.Complete.(*pb.ListToolsResponse)
		for _, listed := range page.GetTools() {
			if listed.GetName() == tool {
				return true
			}
		}
		if page.NextCursor == nil {
			return false
		}
		req = &pb.ListToolsRequest{Context: caller, Cursor: page.NextCursor}
	}
}

// A scenario is a sequence of calls, whose transcript is compared.
type scenario struct {
	name string
	// calls are made in sequence. A result that requires input is answered with the next answers and its state.
	calls   []*bridge.Call
	answers []map[string]*pb.InputResponse
	pages   bool // it compares how lists are divided into pages
}

// play returns the transcript.
func (s scenario) play(ctx context.Context, h bridge.Handler) string {
	var out strings.Builder
	answers := s.answers
	for _, call := range s.calls {
		for call != nil {
			fmt.Fprintln(&out, "call", call.Method.Name, text(call.Request))
			res, err := h.Handle(ctx, call, func(_ context.Context, e bridge.Event) error {
				fmt.Fprintln(&out, "event", text(e.Progress), text(e.Log))
				return nil
			})
			switch {
			case err != nil:
				e := bridge.AsError(err)
				fmt.Fprintln(&out, "error", e.Code, e.Message, text(e.RPC), e.Reason, e.Outcome, e.RetryAfter)
				call = nil
			case res.InputRequired != nil && len(answers) > 0:
				fmt.Fprintln(&out, "needs", text(res.InputRequired))
				call, answers = call.Retry(answers[0], res.InputRequired.RequestState), answers[1:]
			case res.InputRequired != nil:
				fmt.Fprintln(&out, "needs", text(res.InputRequired))
				call = nil
			default:
				fmt.Fprintln(&out, "result", text(res.Complete))
				call = nil
			}
		}
	}
	return out.String()
}

// text returns a deterministic text of a message.
func text(m proto.Message) string {
	data, err := protojson.Marshal(m)
	if err != nil {
		return err.Error()
	}
	return strings.ReplaceAll(string(data), ": ", ":") // protojson adds spaces at random
}

var caller = &pb.CallContext{
	Verified: bridge.Verified(bridge.Rev20260728, nil, nil), ClientInfo: &pb.Implementation{Name: "laws", Version: "1"},
	LogLevel: pb.LogLevel_LOG_LEVEL_DEBUG, ProgressWanted: true,
	ClientCapabilities: &pb.ClientCapabilities{
		Elicitation: &pb.ElicitationCapability{}, Sampling: &pb.SamplingCapability{}, Roots: &pb.RootsCapability{},
	},
}

func toolCall(name, args string) *bridge.Call {
	return &bridge.Call{
		Method:  bridge.CallTool,
		Request: &pb.CallToolRequest{Context: caller, Name: name, Arguments: []byte(args)},
	}
}

func accept(content string) *pb.InputResponse {
	return &pb.InputResponse{Response: &pb.InputResponse_Elicit{Elicit: &pb.ElicitResult{
		Action: "accept", Content: content,
	}}}
}

var scenarios = []scenario{
	{name: "discover", calls: []*bridge.Call{{Method: bridge.Discover, Request: &pb.DiscoverRequest{Context: caller}}}},
	{name: "pages", pages: true, calls: []*bridge.Call{
		{Method: bridge.ListTools, Request: &pb.ListToolsRequest{Context: caller}},
		{Method: bridge.ListTools, Request: &pb.ListToolsRequest{Context: caller, Cursor: proto.String("4")}},
	}},
	{name: "list", calls: []*bridge.Call{
		{Method: bridge.ListTools, Request: &pb.ListToolsRequest{Context: caller}},
		{Method: bridge.ListTools, Request: &pb.ListToolsRequest{Context: caller, Cursor: proto.String("none")}},
		{Method: bridge.ListResources, Request: &pb.ListResourcesRequest{Context: caller}},
		{Method: bridge.ListResourceTemplates, Request: &pb.ListResourceTemplatesRequest{Context: caller}},
		{Method: bridge.ListPrompts, Request: &pb.ListPromptsRequest{Context: caller}},
	}},
	{name: "call", calls: []*bridge.Call{
		toolCall("echo", `{"b":9007199254740993,"a":1e2}`), toolCall("structured", `{"a":[1,null]}`),
		toolCall("who", `{}`),
		toolCall("count", `{}`), toolCall("fail", `{}`), toolCall("nosuch", `{}`), toolCall("exact", `{}`),
	}},
	{
		name: "ask", calls: []*bridge.Call{toolCall("ask", `{"x":1}`)},
		answers: []map[string]*pb.InputResponse{{"name": accept(`{"name":"Ada"}`)}, {"right": accept(`{"yes":"y"}`)}},
	},
	{
		name: "ask for several things", calls: []*bridge.Call{toolCall("many", `{}`)},
		answers: []map[string]*pb.InputResponse{{
			"form": accept(`{"a":"b"}`),
			"model": {Response: &pb.InputResponse_CreateMessage{CreateMessage: &pb.CreateMessageResult{
				Role: "assistant", Model: "m", Content: Text("4").GetContent(),
			}}},
			"roots": {Response: &pb.InputResponse_ListRoots{
				ListRoots: &pb.ListRootsResult{Roots: []*pb.Root{{Uri: "file:///a"}}},
			}},
		}},
	},
	{
		name: "ask for something unknown", calls: []*bridge.Call{toolCall("unknown", `{}`)},
		answers: []map[string]*pb.InputResponse{{
			"new": {Response: &pb.InputResponse_Raw{Raw: `{"n":9007199254740993}`}},
		}},
	},
	{name: "ask in vain", calls: []*bridge.Call{toolCall("ask", `{}`)}},
	{name: "read", calls: []*bridge.Call{
		{Method: bridge.ReadResource, Request: &pb.ReadResourceRequest{Context: caller, Uri: "test://a"}},
		{Method: bridge.ReadResource, Request: &pb.ReadResourceRequest{Context: caller, Uri: "test://z"}},
	}},
	{
		name: "prompt", calls: []*bridge.Call{
			{
				Method:  bridge.GetPrompt,
				Request: &pb.GetPromptRequest{Context: caller, Name: "p", Arguments: map[string]string{"x": "y"}},
			},
			{Method: bridge.GetPrompt, Request: &pb.GetPromptRequest{Context: caller, Name: "nosuch"}},
			{Method: bridge.GetPrompt, Request: &pb.GetPromptRequest{Context: caller, Name: "p"}},
		},
		answers: []map[string]*pb.InputResponse{{"x": accept(`{"x":"z"}`)}},
	},
	{name: "complete", calls: []*bridge.Call{{Method: bridge.Complete, Request: &pb.CompleteRequest{
		Context: caller, Argument: &pb.CompletionArgument{Name: "x", Value: "a"},
		Reference: &pb.CompletionReference{
			Reference: &pb.CompletionReference_Prompt{Prompt: &pb.PromptReference{Name: "p"}},
		},
	}}}},
}
