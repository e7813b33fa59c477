package limit_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/limit"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// memory returns a Memory of 1,000,000 bytes, of which so many are taken.
func memory(taken int64) *limit.Memory {
	return limit.NewMemory(1_000_000, func(bool) int64 { return taken }, zerolog.Nop())
}

func TestWhatIsRefusedWhileMemoryIsShort(t *testing.T) {
	tiers := []limit.Tier{limit.NewSessions, limit.NewStreams, limit.NewCalls}
	for taken, refused := range map[int64]int{
		0: 0, 849_999: 0, 850_000: 1, 850_001: 1, 919_999: 1, 920_000: 2, 920_001: 2, 969_999: 2, 970_000: 3, 970_001: 3, 2_000_000: 3,
	} {
		m := memory(taken)
		for i, tier := range tiers {
			err := m.Admit(tier)
			if (err != nil) != (i < refused) {
				t.Errorf("%d bytes are taken, tier %d: %v", taken, tier, err)
			}
			if err != nil && (failure(err) != overloaded || bridge.AsError(err).Failure.GetRetryAfterMs() == 0) {
				t.Errorf("%v: %s", err, failure(err))
			}
		}
	}
	var enough *limit.Memory
	if err := enough.Admit(limit.NewCalls); err != nil {
		t.Error(err)
	}
}

// However often it is asked, memory is read a hundred times a second, and garbage collected once, while something is to be refused.
func TestMemoryIsReadNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads, collected, taken := 0, 0, int64(0)
		m := limit.NewMemory(1000, func(collect bool) int64 {
			reads++
			if collect {
				collected++
			}
			return taken
		}, zerolog.Nop())
		second := func() (refused int) {
			reads, collected = 0, 0
			for range 1000 {
				if m.Admit(limit.NewCalls) != nil {
					refused++
				}
				bridgetest.Pass(time.Millisecond)
			}
			return refused
		}
		if n := second(); n != 0 || reads != 100 || collected != 0 {
			t.Errorf("there is enough: %d refused, %d read, %d collected", n, reads, collected)
		}
		taken = 1000
		if n := second(); n != 1000 || reads != 101 || collected != 1 {
			t.Errorf("there is none: %d refused, %d read, %d collected", n, reads, collected)
		}
		taken = 969
		if n := second(); n != 0 {
			t.Errorf("there is some again: %d refused", n)
		}
	})
}

// What is only garbage refuses nobody.
func TestGarbageIsCollectedBeforeSomethingIsRefused(t *testing.T) {
	m := limit.NewMemory(1000, func(collect bool) int64 {
		if collect {
			return 100
		}
		return 1000
	}, zerolog.Nop())
	if err := m.Admit(limit.NewSessions); err != nil {
		t.Error(err)
	}
}

func TestTheLogSaysThatMemoryIsShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		m := limit.NewMemory(1000, func(bool) int64 { return 900 }, zerolog.New(&log))
		for range 1000 {
			_ = m.Admit(limit.NewSessions) // is refused each time
			bridgetest.Pass(20 * time.Millisecond)
		}
		if lines := strings.Count(log.String(), "\n"); lines != 2 || !strings.Contains(log.String(), "raise limits.memory") {
			t.Errorf("in 20 s it said %d lines:\n%s", lines, log.String())
		}
	})
}

// Bodies have an eighth of the memory, and no more than a third of what is left.
func TestBodiesTakeMemory(t *testing.T) {
	for _, c := range []struct {
		name  string
		used  int64 // by something else
		first int64 // that another request has taken
		body  int64
		taken bool
	}{
		{"one below", 0, 60_000, 64_999, true},
		{"all", 0, 60_000, 65_000, true},
		{"one above", 0, 60_000, 65_001, false},
		{"the only one", 0, 0, 500_000, true},
		{"beside one that is too long", 0, 500_000, 1, false},
		{"one below what is left", 700_000, 60_000, 39_999, true},
		{"what is left", 700_000, 60_000, 40_000, true},
		{"one above what is left", 700_000, 60_000, 40_001, false},
		{"the only one that is too long for what is left", 949_999, 0, 120_000, true},
	} {
		m := memory(c.used)
		if err := m.Admit(limit.NewCalls); err != nil { // reads what is taken
			t.Fatal(err)
		}
		if err := m.ReserveBody(c.first); err != nil {
			t.Fatal(err)
		}
		err := m.ReserveBody(c.body)
		if (err == nil) != c.taken || err != nil && failure(err) != overloaded {
			t.Errorf("%s: %v", c.name, err)
		}
		m.ReleaseBody(c.first)
		if err == nil {
			m.ReleaseBody(c.body)
		}
		if m.ReserveBody(1) != nil || m.ReserveBody(500_000) == nil || m.ReserveBody(1) != nil {
			t.Errorf("%s: not all is given back, or more", c.name)
		}
	}
}

// What goes on with a call is answered, and who listens is not the handler's to refuse.
func TestCallsAreRefusedWhileMemoryIsShort(t *testing.T) {
	h := func(taken int64) bridge.Handler {
		return limit.New(bridge.HandlerFunc(func(context.Context, *bridge.Call, bridge.Emit) (*bridge.Result, error) {
			return &bridge.Result{}, nil
		}), limit.Options{Memory: memory(taken)})
	}
	goesOn := call("").Retry(map[string]*pb.InputResponse{"a": {}}, nil)
	listens := &bridge.Call{Method: bridge.Listen, Request: &pb.ListenRequest{}}
	for _, c := range []struct {
		taken int64
		call  *bridge.Call
		want  string
	}{
		{969_999, call(""), ""},
		{970_000, call(""), overloaded},
		{970_001, call(""), overloaded},
		{999_999, goesOn, ""},
		{999_999, listens, ""},
	} {
		got := ""
		if _, err := h(c.taken).Handle(t.Context(), c.call, nobody); err != nil {
			got = failure(err)
		}
		if got != c.want {
			t.Errorf("%d bytes are taken, %s: %q", c.taken, c.call.Method.Name, got)
		}
	}
}

// What the process is said to take follows what is in use, and not garbage.
func TestProcess(t *testing.T) {
	const size = 64 << 20
	before := limit.Process(true)
	used := make([]byte, size)
	between := limit.Process(true)
	if grown := between - before; grown < size-1<<20 || grown > size+16<<20 {
		t.Errorf("%d bytes more are in use, and it says %d", size, grown)
	}
	used[0] = 1
	used = nil
	for range 8 {
		used = make([]byte, size/8)
	}
	_ = used
	if after := limit.Process(true); after-before > size/2 {
		t.Errorf("nothing is in use any more, and it says %d", after-before)
	}
}
