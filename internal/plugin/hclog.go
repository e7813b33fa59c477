package plugin

import (
	"io"

	"github.com/hashicorp/go-hclog"
	"github.com/rs/zerolog"
)

// goPluginLog returns the logger that go-plugin gets. All it says is detail: we tell of the same things ourselves.
func goPluginLog(log zerolog.Logger) hclog.Logger {
	if log.GetLevel() > zerolog.DebugLevel {
		return hclog.NewNullLogger()
	}
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Output: io.Discard, Level: hclog.Trace})
	l.RegisterSink(&sink{log})
	return l
}

// A sink passes what go-plugin logs to log.
type sink struct{ log zerolog.Logger }

// Accept implements hclog.SinkAdapter.
func (s *sink) Accept(_ string, level hclog.Level, msg string, args ...any) {
	s.log.Debug().Str("from", "go-plugin").Stringer("severity", level).Fields(args).Msg(msg)
}
