package mcpserver

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// Progress that comes faster than a client can use it is thinned out. The last is never lost.
func TestProgressIsToldAtAPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []float64
		p := newPacer(func(pr *pb.Progress) error { told = append(told, pr.GetProgress()); return nil })
		tell := func(n int) {
			for range n {
				if err := p.tell(&pb.Progress{Progress: float64(len(told))}); err != nil {
					t.Fatal(err)
				}
			}
		}
		tell(progressBurst + 1)
		if len(told) != progressBurst+1 {
			t.Errorf("of a burst, %d are told", len(told))
		}
		told = nil
		for i := range 100_000 { // in a second
			if err := p.tell(&pb.Progress{Progress: float64(i)}); err != nil {
				t.Fatal(err)
			}
			bridgetest.Pass(10 * time.Microsecond)
		}
		if n := len(told); n < 9 || n > 10 { // the tenth is due as the second ends
			t.Errorf("in a second, %d are told", len(told))
		}
		if err := p.tell(&pb.Progress{Progress: 1e6}); err != nil {
			t.Fatal(err)
		}
		bridgetest.Pass(progressEvery)
		if last := told[len(told)-1]; last != 1e6 {
			t.Errorf("while nothing comes, the last told is %v", last)
		}
		tell(1)
		p.end(true)
		n := len(told)
		tell(1)
		bridgetest.Pass(time.Minute)
		if len(told) != n || told[n-1] != float64(n-1) {
			t.Errorf("at the end %d are told, afterwards %d", n, len(told))
		}
	})
}

func TestProgressTextIsBounded(t *testing.T) {
	for _, n := range []int{maxProgressText - 1, maxProgressText, maxProgressText + 1} {
		var got string
		p := newPacer(func(pr *pb.Progress) error { got = pr.GetMessage(); return nil })
		if err := p.tell(&pb.Progress{Message: proto.String(strings.Repeat("é", n/2) + strings.Repeat("x", n%2))}); err != nil {
			t.Fatal(err)
		}
		if len(got) != min(n, maxProgressText) || !utf8.ValidString(got) {
			t.Errorf("of %d bytes, %d", n, len(got))
		}
	}
}
