package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/mcpbridge/mcpbridge/bridge"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// An error that goes out as a gRPC status and comes back is the same error.
func TestErrorSurvivesGRPC(t *testing.T) {
	for _, e := range []*bridge.Error{
		{Code: codes.NotFound, Message: "no such thing"},
		{Code: codes.Internal, Message: "secret"},
		{
			Code: codes.Unknown, Message: "m",
			RPC: &pb.JsonRpcError{Code: -7, Message: "exactly this", Data: `[1]`},
		},
		{
			Code: codes.Unavailable, Message: "down", Outcome: bridge.OutcomeNotExecuted, Reason: "BACKEND_UNAVAILABLE",
			RetryAfter: 5 * time.Millisecond,
		},
		{Code: codes.ResourceExhausted, Message: "busy", RetryAfter: time.Minute},
	} {
		s, ok := status.FromError(fmt.Errorf("around it: %w", e))
		if !ok || s.Code() != e.Code {
			t.Fatalf("%v became %v", e, s)
		}
		back := bridge.FromStatus(e.GRPCStatus())
		back.Cause = nil
		if diff := cmp.Diff(e, back, protocmp.Transform()); diff != "" {
			t.Error(diff)
		}
	}
}

// A status may have a code only: gRPC in several languages returns that for unknown methods.
func TestAStatusWithoutAMessageHasOne(t *testing.T) {
	for code, want := range map[codes.Code]string{codes.Unimplemented: "Method not found", codes.NotFound: "NotFound"} {
		e := bridge.FromStatus(status.New(code, ""))
		if got := e.JSONRPC(bridge.Rev20260728, bridge.CallTool).GetMessage(); got != want {
			t.Errorf("%v: got message %q, want %q", code, got, want)
		}
	}
}

// Whatever status a backend returns, a client receives valid JSON.
func TestStatusesOfHostileBackends(t *testing.T) {
	long := strings.Repeat("ä", 1<<20)
	info := func(domain, reason, outcome string) *errdetails.ErrorInfo {
		return &errdetails.ErrorInfo{Domain: domain, Reason: reason, Metadata: map[string]string{"outcome": outcome}}
	}
	again := func(seconds int64) *errdetails.RetryInfo {
		return &errdetails.RetryInfo{RetryDelay: &durationpb.Duration{Seconds: seconds}}
	}
	for _, c := range []struct {
		message string
		details []protoadapt.MessageV1
		size    int // of the message
		data    string
	}{
		{"m", nil, 1, ""},
		{long, nil, 8 << 10, ""},
		{
			"m",
			[]protoadapt.MessageV1{info("mcpbridge", "\a\x01\u2028\U000e0001\"", "executed")},
			1,
			`{"reason":"\u0007\u0001\u2028` + "\U000e0001" + `\"","outcome":"executed"}`,
		},
		{
			"m",
			[]protoadapt.MessageV1{info("mcpbridge", long, long)},
			1,
			`{"reason":"` + long[:60] + `…","outcome":"unknown"}`,
		},
		{"m", []protoadapt.MessageV1{info("mcpbridge", "", "")}, 1, `{"reason":"","outcome":"unknown"}`},
		{"m", []protoadapt.MessageV1{info("example.com", "R", "executed")}, 1, ""},
		{"m", []protoadapt.MessageV1{again(1)}, 1, ""},
		{
			"m",
			[]protoadapt.MessageV1{again(-5), info("mcpbridge", "R", "unknown")},
			1,
			`{"reason":"R","outcome":"unknown"}`,
		},
		{
			"m",
			[]protoadapt.MessageV1{again(math.MaxInt64), info("mcpbridge", "R", "unknown")},
			1,
			`{"reason":"R","outcome":"unknown","retryAfterMs":9223372036854}`,
		},
	} {
		s := status.New(codes.InvalidArgument, c.message)
		if c.details != nil {
			var err error
			if s, err = s.WithDetails(c.details...); err != nil {
				t.Fatal(err)
			}
		}
		rpc := bridge.FromStatus(s).JSONRPC(bridge.Rev20260728, bridge.CallTool)
		if n := len(rpc.GetMessage()); n > c.size || n < c.size-1 || !utf8.ValidString(rpc.GetMessage()) ||
			rpc.GetData() != c.data {
			t.Errorf("%.80v: a message of %d bytes, and %s", c.details, n, rpc.GetData())
		}
	}
}

// The outcome of a call is also in the details of the status, in the standard form of gRPC.
func TestStatusHasTheOutcomeOfACall(t *testing.T) {
	down := bridge.Failed(codes.Unavailable, bridge.OutcomeNotExecuted, "BACKEND_UNAVAILABLE", "down")
	down.RetryAfter = 1500 * time.Millisecond
	for _, c := range []struct {
		err  *bridge.Error
		want []proto.Message
	}{
		{bridge.Errorf(codes.NotFound, "none"), nil},
		{down, []proto.Message{
			&errdetails.ErrorInfo{
				Reason: "BACKEND_UNAVAILABLE", Domain: "mcpbridge",
				Metadata: map[string]string{"outcome": "not_executed"},
			},
			&errdetails.RetryInfo{RetryDelay: durationpb.New(1500 * time.Millisecond)},
		}},
		{bridge.Failed(codes.Unknown, bridge.OutcomeUnknown, "BACKEND_CRASHED", "lost"), []proto.Message{
			&errdetails.ErrorInfo{
				Reason: "BACKEND_CRASHED", Domain: "mcpbridge",
				Metadata: map[string]string{"outcome": "unknown"},
			},
		}},
	} {
		var got []proto.Message
		for _, d := range c.err.GRPCStatus().Details() {
			if m := d.(proto.Message); m.ProtoReflect().Descriptor().FullName().Parent() == "google.rpc" {
				got = append(got, m)
			}
		}
		if diff := cmp.Diff(c.want, got, protocmp.Transform()); diff != "" {
			t.Error(diff)
		}
	}
}

// Clients of the bridge receive the error of an MCP server unchanged, except that each era has its own code for an
// unknown resource, and that some revisions lack some codes.
func TestErrorSurvivesJSONRPC(t *testing.T) {
	for _, c := range []struct {
		code     int32
		from, to bridge.Revision
		m        *bridge.Method
		kind     codes.Code
		want     int32
	}{
		{-32602, bridge.Rev20251125, bridge.Rev20260728, bridge.CallTool, codes.InvalidArgument, -32602},
		{-32601, bridge.Rev20251125, bridge.Rev20260728, bridge.ListTools, codes.Unimplemented, -32601},
		{-32002, bridge.Rev20251125, bridge.Rev20260728, bridge.ReadResource, codes.NotFound, -32602},
		{-32602, bridge.Rev20260728, bridge.Rev20251125, bridge.ReadResource, codes.NotFound, -32002},
		{-32602, bridge.Rev20251125, bridge.Rev20251125, bridge.ReadResource, codes.InvalidArgument, -32602},
		{-32021, bridge.Rev20260728, bridge.Rev20260728, bridge.CallTool, codes.FailedPrecondition, -32021},
		{-7, bridge.Rev20241105, bridge.Rev20260728, bridge.CallTool, codes.Unknown, -7},
		{-32002, bridge.Rev20251125, bridge.Rev20260728, bridge.CallTool, codes.NotFound, -32602},
		{-32042, bridge.Rev20251125, bridge.Rev20251125, bridge.CallTool, codes.Unknown, -32042},
		{-32042, bridge.Rev20251125, bridge.Rev20250618, bridge.CallTool, codes.Unknown, -32603},
		{-32042, bridge.Rev20251125, bridge.Rev20260728, bridge.CallTool, codes.Unknown, -32603},
		{-32050, bridge.Rev20251125, bridge.Rev20260728, bridge.CallTool, codes.Unknown, -32603},
	} {
		e := bridge.FromJSONRPC(&pb.JsonRpcError{Code: c.code, Message: "a message"}, c.from, c.m)
		if e.Code != c.kind || !e.Public() {
			t.Errorf("%d of %s in %s is %v, public %v", c.code, c.m.Name, c.from, e.Code, e.Public())
		}
		if out := e.JSONRPC(c.to, c.m); out.GetCode() != c.want || out.GetMessage() != "a message" {
			t.Errorf("%d of %s in %s: got %v in %s", c.code, c.m.Name, c.from, out, c.to)
		}
	}
}

// Messages of errors of backends and MCP servers are shortened to a limit, wherever they come from. Their data is not.
func TestTextsOfErrorsAtTheirLimit(t *testing.T) {
	const most = 8 << 10
	for _, n := range []int{most - 1, most, most + 1, 1 << 20} {
		text := strings.Repeat("\r\nx ", n/4) + strings.Repeat("y", n%4)
		rpc := &pb.JsonRpcError{Code: -7, Message: text, Data: strconv.Quote(text)}
		exact, err := status.New(codes.Unknown, "m").WithDetails(rpc)
		if err != nil {
			t.Fatal(err)
		}
		for where, e := range map[string]*bridge.Error{
			"a status":         bridge.FromStatus(status.New(codes.InvalidArgument, text)),
			"its details":      bridge.FromStatus(exact),
			"a response":       bridge.FromJSONRPC(rpc, bridge.Rev20251125, bridge.CallTool),
			"a redacted error": bridge.Errorf(codes.NotFound, "%s", text).Redacted(),
		} {
			got := e.JSONRPC(bridge.Rev20260728, bridge.CallTool)
			if len(got.GetMessage()) > most || (got.GetMessage() == text) != (n <= most) ||
				!strings.HasPrefix(text, strings.TrimSuffix(got.GetMessage(), "…")) {
				t.Errorf("%s of %d bytes has become %d: %.20q", where, n, len(got.GetMessage()), got.GetMessage())
			}
			if e.RPC != nil && got.GetData() != rpc.GetData() {
				t.Errorf("%s of %d bytes: the data has become %.50s", where, n, got.GetData())
			}
			if len(e.Error()) > most {
				t.Errorf("%s of %d bytes: the log has %d", where, n, len(e.Error()))
			}
		}
		if rpc.GetMessage() != text {
			t.Error("what was given is changed")
		}
	}
}

func TestErrorsOfOthersKeepTheirMeaning(t *testing.T) {
	ours := bridge.Errorf(codes.NotFound, "no such thing")
	for _, c := range []struct {
		err    error
		code   codes.Code
		public bool
	}{
		{fmt.Errorf("around it: %w", ours), codes.NotFound, true},
		{fmt.Errorf("around it: %w", context.Canceled), codes.Canceled, true},
		{context.DeadlineExceeded, codes.DeadlineExceeded, true},
		{errors.New("password is hunter2"), codes.Internal, false},
	} {
		if e := bridge.AsError(c.err); e.Code != c.code || e.Public() != c.public {
			t.Errorf("%v is %v, public %v", c.err, e.Code, e.Public())
		}
	}
	if got := bridge.AsError(errors.New("password is hunter2")).JSONRPC(bridge.Rev20260728, bridge.CallTool).
		GetMessage(); got != "internal error; see the bridge's log" {
		t.Error(got)
	}
}

func TestMissingCapabilities(t *testing.T) {
	form := &pb.InputRequest{
		Request: &pb.InputRequest_Elicit{Elicit: &pb.ElicitRequest{Mode: &pb.ElicitRequest_Form{}}},
	}
	url := &pb.InputRequest{
		Request: &pb.InputRequest_Elicit{Elicit: &pb.ElicitRequest{Mode: &pb.ElicitRequest_Url{Url: &pb.ElicitUrl{}}}},
	}
	both := &pb.ElicitationCapability{Form: &pb.Capability{}, Url: &pb.Capability{}}
	for _, c := range []struct {
		have    *pb.ElicitationCapability
		req     *pb.InputRequest
		missing bool
	}{
		{nil, form, true},
		{&pb.ElicitationCapability{}, form, false}, // no mode means forms
		{&pb.ElicitationCapability{}, url, true},
		{&pb.ElicitationCapability{Url: &pb.Capability{}}, form, true},
		{&pb.ElicitationCapability{Url: &pb.Capability{}}, url, false},
		{both, form, false},
		{both, url, false},
	} {
		if got := bridge.MissingCapabilities(&pb.ClientCapabilities{Elicitation: c.have},
			c.req) != nil; got != c.missing {
			t.Errorf("%v of %v: missing is %v", c.req, c.have, got)
		}
	}
	create := func(blocks ...*pb.ContentBlock) *pb.CreateMessageRequest {
		return &pb.CreateMessageRequest{
			Messages: []*pb.SamplingMessage{
				{Content: []*pb.ContentBlock{{Block: &pb.ContentBlock_Text{}}}},
				{Content: blocks},
			},
		}
	}
	plain, tools := &pb.SamplingCapability{}, &pb.SamplingCapability{Tools: &pb.Capability{}}
	for _, c := range []struct {
		req  *pb.CreateMessageRequest
		have *pb.SamplingCapability
		want *pb.SamplingCapability
	}{
		{create(), nil, plain},
		{create(), plain, nil},
		{&pb.CreateMessageRequest{Tools: []*pb.Tool{{}}}, plain, tools},
		{&pb.CreateMessageRequest{ToolChoice: &pb.ToolChoice{}}, plain, tools},
		{create(&pb.ContentBlock{Block: &pb.ContentBlock_ToolUse{ToolUse: &pb.ToolUseContent{}}}), plain, tools},
		{create(&pb.ContentBlock{},
			&pb.ContentBlock{Block: &pb.ContentBlock_ToolResult{ToolResult: &pb.ToolResultContent{}}}), plain, tools},
		{create(&pb.ContentBlock{Block: &pb.ContentBlock_ToolResult{ToolResult: &pb.ToolResultContent{}}}), nil, tools},
		{create(&pb.ContentBlock{Block: &pb.ContentBlock_ToolResult{ToolResult: &pb.ToolResultContent{}}}), tools, nil},
	} {
		req := &pb.InputRequest{Request: &pb.InputRequest_CreateMessage{CreateMessage: c.req}}
		if got := bridge.MissingCapabilities(&pb.ClientCapabilities{Sampling: c.have},
			req); !proto.Equal(got.GetSampling(), c.want) {
			t.Errorf("%v of %v: missing is %v, want %v", c.req, c.have, got, c.want)
		}
	}
	old := bridge.EffectiveCapabilities(&pb.ClientCapabilities{
		Elicitation: both,
		Sampling:    &pb.SamplingCapability{Tools: &pb.Capability{}},
	}, bridge.Rev20250618)
	if bridge.ElicitsURLs(old) || !bridge.ElicitsForms(old) || old.GetSampling().GetTools() != nil ||
		old.GetSampling() == nil {
		t.Errorf("in 2025-06-18: %v", old)
	}
}
