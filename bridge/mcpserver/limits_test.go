package mcpserver_test

import (
	"strconv"
	"sync"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge/mcpserver"
)

// A session may have 16 streams that were opened by GET, or as many as is said. Here each goes on with a call that runs.
func TestStreamsOfASessionAtTheirLimit(t *testing.T) {
	for most, o := range map[int]mcpserver.Options{16: {}, 2: {MaxSessionStreams: 2}} {
		streamsOfASession(t, most, o)
	}
}

func streamsOfASession(t *testing.T, most int, o mcpserver.Options) {
	t.Helper()
	f := newFront(t, o)
	c := f.initialize("2025-11-25", clientCaps)
	last := make([]string, most+1)
	var wg sync.WaitGroup
	for n := range last {
		wg.Go(func() {
			s := read(t, c.send(call(strconv.Itoa(n), "wait", "{}", "")))
			if _, ok := s.event(); !ok {
				t.Errorf("call %d has ended", n)
			}
			last[n] = s.last
		})
	}
	wg.Wait()
	for n, id := range last {
		want := 200
		if n == most {
			want = 429
		}
		if res := c.get(t.Context(), id); res.StatusCode != want || want == 429 && res.Header.Get("Retry-After") == "" {
			t.Errorf("stream %d: %s", n+1, res.Status)
		}
	}
}
