package child

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

// A program that prints without end has a MiB a second logged, and how much was not.
func TestFloodsAreLoggedInPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := zerolog.New(&out)
		l := NewLog(&log)
		line := bytes.Repeat([]byte("x"), 1<<10-perLine)
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
		if got := logged(1); got != 1 || strings.Contains(out.String(), "left out") {
			t.Errorf("the most: %d", got)
		}
		if got := logged(1); got != 0 || strings.Count(out.String(), "are left out") != 1 {
			t.Errorf("one above: %d, %s", got, out.String())
		}
		if got := logged(9); got != 0 || out.Len() > 0 {
			t.Errorf("many above: %d, %s", got, out.String())
		}
		<-time.After(time.Second / 2)
		if got := logged(1000); got != 512 || !strings.Contains(out.String(), `"lines":10,"bytes":9240,"message":"lines of its output were left out"`) {
			t.Errorf("half a second later: %d, %.300s", got, out.String())
		}
	})
}

// What is logged of a line, and kept of one: one below, at, and one above.
func TestLongLinesAreCut(t *testing.T) {
	for length, want := range map[int]int{maxShown - 1: maxShown - 1, maxShown: maxShown, maxShown + 1: maxShown, maxLine - 1: maxShown, maxLine: maxShown, maxLine + 1: maxShown, 10 * maxLine: maxShown} {
		var out bytes.Buffer
		log := zerolog.New(&out)
		var kept, size int
		CopyLines(strings.NewReader(strings.Repeat("x", length)+"\n"), func(line []byte, n int) {
			kept, size = len(line), n
			NewLog(&log).Line("stderr", line, n)
		})
		if got := strings.Count(out.String(), "x"); got != want || kept != min(length, maxLine) || size != length {
			t.Errorf("%d bytes: %d are logged, %d are kept, and %d are counted", length, got, kept, size)
		}
		if cut := strings.Contains(out.String(), `"length":`); cut != (length > maxShown) {
			t.Errorf("%d bytes: that it is cut is said: %t", length, cut)
		}
	}
}
