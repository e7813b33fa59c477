// Package contain keeps a bug where it is met: a panic while one call is answered ends that call, and one in what belongs to a backend
// ends that backend's life. Neither ends the process.
package contain

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/rs/zerolog"
	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// Panics recovers, counts and logs panics: the first one of each place with its stack, the others without. It may be
// used concurrently.
type Panics struct {
	log    zerolog.Logger
	places *places
}

// New returns Panics that are logged to log.
func New(log zerolog.Logger) *Panics { return &Panics{log, &places{seen: map[string]*place{}}} }

// With returns Panics that are logged to log, and counted together with those of p. If p is nil, With is New.
func (p *Panics) With(log zerolog.Logger) *Panics {
	if p == nil {
		return New(log)
	}
	return &Panics{log, p.places}
}

// Recover is to be deferred itself. If the function that defers it panics, it logs that, with what was being done, and calls then with
// the error that whoever waits is to be told; then may be nil. A panic of then is logged as well.
func (p *Panics) Recover(doing string, then func(*bridge.Error)) {
	v := recover() //nolint:revive // it is this method that is deferred
	if v == nil {
		return
	}
	p.record(doing, v)
	if then == nil {
		return
	}
	defer p.Recover(doing, nil)
	then(bridge.Failed(codes.Internal, pb.CallFailure_OUTCOME_UNKNOWN, "INTERNAL", "the bridge has a bug; its log says more"))
}

// record counts and logs a panic.
func (p *Panics) record(doing string, v any) {
	place := origin()
	n := p.places.note(place)
	line := p.log.Error().Str("doing", doing).Str("place", place).Interface("panic", fmt.Sprint(v)).Int("count", n)
	if n == 1 {
		line.Bytes("stack", debug.Stack())
	}
	line.Msg("the bridge panicked, and goes on; please report this")
}

// origin returns the function and the line where the panic comes from: the innermost of this module, below what recovers.
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
