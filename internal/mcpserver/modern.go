package mcpserver

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/lifecycle"
	"github.com/mcpbridge/mcpbridge/internal/mcphttp"
	"github.com/mcpbridge/mcpbridge/internal/mcpjson"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// modern handles a self-contained request. ctx ends when the client disconnects or cancels the request (2026-07-28:
// basic/patterns/cancellation).
func (s *Server) modern(ctx context.Context, msg *jsonrpc.Message, from origin, out sink) {
	x := s.newExchange(bridge.Rev20260728, msg, out)
	defer s.panics.Recover(msg.Method, x.failPanic)
	call, d := s.modernCall(ctx, x, msg, from)
	if call == nil {
		return
	}
	switch call.Method {
	case bridge.Discover:
		x.finish(call.Method, s.discoverResult(d), nil, d.serverInfo())
		return
	case bridge.Listen:
		s.listen(ctx, x, msg, call, d)
		return
	}
	if d.GetCapabilities().GetLogging() == nil {
		// a server without declared logging sends no log messages
		call.Context().LogLevel = pb.LogLevel_LOG_LEVEL_UNSPECIFIED
	}
	round, err := s.seal.Open(call)
	if err != nil {
		x.refuse(call.Method, err)
		return
	}
	end, err := s.life.Begin(call)
	if err != nil {
		x.fail(call.Method, err)
		return
	}
	defer end()
	res, err := s.opts.Tasks.HandlerOf(call, s.handler).Handle(ctx, call, x.emit(call))
	res, err = asInputRequired(res, handlerError(err))
	switch {
	case s.isAbandoned(ctx):
		x.end(head{}, nil)
	case ctx.Err() != nil && err != nil:
		// not if the client disconnected during the shutdown
		x.fail(call.Method, interrupted(lifecycle.ErrClosing, err))
	case err != nil:
		x.fail(call.Method, x.addResourceURI(call, err))
	case res.Task != nil:
		if !bridge.ServesTasks(d.GetCapabilities()) { // this tool is newer
			s.declarations[bridge.ModernEra].CompareAndSwap(d, d.asOf(time.Time{}))
		}
		x.finish(call.Method, &pb.CreateTaskResult{Task: res.Task}, nil, d.serverInfo())
	case res.InputRequired != nil:
		// The client receives the input requests, and the sealed state.
		required, err := s.seal.Seal(call,
			withoutContext(res.InputRequired, call.Context().GetClientCapabilities(), x.rev), round+1)
		x.finish(call.Method, required, err, d.serverInfo())
	default:
		x.finish(call.Method, res.Complete, nil, d.serverInfo())
	}
}

// modernCall returns the call of a request, and the declaration of the handler. It returns nil if it has responded to
// the request, or the request was canceled.
func (s *Server) modernCall(ctx context.Context, x *exchange, msg *jsonrpc.Message,
	from origin,
) (*bridge.Call, *declaration) {
	if err := x.begin(msg); err != nil {
		x.refuse(nil, err)
		return nil, nil
	}
	m := bridge.MethodByName(msg.Method)
	call, err := s.readModern(x, m, msg, from)
	if err != nil {
		x.refuse(m, err)
		return nil, nil
	}
	d, err := s.declarationFor(ctx, m)
	switch {
	case err == nil:
		if err := checkTasks(call); err != nil {
			x.refuse(m, err)
			return nil, nil
		}
		return call, d
	case s.isAbandoned(ctx):
		x.end(head{}, nil)
	default:
		x.fail(m, err)
	}
	return nil, nil
}

// declarationFor returns the declaration of the handler, if it has the method. After an early declaration, which
// clients may still have, every method is accepted, and lists that the handler lacks are empty. Listen is always
// accepted, and missing changes are not acknowledged: a client may have the early declaration of another process, and
// client libraries listen without being asked to.
func (s *Server) declarationFor(ctx context.Context, m *bridge.Method) (*declaration, error) {
	d, err := s.discover(ctx, bridge.ModernEra)
	switch {
	case err == nil && (s.sentEarly.Load() || m == bridge.Listen):
		return d, nil
	case err == nil:
		return d, checkSupported(d, m)
	case m != bridge.Discover:
		err = discoverFailed(m, err)
	}
	return nil, err
}

// discoverFailed returns the error of a call whose preceding Discover failed: whatever the outcome of the Discover, the
// call was not executed.
func discoverFailed(m *bridge.Method, err error) error {
	e := bridge.AsError(err).Redacted()
	if e.Outcome == "" || e.Outcome == bridge.OutcomeNotExecuted {
		return err
	}
	n := bridge.Failed(e.Code, bridge.OutcomeNotExecuted, e.Reason,
		"%s: server/discover of its backend failed; the call was not executed", m.Name)
	n.Cause = err
	return n
}

// isAbandoned reports whether the client has canceled the request or disconnected. Then there must be no response
// (2026-07-28: basic/patterns/cancellation).
func (s *Server) isAbandoned(ctx context.Context) bool {
	return ctx.Err() != nil && (isCanceled(ctx) || s.life.Phase() < lifecycle.Draining)
}

// modernRevision returns the revision of a modern request. It must be in `_meta`, and over HTTP also in a header.
func modernRevision(meta []byte, header http.Header) (bridge.Revision, error) {
	body, ok := rawjson.String(rawjson.Get(meta, metaVersion))
	if !ok {
		return 0, invalidMeta(`params._meta has no %q: each request must name its revision`, metaVersion)
	}
	if header != nil {
		value, err := requiredHeader(header, mcphttp.HeaderVersion)
		if err != nil {
			return 0, err
		}
		if value != body {
			return 0, bridge.HeaderMismatch("%s is %q, but params._meta has %q: they must be equal",
				mcphttp.HeaderVersion, rawjson.Shorten(value), rawjson.Shorten(body))
		}
	}
	rev, ok := bridge.ParseRevision(body)
	if !ok || !rev.Modern() {
		return 0, &bridge.Error{
			Code:    codes.InvalidArgument,
			Message: "unsupported protocol version " + strconv.Quote(rawjson.Shorten(body)),
			RPC:     &pb.JsonRpcError{Code: codeUnsupportedVersion, Data: supportedVersions(rawjson.Shorten(body))},
		}
	}
	if !rawjson.IsObject(rawjson.Get(meta, metaCapabilities)) {
		return 0, invalidMeta("params._meta has no %q: each request must have the client's capabilities, or {}",
			metaCapabilities)
	}
	return rev, nil
}

func supportedVersions(requested string) string {
	data := []byte(`{"supported":[`)
	for i, name := range bridge.ModernNames() {
		if i > 0 {
			data = append(data, ',')
		}
		data = strconv.AppendQuote(data, name)
	}
	data = rawjson.AppendString(append(data, `],"requested":`...), requested)
	return rawjson.AsString(append(data, '}'))
}

// invalidMeta returns the error for a missing member of `_meta`.
func invalidMeta(format string, args ...any) *bridge.Error {
	return bridge.Errorf(codes.InvalidArgument, format, args...)
}

// requiredHeader returns the value of a required header, which must not be repeated.
func requiredHeader(h http.Header, name string) (string, error) {
	v := h[name]
	switch {
	case len(v) == 0:
		return "", bridge.HeaderMismatch("%s is missing", name)
	case !mcphttp.IsText(v[0]):
		return "", bridge.HeaderMismatch("%s has a character in it that a header cannot have: encode it", name)
	}
	return v[0], nil
}

func checkMethodHeader(header http.Header, method string) error {
	if header == nil {
		return nil
	}
	value, err := requiredHeader(header, mcphttp.HeaderMethod)
	if err != nil {
		return err
	}
	if value != method {
		return bridge.HeaderMismatch("%s is %q and the body's method is %q: they must be the same, in the same case",
			mcphttp.HeaderMethod, rawjson.Shorten(value), rawjson.Shorten(method))
	}
	return nil
}

func checkNameHeader(header http.Header, call *bridge.Call) error {
	if header == nil || call.Method.Target == nil {
		return nil
	}
	if isTaskMethod(call.Method) && len(header.Values(mcphttp.HeaderName)) == 0 {
		return nil // FastMCP 4 does not send it, and only proxies that route by it need it
	}
	value, err := requiredHeader(header, mcphttp.HeaderName)
	if err != nil {
		return err
	}
	name, ok := mcphttp.DecodeValue(value)
	if !ok {
		return bridge.HeaderMismatch("%s is %q: the text between =?base64? and ?= is not base64", mcphttp.HeaderName,
			rawjson.Shorten(value))
	}
	if want := call.Method.Target(call.Request); name != want {
		return bridge.HeaderMismatch("%s is %q, but the body has %q: they must be equal", mcphttp.HeaderName,
			rawjson.Shorten(name), rawjson.Shorten(want))
	}
	return nil
}

// readModern validates a request and returns its call.
func (s *Server) readModern(x *exchange, m *bridge.Method, msg *jsonrpc.Message, from origin) (*bridge.Call, error) {
	if why := checkRepeated(from.header); why != "" {
		return nil, bridge.HeaderMismatch("%s", why)
	}
	rev, err := modernRevision(msg.Meta, from.header)
	if err != nil {
		return nil, err
	}
	x.rev = rev
	if err := checkMethodHeader(from.header, msg.Method); err != nil {
		return nil, err
	}
	if m == nil || !rev.Within(m.Since, m.Until) {
		return nil, bridge.Errorf(codes.Unimplemented, "there is no method %q in %s", rawjson.Shorten(msg.Method), rev)
	}
	cc := &pb.CallContext{
		ProtocolVersion: rev.String(), ClientCapabilities: &pb.ClientCapabilities{},
		Verified: bridge.Verified(rev, from.principal, s.forwardedHeaders(from.header)),
	}
	for name, value := range rawjson.Members(msg.Meta) {
		var err error
		switch string(name) {
		case metaCapabilities:
			err = mcpjson.Unmarshal(value, cc.GetClientCapabilities(), rev)
		case metaClientInfo:
			cc.ClientInfo = &pb.Implementation{}
			err = mcpjson.Unmarshal(value, cc.GetClientInfo(), rev)
		case metaLogLevel:
			cc.LogLevel, err = parseLevel(value)
		case metaProgressToken:
			cc.ProgressWanted = !rawjson.IsNull(value)
		}
		if err != nil {
			return nil, bridge.Errorf(codes.InvalidArgument, "params._meta.%s: %w", name, err)
		}
	}
	call, err := decode(m, msg, cc, rev)
	if err != nil {
		return nil, err
	}
	call.Session = from.session
	if m == bridge.CallTool {
		call.Header = from.header
	}
	return call, checkNameHeader(from.header, call)
}

// decode returns the call of a message for a caller.
func decode(m *bridge.Method, msg *jsonrpc.Message, caller *pb.CallContext, rev bridge.Revision) (*bridge.Call, error) {
	call := &bridge.Call{Method: m, Request: m.NewRequest(caller)}
	params := msg.Params
	if params == nil {
		params = []byte("{}")
	}
	if err := mcpjson.Unmarshal(params, call.Request, rev); err != nil {
		return nil, bridge.Errorf(codes.InvalidArgument, "%s: params: %w", m.Name, err)
	}
	if cc := call.Context(); cc != nil {
		cc.Meta = bridge.WithoutForgedMeta(cc.GetMeta(), rev.Modern()) // those of modern clients were validated
	}
	if r, ok := call.Request.(*pb.CallToolRequest); ok && len(r.GetArguments()) > 0 &&
		!rawjson.IsObject(r.GetArguments()) {
		return nil, bridge.Errorf(codes.InvalidArgument, "%s: params.arguments is %s: it must be an object", m.Name,
			rawjson.Shorten(r.GetArguments()))
	}
	return call, nil
}

// levels are the log levels by their names, which are case-sensitive.
var levels = func() map[string]pb.LogLevel {
	byName := map[string]pb.LogLevel{}
	for name, level := range pb.LogLevel_value {
		byName[strings.ToLower(strings.TrimPrefix(name, "LOG_LEVEL_"))] = pb.LogLevel(level)
	}
	return byName
}()

func parseLevel(raw []byte) (pb.LogLevel, error) {
	name, _ := rawjson.String(raw)
	level := levels[name]
	if level == pb.LogLevel_LOG_LEVEL_UNSPECIFIED {
		return 0, bridge.Errorf(codes.InvalidArgument,
			"the level is %s: it must be debug, info, notice, warning, error, critical, alert or emergency",
			rawjson.Shorten(raw))
	}
	return level, nil
}

// discoverResult returns the result of server/discover for the declaration d.
func (s *Server) discoverResult(d *declaration) *pb.DiscoverResponse {
	out := proto.CloneOf(d.DiscoverResponse)
	out.Capabilities = s.supportedCapabilities(d, bridge.Rev20260728)
	if out.GetCapabilities() == nil {
		out.Capabilities = &pb.ServerCapabilities{}
	}
	out.SupportedVersions = bridge.ModernNames()
	return out
}
