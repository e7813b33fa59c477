package plugin

import (
	"io"

	"github.com/hashicorp/go-hclog"
	"github.com/rs/zerolog"
)

// goPluginLog returns go-plugin's logger. It logs at debug level, because the bridge logs the same events itself.
func goPluginLog(log zerolog.Logger) hclog.Logger {
	if log.GetLevel() > zerolog.DebugLevel {
		return hclog.NewNullLogger()
	}
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Output: io.Discard, Level: hclog.Trace})
	l.RegisterSink(&sink{log})
	return l
}

// A sink passes the log of go-plugin to log.
type sink struct{ log zerolog.Logger }

// Accept implements hclog.SinkAdapter.
func (s *sink) Accept(_ string, level hclog.Level, msg string, args ...any) {
	s.log.Debug().Str("from", "go-plugin").Stringer("severity", level).Fields(args).Msg(msg)
}
