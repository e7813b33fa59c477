package mcpbridge

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A call is one round of a request, stored in the context of the handler.
type call struct {
	request   proto.Message // unmodified
	info      *pb.CallContext
	uri       string // of a resource
	state     []byte // of the previous round
	responses map[string]*pb.InputResponse
	send      func(*pb.Progress, *pb.LogMessage) error
	startTask func() error // nil if the call is not of a tool

	mu       sync.Mutex  // guards the rest: a stream does not permit concurrent sends
	closed   bool        // the handler has returned
	sent     bool        // an event was sent
	repeated bool        // an event was sent before an answered question, and therefore in an earlier round too
	inputs   *inputRound // created by the first question
}

type callKey struct{}

// from returns the call that ctx belongs to, or nil.
func from(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// callContext returns the CallContext of the call. It is never nil.
func callContext(ctx context.Context) *pb.CallContext {
	if c := from(ctx); c != nil && c.info != nil {
		return c.info
	}
	return &pb.CallContext{}
}

// The caller. Outside of a call, these are empty.

// ClientInfo returns the name and version of the client, as it declares them. They are not verified.
func ClientInfo(ctx context.Context) *pb.Implementation { return callContext(ctx).GetClientInfo() }

// ClientCapabilities returns the capabilities of the client. Questions that it does not support return ErrUnsupported.
func ClientCapabilities(ctx context.Context) *pb.ClientCapabilities {
	return callContext(ctx).GetClientCapabilities()
}

// ProtocolVersion returns the MCP revision of the caller, such as "2026-07-28".
func ProtocolVersion(ctx context.Context) string {
	return callContext(ctx).GetVerified().GetProtocolVersion()
}

// Principal returns the authenticated caller. It is nil if authentication is not configured.
func Principal(ctx context.Context) *pb.Principal {
	return callContext(ctx).GetVerified().GetPrincipal()
}

// Headers returns the HTTP headers in serve.http.passHeaders of the bridge, by lower-case names.
func Headers(ctx context.Context) map[string]string {
	return callContext(ctx).GetVerified().GetHeaders()
}

// RequestMeta returns MCP `_meta` of the request.
func RequestMeta(ctx context.Context) map[string]any {
	meta := map[string]any{}
	if text := callContext(ctx).GetMeta(); len(text) > 0 {
		_ = unmarshal([]byte(text), &meta) // The bridge sends objects only.
	}
	return meta
}

// Request returns the unmodified request: *CallToolRequest, *ReadResourceRequest, *GetPromptRequest or
// *CompleteRequest. Do not modify it. It is nil outside of a call.
func Request(ctx context.Context) proto.Message {
	if c := from(ctx); c != nil {
		return c.request
	}
	return nil
}

// URI returns the URI of the requested resource.
func URI(ctx context.Context) string {
	if c := from(ctx); c != nil {
		return c.uri
	}
	return ""
}

// Progress and logs.

// Progress reports progress. done must increase with each report; a total of 0 is unknown. Progress blocks while the
// bridge is not reading, and does nothing if the caller did not request progress.
func Progress(ctx context.Context, done, total float64, message ...string) {
	c := from(ctx)
	if c == nil || !c.info.GetProgressWanted() {
		return
	}
	p := &pb.Progress{Progress: done}
	if total != 0 {
		p.Total = &total
	}
	if len(message) > 0 {
		m := text(message[0])
		p.Message = &m
	}
	c.emit(p, nil)
}

// emit sends an event, unless the result has been sent. Errors are ignored: the context is canceled if the caller
// disconnects.
func (c *call) emit(p *pb.Progress, l *pb.LogMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.closed = c.send(p, l) != nil
	c.sent = true
}

// close stops sending events: the result comes last. It reports whether events were repeated.
func (c *call) close() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	return c.repeated
}

// A Level is the severity of a log message.
type Level = pb.LogLevel

// The levels of RFC 5424, in ascending order.
const (
	LevelDebug     = pb.LogLevel_LOG_LEVEL_DEBUG
	LevelInfo      = pb.LogLevel_LOG_LEVEL_INFO
	LevelNotice    = pb.LogLevel_LOG_LEVEL_NOTICE
	LevelWarning   = pb.LogLevel_LOG_LEVEL_WARNING
	LevelError     = pb.LogLevel_LOG_LEVEL_ERROR
	LevelCritical  = pb.LogLevel_LOG_LEVEL_CRITICAL
	LevelAlert     = pb.LogLevel_LOG_LEVEL_ALERT
	LevelEmergency = pb.LogLevel_LOG_LEVEL_EMERGENCY
)

// Log writes to the call's log: a string, or any other JSON value. Nothing is sent below the level that the caller
// requested, or if it requested none. logger is an optional name. For log/slog, see NewLogHandler.
func Log(ctx context.Context, level Level, data any, logger ...string) {
	c := from(ctx)
	if c == nil || !c.logs(level) {
		return
	}
	json, err := marshal(data)
	if err != nil {
		json, _ = marshal(fmt.Sprint(data)) // A string is always JSON.
	}
	l := &pb.LogMessage{Level: level, Data: string(json)}
	if len(logger) > 0 {
		name := text(logger[0])
		l.Logger = &name
	}
	c.emit(nil, l)
}

func (c *call) logs(level Level) bool {
	wanted := c.info.GetLogLevel()
	return wanted != pb.LogLevel_LOG_LEVEL_UNSPECIFIED && level >= wanted
}

// protect calls f and returns its panic, if any, as an error, so that a panic in a handler does not end other calls.
func protect(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			stack := string(debug.Stack())
			if _, below, ok := strings.Cut(stack, "\npanic("); ok { // and its line in the runtime
				if parts := strings.SplitN(below, "\n", 3); len(parts) == 3 {
					stack = parts[2]
				}
			}
			// Frames of the SDK do not help the author.
			if i := strings.Index(stack, "\ngithub.com/mcpbridge/mcpbridge/sdkgen/go/mcpbridge."); i > 0 {
				stack = stack[:i]
			}
			err = &panicError{v, stack}
		}
	}()
	return f()
}
