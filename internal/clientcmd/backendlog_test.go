package clientcmd

import (
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/internal/problem"
)

// The output of a backend that is kept for an error is bounded. The rest is logged.
func TestBackendLogIsBounded(t *testing.T) {
	var out strings.Builder
	b := &backendLog{next: &out, level: zerolog.WarnLevel, exited: make(chan struct{})}
	log := b.logger()
	log.Warn().Msg("early")
	b.begin()
	for range 10 * maxStderr {
		log.Info().Str("stream", "stderr").Msg("line")
	}
	record := `{"traceback": "` + strings.Repeat(`frame\n`, 10*maxTrace) + `"}`
	log.Error().Str("stream", "stderr").RawJSON("record", []byte(record)).Msg("first")
	log.Error().Str("stream", "stderr").RawJSON("record", []byte(record)).Msg("second")
	log.Warn().Int("misses", 1).Msg("the backend failed a health check")
	log.Error().Dur("lived", time.Second).Msg("the backend was lost")
	log.Warn().Msg("tool parse has blocked the event loop for 5s")
	if got := out.String(); strings.Contains(got, "early") || !strings.Contains(got, "first") ||
		strings.Contains(got, "second") || strings.Contains(got, "health check") || strings.Contains(got, "was lost") ||
		!strings.Contains(got, "blocked the event loop") || len(b.stderr) != maxStderr {
		t.Errorf("it logged %s and kept %d lines", got, len(b.stderr))
	}
	p := b.explain(&problem.Error{Exit: problem.ExitTool}).(*problem.Error)
	if lines := strings.Count(p.Trace, "\n"); lines > maxTrace+1 || !strings.HasPrefix(p.Trace, "second\n") {
		t.Errorf("the trace has %d lines: %s", lines, p.Trace)
	}
	if err := b.explain(nil); err != nil || !strings.Contains(out.String(), "second") {
		t.Errorf("it is %v, and it logged %s", err, &out)
	}
}
