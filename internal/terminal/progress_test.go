package terminal

import (
	"strings"
	"testing"
)

// A line of the log starts on a line of its own, not after the progress bar.
func TestLogLinesClearTheProgressBar(t *testing.T) {
	var out strings.Builder
	b := &Progress{w: &out, width: 40}
	b.draw("waiting")
	if _, err := (clearing{&out, b}).Write([]byte("line\n")); err != nil ||
		out.String() != "\r\x1b[Kwaiting\r\x1b[Kline\n" {
		t.Errorf("%v: %q", err, &out)
	}
}
