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

// Keys of `_meta`, and methods of notifications, that MCP defines.
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

// An exchange is one request of a client in progress, in either era.
type exchange struct {
	s   *Server
	rev bridge.Revision
	// id is the request's id, as the client wrote it.
	id  []byte
	out sink
	// token is the progress token as the client wrote it; nil without progress.
	token []byte
	// progress is the last value that the handler reported, pace limits the notifications, and related is their
	// `_meta`.
	progress float64
	pace     *pacer // nil without progress
	related  []mcpjson.Member
	logs     sampler
	ended    bool // the request has a response
}

// newExchange returns the exchange of a request. Callers of a handler recover panics with broke.
func (s *Server) newExchange(rev bridge.Revision, msg *jsonrpc.Message, out sink) *exchange {
	return &exchange{s: s, rev: rev, id: msg.ID, out: out, progress: math.Inf(-1), logs: newSampler()}
}

// failPanic responds to a request whose handler panicked.
func (x *exchange) failPanic(e *bridge.Error) {
	if !x.ended {
		x.fail(nil, e)
	}
}

// begin validates the progress token of the request, which MCP allows to be a string or an integer.
func (x *exchange) begin(msg *jsonrpc.Message) error {
	if token := rawjson.Get(msg.Meta, metaProgressToken); token != nil && !rawjson.IsNull(token) {
		if !jsonrpc.IsID(token, &x.s.opts.Limits) {
			return bridge.Errorf(codes.InvalidArgument,
				"_meta.progressToken is %s: it must be a string or an integer of at most %d bytes",
				rawjson.Shorten(token), x.s.opts.Limits.ID)
		}
		x.token = token
		x.pace = newPacer(x.sendProgress)
	}
	return nil
}

// emit implements bridge.Emit: it sends the events that the caller requested.
func (x *exchange) emit(call *bridge.Call) bridge.Emit {
	return func(_ context.Context, e bridge.Event) error {
		switch {
		case e.Progress != nil:

			return x.reportProgress(e.Progress)
		case e.Log != nil:
			level := call.Context().GetLogLevel()
			if level == pb.LogLevel_LOG_LEVEL_UNSPECIFIED || e.Log.GetLevel() < level {
				return nil
			}
			return x.sendLog(e.Log)
		}
		return nil
	}
}

// sendLog sends a log message, unless the rate limit drops it. The number of dropped messages is sent before the next
// message, or before the response.
func (x *exchange) sendLog(l *pb.LogMessage) error {
	if !x.logs.allows(l) {
		return nil
	}
	if err := x.sendDropSummary(); err != nil {
		return err
	}
	return x.notify(notifyMessage, l)
}

func (x *exchange) sendDropSummary() error {
	if l := x.logs.summary(); l != nil {
		return x.notify(notifyMessage, l)
	}
	return nil
}

// reportProgress sends progress if the client requested it and it increases, as MCP requires.
func (x *exchange) reportProgress(p *pb.Progress) error {
	if x.token == nil || math.IsNaN(p.GetProgress()) || p.GetProgress() <= x.progress ||
		math.IsInf(p.GetProgress(), 0) {
		return nil
	}
	x.progress = p.GetProgress()
	return x.pace.report(p)
}

// sendProgress is also called by a timer, so it recovers panics itself.
func (x *exchange) sendProgress(p *pb.Progress) (err error) {
	defer x.s.panics.Recover(notifyProgress, func(e *bridge.Error) { err = e })

	rest, err := x.s.encode(nil, p, x.rev, x.related...)
	if err != nil {
		return bridge.ProtocolViolation(bridge.OutcomeUnknown,
			"%s: the backend's event cannot be encoded as MCP: %w", notifyProgress, err)
	}
	params := append([]byte(`{"`+metaProgressToken+`":`), x.token...)
	params = append(append(params, ','), rest[1:]...) // progress itself is always a member
	return x.out.send(jsonrpc.AppendNotification(nil, notifyProgress, params))
}

func (x *exchange) notify(method string, params proto.Message) error {
	data, err := x.s.encode(nil, params, x.rev)
	if err != nil {
		return bridge.ProtocolViolation(bridge.OutcomeUnknown,
			"%s: the backend's event cannot be encoded as MCP: %w", method, err)
	}
	return x.out.send(jsonrpc.AppendNotification(nil, method, data))
}

// finish responds to the request with a result or an error. It is called once.
func (x *exchange) finish(m *bridge.Method, res proto.Message, err error, meta ...mcpjson.Member) {
	if err == nil {
		var msg []byte
		if msg, err = x.result(res, meta...); err == nil {
			x.end(head{}, msg)
			return
		}
		outcome := bridge.OutcomeExecuted
		if _, isInput := res.(*pb.InputRequired); isInput {
			outcome = bridge.OutcomeUnknown // the call is incomplete, and may have been executed in part
		}
		err = bridge.ProtocolViolation(outcome, "%s: the backend's result cannot be encoded as MCP: %w", m.Name, err)
	}
	x.fail(m, err)
}

// result returns the response with res.
func (x *exchange) result(res proto.Message, meta ...mcpjson.Member) ([]byte, error) {
	dst := newBuffer(res)
	dst = append(append(append(dst, `{"jsonrpc":"2.0","id":`...), x.id...), `,"result":`...)
	dst, err := x.s.encode(dst, res, x.rev, meta...)
	return append(dst, '}'), err
}

// finishRaw responds to the request with a result in JSON.
func (x *exchange) finishRaw(result []byte) {
	x.end(head{}, jsonrpc.AppendResult(nil, x.id, result))
}

// addResourceURI adds the URI to the error for a resource that does not exist (every revision: server/resources, error
// handling). It returns other errors unchanged.
func (x *exchange) addResourceURI(call *bridge.Call, err error) error {
	e := bridge.AsError(err)
	r, ok := call.Request.(*pb.ReadResourceRequest)
	if !ok || e.Code != codes.NotFound || e.RPC != nil || e.Outcome != "" {
		return err
	}
	data := append(rawjson.AppendString([]byte(`{"uri":`), r.GetUri()), '}')
	return &bridge.Error{
		Code: e.Code, Message: e.Message, Cause: err,
		RPC: &pb.JsonRpcError{Code: x.rev.ResourceNotFound(), Data: rawjson.AsString(data)},
	}
}

// fail responds to the request with an error of the handler.
func (x *exchange) fail(m *bridge.Method, err error) {
	if page := x.s.emptyPage(m, err); page != nil {
		x.finish(m, page, nil)
		return
	}
	x.failWith(http.StatusOK, m, err)
}

// refuse responds with an error to a request that the handler has not received.
func (x *exchange) refuse(m *bridge.Method, err error) { x.failWith(http.StatusBadRequest, m, err) }

// failWith responds to the request with an error, and logs it with the parts that clients must not see. Over HTTP, the
// response has the given status, unless the error's code has its own.
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
	log.Str("method", name).Stringer("revision", x.rev).Bytes("id", x.id).Stringer("code", e.Code).Err(err).
		Msg("call failed")
	rpc := e.Redacted().JSONRPC(x.rev, m)
	h := head{status: httpStatus(x.rev, rpc.GetCode(), status)}
	executed := e.Outcome != bridge.OutcomeNotExecuted
	switch reason := e.Reason; {
	case reason == bridge.ReasonOverloaded && !executed:
		h.status = http.StatusServiceUnavailable // load balancers and clients retry it
	case reason == bridge.ReasonTooMany && !executed && e.RetryAfter > 0:
		h.status = http.StatusTooManyRequests // a retry would not help a single caller
	case e.Scopes != nil && x.s.opts.Challenge != nil:
		h = head{http.StatusForbidden, x.s.opts.Challenge(e.Scopes)} // as OAuth clients expect
	}
	x.end(h, jsonrpc.AppendError(nil, x.id, rpc, x.rev.OmitsUnknownErrorID()))
}

// end ends the request: with the response, or without one if it was canceled.
func (x *exchange) end(h head, msg []byte) {
	if x.pace != nil {
		x.pace.end(msg != nil)
	}
	if msg != nil {
		_ = x.sendDropSummary() // a client that does not read this does not read the response either
	}

	x.out.finish(h, msg)
	x.ended = true
}

// handlerError returns an error of a handler without the codes that are reserved for the server. A code that describes
// the request itself would make a client start again in another era or with other headers (2026-07-28: basic/versioning
// and basic/transports/streamable-http), or treat its connection as broken. An error that requires URL elicitation must
// have the URLs (2025-11-25: client/elicitation). Revision.ErrorCode replaces the codes that a revision lacks.
func handlerError(err error) error {
	if err == nil {
		return nil
	}
	e := bridge.AsError(err)
	switch e.RPC.GetCode() {
	default:
		return err
	case bridge.CodeURLElicitation:
		if len(urlElicitations(err)) > 0 {
			return err
		}
	case codeHeaderMismatch:
		if e.BadHeader {
			return err
		}
	case codeParse, codeInvalidRequest, codeUnsupportedVersion:
	}
	other := *e
	other.RPC = &pb.JsonRpcError{Code: codeInternal, Message: e.RPC.GetMessage(), Data: e.RPC.GetData()}
	other.Cause = err
	return &other
}

// Error codes of JSON-RPC, and of MCP since 2026-07-28.
const (
	codeParse              = -32700
	codeInvalidRequest     = -32600
	codeMethodNotFound     = -32601
	codeInvalidParams      = -32602
	codeInternal           = -32603
	codeHeaderMismatch     = -32020
	codeUnsupportedVersion = -32022
)

// httpStatus returns the HTTP status of a response with a JSON-RPC error. Since 2026-07-28, some codes have a status of
// their own, and the others have the given one. Before that, the status of a response to a request is 200, because
// several clients treat another status as the end of the connection. An invalid message always has 400; a handler
// cannot return its code (handlerError).
func httpStatus(rev bridge.Revision, code int32, otherwise int) int {
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

// isCanceled reports whether a call was canceled by its own caller, which expects no response.
func isCanceled(ctx context.Context) bool {
	return context.Cause(ctx) == errCancelled //nolint:errorlint // the cause is not wrapped
}

// interrupted returns the error of a call that neither its caller nor its backend interrupted, and that ended with err.
func interrupted(cause, err error) error {
	reason := "SESSION_ENDED"
	if errors.Is(cause, lifecycle.ErrClosing) {
		reason = "SHUTTING_DOWN"
	}
	if bridge.AsError(err).Outcome == bridge.OutcomeNotExecuted {
		return bridge.Failed(codes.Unavailable, bridge.OutcomeNotExecuted, reason,
			"the call was ended: %w; it was not executed", cause)
	}
	return bridge.Failed(codes.Unavailable, bridge.OutcomeUnknown, reason,
		"the call was ended: %w; whether it was executed is not known", cause)
}
