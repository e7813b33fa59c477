package bridgetest

import (
	"context"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/mcpjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// MCPLaws checks that a chain with an MCP connection of a revision behaves like the Handler at its end, as far as the
// revision can express it. The differences are these, and no others:
//
//	what                      2026-07-28             before
//	-----------------------------------------------  -----------------------------------------------------------------
//	members of messages       those of the revision, and the conversions of mcpjson
//	errors                    the JSON-RPC code and its text: the table of bridge.Error, in both directions
//	the caller's revision     2026-07-28             the one of the connection
//	the caller's name         unchanged              the client's own: a session is shared
//	the caller's capabilities unchanged              those that the revision has
//	progress                  increases              increases, over all rounds of a call
//	keys of input requests    unchanged              the client's own: a request of the server has an ID and no key
//	request state             unchanged              the client's own: it identifies a pending call
//	unsupported input         fails                  fails; the server's message starts with unsupportedInput
//	unknown input requests    unchanged              the client has no such method
func MCPLaws(t *testing.T, rev bridge.Revision, wrap func(t *testing.T, h bridge.Handler) bridge.Handler) {
	t.Helper()
	var keys sync.Map
	bare := withKeys(expressible(Kit(), rev), func(question, key string) string {
		keys.Store(question, key)
		return key
	})
	chain := withKeys(wrap(t, Kit()), func(question, key string) string {
		if k, ok := keys.Load(question); ok {
			return k.(string)
		}
		return key
	})
	laws(t, bare, chain, true)
}

// expressible returns a Handler that behaves like h, as far as the revision can express it.
func expressible(h bridge.Handler, rev bridge.Revision) bridge.Handler {
	var mu sync.Mutex
	reached := map[string]float64{} // the progress of calls of the legacy era with input requests
	return bridge.HandlerFunc(func(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
		if call.Method == bridge.Listen {
			return h.Handle(ctx, call, emit)
		}
		call = &bridge.Call{Method: call.Method, Request: proto.Clone(call.Request).(bridge.Request)}
		if !rev.Modern() {
			cc := call.Context()
			cc.Verified = bridge.Verified(rev, nil, nil)
			cc.ClientInfo = &pb.Implementation{Name: "mcpbridge", Version: "1"}
			cc.ClientCapabilities = converted(cc.GetClientCapabilities(), rev).(*pb.ClientCapabilities)
		}
		id, last := "", -1.0
		if call.Method.MayRequireInput {
			id = string(call.Binding())
			mu.Lock()
			if p, ok := reached[id]; ok && !rev.Modern() && bridge.IsRetry(call.Request) {
				last = p
			}
			mu.Unlock()
		}
		expressed := func(ctx context.Context, e bridge.Event) error {
			switch {
			case e.Progress != nil && e.Progress.GetProgress() <= last:
				return nil
			case e.Progress != nil:
				last = e.Progress.GetProgress()
				return emit(ctx, bridge.Event{Progress: converted(e.Progress, rev).(*pb.Progress)})
			}
			return emit(ctx, bridge.Event{Log: converted(e.Log, rev).(*pb.LogMessage)})
		}
		res, err := h.Handle(ctx, call, expressed)
		if unsupported := withoutMethods(res); len(unsupported) > 0 && !rev.Modern() {
			res, err = h.Handle(ctx, call.Retry(unsupported, res.InputRequired.GetRequestState()), expressed)
		}
		mu.Lock()
		reached[id] = last
		mu.Unlock()
		if err == nil && res.InputRequired != nil && !rev.Modern() {
			for _, req := range res.InputRequired.GetInputRequests() {
				if bridge.MissingCapabilities(call.Context().GetClientCapabilities(), req) == nil {
					continue
				}
				if call.Method != bridge.CallTool {
					err = bridge.Errorf(codes.FailedPrecondition, unsupportedInput)
					break
				}
				failed := Text(unsupportedInput)
				failed.IsError = proto.Bool(true)
				return &bridge.Result{Complete: failed}, nil
			}
		}
		switch {
		case err != nil:
			return nil, bridge.FromJSONRPC(bridge.AsError(err).JSONRPC(rev, call.Method), rev, call.Method)
		case res.InputRequired != nil:
			return res, nil
		}
		out := converted(res.Complete, rev)
		if d, ok := out.(*pb.DiscoverResponse); ok {
			response := res.Complete.(*pb.DiscoverResponse)
			d.ServerInfo = converted(response.GetServerInfo(), rev).(*pb.Implementation) // not a member of the result
			if !rev.DeclaresCompletions() {
				// the revision cannot declare completions, and the server has them
				d.Capabilities.Completions = response.GetCapabilities().GetCompletions()
			}
		}
		return &bridge.Result{Complete: out}, nil
	})
}

// withoutMethods returns what a legacy client responds to input requests of methods that it does not have.
func withoutMethods(res *bridge.Result) map[string]*pb.InputResponse {
	responses := map[string]*pb.InputResponse{}
	if res == nil {
		return responses
	}
	for _, req := range res.InputRequired.GetInputRequests() {
		if req.GetRaw() != "" {
			responses[req.GetKey()] = &pb.InputResponse{Response: &pb.InputResponse_Error{
				Error: &pb.InputError{Reason: pb.InputError_REASON_UNSUPPORTED},
			}}
		}
	}
	return responses
}

// converted returns a message after encoding and decoding in a revision.
func converted(m proto.Message, rev bridge.Revision) proto.Message {
	data, err := mcpjson.Append(nil, m, rev)
	if err != nil {
		panic(err) // messages of the kit can be encoded
	}
	out := m.ProtoReflect().New().Interface()
	if err := mcpjson.Unmarshal(data, out, rev); err != nil {
		panic(err)
	}
	return out
}

// unsupportedInput is the prefix of a server's message about input that its client does not support.
const unsupportedInput = "This needs "

// withKeys returns h with the keys of input requests replaced by name, and keeps the state for retries.
func withKeys(h bridge.Handler, name func(question, key string) string) bridge.Handler {
	type round struct {
		state []byte
		keys  map[string]string // keys of h, by those that name returned
	}
	var mu sync.Mutex
	rounds := map[string]round{}
	return bridge.HandlerFunc(func(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
		id := ""
		if call.Method.MayRequireInput {
			id = string(call.Binding())
		}
		if in, ok := call.Request.(interface {
			GetInputResponses() map[string]*pb.InputResponse
		}); ok && len(in.GetInputResponses()) > 0 {
			mu.Lock()
			last := rounds[id]
			mu.Unlock()
			answers := map[string]*pb.InputResponse{}
			for key, answer := range in.GetInputResponses() {
				answers[last.keys[key]] = answer
			}
			call = call.Retry(answers, last.state)
		}
		res, err := h.Handle(ctx, call, emit)
		if err != nil {
			e := *bridge.AsError(err)
			if i := strings.Index(e.Message, unsupportedInput); i >= 0 {
				e.Message, e.RPC = unsupportedInput, nil
			}
			return nil, &e
		}
		if r, ok := res.Complete.(*pb.CallToolResult); ok && r.GetIsError() &&
			strings.HasPrefix(resultText(res), unsupportedInput) {
			r = proto.CloneOf(r)
			r.Content[0].GetText().Text = unsupportedInput
			return &bridge.Result{Complete: r}, nil
		}
		if res.InputRequired == nil {
			return res, nil
		}
		now := round{state: res.InputRequired.RequestState, keys: map[string]string{}}
		var requests []*pb.InputRequest
		for _, req := range res.InputRequired.GetInputRequests() {
			req, key := bridge.ShallowCopy(req), req.GetKey()
			req.Key = ""
			req.Key = name(text(req), key)
			now.keys[req.GetKey()] = key
			requests = append(requests, req)
		}
		mu.Lock()
		rounds[id] = now
		mu.Unlock()
		return &bridge.Result{InputRequired: &pb.InputRequired{InputRequests: requests}}, nil
	})
}
