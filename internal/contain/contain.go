// Package contain limits the effect of a panic: a panic during a call fails that call, and a panic in the code of a
// backend's instance ends that instance. Neither ends the process.
package contain

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/rs/zerolog"
	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
)

// Panics recovers, counts and logs panics: the first one of each place with its stack. It may be used concurrently.
type Panics struct {
	log    zerolog.Logger
	places *places
}

// New returns Panics that logs to log.
func New(log zerolog.Logger) *Panics { return &Panics{log, &places{seen: map[string]*place{}}} }

// With returns Panics that logs to log and shares the counts of p. If p is nil, With is New.
func (p *Panics) With(log zerolog.Logger) *Panics {
	if p == nil {
		return New(log)
	}
	return &Panics{log, p.places}
}

// Recover must be deferred directly. If the function panics, Recover logs the panic with the activity, and calls then
// with the error for the caller; then may be nil. It recovers from a panic of then as well.
func (p *Panics) Recover(activity string, then func(*bridge.Error)) {
	v := recover() //nolint:revive // Recover itself is deferred
	if v == nil {
		return
	}
	p.record(activity, v)
	if then == nil {
		return
	}
	defer p.Recover(activity, nil)
	then(bridge.Failed(codes.Internal, bridge.OutcomeUnknown, "INTERNAL",
		"the bridge has a bug; see its log"))
}

// record counts and logs a panic.
func (p *Panics) record(activity string, v any) {
	place := origin()
	n := p.places.add(place)
	line := p.log.Error().Str("doing", activity).Str("place", place).Interface("panic", fmt.Sprint(v)).Int("count", n)
	if n == 1 {
		line.Bytes("stack", debug.Stack())
	}
	line.Msg("recovered panic; please report this")
}

// origin returns the innermost function of this module that panicked, and the line.
func origin() string {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	panicked, first := false, ""
	for {
		f, more := frames.Next()
		switch {
		case !panicked:
			panicked = f.Function == "runtime.gopanic"
		case strings.HasPrefix(f.Function, "github.com/mcpbridge/mcpbridge/"):
			return fmt.Sprintf("%s:%d", strings.TrimPrefix(f.Function, "github.com/mcpbridge/mcpbridge/"), f.Line)
		case first == "" && !strings.HasPrefix(f.Function, "runtime."):
			first = fmt.Sprintf("%s:%d", f.Function, f.Line)
		}
		if !more {
			return first
		}
	}
}
