package terminal

import (
	"strings"
	"testing"
)

// A line of the log does not run into what is shown on the last line.
func TestLogLinesClearTheProgressBar(t *testing.T) {
	var out strings.Builder
	b := &Progress{w: &out, width: 40}
	b.draw("waiting")
	if _, err := (clearingWriter{&out, b}).Write([]byte("line\n")); err != nil ||
		out.String() != "\r\x1b[Kwaiting\r\x1b[Kline\n" {
		t.Errorf("%v: %q", err, &out)
	}
}
