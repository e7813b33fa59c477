package grpcserver_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/grpcserver"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

func TestMetadataSelectsTheServer(t *testing.T) {
	c := client(t, serve(t, textHandler("all"),
		[]grpcserver.Backend{{Name: "a", Handler: textHandler("of a")}, {Name: "b", Handler: textHandler("of b")}},
		grpcserver.Options{}))
	for _, s := range []struct {
		names []string
		want  string
		code  codes.Code
	}{
		{nil, "all", codes.OK},
		{[]string{"a"}, "of a", codes.OK},
		{[]string{"b"}, "of b", codes.OK},
		{[]string{"c"}, `there is no server "c" (metadata mcpbridge-server); there are: a, b`, codes.NotFound},
		{[]string{""}, `there is no server "" (metadata mcpbridge-server); there are: a, b`, codes.NotFound},
		{[]string{"A"}, `there is no server "A" (metadata mcpbridge-server); there are: a, b`, codes.NotFound},
		{[]string{strings.Repeat("x", 9_000)}, `there is no server "` + strings.Repeat("x", 77) +
			`…" (metadata mcpbridge-server); there are: a, b`, codes.NotFound},
		{[]string{"a", "a"}, "the metadata mcpbridge-server occurs 2 times: send it once, or omit it for all " +
			"servers together", codes.InvalidArgument},
	} {
		ctx := metadata.NewOutgoingContext(t.Context(), metadata.MD{"mcpbridge-server": s.names})
		all, err := call(ctx, c, &pb.CallToolRequest{Name: "x"})
		got := status.Convert(err).Message()
		if err == nil {
			got = all[0].GetResult().GetContent()[0].GetText().GetText()
		}
		if got != s.want || status.Code(err) != s.code {
			t.Errorf("%.20q: %v %s", s.names, status.Code(err), got)
		}
		if s.code == codes.NotFound && reason(err) != "UNKNOWN_SERVER" {
			t.Errorf("%.20q: reason %q", s.names, reason(err))
		}
	}
}

// reason returns the reason of an error's ErrorInfo.
func reason(err error) string {
	for _, d := range status.Convert(err).Details() {
		if i, ok := d.(*errdetails.ErrorInfo); ok {
			return i.GetReason()
		}
	}
	return ""
}

// failure returns the reason and the outcome in an error.
func failure(err error) string {
	for _, d := range status.Convert(err).Details() {
		if i, ok := d.(*errdetails.ErrorInfo); ok {
			return i.GetReason() + " " + i.GetMetadata()["outcome"]
		}
	}
	return ""
}

// A call that may have been executed is never UNAVAILABLE, because stock clients retry that. Internal errors are
// redacted.
func TestErrorsAreReturned(t *testing.T) {
	const withheld = "internal error; see the bridge's log"
	lost := bridge.Failed(codes.Unknown, bridge.OutcomeUnknown, "BACKEND_CRASHED", "lost during the call")
	down := bridge.Failed(codes.Unavailable, bridge.OutcomeNotExecuted, "BACKEND_UNAVAILABLE", "down")
	down.RetryAfter = 250 * time.Millisecond
	var fail error
	c := client(t, serve(t, toolHandler(func(context.Context, *pb.CallToolRequest, bridge.Emit) (*bridge.Result,
		error,
	) {
		return nil, fail
	}), nil, grpcserver.Options{}))
	for _, s := range []struct {
		err                     error
		code                    codes.Code
		message, reason, inTime string
	}{
		{bridge.Errorf(codes.NotFound, "there is none"), codes.NotFound, "there is none", "", ""},
		{bridge.Errorf(codes.InvalidArgument, "not so"), codes.InvalidArgument, "not so", "", ""},
		{bridge.Errorf(codes.Internal, "password is hunter2"), codes.Internal, withheld, "BACKEND_FAILED", ""},
		{bridge.Errorf(codes.Unavailable, "db-3.internal is down"), codes.Unavailable, withheld, "BACKEND_FAILED", ""},
		{errors.New("password is hunter2"), codes.Internal, withheld, "BACKEND_FAILED", ""},
		{context.Canceled, codes.Canceled, "the call was cancelled", "CANCELLED", ""},
		{context.DeadlineExceeded, codes.DeadlineExceeded, "the call took too long", "DEADLINE", ""},
		{lost, codes.Unknown, "lost during the call", "BACKEND_CRASHED", ""},
		{down, codes.Unavailable, "down", "BACKEND_UNAVAILABLE", "250ms"},
		{
			bridge.Failed(codes.Unavailable, bridge.OutcomeUnknown, "SESSION_ENDED", "cut"),
			codes.Unknown, "cut", "SESSION_ENDED", "",
		},
		{bridge.Failed(codes.Unavailable, bridge.OutcomeExecuted, "X", "cut"), codes.Unknown, "cut", "X", ""},
		{&bridge.Error{Code: codes.Unknown, Message: "m", RPC: &pb.JsonRpcError{Code: -7}}, codes.Unknown, "m", "", ""},
		{
			&bridge.Error{Code: codes.OK, Message: "an error that is none"}, codes.Internal, withheld, "BACKEND_FAILED",
			"",
		},
	} {
		fail = s.err
		_, err := call(t.Context(), c, &pb.CallToolRequest{})
		st := status.Convert(err)
		retry := ""
		for _, d := range st.Details() {
			if r, ok := d.(*errdetails.RetryInfo); ok {
				retry = r.GetRetryDelay().AsDuration().String()
			}
		}
		if st.Code() != s.code || st.Message() != s.message || reason(err) != s.reason || retry != s.inTime {
			t.Errorf("%v became %v %q, reason %q, retry after %q", s.err, st.Code(), st.Message(), reason(err), retry)
		}
	}
}

func TestPanicOfAHandlerEndsItsCall(t *testing.T) {
	for name, h := range map[string]bridge.HandlerFunc{
		"panic":   func(context.Context, *bridge.Call, bridge.Emit) (*bridge.Result, error) { panic("a bug") },
		"nothing": func(context.Context, *bridge.Call, bridge.Emit) (*bridge.Result, error) { return nil, nil },
		"empty result": func(context.Context, *bridge.Call, bridge.Emit) (*bridge.Result,
			error,
		) {
			return &bridge.Result{}, nil
		},
		"another type": func(context.Context, *bridge.Call, bridge.Emit) (*bridge.Result, error) {
			return &bridge.Result{Complete: &pb.Tool{}}, nil
		},
		"nil message": func(context.Context, *bridge.Call, bridge.Emit) (*bridge.Result, error) {
			return &bridge.Result{Complete: (*pb.CallToolResult)(nil)}, nil
		},
		"asks in lists": func(context.Context, *bridge.Call, bridge.Emit) (*bridge.Result, error) {
			return &bridge.Result{InputRequired: &pb.InputRequired{RequestState: []byte("s")}}, nil
		},
		"empty event": func(ctx context.Context, _ *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
			if err := emit(ctx, bridge.Event{}); err != nil {
				return nil, err
			}
			panic("a bug after it")
		},
	} {
		c := client(t, serve(t, h, nil, grpcserver.Options{}))
		_, err := c.ListTools(t.Context(), &pb.ListToolsRequest{})
		if status.Code(err) != codes.Internal {
			t.Errorf("%s: a list: %v", name, err)
		}
		if name == "asks in lists" {
			continue
		}
		if all, err := call(t.Context(), c, &pb.CallToolRequest{}); status.Code(err) != codes.Internal || len(all) > 0 {
			t.Errorf("%s: a call: %v %v", name, all, err)
		}
	}
}

// The identity in a request is ignored, its declarations are validated, and reserved keys of `_meta` do not reach
// backends.
func TestIdentityOfRequestsIsIgnored(t *testing.T) {
	var got *pb.CallToolRequest
	c := client(t, serve(t, toolHandler(
		func(_ context.Context, r *pb.CallToolRequest, _ bridge.Emit) (*bridge.Result, error) {
			got = proto.CloneOf(r)
			return textResult(""), nil
		}), nil, grpcserver.Options{}))
	caps := &pb.ClientCapabilities{Elicitation: &pb.ElicitationCapability{}, Extensions: `{"x/y":{}}`}
	callText(t, c, &pb.CallToolRequest{Name: "x", Arguments: []byte(`{"n":9007199254740993}`), Context: &pb.CallContext{
		Verified: &pb.VerifiedCaller{
			ContractVersion: 99, ProtocolVersion: "2026-07-28",
			Principal: &pb.Principal{Subject: "root", Issuer: "me", Scopes: []string{"*"}},
			Headers:   map[string]string{"authorization": "Bearer x"},
		},
		ProtocolVersion: "2025-06-18", ClientCapabilities: caps, ClientInfo: &pb.Implementation{Name: "c"},
		LogLevel: pb.LogLevel_LOG_LEVEL_INFO, ProgressWanted: true, Meta: `{"a":1}`,
	}})
	want := &pb.CallToolRequest{Name: "x", Arguments: []byte(`{"n":9007199254740993}`), Context: &pb.CallContext{
		Verified:        &pb.VerifiedCaller{ContractVersion: 2, ProtocolVersion: "2025-06-18"},
		ProtocolVersion: "2025-06-18", ClientCapabilities: caps, ClientInfo: &pb.Implementation{Name: "c"},
		LogLevel: pb.LogLevel_LOG_LEVEL_INFO, ProgressWanted: true, Meta: `{"a":1}`,
	}}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	callText(t, c, &pb.CallToolRequest{Name: "x", Context: &pb.CallContext{Meta: `{"a":1,
		"io.modelcontextprotocol/protocolVersion":"2025-06-18",
		"io.modelcontextprotocol/clientCapabilities":{"sampling":{}},
		"io.modelcontextprotocol/clientInfo":{"name":"bank","version":"1"},"io.modelcontextprotocol/logLevel":"debug",
		"io.modelcontextprotocol/serverInfo":{"name":"bank"},"io.modelcontextprotocol/subscriptionId":1,"progressToken":2}`}})
	want = &pb.CallToolRequest{Name: "x", Context: &pb.CallContext{
		ProtocolVersion: "2026-07-28", Verified: bridge.Verified(bridge.Rev20260728, nil, nil),
		Meta: `{"a":1,"progressToken":2}`,
	}}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	callText(t, c, &pb.CallToolRequest{Name: "x"})
	want.Context.Meta = ""
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}

func TestInvalidRequestsAreRejected(t *testing.T) {
	called := false
	c := client(t, serve(t, toolHandler(
		func(context.Context, *pb.CallToolRequest, bridge.Emit) (*bridge.Result, error) {
			called = true
			return textResult(""), nil
		}), nil, grpcserver.Options{}))
	cc := func(f func(*pb.CallContext)) *pb.CallToolRequest {
		return &pb.CallToolRequest{Context: clone(&pb.CallContext{}, f)}
	}
	answer := func(e *pb.ElicitResult) *pb.CallToolRequest {
		return &pb.CallToolRequest{
			InputResponses: map[string]*pb.InputResponse{"k": {Response: &pb.InputResponse_Elicit{Elicit: e}}},
		}
	}
	noAnswer := func(e *pb.InputError) *pb.CallToolRequest {
		return &pb.CallToolRequest{
			InputResponses: map[string]*pb.InputResponse{"k": {Response: &pb.InputResponse_Error{Error: e}}},
		}
	}
	for want, req := range map[string]*pb.CallToolRequest{
		`protocol_version "1999-01-01"`: cc(
			func(c *pb.CallContext) { c.ProtocolVersion = "1999-01-01" }),
		`protocol_version "` + strings.Repeat("9",
			20): cc(func(c *pb.CallContext) { c.ProtocolVersion = strings.Repeat("9", 1<<20) }),
		"log_level 99":                          cc(func(c *pb.CallContext) { c.LogLevel = 99 }),
		"context.meta is not a JSON object":     cc(func(c *pb.CallContext) { c.Meta = `[]` }),
		"context.meta is not strict JSON: byte": cc(func(c *pb.CallContext) { c.Meta = `{"a":1,"a":2}` }),
		"client_capabilities.extensions is not": cc(
			func(c *pb.CallContext) { c.ClientCapabilities = &pb.ClientCapabilities{Extensions: `{`} }),
		"elicitation.url.extra is not a JSON object": cc(func(c *pb.CallContext) {
			c.ClientCapabilities = &pb.ClientCapabilities{
				Elicitation: &pb.ElicitationCapability{Url: &pb.Capability{Extra: `1`}},
			}
		}),
		"arguments is not a JSON object":                  {Arguments: []byte(`7`)},
		"arguments is not strict JSON: byte 8: more text": {Arguments: []byte(`{"a":1} {}`)},
		"arguments is not strict JSON:": {
			Arguments: []byte(strings.Repeat(`{"a":`, 1_000) + "1" + strings.Repeat("}", 1_000)),
		},
		"extra is not a JSON object":                                 {Extra: `"x"`},
		"input_responses[k].elicit.content is not strict JSON: byte": answer(&pb.ElicitResult{Content: `{"a":}`}),
		"input_responses[k].elicit.content is not a JSON":            answer(&pb.ElicitResult{Content: `[]`}),
		"input_responses[k].error.data is not strict JSON: byte":     noAnswer(&pb.InputError{Data: `{"a":1,"a":2}`}),
		"requestState was not issued":                                {RequestState: []byte("forged")},
	} {
		_, err := call(t.Context(), c, req)
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), want) ||
			len(err.Error()) > 512 || called {
			t.Errorf("%s: %.300v", want, err)
		}
	}
}

// Unknown fields pass in both directions.
func TestUnknownFieldsAreForwarded(t *testing.T) {
	unknown := protowire.AppendString(protowire.AppendTag(nil, 1000, protowire.BytesType), "later")
	c := client(t, serve(t, toolHandler(
		func(_ context.Context, r *pb.CallToolRequest, _ bridge.Emit) (*bridge.Result, error) {
			res := textResult("")
			res.Complete.ProtoReflect().SetUnknown(r.GetContext().ProtoReflect().GetUnknown())
			return res, nil
		}), nil, grpcserver.Options{}))
	req := &pb.CallToolRequest{Context: &pb.CallContext{}}
	req.GetContext().ProtoReflect().SetUnknown(unknown)
	all, err := call(t.Context(), c, req)
	if err != nil || string(all[0].GetResult().ProtoReflect().GetUnknown()) != string(unknown) {
		t.Errorf("%v %v", all, err)
	}
}

// Values and objects that MCP does not define pass in both directions; raw objects of known types are parsed.
func TestOpenSetsPass(t *testing.T) {
	request := &pb.InputRequest{
		Key:     "k",
		Request: &pb.InputRequest_Raw{Raw: `{"method":"acme/ask","params":{"n":9007199254740993}}`},
	}
	var seen map[string]*pb.InputResponse
	c := client(t, serve(t, toolHandler(
		func(_ context.Context, r *pb.CallToolRequest, _ bridge.Emit) (*bridge.Result, error) {
			if seen = r.GetInputResponses(); seen == nil {
				return &bridge.Result{InputRequired: &pb.InputRequired{InputRequests: []*pb.InputRequest{request}}}, nil
			}
			return textResult(""), nil
		}), nil, grpcserver.Options{}))
	all, err := call(t.Context(), c, &pb.CallToolRequest{Name: "x"})
	if err != nil || !proto.Equal(all[0].GetInputRequired().GetInputRequests()[0], request) {
		t.Fatalf("%v %v", all, err)
	}
	answer := &pb.InputResponse{Response: &pb.InputResponse_Raw{Raw: `{"n":9007199254740993}`}}
	_, err = call(t.Context(), c, &pb.CallToolRequest{Name: "x", InputResponses: map[string]*pb.InputResponse{
		"k": answer, "known": {Response: &pb.InputResponse_Raw{Raw: `{"action":"postpone"}`}},
	}})
	if err != nil || !proto.Equal(seen["k"], answer) || seen["known"].GetElicit().GetAction() != "postpone" {
		t.Errorf("%v %v", seen, err)
	}
	_, err = call(t.Context(), c, &pb.CallToolRequest{Name: "x", InputResponses: map[string]*pb.InputResponse{
		"k": {Response: &pb.InputResponse_Raw{Raw: `[]`}},
	}})
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("got %v", err)
	}
}

func TestEventsReachTheCaller(t *testing.T) {
	h := toolHandler(func(ctx context.Context, _ *pb.CallToolRequest, emit bridge.Emit) (*bridge.Result, error) {
		for _, e := range []bridge.Event{
			{Progress: &pb.Progress{Progress: 1}},
			{Log: &pb.LogMessage{Level: pb.LogLevel_LOG_LEVEL_DEBUG}},
			{Log: &pb.LogMessage{Level: pb.LogLevel_LOG_LEVEL_ERROR}},
			{},
			{Change: &pb.ListenResponse{}},
		} {
			if err := emit(ctx, e); err != nil {
				return nil, err
			}
		}
		return textResult(""), nil
	})
	c := client(t, serve(t, h, nil, grpcserver.Options{}))
	for _, s := range []struct {
		cc   *pb.CallContext
		want int
	}{
		{nil, 0},
		{&pb.CallContext{ProgressWanted: true}, 1},
		{&pb.CallContext{LogLevel: pb.LogLevel_LOG_LEVEL_DEBUG}, 2},
		{&pb.CallContext{LogLevel: pb.LogLevel_LOG_LEVEL_ERROR, ProgressWanted: true}, 2},
		{&pb.CallContext{LogLevel: pb.LogLevel_LOG_LEVEL_EMERGENCY}, 0},
	} {
		all, err := call(t.Context(), c, &pb.CallToolRequest{Context: s.cc})
		if err != nil || len(all) != s.want+1 || all[s.want].GetResult() == nil {
			t.Errorf("%v: %v %v", s.cc, all, err)
		}
	}
}

func TestDeadlinesAndCancellationReachTheHandler(t *testing.T) {
	bridgetest.SkipIfShort(t)
	deadlines, started, ended := make(chan time.Time, 1), make(chan struct{}), make(chan error)
	c := client(t, serve(t, toolHandler(
		func(ctx context.Context, _ *pb.CallToolRequest, _ bridge.Emit) (*bridge.Result, error) {
			deadline, _ := ctx.Deadline()
			deadlines <- deadline
			started <- struct{}{}
			<-ctx.Done()
			ended <- ctx.Err()
			return nil, ctx.Err()
		}), nil, grpcserver.Options{}))
	until := time.Now().Add(time.Hour)
	ctx, cancel := context.WithDeadline(t.Context(), until)
	failed := make(chan error, 1)
	go func() {
		_, err := call(ctx, c, &pb.CallToolRequest{})
		failed <- err
	}()
	<-started
	if d := (<-deadlines).Sub(until).Abs(); d > time.Minute {
		t.Errorf("the deadline differs by %v", d)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := <-failed; status.Code(err) != codes.Canceled {
		t.Error(err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), time.Second) // the call starts within that time
	defer cancel()
	go func() {
		_, err := call(ctx, c, &pb.CallToolRequest{})
		failed <- err
	}()
	<-started
	<-deadlines
	<-ended
	if err := <-failed; status.Code(err) != codes.DeadlineExceeded {
		t.Error(err)
	}
}

// asker requires input, and then returns its request state.
func asker(_ context.Context, r *pb.CallToolRequest, _ bridge.Emit) (*bridge.Result, error) {
	if r.RequestState == nil {
		return &bridge.Result{InputRequired: &pb.InputRequired{
			RequestState: []byte("secret of " + r.GetName()),
			InputRequests: []*pb.InputRequest{
				{Key: "k", Request: &pb.InputRequest_Elicit{
					Elicit: &pb.ElicitRequest{Mode: &pb.ElicitRequest_Form{Form: &pb.ElicitForm{Message: "who?"}}},
				}},
			},
		}}, nil
	}
	return textResult(string(r.GetRequestState())), nil
}

// A request state of one backend is invalid at another, even if both use the same key.
func TestStatesAreBoundToTheirBackend(t *testing.T) {
	both := []grpcserver.Backend{{Name: "a", Handler: toolHandler(asker)}, {Name: "b", Handler: toolHandler(asker)}}
	c := client(t, serve(t, toolHandler(asker), both, grpcserver.Options{}))
	servers := []string{"a", "b", ""}
	at := func(server string) context.Context {
		if server == "" {
			return t.Context()
		}
		return metadata.AppendToOutgoingContext(t.Context(), grpcserver.MetadataServer, server)
	}
	req := &pb.CallToolRequest{
		Name:    "x",
		Context: &pb.CallContext{ClientCapabilities: &pb.ClientCapabilities{Elicitation: &pb.ElicitationCapability{}}},
	}
	for _, from := range servers {
		all, err := call(at(from), c, req)
		if err != nil {
			t.Fatal(err)
		}
		again := clone(req, func(r *pb.CallToolRequest) {
			r.RequestState = all[0].GetInputRequired().
				GetRequestState()
		})
		for _, to := range servers {
			_, err := call(at(to), c, again)
			if (err == nil) != (from == to) || from != to && status.Code(err) != codes.InvalidArgument {
				t.Errorf("request state of %q at %q: %v", from, to, err)
			}
		}
	}
}

func TestStateIsSealed(t *testing.T) {
	key := [32]byte{1}
	first := client(t, serve(t, toolHandler(asker), nil, grpcserver.Options{StateKeys: [][32]byte{key}}))
	replica := client(t, serve(t, toolHandler(asker), nil, grpcserver.Options{StateKeys: [][32]byte{{2}, key}}))
	stranger := client(t, serve(t, toolHandler(asker), nil, grpcserver.Options{}))
	req := &pb.CallToolRequest{
		Name: "x", Arguments: []byte(`{"a":1,"b":2}`),
		Context: &pb.CallContext{ClientCapabilities: &pb.ClientCapabilities{Elicitation: &pb.ElicitationCapability{}}},
	}
	all, err := call(t.Context(), first, req)
	if err != nil {
		t.Fatal(err)
	}
	state := all[0].GetInputRequired().GetRequestState()
	if len(state) == 0 || strings.Contains(string(state), "secret") ||
		all[0].GetInputRequired().GetInputRequests()[0].GetKey() != "k" {
		t.Errorf("got %v", all[0])
	}
	again := clone(req, func(r *pb.CallToolRequest) { r.RequestState = state })
	for _, s := range []struct {
		name string
		c    pb.McpServiceClient
		req  *pb.CallToolRequest
		ok   bool
	}{
		{"the same", first, again, true},
		{
			"other white space and order", first,
			clone(again, func(r *pb.CallToolRequest) { r.Arguments = []byte(`{ "b":2, "a":1 }`) }), true,
		},
		{"a replica with the key", replica, again, true},
		{"another server", stranger, again, false},
		{"another tool", first, clone(again, func(r *pb.CallToolRequest) { r.Name = "y" }), false},
		{
			"other arguments", first,
			clone(again, func(r *pb.CallToolRequest) { r.Arguments = []byte(`{"a":1,"b":3}`) }),
			false,
		},
		{"another state", first, clone(again, func(r *pb.CallToolRequest) { r.RequestState[20] ^= 1 }), false},
		{
			"the backend's own", first,
			clone(again, func(r *pb.CallToolRequest) { r.RequestState = []byte("secret of x") }), false,
		},
	} {
		all, err := call(t.Context(), s.c, s.req)
		if s.ok && (err != nil || all[0].GetResult().GetContent()[0].GetText().GetText() != "secret of x") || !s.ok &&
			status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v %v", s.name, all, err)
		}
	}
}

// Input is requested only from clients with the capability.
func TestInputRequestNeedsTheCapability(t *testing.T) {
	c := client(t, serve(t, toolHandler(asker), nil, grpcserver.Options{}))
	_, err := call(t.Context(), c, &pb.CallToolRequest{Name: "x"})
	var rpc *pb.JsonRpcError
	for _, d := range status.Convert(err).Details() {
		rpc, _ = d.(*pb.JsonRpcError)
	}
	if status.Code(err) != codes.FailedPrecondition || rpc.GetCode() != -32021 ||
		!strings.Contains(rpc.GetData(), `"elicitation"`) {
		t.Errorf("%v %v", err, rpc)
	}
}

func TestReflectionServesTheContract(t *testing.T) {
	for _, off := range []bool{false, true} {
		conn := dial(t, serve(t, textHandler(""), nil, grpcserver.Options{NoReflection: off}))
		s, err := grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Send(&grpc_reflection_v1.ServerReflectionRequest{
			MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_FileContainingSymbol{
				FileContainingSymbol: "mcpbridge.v1.McpService",
			},
		}); err != nil {
			t.Fatal(err)
		}
		res, err := s.Recv()
		if off {
			if status.Code(err) != codes.Unimplemented {
				t.Errorf("%v %v", res, err)
			}
			continue
		}
		if err != nil || len(res.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 {
			t.Errorf("%v %v", res, err)
		}
	}
}

// Clients from before 2023 support v1alpha only.
//
//nolint:staticcheck // it is deprecated, and what we test
func TestReflectionV1Alpha(t *testing.T) {
	conn := dial(t, serve(t, textHandler(""), nil, grpcserver.Options{}))
	s, err := grpc_reflection_v1alpha.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(&grpc_reflection_v1alpha.ServerReflectionRequest{
		MessageRequest: &grpc_reflection_v1alpha.ServerReflectionRequest_ListServices{},
	}); err != nil {
		t.Fatal(err)
	}
	res, err := s.Recv()
	if err != nil || !strings.Contains(res.String(), "mcpbridge.v1.McpService") {
		t.Errorf("%v %v", res, err)
	}
}

func TestInvalidOptionsAreRejected(t *testing.T) {
	for _, o := range []grpcserver.Options{
		{Limits: limits.Limits{ClientMessage: -1}},
		{Limits: limits.Limits{ClientMessage: limits.MaxMessage + 1}},
		{MaxStreams: -1},
		{MaxConns: -1},
		{MaxCalls: -1},
		{TLS: &grpcserver.TLS{}},
		{TLS: &grpcserver.TLS{Cert: "/nowhere", Key: "/nowhere"}},
	} {
		if _, err := grpcserver.New(textHandler(""), nil, o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
	for _, names := range [][]string{{""}, {"a", "a"}} {
		var all []grpcserver.Backend
		for _, name := range names {
			all = append(all, grpcserver.Backend{Name: name, Handler: textHandler("")})
		}
		if _, err := grpcserver.New(textHandler(""), all, grpcserver.Options{}); err == nil {
			t.Errorf("%q was accepted", names)
		}
	}
	if _, err := grpcserver.New(textHandler(""), nil,
		grpcserver.Options{Limits: limits.Limits{ClientMessage: limits.MaxMessage}}); err != nil {
		t.Error(err)
	}
}
