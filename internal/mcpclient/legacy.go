package mcpclient

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/mcpjson"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// legacy executes a call in the legacy era. A caller with capabilities uses a session exclusively, which was
// initialized with exactly these capabilities. So requests of the server in it can only be meant for that caller: over
// stdio nothing else relates a request to a call. This holds for lists, too: some servers offer more tools to clients
// with more capabilities.
func (c *Client) legacy(ctx context.Context, p *peer, call *bridge.Call, emit bridge.Emit) attempt {
	if call.Method.MayRequireInput && bridge.State(call.Request) != nil {
		return c.resume(ctx, call, emit)
	}
	can := effective(call.Context().GetClientCapabilities(), p.rev())
	key, err := mcpjson.Append(nil, can, p.rev())
	if err != nil {
		return attempt{peer: p, err: cannotEncode(call.Method, p.rev(), err)}
	}
	owner := ownerOf(call)
	if string(key) != "{}" {
		if p, err = c.pool.lease(ctx, can, sessionKey(key, call), owner); err != nil {
			return attempt{err: err}
		}
		p.owner = owner
		p.anonymous = call.Session == "" && call.Context().GetVerified().GetPrincipal().GetSubject() == ""
	}
	at := time.Now()
	x, err := c.startLegacy(ctx, p, owner, call, emit)
	if err != nil {
		if p.exclusive {
			c.pool.release(p, true)
		}
		return attempt{peer: p, at: at, err: err}
	}
	if len(x.requests) > 0 { // the server sent them before this call
		a := attempt{peer: p}
		if a.result, a.err = c.pending.suspend(x, call); a.err != nil {
			c.endExchange(x, true)
		}
		return a
	}
	p.start(x)
	a := c.awaitResponse(ctx, x, call, emit)
	a.at = at
	return a
}

// sessionKey identifies the callers that can use the same sessions: those with the same identity and capabilities. A
// server may keep what it received in a session, such as the roots, and must not use it for another caller.
// Unidentified callers share a session until the server has received a response in it.
func sessionKey(can []byte, call *bridge.Call) string {
	who := call.Context().GetVerified().GetPrincipal()
	return string(can) + "\x00" + who.GetIssuer() + "\x00" + who.GetSubject() + "\x00" + call.Session
}

// ownerOf returns the owner of a call for limits: the caller, or if that is unknown, its session.
func ownerOf(call *bridge.Call) string {
	who := call.Context().GetVerified().GetPrincipal()
	if who.GetSubject() == "" {
		return call.Session
	}
	return who.GetIssuer() + "\x00" + who.GetSubject()
}

// startLegacy returns the exchange of a call. The caller must send it.
func (c *Client) startLegacy(ctx context.Context, p *peer, owner string, call *bridge.Call,
	emit bridge.Emit,
) (*exchange, error) {
	if p.logs {
		if err := p.setLevel(ctx, call.Context().GetLogLevel()); err != nil {
			return nil, err
		}
	}
	x, err := p.beginRequest(call.Method, c.withTask(p, call.Request), purpose{
		acceptsRequests: p.exclusive && call.Method.MayRequireInput, owner: owner, logs: wantsLogs(call.Context()),
	})
	if err != nil {
		return nil, err
	}
	x.each = c.messageHandler(ctx, x, call, emit)
	if x.acceptsRequests {
		for _, m := range p.takeStored() {
			x.addServerRequest(&m)
		}
	}
	return x, nil
}

// endExchange ends an exchange and releases its exclusive session. The session can be reused if no further messages of
// the call can arrive.
func (c *Client) endExchange(x *exchange, clean bool) {
	if x.task != "" && !x.currentState().isAnswered() && !x.p.isLost() {
		c.background(func(ctx context.Context) {
			c.cancelTask(ctx, x)
			c.release(x, clean)
		})
		return
	}
	c.release(x, clean)
}

func (c *Client) release(x *exchange, clean bool) {
	for _, a := range x.requests {
		if m := (jsonrpc.Message{ID: a.id, Method: methodOf(a.req)}); !clean || !x.p.store(&m) {
			x.p.refuse(&m)
		}
	}
	x.requests = nil
	x.p.end(x)
	if x.p.exclusive {
		c.pool.release(x.p, clean && (!x.p.anonymous || !x.p.hasResponse))
	}
}

func methodOf(r *pb.InputRequest) string {
	switch r.GetRequest().(type) {
	case *pb.InputRequest_Elicit:
		return "elicitation/create"
	case *pb.InputRequest_CreateMessage:
		return "sampling/createMessage"
	}
	return methodRoots
}

// addServerRequest handles a request of the server during the call.
func (x *exchange) addServerRequest(m *jsonrpc.Message) {
	params := m.Params
	if params == nil {
		params = []byte("{}")
	}
	size := len(params)
	for _, a := range x.requests {
		size += a.size
	}
	if !x.p.fits(len(x.requests), size) {
		x.p.rejectExcess(m)
		return
	}
	data := slices.Concat([]byte(`{"method":`), quoted(m.Method), []byte(`,"params":`), params, []byte{'}'})
	req := &pb.InputRequest{}
	if err := mcpjson.Unmarshal(data, req, x.p.rev()); err != nil {
		x.answerError(m.ID, codeInvalidParams, m.Method+": "+err.Error())
		return
	}
	if req.GetRaw() != "" || req.GetElicit().GetRaw() != "" ||
		bridge.MissingCapabilities(x.p.clientCapabilities, req) != nil {
		code := int32(codeMethodNotFound)
		if rawjson.Get(params, "mode") != nil {
			code = codeInvalidParams // 2025-11-25: client/elicitation, error handling
		}
		x.answerError(m.ID, code, m.Method+": this client did not declare the capability in initialize")
		return
	}
	for _, m := range []proto.Message{
		req.GetElicit().GetForm(), req.GetElicit().GetUrl(), req.GetCreateMessage(), req.GetListRoots(),
	} {
		clean(m)
	}
	x.requestCount++
	req.Key = "ask" + strconv.Itoa(x.requestCount)
	x.requests = append(x.requests, serverRequest{id: m.ID, req: req, size: len(params)})
}

// answerError responds with an error to a request of the server during the call.
func (x *exchange) answerError(id []byte, code int32, message string) {
	x.p.out.post(jsonrpc.AppendError(nil, id, &pb.JsonRpcError{Code: code, Message: message}, false), x)
}

// removeCanceled handles the cancellation of a request of the server.
func (x *exchange) removeCanceled(m *jsonrpc.Message) {
	id := jsonrpc.Key(rawjson.Get(m.Params, "requestId"))
	x.requests = slices.DeleteFunc(x.requests, func(a serverRequest) bool { return bytes.Equal(jsonrpc.Key(a.id), id) })
}

// resume continues a suspended call: it sends the responses to the server, and waits.
func (c *Client) resume(ctx context.Context, call *bridge.Call, emit bridge.Emit) attempt {
	x := c.pending.take(call)
	if x == nil {
		return attempt{err: bridge.Errorf(codes.InvalidArgument, "%s: %s", call.Method.Name, unknownState)}
	}
	answers := call.Request.(interface {
		GetInputResponses() map[string]*pb.InputResponse
	}).GetInputResponses()
	var open []serverRequest
	for _, a := range x.requests {
		msg, err := answer(x, a, answers[a.req.GetKey()])
		if err != nil {
			c.log.Debug().Err(err).Str("key", a.req.GetKey()).
				Msg("an input response is missing or invalid; requesting it again")
			open = append(open, a)
			continue
		}
		x.p.out.post(msg, x)
		x.p.hasResponse = true
	}
	x.requests = open
	x.transition(suspended, inFlight)
	if len(open) > 0 { // the requests without a valid response are sent to the caller again
		res, err := c.pending.suspend(x, call)
		if err == nil {
			return attempt{peer: x.p, result: res, sent: true}
		}
	}
	x.each = c.messageHandler(ctx, x, call, emit)
	if x.currentState() == idle { // it was suspended before it was sent: the server must process the roots first
		c.awaitInputRead(ctx, x.p)
		if !sleep(ctx, c.intervals.processTime) {
			c.endExchange(x, true)
			return attempt{peer: x.p, err: ctx.Err()}
		}
		if l, ok := errors.AsType[*lostError](x.failure()); ok && l.responseLost {
			c.endExchange(x, false)
			// no retry is possible: the state is used
			return attempt{peer: x.p, err: c.super.Unavailable(l.Error(), 0, l.err)}
		}
		x.p.start(x)
	}
	a := c.awaitResponse(ctx, x, call, emit)
	a.sent = true
	return a
}

// answer returns the message with the response to a request of the server.
func answer(x *exchange, a serverRequest, r *pb.InputResponse) ([]byte, error) {
	if e := r.GetError(); e != nil {
		return jsonrpc.AppendError(nil, a.id, rpcOf(e), false), nil
	}
	var fits bool
	switch a.req.GetRequest().(type) {
	case *pb.InputRequest_Elicit:
		fits = r.GetElicit() != nil
	case *pb.InputRequest_CreateMessage:
		fits = r.GetCreateMessage() != nil
	case *pb.InputRequest_ListRoots:
		fits = r.GetListRoots() != nil
	}
	if !fits {
		return nil, errors.New("the input response is missing, or not of the requested kind")
	}
	result, err := mcpjson.Append(nil, r, x.p.rev())
	return jsonrpc.AppendResult(nil, a.id, relatedTo(x.task, result)), err
}

// rpcOf returns the JSON-RPC error for a missing response (every legacy revision: client features, error handling).
func rpcOf(e *pb.InputError) *pb.JsonRpcError {
	out := &pb.JsonRpcError{Code: codeInternal, Message: e.GetMessage(), Data: e.GetData()}
	switch {
	case e.Code != nil:
		out.Code = e.GetCode()
	case e.GetReason() == pb.InputError_REASON_UNSUPPORTED:
		out.Code = codeMethodNotFound
	case e.GetReason() == pb.InputError_REASON_REFUSED:
		out.Code = codeRefused
	}
	return out
}
