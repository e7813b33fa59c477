package mcpserver

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// Progress above the rate limit is dropped, except for the last.
func TestProgressIsRateLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var received []float64
		p := newPacer(func(pr *pb.Progress) error { received = append(received, pr.GetProgress()); return nil })
		report := func(n int) {
			for range n {
				if err := p.report(&pb.Progress{Progress: float64(len(received))}); err != nil {
					t.Fatal(err)
				}
			}
		}
		report(limits.ProgressBurst + 1)
		if len(received) != limits.ProgressBurst+1 {
			t.Errorf("got %d of a burst", len(received))
		}
		received = nil
		for i := range 100_000 { // in a second
			if err := p.report(&pb.Progress{Progress: float64(i)}); err != nil {
				t.Fatal(err)
			}
			bridgetest.Pass(10 * time.Microsecond)
		}
		if n := len(received); n < 9 || n > 10 { // the tenth is due at the end of the second
			t.Errorf("got %d in a second", len(received))
		}
		if err := p.report(&pb.Progress{Progress: 1e6}); err != nil {
			t.Fatal(err)
		}
		bridgetest.Pass(limits.ProgressInterval)
		if last := received[len(received)-1]; last != 1e6 {
			t.Errorf("while idle, the last one is %v", last)
		}
		report(1)
		p.end(true)
		n := len(received)
		report(1)
		bridgetest.Pass(time.Minute)
		if len(received) != n || received[n-1] != float64(n-1) {
			t.Errorf("got %d at the end, %d later", n, len(received))
		}
	})
}

// A recorder is a sink that records messages.
type recorder struct{ msgs []string }

func (r *recorder) send(msg []byte) error {
	r.msgs = append(r.msgs, string(msg))
	return nil
}

func (r *recorder) finish(_ head, msg []byte) { _ = r.send(msg) }

// Log messages above the rate limit are dropped and counted in a message. No message remains uncounted.
func TestLogMessagesAreRateLimited(t *testing.T) {
	bridgetest.SkipIfShort(t)
	leftOut := regexp.MustCompile(`"level":"(\w+)","logger":"mcpbridge","data":"(\d+) log messages were dropped`)
	for _, c := range []struct {
		name     string
		n        int
		every    time.Duration
		received int // including the counts; or one less, as the last may be due at the end of a second
		notes    int // of counts
	}{
		{"one below the burst", limits.LogBurst, 0, limits.LogBurst, 0},
		{"the burst", limits.LogBurst + 1, 0, limits.LogBurst + 1, 0},
		{"one above", limits.LogBurst + 2, 0, limits.LogBurst + 2, 1},
		{"a flood of a second", 100_000, 10 * time.Microsecond, limits.LogBurst + 101, 51},
		{"at the limit, for a long time", 5000, limits.LogInterval, 5000, 0},
	} {
		for _, rev := range []bridge.Revision{bridge.Rev20241105, bridge.Rev20260728} {
			synctest.Test(t, func(t *testing.T) {
				s := New(&discoverHandler{}, Options{})
				defer s.Close()
				out := &recorder{}
				x := s.newExchange(rev, &jsonrpc.Message{ID: []byte("1")}, out)
				emit := x.emit(&bridge.Call{
					Method:  bridge.CallTool,
					Request: &pb.CallToolRequest{Context: &pb.CallContext{LogLevel: pb.LogLevel_LOG_LEVEL_INFO}},
				})
				for i := range c.n {
					l := &pb.LogMessage{Level: pb.LogLevel_LOG_LEVEL_INFO, Data: `"x"`}
					if i == c.n-1 {
						l.Level = pb.LogLevel_LOG_LEVEL_CRITICAL
					}
					if err := emit(t.Context(), bridge.Event{Log: l}); err != nil {
						t.Fatal(err)
					}
					if c.every > 0 {
						bridgetest.Pass(c.every)
					}
				}
				x.finish(bridge.CallTool, &pb.CallToolResult{}, nil)
				received, notes, missed, level := 0, 0, 0, "critical"
				for _, msg := range out.msgs[:len(out.msgs)-1] {
					if m := leftOut.FindStringSubmatch(msg); m != nil {
						n, _ := strconv.Atoi(m[2])
						notes, missed, level = notes+1, missed+n, m[1]
						continue
					}
					received++
				}
				if received+missed != c.n || received+notes > c.received || received+notes < c.received-1 ||
					notes > c.notes ||
					notes < c.notes-1 || level != "critical" {
					t.Errorf("%s, %s: %d sent, %d dropped, %d counts, the last %s", c.name, rev,
						received, missed, notes, level)
				}
				if last := out.msgs[len(out.msgs)-1]; !strings.Contains(last, `"result"`) {
					t.Errorf("%s, %s: last message: %.100s", c.name, rev, last)
				}
			})
		}
	}
}

func TestProgressTextIsBounded(t *testing.T) {
	for _, n := range []int{maxProgressText - 1, maxProgressText, maxProgressText + 1} {
		var got string
		p := newPacer(func(pr *pb.Progress) error { got = pr.GetMessage(); return nil })
		if err := p.report(&pb.Progress{
			Message: proto.String(strings.Repeat("é", n/2) + strings.Repeat("x", n%2)),
		}); err != nil {
			t.Fatal(err)
		}
		if len(got) != min(n, maxProgressText) || !utf8.ValidString(got) {
			t.Errorf("of %d bytes, %d", n, len(got))
		}
	}
}
