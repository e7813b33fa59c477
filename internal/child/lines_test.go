package child

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/internal/limits"
)

// defaults are the limits without configuration.
var defaults = limits.Limits{}.OrDefaults()

// Of a flood, 1 MiB a second is logged, and how much was dropped.
func TestFloodsAreLoggedInPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := zerolog.New(&out)
		l := NewLog(&log, limits.Limits{})
		line := bytes.Repeat([]byte("x"), 1<<10-lineOverhead)
		logged := func(n int) int {
			out.Reset()
			for range n {
				l.Line("stdout", line, len(line))
			}
			return strings.Count(out.String(), "xxx\"}")
		}
		if got := logged(1023); got != 1023 {
			t.Errorf("one below the limit: got %d", got)
		}
		if got := logged(1); got != 1 || strings.Contains(out.String(), "dropp") {
			t.Errorf("at the limit: got %d", got)
		}
		if got := logged(1); got != 0 || strings.Count(out.String(), "dropping lines") != 1 {
			t.Errorf("one above: got %d, %s", got, out.String())
		}
		if got := logged(9); got != 0 || out.Len() > 0 {
			t.Errorf("many above: got %d, %s", got, out.String())
		}
		<-time.After(time.Second / 2)
		if got := logged(1000); got != 512 ||
			!strings.Contains(out.String(),
				`"lines":10,"bytes":9240,"message":"dropped lines of the program's output"`) {
			t.Errorf("half a second later: got %d, %.300s", got, out.String())
		}
	})
}

// The records about dropped lines are few.
func TestFloodsCauseFewWarnings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := zerolog.New(&out)
		l := NewLog(&log, limits.Limits{})
		line := bytes.Repeat([]byte("x"), 100)
		for range 10_000 { // 10 s of 2 MB
			for range 10 {
				l.Line("stderr", line, len(line))
			}
			<-time.After(time.Millisecond)
		}
		if n := strings.Count(out.String(), "dropp"); n == 0 || n > 80 {
			t.Errorf("got %d records about dropped lines", n)
		}
		if n := strings.Count(out.String(), "xxx\"}"); n < 40_000 || n > 60_000 {
			t.Errorf("got %d logged lines", n)
		}
	})
}

// The rate is exact, and a longer line is logged if nothing else is.
func TestLogRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := zerolog.New(&out)
		l := NewLog(&log, limits.Limits{LogLine: 2000, LogRate: 3000})
		line := bytes.Repeat([]byte("x"), 1000-lineOverhead)
		for n := 1; n <= 4; n++ {
			out.Reset()
			if l.Line("stderr", line, len(line)); strings.Contains(out.String(), "xxx") != (n <= 3) {
				t.Errorf("line %d: got %s", n, out.String())
			}
		}
		if !strings.Contains(out.String(), `"rate":3000`) {
			t.Errorf("rate missing: %s", out.String())
		}
		out.Reset()
		l = NewLog(&log, limits.Limits{LogRate: 1024})
		long := bytes.Repeat([]byte("x"), defaults.LogLine)
		if l.Line("stderr", long, len(long)); strings.Count(out.String(), "x") != defaults.LogLine {
			t.Errorf("long line: got %.200s", out.String())
		}
	})
}

// Lines are cut in logs and in memory: one byte below, at, and above each limit.
func TestLongLinesAreCut(t *testing.T) {
	for _, set := range []limits.Limits{{}, {LogLine: 100}} {
		limit := set.OrDefaults().LogLine
		for length, want := range map[int]int{
			limit - 1: limit - 1, limit: limit, limit + 1: limit,
			MaxLine - 1: limit, MaxLine: limit, MaxLine + 1: limit, 10 * MaxLine: limit,
		} {
			var out bytes.Buffer
			log := zerolog.New(&out)
			var kept, size int
			CopyLines(strings.NewReader(strings.Repeat("x", length)+"\n"), func(line []byte, n int) {
				kept, size = len(line), n
				NewLog(&log, set).Line("stderr", line, n)
			})
			if got := strings.Count(out.String(), "x"); got != want || kept != min(length, MaxLine) || size != length {
				t.Errorf("%d bytes: got %d logged, %d kept, and %d counted", length, got, kept, size)
			}
			if cut := strings.Contains(out.String(), `"length":`); cut != (length > limit) {
				t.Errorf("%d bytes: length logged: got %t", length, cut)
			}
		}
	}
}

// The level of a line of text is that of its beginning, in the formats of common loggers.
func TestLinesAreLoggedAtTheirLevel(t *testing.T) {
	for line, want := range map[string]zerolog.Level{
		"ERROR no luck":                         zerolog.ErrorLevel,
		"[WARNING] odd":                         zerolog.WarnLevel,
		"DEBUG:root:small":                      zerolog.DebugLevel,
		"2026/11/21 14:10:13 WARN odd a=1":      zerolog.WarnLevel,
		"2026-11-21 14:10:13,123 ERROR no luck": zerolog.ErrorLevel,
		"2026-11-21T14:10:13.471+01:00 DEBUG x": zerolog.DebugLevel,
		`time=2026-11-21T14:10:13.471Z level=ERROR msg="main.go:46: tool \"boom\" failed"`: zerolog.ErrorLevel,
		`time="2026-11-21T14:10:13Z" level=warning msg=odd`:                                zerolog.WarnLevel,
		"level=debug msg=small":           zerolog.DebugLevel,
		"2026/11/21 14:10:13 ERRORS: 0":   zerolog.InfoLevel,
		"there was an ERROR":              zerolog.InfoLevel,
		"time=1 level=errors":             zerolog.InfoLevel,
		"2026/11/21 14:10:13 level 3 msg": zerolog.InfoLevel,
	} {
		if got := guessLevel([]byte(line)); got != want {
			t.Errorf("%s: got %s, want %s", line, got, want)
		}
	}
}
