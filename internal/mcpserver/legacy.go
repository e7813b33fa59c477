package mcpserver

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/feed"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// sessionMethods handle the legacy requests about the session itself.
var sessionMethods = map[string]func(ss *session, msg *jsonrpc.Message) error{
	"ping":                  func(*session, *jsonrpc.Message) error { return nil },
	"initialize":            (*session).initializeAgain,
	"logging/setLevel":      (*session).setLevel,
	"resources/subscribe":   (*session).subscribe,
	"resources/unsubscribe": (*session).unsubscribe,
}

// request handles a request of the session, with the context that begin returned. A legacy client cannot repeat a call
// with input responses: the server sends it the input requests, and calls the handler again with its responses.
func (ss *session) request(ctx context.Context, msg *jsonrpc.Message, from origin, out sink) {
	x := ss.s.newExchange(ss.rev, msg, out)
	defer ss.s.panics.Recover(msg.Method, x.failPanic)
	call := ss.call(ctx, x, msg, from)
	if call == nil {
		return
	}
	end, err := ss.s.life.Begin(call)
	if err != nil {
		x.fail(call.Method, err)
		return
	}
	defer end()
	var result proto.Message
	var task *pb.Task
	handler := ss.s.opts.Tasks.HandlerOf(call, ss.s.handler)
	for t := (roundTrip{ss: ss, x: x, call: call}); t.call != nil; {
		res, failed := handler.Handle(ctx, t.call, x.emit(t.call))
		if failed == nil && res.Task != nil {
			task, err = res.Task, nil
			break
		}
		result, err = t.next(ctx, res, handlerError(failed))
	}
	switch {
	case isCanceled(ctx):
		x.end(head{}, nil)
	case err != nil && ctx.Err() != nil:
		x.fail(call.Method, interrupted(context.Cause(ctx), err))
	case err != nil:
		x.fail(call.Method, x.addResourceURI(call, err))
	case task != nil:
		ss.createdTask(x, call, task)
	case call.Method == bridge.CancelTask:
		ss.cancelledTask(x, call)
	default:
		x.finish(call.Method, result, nil)
	}
}

// call returns the call of a request. It returns nil if it has responded to the request, or the request was canceled.
func (ss *session) call(ctx context.Context, x *exchange, msg *jsonrpc.Message, from origin) *bridge.Call {
	err := x.begin(msg)
	if err == nil && strings.HasPrefix(msg.Method, "notifications/") {
		err = bridge.Errorf(codes.Unimplemented, "%s is a notification: send it without an id",
			rawjson.Shorten(msg.Method))
	}
	if err == nil {
		err = ss.awaitReady(ctx, msg.Method)
	}
	switch {
	case err != nil && isCanceled(ctx):
		x.end(head{}, nil)
		return nil
	case err != nil:
		x.refuse(nil, err)
		return nil
	}
	if f := sessionMethods[msg.Method]; f != nil {
		if err := f(ss, msg); err != nil {
			x.refuse(nil, err)
			return nil
		}
		x.finishRaw([]byte("{}"))
		return nil
	}
	if msg.Method == methodTaskResult && ss.rev.HasTaskMetadata() &&
		bridge.ServesTasks(ss.declaration.GetCapabilities()) &&
		ss.s.opts.Tasks != nil {
		ss.taskResult(ctx, x, msg, from)
		return nil
	}
	m := bridge.MethodByName(msg.Method)
	if m == nil || !ss.rev.Within(m.Since, m.Until) {
		x.refuse(nil, bridge.Errorf(codes.Unimplemented, "there is no method %q in %s", rawjson.Shorten(msg.Method),
			ss.rev))
		return nil
	}
	err = checkSupported(ss.declaration, m)
	var call *bridge.Call
	if err == nil {
		call, err = decode(m, msg, ss.callContext(x, from), ss.rev)
	}
	if err != nil {
		x.refuse(m, err)
		return nil
	}
	call.Session = ss.scope
	if r, ok := call.Request.(*pb.CallToolRequest); ok && !bridge.ServesTasks(ss.declaration.GetCapabilities()) {
		r.Task = nil // (2025-11-25: basic/utilities/tasks, capability negotiation)
	}
	if bridge.IsRetry(call.Request) { // only modern requests retry: a legacy client responds to requests of the server
		call = call.Retry(nil, nil)
	}
	return call
}

// callContext returns the CallContext for a call of the session.
func (ss *session) callContext(x *exchange, from origin) *pb.CallContext {
	ss.mu.Lock()
	level := ss.level
	ss.mu.Unlock()
	return &pb.CallContext{
		ProtocolVersion: ss.rev.String(), ClientInfo: ss.caller.GetClientInfo(),
		ClientCapabilities: ss.caller.GetClientCapabilities(), LogLevel: level, ProgressWanted: x.token != nil,
		Verified: bridge.Verified(ss.rev, from.principal, ss.s.forwardedHeaders(from.header)),
	}
}

func (ss *session) initializeAgain(*jsonrpc.Message) error {
	e := bridge.Errorf(codes.InvalidArgument, "initialize: the session is initialized already")
	e.RPC = &pb.JsonRpcError{Code: codeInvalidRequest, Data: jsonrpc.NotExecuted}
	return e
}

func (ss *session) setLevel(msg *jsonrpc.Message) error {
	if ss.declaration.GetCapabilities().GetLogging() == nil {
		return bridge.Errorf(codes.Unimplemented, "logging/setLevel: this server sends no log messages")
	}
	level, err := parseLevel(rawjson.Get(msg.Params, "level"))
	if err != nil {
		return err
	}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.level = level
	return nil
}

func (ss *session) subscribe(msg *jsonrpc.Message) error {
	uri, err := ss.resourceURI(msg)
	if err != nil {
		return err
	}
	ss.mu.Lock()
	if !slices.Contains(ss.uris, uri) {
		uris := append(slices.Clip(ss.uris), uri)
		if err = feed.CheckSubscriptions(uris); err == nil {
			ss.uris = uris
		}
	}
	ss.mu.Unlock()
	if err != nil {
		return err
	}
	supported, err := ss.listen()
	if err == nil && !slices.Contains(supported.GetResourceSubscriptions(), uri) {
		err = bridge.Errorf(codes.InvalidArgument,
			"%s: the backend does not report changes of %q, or does not have it: use a URI of "+
				"resources/list, or read the resource again when needed", msg.Method, rawjson.Shorten(uri))
	}
	if err != nil {
		ss.removeURI(uri)
	}
	return err
}

func (ss *session) unsubscribe(msg *jsonrpc.Message) error {
	uri, err := ss.resourceURI(msg)
	if err == nil {
		ss.removeURI(uri)
	}
	return err
}

// resourceURI returns the URI of the resource of a message. It returns an error if the server does not report changes
// of resources.
func (ss *session) resourceURI(msg *jsonrpc.Message) (uri string, err error) {
	if !ss.declaration.GetCapabilities().GetResources().GetSubscribe() {
		return "", bridge.Errorf(codes.Unimplemented, "%s: this server does not report changes of resources",
			msg.Method)
	}
	uri, ok := rawjson.String(rawjson.Get(msg.Params, "uri"))
	if !ok {
		return "", bridge.Errorf(codes.InvalidArgument, "%s: params.uri must be a string", msg.Method)
	}
	return uri, nil
}

// removeURI unsubscribes the session from a resource.
func (ss *session) removeURI(uri string) {
	ss.mu.Lock()
	ss.uris = slices.DeleteFunc(ss.uris, func(u string) bool { return u == uri })
	ss.mu.Unlock()
	_, _ = ss.s.hub.Update(&ss.sub) // a smaller filter never exceeds a limit
}

// toolError returns the result of a failed tool, with the reason for the model to read.
func toolError(reason string) proto.Message {
	return &pb.CallToolResult{
		Content: []*pb.ContentBlock{{Block: &pb.ContentBlock_Text{Text: &pb.TextContent{Text: reason}}}},
		IsError: proto.Bool(true),
	}
}
