package terminal

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
)

// The last lines have the reason why the program ends.
func TestCloseWritesAllLines(t *testing.T) {
	bridgetest.SkipIfShort(t)
	for i := range 20_000 {
		var out bytes.Buffer
		q := NewQueue(&out)
		fmt.Fprintf(q, "%d", i)
		q.Close()
		if out.String() != strconv.Itoa(i) {
			t.Fatalf("of %d there is %q", i, out.String())
		}
		fmt.Fprint(q, "too late, and no harm")
		q.Close()
	}
}

// While the destination blocks, the oldest lines are dropped, and their number is logged when it is read again.
func TestOldestLinesAreDroppedFirst(t *testing.T) {
	r, w := io.Pipe()
	q := NewQueue(w)
	var out bytes.Buffer
	log := zerolog.New(&out)
	q.log.Store(&log)
	const lines = 3 * maxQueued
	for i := range lines {
		fmt.Fprintf(q, "line %d\n", i)
	}
	read := make(chan string)
	go func() {
		all, err := io.ReadAll(r)
		if err != nil {
			t.Error(err)
		}
		read <- string(all)
	}()
	q.Close()
	w.Close()
	all := <-read
	n := strings.Count(all, "\n")
	if n < maxQueued || n > maxQueued+1 || !strings.HasSuffix(all, fmt.Sprintf("line %d\n", lines-1)) {
		t.Errorf("%d lines are left, to the end %q", n, all[len(all)-20:])
	}
	if want := fmt.Sprintf(`"lines":%d`, lines-n); !strings.Contains(out.String(), want) {
		t.Errorf("logged %s, want %s", out.String(), want)
	}
}
