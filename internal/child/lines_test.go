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

// usual are the limits that are not configured.
var usual = limits.Limits{}.OrDefaults()

// A program that prints without end has a MiB a second logged, and how much was not.
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
			t.Errorf("one below: %d", got)
		}
		if got := logged(1); got != 1 || strings.Contains(out.String(), "dropp") {
			t.Errorf("the most: %d", got)
		}
		if got := logged(1); got != 0 || strings.Count(out.String(), "dropping lines") != 1 {
			t.Errorf("one above: %d, %s", got, out.String())
		}
		if got := logged(9); got != 0 || out.Len() > 0 {
			t.Errorf("many above: %d, %s", got, out.String())
		}
		<-time.After(time.Second / 2)
		if got := logged(1000); got != 512 || !strings.Contains(out.String(), `"lines":10,"bytes":9240,"message":"dropped lines of the program's output"`) {
			t.Errorf("half a second later: %d, %.300s", got, out.String())
		}
	})
}

// What is said about a flood is no flood.
func TestFloodsAreNotTalkedAbout(t *testing.T) {
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
			t.Errorf("%d records about it", n)
		}
		if n := strings.Count(out.String(), "xxx\"}"); n < 40_000 || n > 60_000 {
			t.Errorf("%d lines are logged", n)
		}
	})
}

// As much as is said is logged in a second: one below, at, and one above. A line that is longer than that is logged when nothing else is.
func TestTheRateCanBeSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := zerolog.New(&out)
		l := NewLog(&log, limits.Limits{LogLine: 2000, LogRate: 3000})
		line := bytes.Repeat([]byte("x"), 1000-lineOverhead)
		for n := 1; n <= 4; n++ {
			out.Reset()
			if l.Line("stderr", line, len(line)); strings.Contains(out.String(), "xxx") != (n <= 3) {
				t.Errorf("line %d: %s", n, out.String())
			}
		}
		if !strings.Contains(out.String(), `"rate":3000`) {
			t.Errorf("the rate is not said: %s", out.String())
		}
		out.Reset()
		l = NewLog(&log, limits.Limits{LogRate: 1024})
		long := bytes.Repeat([]byte("x"), usual.LogLine)
		if l.Line("stderr", long, len(long)); strings.Count(out.String(), "x") != usual.LogLine {
			t.Errorf("a long line is not logged: %.200s", out.String())
		}
	})
}

// What is logged of a line, and kept of one: one below, at, and one above.
func TestLongLinesAreCut(t *testing.T) {
	for _, set := range []limits.Limits{{}, {LogLine: 100}} {
		most := set.OrDefaults().LogLine
		for length, want := range map[int]int{most - 1: most - 1, most: most, most + 1: most, MaxLine - 1: most, MaxLine: most, MaxLine + 1: most, 10 * MaxLine: most} {
			var out bytes.Buffer
			log := zerolog.New(&out)
			var kept, size int
			CopyLines(strings.NewReader(strings.Repeat("x", length)+"\n"), func(line []byte, n int) {
				kept, size = len(line), n
				NewLog(&log, set).Line("stderr", line, n)
			})
			if got := strings.Count(out.String(), "x"); got != want || kept != min(length, MaxLine) || size != length {
				t.Errorf("%d bytes: %d are logged, %d are kept, and %d are counted", length, got, kept, size)
			}
			if cut := strings.Contains(out.String(), `"length":`); cut != (length > most) {
				t.Errorf("%d bytes: that it is cut is said: %t", length, cut)
			}
		}
	}
}

// A line of text has the level that it begins with, as the usual logs write it.
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
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
}
