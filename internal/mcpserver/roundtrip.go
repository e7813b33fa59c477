package mcpserver

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mcpjson"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	"github.com/mcpbridge/mcpbridge/internal/seal"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A roundTrip is a call of a legacy client with its rounds.
type roundTrip struct {
	ss       *session
	x        *exchange
	call     *bridge.Call // of the next round, or nil
	rounds   int
	requests []*pb.InputRequest
	answers  map[string]*pb.InputResponse
	refused  bool // the handler has received the input error UNSUPPORTED
}

// next handles the handler's result of a round. If it requires input, next sends the input requests to the client and
// prepares the next round. Otherwise it returns the final result.
func (t *roundTrip) next(ctx context.Context, res *bridge.Result, err error) (proto.Message, error) {
	ss, call := t.ss, t.call
	t.call = nil
	if err != nil && t.rounds > 0 {
		err = laterRoundError(call, err)
	}
	if !ss.rev.HasURLElicitationError() || !bridge.ElicitsURLs(ss.caller.GetClientCapabilities()) {
		res, err = asInputRequired(res, err)
	}
	if err != nil {
		if what := missingCapability(bridge.AsError(err)); what != "" {
			return unsupportedResult(call, what)
		}
		ss.addElicitations(err)
		return nil, err
	}
	if err := t.x.notifyCompleted(t.requests, t.answers, res.InputRequired); err != nil {
		return nil, err
	}
	if res.InputRequired == nil {
		return res.Complete, nil
	}
	if err := seal.Check(call, res.InputRequired); err != nil {
		return nil, err
	}
	answers, reason := ss.unsupportedInputs(res.InputRequired)
	switch {
	case reason == "":
		t.requests = withIDs(withoutContext(res.InputRequired, ss.caller.GetClientCapabilities(), ss.rev).
			GetInputRequests(), rand.Text)
		if t.answers, err = ss.requestInput(ctx, t.x, t.requests); err != nil {
			return nil, err
		}
		answers = t.answers
	case t.refused || len(answers) < len(res.InputRequired.GetInputRequests()):
		// the handler requires it again, or only some of the requests are possible
		return unsupportedResult(call, reason)
	default:
		t.refused = true
	}
	if t.rounds++; t.rounds == limits.Rounds {
		return nil, seal.TooManyRounds(call)
	}
	t.call = call.Retry(answers, res.InputRequired.RequestState)
	return nil, nil
}

// withoutContext returns the input requests without includeContext, if the client has not declared sampling.context
// (2025-11-25 and 2026-07-28: client/sampling, capabilities). The field is optional, so the request is valid without
// it.
func withoutContext(required *pb.InputRequired, can *pb.ClientCapabilities, rev bridge.Revision) *pb.InputRequired {
	if can.GetSampling().GetContext() != nil || !rev.DeclaresSamplingContext() {
		return required
	}
	out := required
	for i, req := range required.GetInputRequests() {
		sample := req.GetCreateMessage()
		if sample == nil || sample.IncludeContext == nil || sample.GetIncludeContext() == "none" {
			continue
		}
		if out == required {
			out = bridge.ShallowCopy(required)
			out.InputRequests = slices.Clone(required.GetInputRequests())
		}
		sample = bridge.ShallowCopy(sample)
		sample.IncludeContext = nil
		req = bridge.ShallowCopy(req)
		req.Request = &pb.InputRequest_CreateMessage{CreateMessage: sample}
		out.InputRequests[i] = req
	}
	return out
}

// laterRoundError returns the error of a call that failed in a later round. Even if that round was not executed,
// earlier ones were, and for the client they are one call.
func laterRoundError(call *bridge.Call, err error) error {
	e := bridge.AsError(err)
	if e.Outcome != bridge.OutcomeNotExecuted {
		return err
	}
	b := bridge.Failed(e.Code, bridge.OutcomeUnknown, e.Reason,
		"%s failed after its input requests were answered; whether it was executed is not known",
		call.Method.Name)
	b.Cause = err
	return b
}

// unsupportedResult returns the result of a call that requires a missing capability, for which the legacy era has no
// error code. The model can read the reason, and may ask the user itself.
func unsupportedResult(call *bridge.Call, what string) (proto.Message, error) {
	reason := "This needs " + what + advice
	if call.Method == bridge.CallTool {
		return toolError(reason), nil
	}
	return nil, &bridge.Error{
		Code: codes.FailedPrecondition, Message: call.Method.Name + ": " + reason,
		RPC: &pb.JsonRpcError{Code: codeInternal},
	}
}

// missingCapability describes the missing capabilities of an error whose code the legacy era does not have (2026-07-28:
// basic/index, missing required client capability). It returns "" for other errors.
func missingCapability(e *bridge.Error) string {
	if e.RPC.GetCode() != bridge.CodeMissingCapability {
		return ""
	}
	required := &pb.ClientCapabilities{}
	if data := rawjson.AsBytes(e.RPC.GetData()); rawjson.Check(data) == nil {
		// an invalid value is ignored
		_ = mcpjson.Unmarshal(rawjson.Get(data, "requiredCapabilities"), required, bridge.Rev20260728)
	}
	return describeCapabilities(required) + notSupported
}

// advice ends the error for an input request that the client does not support. Backends forward it to the model.
const advice = ". Ask the user directly, or use another client."

// notSupported follows the description of a capability.
const notSupported = ", which this client does not support"

// unsupportedReason returns the reason why an input request cannot be sent to the client, or "".
func (ss *session) unsupportedReason(req *pb.InputRequest) string {
	if bridge.MissingCapabilities(ss.caller.GetClientCapabilities(), req) != nil {
		return kindOf(req) + notSupported
	}
	if _, err := ss.s.inputMessage("", req, ss.rev); err != nil {
		return fmt.Sprintf("%s, which MCP %s cannot request: %v", kindOf(req), ss.rev, err)
	}
	return ""
}

// unsupportedInputs returns input errors for the input requests that cannot be sent to the client, and the reason for
// one of them.
func (ss *session) unsupportedInputs(
	required *pb.InputRequired,
) (unsupported map[string]*pb.InputResponse, reason string) {
	unsupported = map[string]*pb.InputResponse{}
	for _, req := range required.GetInputRequests() {
		if why := ss.unsupportedReason(req); why != "" {
			reason = why
			unsupported[req.GetKey()] = inputError(
				&pb.InputError{Reason: pb.InputError_REASON_UNSUPPORTED, Message: "this needs " + why + advice})
		}
	}
	return unsupported, reason
}

// kindOf describes an input request.
func kindOf(req *pb.InputRequest) string {
	return describeCapabilities(bridge.MissingCapabilities(&pb.ClientCapabilities{}, req))
}

// describeCapabilities describes capabilities.
func describeCapabilities(c *pb.ClientCapabilities) string {
	var words []string
	if e := c.GetElicitation(); e.GetUrl() != nil {
		words = append(words, "a web page to be opened for the user (elicitation, url mode)")
	}
	if bridge.ElicitsForms(c) {
		words = append(words, "an answer from the user (elicitation)")
	}
	switch sampling := c.GetSampling(); {
	case sampling.GetTools() != nil:
		words = append(words, "an answer from the model with tools (sampling.tools)")
	case sampling != nil:
		words = append(words, "an answer from the model (sampling)")
	}
	if c.GetRoots() != nil {
		words = append(words, "the client's folders (roots)")
	}
	for id := range rawjson.Members(rawjson.AsBytes(c.GetExtensions())) {
		words = append(words, "the extension "+rawjson.Shorten(id))
	}
	if len(words) == 0 {
		return "an unknown capability"
	}
	return rawjson.ShortenTo(strings.Join(words, " and "), 500)
}

// An inputQuery is an input request with its request to the client.
type inputQuery struct {
	id     string
	req    *pb.InputRequest
	answer <-chan jsonrpc.Message
	asTask bool   // the request has `task`
	task   string // the id of the client's task, or empty
	// cancels is whether the client supports the cancellation of its task.
	cancels bool
}

// requestInput sends all input requests to the client concurrently, and returns the responses by the same keys.
// meta are members of `_meta` of the requests.
func (ss *session) requestInput(ctx context.Context, x *exchange,
	reqs []*pb.InputRequest, meta ...mcpjson.Member,
) (map[string]*pb.InputResponse, error) {
	timeout := time.NewTimer(ss.s.opts.Limits.AnswerTime)
	defer timeout.Stop()
	var open []inputQuery
	defer func() {
		for _, q := range open {
			ss.removeRequest(q.id)
		}
	}()
	answers := make(map[string]*pb.InputResponse, len(reqs))
	for _, req := range reqs {
		q := inputQuery{req: req}
		q.id, q.answer = ss.addRequest()
		open = append(open, q)
		msg, err := ss.s.inputMessage(q.id, q.req, ss.rev, meta...)
		if err != nil {
			return nil, bridge.ProtocolViolation(bridge.OutcomeUnknown, "input request %q: %w", req.GetKey(),
				err)
		}
		if err := x.out.send(msg); err != nil {
			return nil, err
		}
	}
	for i := 0; i < len(open); {
		q := &open[i]
		select {
		case msg := <-q.answer:
			if waits, err := ss.continueAsTask(q, &msg, x, meta); waits || err != nil {
				if err != nil {
					return nil, err
				}
				continue
			}
			answers[q.req.GetKey()] = readResponse(q.req, &msg, ss.rev)
			i++
		case <-timeout.C:
			return addNoAnswer(answers, open[i:],
					fmt.Sprintf("the client did not answer within %s", ss.s.opts.Limits.AnswerTime)),
				cancelRequests(x, open[i:], "no answer in time")
		case <-ss.inbound.Done():
			if ctx.Err() == nil {
				return addNoAnswer(answers, open[i:], "the client has disconnected"), nil
			}
			return nil, context.Cause(ctx)
		case <-ctx.Done():
			// The other requests are useless now.
			if err := cancelRequests(x, open[i:], "the call has ended"); err != nil {
				return nil, err
			}
			return nil, context.Cause(ctx)
		}
	}
	return answers, nil
}

// cancelRequests cancels the requests to the client (2025-11-25: basic/lifecycle, timeouts).
func cancelRequests(x *exchange, questions []inputQuery, reason string) error {
	for _, q := range questions {
		params := []byte(`{"requestId":"` + q.id + `","reason":"` + reason + `"}`)
		if err := x.out.send(jsonrpc.AppendNotification(nil, notifyCancelled, params)); err != nil {
			return err
		}
		if q.cancels {
			if err := x.out.send(cancelTask(&q)); err != nil {
				return err
			}
		}
	}
	return nil
}

// inputMessage returns the request to a client for req.
func (s *Server) inputMessage(
	id string, req *pb.InputRequest, rev bridge.Revision, meta ...mcpjson.Member,
) ([]byte, error) {
	body, err := s.encode(nil, req, rev, meta...)
	if err != nil {
		return nil, err
	}
	return append([]byte(`{"jsonrpc":"2.0","id":"`+id+`",`), body[1:]...), nil // body always begins with the method
}

// readResponse returns the client's response to req. An unreadable response is an input error, as if the client had
// sent an error: the backend decides how to continue.
func readResponse(req *pb.InputRequest, msg *jsonrpc.Message, rev bridge.Revision) *pb.InputResponse {
	if e := msg.Error; e != nil {
		reason := pb.InputError_REASON_REFUSED
		if e.GetCode() == codeMethodNotFound { // although it may have declared the capability
			reason = pb.InputError_REASON_UNSUPPORTED
		}
		return inputError(&pb.InputError{
			Reason: reason, Code: proto.Int32(e.GetCode()), Message: e.GetMessage(), Data: e.GetData(),
		})
	}
	out := &pb.InputResponse{}
	var to proto.Message
	switch req.GetRequest().(type) {
	case *pb.InputRequest_Elicit:
		r := &pb.ElicitResult{}
		out.Response, to = &pb.InputResponse_Elicit{Elicit: r}, r
	case *pb.InputRequest_CreateMessage:
		r := &pb.CreateMessageResult{}
		out.Response, to = &pb.InputResponse_CreateMessage{CreateMessage: r}, r
	case *pb.InputRequest_ListRoots:
		r := &pb.ListRootsResult{}
		out.Response, to = &pb.InputResponse_ListRoots{ListRoots: r}, r
	}
	if err := mcpjson.Unmarshal(msg.Result, to, rev); err != nil {
		return inputError(&pb.InputError{
			Reason:  pb.InputError_REASON_REFUSED,
			Message: "the client's answer cannot be read: " + err.Error(),
		})
	}
	return out
}

// addNoAnswer adds input errors for the requests without a response.
func addNoAnswer(answers map[string]*pb.InputResponse, questions []inputQuery,
	message string,
) map[string]*pb.InputResponse {
	for _, q := range questions {
		answers[q.req.GetKey()] = inputError(&pb.InputError{Reason: pb.InputError_REASON_NO_ANSWER, Message: message})
	}
	return answers
}

// inputError returns an input error.
func inputError(e *pb.InputError) *pb.InputResponse {
	return &pb.InputResponse{Response: &pb.InputResponse_Error{Error: e}}
}
