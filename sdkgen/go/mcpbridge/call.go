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

// A call is one round of a call. Handlers reach it by their context.
type call struct {
	request   proto.Message // as it came
	info      *pb.CallContext
	uri       string // of a resource
	state     []byte // of the round before
	responses map[string]*pb.InputResponse
	send      func(*pb.Progress, *pb.LogMessage) error

	mu     sync.Mutex // guards the rest: a stream takes one message at a time
	closed bool       // the handler has returned
	asks   *asks      // what is asked and answered, once something is
}

type callKey struct{}

// from returns the call that ctx belongs to, or nil.
func from(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// about returns what the call's caller says of itself. It is never nil.
func about(ctx context.Context) *pb.CallContext {
	if c := from(ctx); c != nil && c.info != nil {
		return c.info
	}
	return &pb.CallContext{}
}

// Who calls. Outside a call, all of these are empty.

// ClientInfo is the caller's program. Its own word: not to be relied on.
func ClientInfo(ctx context.Context) *pb.Implementation { return about(ctx).GetClientInfo() }

// ClientCapabilities is what the caller can do. What it cannot is ErrUnsupported to ask.
func ClientCapabilities(ctx context.Context) *pb.ClientCapabilities {
	return about(ctx).GetClientCapabilities()
}

// ProtocolVersion is the MCP revision the caller speaks, such as "2026-07-28".
func ProtocolVersion(ctx context.Context) string { return about(ctx).GetProtocolVersion() }

// Principal is who the caller has proved to be. Nil: it was not asked to.
func Principal(ctx context.Context) *pb.Principal { return about(ctx).GetPrincipal() }

// Headers are the request's HTTP headers that the bridge is configured to pass on, by lower-case names.
func Headers(ctx context.Context) map[string]string { return about(ctx).GetHeaders() }

// RequestMeta is MCP `_meta` of the request.
func RequestMeta(ctx context.Context) map[string]any {
	meta := map[string]any{}
	if text := about(ctx).GetMeta(); len(text) > 0 {
		_ = unmarshal(text, &meta) // The bridge passes on objects only.
	}
	return meta
}

// Request is the contract's message, as it came: *CallToolRequest, *ReadResourceRequest, *GetPromptRequest or
// *CompleteRequest. It is not to be changed. Nil: there is no call.
func Request(ctx context.Context) proto.Message {
	if c := from(ctx); c != nil {
		return c.request
	}
	return nil
}

// URI is the URI of the resource that is read.
func URI(ctx context.Context) string {
	if c := from(ctx); c != nil {
		return c.uri
	}
	return ""
}

// How it goes.

// Progress tells how far the call has come. done has to grow from one to the next; a total of 0 is not known. It waits
// while the bridge takes no more, and does nothing if the caller does not want to know.
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

// emit sends an event, unless the result has been sent. If the caller is gone, its context says so.
func (c *call) emit(p *pb.Progress, l *pb.LogMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed && c.send(p, l) != nil {
		c.closed = true
	}
}

// close makes sure that nothing is sent after this: the result comes last.
func (c *call) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
}

// A Level is how severe a log message is.
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

// Log writes to the call's log, for the caller to see: a string, or anything that becomes JSON. What is below the level the
// caller asked for is not sent, and nothing is if it did not ask. A logger is the name of what logs. See NewLogHandler for
// log/slog.
func Log(ctx context.Context, level Level, data any, logger ...string) {
	c := from(ctx)
	if c == nil || !c.wants(level) {
		return
	}
	json, err := marshal(data)
	if err != nil {
		json, _ = marshal(fmt.Sprint(data)) // A string is always JSON.
	}
	l := &pb.LogMessage{Level: level, Data: json}
	if len(logger) > 0 {
		name := text(logger[0])
		l.Logger = &name
	}
	c.emit(nil, l)
}

func (c *call) wants(level Level) bool {
	wanted := c.info.GetLogLevel()
	return wanted != pb.LogLevel_LOG_LEVEL_UNSPECIFIED && level >= wanted
}

// protect calls f and returns what it panicked with, if it did. One handler's panic does not end the others.
func protect(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			stack := string(debug.Stack())
			if _, below, ok := strings.Cut(stack, "\npanic("); ok { // and its line in the runtime
				if parts := strings.SplitN(below, "\n", 3); len(parts) == 3 {
					stack = parts[2]
				}
			}
			// What called the handler is of no use to its author.
			if i := strings.Index(stack, "\ngithub.com/mcpbridge/mcpbridge/sdkgen/go/mcpbridge."); i > 0 {
				stack = stack[:i]
			}
			err = &panicked{v, stack}
		}
	}()
	return f()
}
