package mcpbridge

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A logHandler sends log records during a call to its caller, like Log.
type logHandler struct {
	next slog.Handler // may be nil
	json slog.Handler // writes to line
	line *line
}

type line struct {
	mu sync.Mutex // guards buf, and is held while json writes
	bytes.Buffer
}

// NewLogHandler returns a handler that sends records with a call's context to the caller, as an object with the message
// as "msg" and the attributes. It also passes all records to next, if that is not nil:
//
//	slog.SetDefault(slog.New(mcpbridge.NewLogHandler(slog.NewTextHandler(os.Stderr, nil))))
//	slog.InfoContext(ctx, "fetched", "city", city)
//
// Between the levels of slog are those that only MCP has: slog.LevelInfo+2 is notice, and above slog.LevelError are
// critical (+4), alert (+8) and emergency (+12).
func NewLogHandler(next slog.Handler) slog.Handler {
	l := &line{}
	drop := func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey) {
			return slog.Attr{} // The time is now, and the message has a level.
		}
		return a
	}
	return &logHandler{
		next,
		slog.NewJSONHandler(l, &slog.HandlerOptions{Level: slog.Level(-1 << 20), ReplaceAttr: drop}), l,
	}
}

func levelOf(l slog.Level) Level {
	switch {
	case l < slog.LevelInfo:
		return LevelDebug
	case l < slog.LevelInfo+2:
		return LevelInfo
	case l < slog.LevelWarn:
		return LevelNotice
	case l < slog.LevelError:
		return LevelWarning
	case l < slog.LevelError+4:
		return LevelError
	case l < slog.LevelError+8:
		return LevelCritical
	case l < slog.LevelError+12:
		return LevelAlert
	}
	return LevelEmergency
}

// Enabled implements slog.Handler.
func (h *logHandler) Enabled(ctx context.Context, l slog.Level) bool {
	c := from(ctx)
	return c != nil && c.logs(levelOf(l)) || h.next != nil && h.next.Enabled(ctx, l)
}

// Handle implements slog.Handler.
func (h *logHandler) Handle(ctx context.Context, r slog.Record) error {
	var err error
	if c := from(ctx); c != nil && c.logs(levelOf(r.Level)) {
		h.line.mu.Lock()
		h.line.Reset()
		err = h.json.Handle(ctx, r)
		data := string(bytes.TrimSpace(h.line.Bytes()))
		h.line.mu.Unlock()
		if err == nil {
			c.emit(nil, &pb.LogMessage{Level: levelOf(r.Level), Data: data})
		}
	}
	if h.next != nil && h.next.Enabled(ctx, r.Level) {
		err = errors.Join(err, h.next.Handle(ctx, r))
	}
	return err
}

// WithAttrs implements slog.Handler.
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.with(func(n slog.Handler) slog.Handler { return n.WithAttrs(attrs) })
}

// WithGroup implements slog.Handler.
func (h *logHandler) WithGroup(name string) slog.Handler {
	return h.with(func(n slog.Handler) slog.Handler { return n.WithGroup(name) })
}

func (h *logHandler) with(f func(slog.Handler) slog.Handler) slog.Handler {
	n := &logHandler{nil, f(h.json), h.line}
	if h.next != nil {
		n.next = f(h.next)
	}
	return n
}
