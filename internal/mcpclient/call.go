package mcpclient

import (
	"cmp"
	"context"
	"errors"
	"math"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/mcphttp"
	"github.com/mcpbridge/mcpbridge/internal/mcpjson"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	"github.com/mcpbridge/mcpbridge/internal/supervise"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// Handle implements bridge.Handler.
func (c *Client) Handle(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
	if call.Method == bridge.Listen {
		return c.listen(ctx, call, emit)
	}
	if n := c.calls.Add(1); n > int64(c.o.MaxCalls) {
		c.calls.Add(-1)
		return nil, c.overloaded("%d calls are in flight, which is the limit", c.o.MaxCalls)
	}
	defer c.calls.Add(-1)
	limited, cancel := context.WithTimeout(ctx, c.o.Limits.CallTotal)
	defer cancel()
	return c.handle(limited, call, emit)
}

// handle executes a call.
func (c *Client) handle(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
	return c.super.Do(ctx, call, func(ctx context.Context, l *connection) supervise.Attempt {
		if l.peer.rev().Modern() && call.Era() == bridge.LegacyEra {
			t, err := c.awaitLegacyClient(ctx, l)
			if err != nil {
				return supervise.Attempt{Err: err}
			}
			if t != nil {
				res, err := t.handle(ctx, call, emit)
				return supervise.Attempt{Result: res, Err: err}
			}
		}
		if call.Method == bridge.Discover {
			return supervise.Attempt{Result: c.discovery(ctx, l)}
		}
		a := c.attempt(ctx, l, call, emit)
		if a.err != nil {
			return c.attemptOutcome(ctx, l, call, &a)
		}
		if !l.called.Load() {
			l.called.Store(true)
		}
		return supervise.Attempt{Result: a.result}
	})
}

// attemptOutcome returns the outcome of an attempt without a result.
func (c *Client) attemptOutcome(ctx context.Context, l *connection, call *bridge.Call, a *attempt) supervise.Attempt {
	out := supervise.Attempt{Err: a.err, Emitted: a.emitted, Fail: func(bool) error { return c.crashed(a.err) }}
	gone, isLost := errors.AsType[*lostError](a.err)
	switch {
	case ctx.Err() != nil, isLost && !gone.reprobe && (!gone.refused || !a.sent):
		out.Outcome = supervise.NotSent
		if a.sent {
			out.Outcome = supervise.Lost
		}
	case isLost:
		if gone.reprobe && l.peer == a.peer {
			l.end()
		} else if gone.reprobe && a.peer != nil {
			c.pool.closeIdleBefore(a.peer.key, a.at)
		}
		// A server may execute a call and then respond with any status. Only 404 with a session proves that it did not:
		// the session is unknown.
		out.Outcome = supervise.Lost
		if !a.sent || gone.unknownSession && !a.emitted && !bridge.IsRetry(call.Request) {
			out.Outcome = supervise.Refused
		}
		out.Fail = func(sent bool) error { return c.refused(gone, sent) }
	case a.prepare != nil:
		// The server states that it did not execute the call, and why.
		out.Outcome, out.Prepare, out.Fail = supervise.Refused, a.prepare, func(bool) error { return a.err }
	}
	return out
}

// An attempt is the result of sending a call once.
type attempt struct {
	peer    *peer
	at      time.Time // when the call obtained its exclusive session
	result  *bridge.Result
	err     error
	sent    bool // the server may have executed the call
	emitted bool // events were emitted
	// prepare removes the cause of an error, so that the call can be retried. It reports whether a retry is useful.
	prepare func(context.Context) bool
}

// attempt sends a call once.
func (c *Client) attempt(ctx context.Context, l *connection, call *bridge.Call, emit bridge.Emit) attempt {
	p := l.peer
	if p.rev().Modern() {
		return c.modern(ctx, p, call, emit)
	}
	return c.legacy(ctx, p, call, emit)
}

// modern sends a call to a modern server.
func (c *Client) modern(ctx context.Context, p *peer, call *bridge.Call, emit bridge.Emit) attempt {
	a := attempt{peer: p}
	if e := inputError(call.Request); e != nil {
		a.result, a.err = withoutInput(call, e)
		return a
	}
	x, err := p.beginRequest(call.Method, call.Request, purpose{logs: wantsLogs(call.Context())})
	if err != nil {
		a.err = err
		return a
	}
	c.setHeaders(x, call)
	x.each = c.messageHandler(ctx, x, call, emit)
	p.start(x)
	return c.awaitResponse(ctx, x, call, emit)
}

func wantsLogs(caller *pb.CallContext) bool {
	return caller.GetLogLevel() != pb.LogLevel_LOG_LEVEL_UNSPECIFIED
}

// awaitResponse waits for the response to a call. If the server sends requests before it, the call is suspended.
func (c *Client) awaitResponse(
	ctx context.Context, x *exchange, call *bridge.Call, emit bridge.Emit,
) (a attempt) {
	a.peer = x.p
	suspended, clean := false, false
	defer func() {
		if !suspended {
			c.endExchange(x, clean)
		}
	}()
	msg, err := x.await(ctx)
	for msg != nil {
		id := createdTask(x, call, msg)
		if id == "" && c.awaitsTask(ctx, x, msg.Error) {
			id = x.task
		}
		if id == "" {
			break
		}
		y, failed := c.startTaskResult(ctx, x, id, call, emit)
		if failed != nil {
			return attempt{peer: x.p, err: failed, sent: true, emitted: true}
		}
		x = y
		msg, err = x.await(ctx)
	}
	a.emitted = x.emitted || x.task != "" // the server has executed the call: it is not repeated
	if err == nil && msg == nil {
		if a.result, err = c.pending.suspend(x, call); err == nil {
			suspended = true
			return a
		}
	}
	a.sent = x.sent.settle() || x.task != ""
	clean = msg != nil || !a.sent
	if err != nil {
		a.err = err
		return a
	}
	a.result, a.err = c.read(call, msg, x.p)
	if x.task == "" && lacksTask(call, x.p, msg.Error) {
		a.prepare = func(ctx context.Context) bool {
			r := call.Request.(*pb.CallToolRequest)
			return c.refreshTools(ctx, call) && c.params.requiresTask(r.GetName())
		}
	}
	if msg.Error != nil && x.p.rev().Modern() {
		a.prepare = c.prepareRetry(call, msg.Error)
	}
	return a
}

// inputError returns the first error among the responses to input requests, ordered by key, or nil.
func inputError(r bridge.Request) *pb.InputError {
	in, ok := r.(interface {
		GetInputResponses() map[string]*pb.InputResponse
	})
	if !ok {
		return nil
	}
	responses := in.GetInputResponses()
	var first string
	for key, response := range responses {
		if response.GetError() != nil && (first == "" || key < first) {
			first = key
		}
	}
	return responses[first].GetError()
}

// withoutInput returns the result of a call with an input error, which cannot be sent to a modern server.
func withoutInput(call *bridge.Call, e *pb.InputError) (*bridge.Result, error) {
	why := cmp.Or(e.GetMessage(), "an input request has no answer")
	if call.Method == bridge.CallTool {
		return &bridge.Result{Complete: &pb.CallToolResult{
			Content: []*pb.ContentBlock{{Block: &pb.ContentBlock_Text{Text: &pb.TextContent{Text: why}}}},
			IsError: proto.Bool(true),
		}}, nil
	}
	return nil, &bridge.Error{
		Code: codes.FailedPrecondition, Message: call.Method.Name + ": " + why,
		RPC: &pb.JsonRpcError{Code: codeInternal},
	}
}

// setHeaders sets the headers that repeat parts of the body of a modern request.
func (c *Client) setHeaders(x *exchange, call *bridge.Call) {
	if c.url == nil {
		return
	}
	if call.Method.Target != nil {
		x.header = append(x.header,
			[2]string{mcphttp.HeaderName, mcphttp.EncodeValue(call.Method.Target(call.Request))})
	}
	if r, ok := call.Request.(*pb.CallToolRequest); ok {
		for _, param := range c.params.forTool(r.GetName()) {
			if v, ok := param.Value(r.GetArguments()); ok {
				x.header = append(x.header, [2]string{param.Header, v})
			}
		}
	}
}

// prepareRetry returns a function that removes the cause of a modern error before a retry, or nil.
func (c *Client) prepareRetry(call *bridge.Call, e *pb.JsonRpcError) func(context.Context) bool {
	switch e.GetCode() {
	case codeHeaderMismatch:
		if call.Method != bridge.CallTool || c.url == nil {
			return nil
		}
		// The list of tools, which determines the headers, has changed or was never read.
		return func(ctx context.Context) bool { return c.refreshTools(ctx, call) }
	case codeUnsupportedVersion:
		modern, _ := supportedBy(e)
		return func(context.Context) bool {
			if !modern {
				// The server has been replaced.
				if l := c.super.Live(); l != nil {
					l.end()
				}
			}
			return true
		}
	}
	return nil
}

// modernMeta returns the `_meta` of a modern request, which describes the client completely (2026-07-28: basic/index,
// _meta).
func (c *Client) modernMeta(x *exchange, caller *pb.CallContext) ([]mcpjson.Member, error) {
	rev := modernRev
	declared := effective(caller.GetClientCapabilities(), rev)
	if x.p.tasks.Load() { // the bridge handles tasks itself, for callers with and without them
		declared = bridge.DeclareTasks(declared)
	}
	can, err := mcpjson.Append(nil, declared, rev)
	if err != nil {
		return nil, err
	}
	info := caller.GetClientInfo()
	if info.GetName() == "" {
		info = c.info
	}
	who, err := mcpjson.Append(nil, info, rev)
	if err != nil {
		return nil, err
	}
	meta := []mcpjson.Member{
		{Name: metaVersion, Value: quoted(rev.String())},
		{Name: metaCapabilities, Value: can},
		{Name: metaClientInfo, Value: who},
		{Name: metaLogLevel},
		{Name: metaProgressToken},
	}
	if level := caller.GetLogLevel(); level != pb.LogLevel_LOG_LEVEL_UNSPECIFIED {
		meta[3].Value = quoted(levelName(level))
	}
	if caller.GetProgressWanted() && !x.listens { // subscriptions report no progress
		meta[4].Value = []byte(x.id)
	}
	return meta, nil
}

// legacyMeta returns the `_meta` of a legacy request.
func legacyMeta(x *exchange, caller *pb.CallContext) []mcpjson.Member {
	if len(caller.GetMeta()) == 0 && !caller.GetProgressWanted() {
		return nil
	}
	meta := []mcpjson.Member{
		{Name: metaVersion},
		{Name: metaCapabilities},
		{Name: metaClientInfo},
		{Name: metaLogLevel},
		{Name: metaProgressToken},
	}
	if caller.GetProgressWanted() {
		meta[4].Value = []byte(x.id)
	}
	return meta
}

func quoted(s string) []byte { return rawjson.AppendString(nil, s) }

func levelName(l pb.LogLevel) string {
	return strings.ToLower(strings.TrimPrefix(l.String(), "LOG_LEVEL_"))
}

// beginRequest returns an exchange for a request of the method m. The caller must start it.
func (p *peer) beginRequest(m *bridge.Method, r bridge.Request, u purpose) (*exchange, error) {
	x, err := p.begin(m.Name, u)
	if err != nil {
		return nil, err
	}
	var meta []mcpjson.Member
	if p.rev().Modern() {
		meta, err = p.c.modernMeta(x, r.GetContext())
	} else {
		meta = legacyMeta(x, r.GetContext())
	}
	if err == nil {
		room := 512
		if t, ok := r.(*pb.CallToolRequest); ok {
			room += len(t.GetArguments()) + len(t.GetRequestState())
		}
		x.body = append(make([]byte, 0, room), `{"jsonrpc":"2.0","id":`...)
		x.body = append(append(append(x.body, x.id...), `,"method":"`...), m.Name...)
		x.body, err = mcpjson.Append(append(x.body, `","params":`...), r, p.rev(), meta...)
		x.body = append(x.body, '}')
	}
	if err != nil {
		p.end(x)
		return nil, cannotEncode(m, p.rev(), err)
	}
	return x, nil
}

// cannotEncode is the error of a call that the server's revision cannot express.
func cannotEncode(m *bridge.Method, rev bridge.Revision, err error) error {
	return bridge.Errorf(codes.InvalidArgument, "%s is not supported in MCP %s: %w", m.Name, rev, err)
}

// noProgress is less than any progress.
var noProgress = math.Inf(-1)

// messageHandler returns the handler of the messages before the response of a call.
func (c *Client) messageHandler(ctx context.Context, x *exchange, call *bridge.Call, emit bridge.Emit) messageHandler {
	return func(m *jsonrpc.Message) error {
		var e bridge.Event
		switch m.Method {
		case notifyProgress:
			e.Progress = x.readProgress(m, call.Context())
		case notifyMessage:
			e.Log = x.readLog(m, call.Context())
		case notifyCancelled:
			x.removeCanceled(m)
		default:
			if m.IsRequest() {
				x.addServerRequest(m)
			}
		}
		if e.Progress == nil && e.Log == nil {
			return nil
		}
		x.emitted = true
		return emit(ctx, e)
	}
}

// readProgress returns the event of a progress notification. Progress only increases.
func (x *exchange) readProgress(m *jsonrpc.Message, caller *pb.CallContext) *pb.Progress {
	if !caller.GetProgressWanted() {
		return nil
	}
	p := &pb.Progress{}
	if err := mcpjson.Unmarshal(m.Params, p, x.p.rev()); err != nil || !(p.GetProgress() > x.progress) {
		return nil
	}
	x.progress = p.GetProgress()
	return p
}

// readLog returns the event of a log notification, if the caller requested its level.
func (x *exchange) readLog(m *jsonrpc.Message, caller *pb.CallContext) *pb.LogMessage {
	level := caller.GetLogLevel()
	if level == pb.LogLevel_LOG_LEVEL_UNSPECIFIED {
		return nil
	}
	l := &pb.LogMessage{}
	if err := mcpjson.Unmarshal(m.Params, l, x.p.rev()); err != nil || l.GetLevel() < level {
		return nil
	}
	return l
}

// effective returns the caller's capabilities as declared to the server, without those that the bridge does not
// forward. Tasks of a caller concern the bridge only. Roots are requested when needed, so that their changes need not
// be reported. In a revision with form elicitation only, a caller without forms has no elicitation.
func effective(can *pb.ClientCapabilities, rev bridge.Revision) *pb.ClientCapabilities {
	if can == nil {
		return &pb.ClientCapabilities{}
	}
	formless := can.GetElicitation() != nil && !bridge.ElicitsForms(can) && !rev.HasURLElicitation()
	can = bridge.EffectiveCapabilities(can, rev)
	extensions := rawjson.AsBytes(can.GetExtensions())
	tasks := rawjson.Get(extensions, bridge.TasksExtension) != nil
	if can.GetTasks() == "" && !can.GetRoots().GetListChanged() && !tasks && !formless {
		return can
	}
	can = proto.CloneOf(can)
	can.Tasks = ""
	if can.GetRoots() != nil {
		can.Roots.ListChanged = nil
	}
	if tasks {
		can.Extensions = rawjson.AsString(rawjson.Without(extensions, bridge.TasksExtension))
	}
	if formless {
		can.Elicitation = nil
	}
	return can
}
