package mcpserver

import "testing"

func TestAsManyStreamsAsMayBe(t *testing.T) {
	s := streams{most: maxSessionStreams}
	var last func()
	for i := range maxSessionStreams {
		if last = s.open(); last == nil {
			t.Fatalf("of %d, stream %d is refused", maxSessionStreams, i+1)
		}
	}
	if s.open() != nil {
		t.Error("one more than the most is let in")
	}
	last()
	if s.open() == nil {
		t.Error("one that has ended makes no room")
	}
}
