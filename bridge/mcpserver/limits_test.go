package mcpserver_test

import (
	"strconv"
	"sync"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge/mcpserver"
)

// A session may have 16 streams that were opened by GET. Here each goes on with a call that runs.
func TestStreamsOfASessionAtTheirLimit(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	c := f.initialize("2025-11-25", clientCaps)
	const most = 16
	var last [most + 1]string
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
