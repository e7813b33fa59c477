package mcpserver

import (
	"context"
	"errors"
	"math"
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/lifecycle"
	"github.com/mcpbridge/mcpbridge/internal/mcpjson"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// The keys of `_meta` that MCP itself uses.
const (
	metaProgressToken  = "progressToken"
	metaVersion        = bridge.MetaVersion
	metaCapabilities   = bridge.MetaCapabilities
	metaClientInfo     = bridge.MetaClientInfo
	metaLogLevel       = bridge.MetaLogLevel
	metaServerInfo     = bridge.MetaServerInfo
	metaSubscriptionID = bridge.MetaSubscriptionID
	notifyProgress     = "notifications/progress"
	notifyMessage      = "notifications/message"
	notifyCancelled    = "notifications/cancelled"
	notifyInitialized  = "notifications/initialized"
	notifyRootsChanged = "notifications/roots/list_changed"
)

// An exchange is one request of a client while it is being answered, in either era.
type exchange struct {
	s   *Server
	rev bridge.Revision
	// id is the request's id, as the client wrote it.
	id  []byte
	out sink
	// token is the progress token as the client wrote it; nil if it does not want to know.
	token []byte
	// progress is the last one that the handler told, and pace is how the client is told.
	progress float64
	pace     *pacer // nil if the client does not want to know
	logs     sampler
	ended    bool // the request has been answered
}

// newExchange returns the exchange of a request. Whoever answers it first defers that a panic is the answer, by broke.
func (s *Server) newExchange(rev bridge.Revision, msg *jsonrpc.Message, out sink) *exchange {
	return &exchange{s: s, rev: rev, id: msg.ID, out: out, progress: math.Inf(-1), logs: newSampler()}
}

// broke answers the request with the error of a bug that was met on the way to an answer.
func (x *exchange) broke(e *bridge.Error) {
	if !x.ended {
		x.fail(nil, e)
	}
}

// begin takes the progress token of the request. What it is, is checked: MCP has strings and integers.
func (x *exchange) begin(msg *jsonrpc.Message) error {
	if token := rawjson.Get(msg.Meta, metaProgressToken); token != nil && !rawjson.IsNull(token) {
		if !jsonrpc.IsID(token, &x.s.opts.Limits) {
			return bridge.Errorf(codes.InvalidArgument, "_meta.progressToken is %s: it must be a string or an integer of at most %d bytes",
				rawjson.Shorten(token), x.s.opts.Limits.ID)
		}
		x.token = token
		x.pace = newPacer(x.sendProgress)
	}
	return nil
}

// emit implements bridge.Emit: it tells the client what the caller of call wants to know.
func (x *exchange) emit(call *bridge.Call) bridge.Emit {
	return func(_ context.Context, e bridge.Event) error {
		switch {
		case e.Progress != nil:

			return x.tellProgress(e.Progress)
		case e.Log != nil:
			level := call.Context().GetLogLevel()
			if level == pb.LogLevel_LOG_LEVEL_UNSPECIFIED || e.Log.GetLevel() < level {
				return nil
			}
			return x.tellLog(e.Log)
		}
		return nil
	}
}

// tellLog passes a log message on, unless there are too many; how many were left out is told with the next that is not, or before the answer.
func (x *exchange) tellLog(l *pb.LogMessage) error {
	if !x.logs.lets(l) {
		return nil
	}
	if err := x.tellLeftOut(); err != nil {
		return err
	}
	return x.notify(notifyMessage, l)
}

func (x *exchange) tellLeftOut() error {
	if l := x.logs.summary(); l != nil {
		return x.notify(notifyMessage, l)
	}
	return nil
}

// tellProgress passes progress on if the client wants to know and it is progress: MCP lets it only increase.
func (x *exchange) tellProgress(p *pb.Progress) error {
	if x.token == nil || math.IsNaN(p.GetProgress()) || p.GetProgress() <= x.progress || math.IsInf(p.GetProgress(), 0) {
		return nil
	}
	x.progress = p.GetProgress()
	return x.pace.tell(p)
}

// sendProgress is also called by a timer, around which nothing else contains a panic.
func (x *exchange) sendProgress(p *pb.Progress) (err error) {
	defer x.s.panics.Recover(notifyProgress, func(e *bridge.Error) { err = e })

	rest, err := x.s.encode(nil, p, x.rev)
	if err != nil {
		return bridge.ProtocolViolation(pb.CallFailure_OUTCOME_UNKNOWN, "%s: the backend's event cannot be written as MCP: %w", notifyProgress, err)
	}
	params := append([]byte(`{"`+metaProgressToken+`":`), x.token...)
	params = append(append(params, ','), rest[1:]...) // progress itself is always a member
	return x.out.send(jsonrpc.AppendNotification(nil, notifyProgress, params))
}

func (x *exchange) notify(method string, params proto.Message) error {
	data, err := x.s.encode(nil, params, x.rev)
	if err != nil {
		return bridge.ProtocolViolation(pb.CallFailure_OUTCOME_UNKNOWN, "%s: the backend's event cannot be written as MCP: %w", method, err)
	}
	return x.out.send(jsonrpc.AppendNotification(nil, method, data))
}

// finish answers the request with a result, or with the error that says why there is none. It is called once.
func (x *exchange) finish(m *bridge.Method, res proto.Message, err error, meta ...mcpjson.Member) {
	if err == nil {
		var msg []byte
		if msg, err = x.result(res, meta...); err == nil {
			x.end(head{}, msg)
			return
		}
		outcome := pb.CallFailure_OUTCOME_EXECUTED
		if _, asks := res.(*pb.InputRequired); asks {
			outcome = pb.CallFailure_OUTCOME_UNKNOWN // it is not through, and may have done some of it
		}
		err = bridge.ProtocolViolation(outcome, "%s: the backend's answer cannot be written as MCP: %w", m.Name, err)
	}
	x.fail(m, err)
}

// result returns the response that holds res.
func (x *exchange) result(res proto.Message, meta ...mcpjson.Member) ([]byte, error) {
	dst := room(res)
	dst = append(append(append(dst, `{"jsonrpc":"2.0","id":`...), x.id...), `,"result":`...)
	dst, err := x.s.encode(dst, res, x.rev, meta...)
	return append(dst, '}'), err
}

// finishRaw answers the request with a result that is JSON text.
func (x *exchange) finishRaw(result []byte) {
	x.end(head{}, jsonrpc.AppendResult(nil, x.id, result))
}

// about returns the error that a call ended with, with what it is about where MCP says that: the URI of a resource that does
// not exist (every revision: server/resources, error handling).
func (x *exchange) about(call *bridge.Call, err error) error {
	e := bridge.AsError(err)
	r, ok := call.Request.(*pb.ReadResourceRequest)
	if !ok || e.Code != codes.NotFound || e.RPC != nil || e.Failure != nil {
		return err
	}
	data := append(rawjson.AppendString([]byte(`{"uri":`), r.GetUri()), '}')
	return &bridge.Error{
		Code: e.Code, Message: e.Message, Cause: err,
		RPC: &pb.JsonRpcError{Code: x.rev.ResourceNotFound(), Data: rawjson.AsString(data)},
	}
}

// fail answers the request with the error that a handler made of it.
func (x *exchange) fail(m *bridge.Method, err error) {
	if page := x.s.empty(m, err); page != nil {
		x.finish(m, page, nil)
		return
	}
	x.failWith(http.StatusOK, m, err)
}

// refuse answers a request that no handler has seen with the error that is the reason.
func (x *exchange) refuse(m *bridge.Method, err error) { x.failWith(http.StatusBadRequest, m, err) }

// failWith answers the request with an error. What clients must not see of it is logged here, and only here. The status is
// for HTTP, for a code that has none of its own.
func (x *exchange) failWith(status int, m *bridge.Method, err error) {
	e := bridge.AsError(err)
	name := ""
	if m != nil {
		name = m.Name
	}
	log := x.s.log.Debug()
	if !e.Public() {
		log = x.s.log.Error()
	}
	log.Str("method", name).Stringer("revision", x.rev).Bytes("id", x.id).Stringer("code", e.Code).Err(err).Msg("call failed")
	rpc := e.Redacted().JSONRPC(x.rev, m)
	h := head{status: httpStatus(x.rev, rpc.GetCode(), status)}
	executed := e.Failure.GetOutcome() != pb.CallFailure_OUTCOME_NOT_EXECUTED
	switch reason := e.Failure.GetReason(); {
	case reason == bridge.ReasonOverloaded && !executed:
		h.status = http.StatusServiceUnavailable // balancers and clients know what to do about that
	case reason == bridge.ReasonTooMany && !executed && e.Failure.RetryAfterMs != nil:
		h.status = http.StatusTooManyRequests // whereas one that is too much by itself is no better later
	case e.Scopes != nil && x.s.opts.Challenge != nil:
		h = head{http.StatusForbidden, x.s.opts.Challenge(e.Scopes)} // so do OAuth clients
	}
	x.end(h, jsonrpc.AppendError(nil, x.id, rpc, x.rev.OmitsUnknownErrorID()))
}

// end is the end of the request: by the response, or by none because nobody wants it.
func (x *exchange) end(h head, msg []byte) {
	if x.pace != nil {
		x.pace.end(msg != nil)
	}
	if msg != nil {
		_ = x.tellLeftOut() // who does not take it does not take the answer, either
	}

	x.out.finish(h, msg)
	x.ended = true
}

// ofHandler returns the error that a handler made of a call without the codes that no handler can say. Those that say something of the
// request itself are ours to say: a client that a backend tells one begins again in another era, or with other headers (2026-07-28:
// basic/versioning and basic/transports/streamable-http), or takes its connection for broken. And one that says that there are web pages
// to visit must name them (2025-11-25: client/elicitation). What there is not in a revision is for Revision.ErrorCode.
func ofHandler(err error) error {
	if err == nil {
		return nil
	}
	e := bridge.AsError(err)
	switch e.RPC.GetCode() {
	default:
		return err
	case bridge.CodeURLElicitation:
		if len(visits(err)) > 0 {
			return err
		}
	case codeHeaderMismatch:
		if e.BadHeader {
			return err
		}
	case codeParse, codeInvalidRequest, codeUnsupportedVersion:
	}
	other := *e
	other.RPC, other.Cause = &pb.JsonRpcError{Code: codeInternal, Message: e.RPC.Message, Data: e.RPC.Data}, err
	return &other
}

// JSON-RPC codes that decide about more than the error itself.
const (
	codeParse              = -32700
	codeInvalidRequest     = -32600
	codeMethodNotFound     = -32601
	codeInvalidParams      = -32602
	codeInternal           = -32603
	codeHeaderMismatch     = -32020
	codeUnsupportedVersion = -32022
)

// httpStatus returns the HTTP status of a response with a JSON-RPC error. Since 2026-07-28 some codes have a status of
// their own and a malformed request is 400; before, an answered request is 200: several clients take another status for the
// end of the whole connection. What is no valid request at all is 400 always; no handler says that (ofHandler).
func httpStatus(rev bridge.Revision, code int64, otherwise int) int {
	if !rev.Modern() {
		if code == codeInvalidRequest {
			return http.StatusBadRequest
		}
		return http.StatusOK
	}
	switch code {
	case codeMethodNotFound:
		return http.StatusNotFound
	case codeHeaderMismatch, codeUnsupportedVersion, bridge.CodeMissingCapability:
		return http.StatusBadRequest
	}
	return otherwise
}

// ended tells whether a call was ended by its own caller, who then wants no answer.
func ended(ctx context.Context) bool { return context.Cause(ctx) == errCancelled } //nolint:errorlint // the cause is set by us, never wrapped

// cutOff is the error of a call that was ended by neither its caller nor its backend, and then ended with err.
func cutOff(cause, err error) error {
	reason := "SESSION_ENDED"
	if errors.Is(cause, lifecycle.ErrClosing) {
		reason = "SHUTTING_DOWN"
	}
	if bridge.AsError(err).Failure.GetOutcome() == pb.CallFailure_OUTCOME_NOT_EXECUTED {
		return bridge.Failed(codes.Unavailable, pb.CallFailure_OUTCOME_NOT_EXECUTED, reason, "the call was ended: %w; it was not executed", cause)
	}
	return bridge.Failed(codes.Unavailable, pb.CallFailure_OUTCOME_UNKNOWN, reason,
		"the call was ended: %w; whether it was executed is not known", cause)
}
