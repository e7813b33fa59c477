package mcpserver

import (
	"runtime"
	"testing"
	"weak"
)

// Dropped events of a log free their memory, however many there were. A reader that received them keeps them.
func TestExpiredEventsFreeTheirMemory(t *testing.T) {
	l := newEventLog("1", &replayLimit{max: 1 << 20}, &replayLimit{max: usual.Replay})
	reader := l.claim()
	for range 1000 {
		l.push([]byte("x"))
	}
	given, _ := l.wait(t.Context(), reader, 0)
	var long []weak.Pointer[byte]
	for range 20 {
		msg := make([]byte, 1<<20)
		long = append(long, weak.Make(&msg[0]))
		l.push(msg)
	}
	runtime.GC()
	kept := 0
	for _, p := range long {
		if p.Value() != nil {
			kept++
		}
	}
	if kept != 1 || l.byteSize() != 1<<20 {
		t.Errorf("%d of %d messages are in memory, and the log counts %d bytes", kept, len(long), l.byteSize())
	}
	for _, msg := range given {
		if string(msg) != "x" {
			t.Fatalf("the reader got %q", msg)
		}
	}
}
