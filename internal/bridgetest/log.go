package bridgetest

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"
)

// A Log is a log that tests can read and wait for while it is written. The zero value is empty.
type Log struct {
	mu      sync.Mutex // guards the rest
	text    bytes.Buffer
	changed chan struct{}
}

// Write implements io.Writer.
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
	return l.text.Write(b)
}

// Read returns what has been written, and a channel that is closed when there is more.
func (l *Log) Read() (text string, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.text.String(), l.changed
}

func (l *Log) String() string {
	text, _ := l.Read()
	return text
}

// Wait returns when the log contains want. It fails the test if that takes longer than limit.
func (l *Log) Wait(t *testing.T, limit time.Duration, want string) {
	t.Helper()
	late := time.After(limit)
	for {
		text, changed := l.Read()
		if strings.Contains(text, want) {
			return
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("the log does not contain %q:\n%s", want, text)
		}
	}
}
