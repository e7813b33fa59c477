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

// memory returns a Memory of 1,000,000 bytes, of which used are in use.
func memory(used int64) *limit.Memory {
	return limit.NewMemory(1_000_000, func(bool) int64 { return used }, zerolog.Nop())
}

func TestRequestsAreRefusedByTierWhileMemoryIsShort(t *testing.T) {
	tiers := []limit.Tier{limit.NewSessions, limit.NewStreams, limit.NewCalls}
	for used, refused := range map[int64]int{
		0: 0, 849_999: 0, 850_000: 1, 850_001: 1, 919_999: 1, 920_000: 2, 920_001: 2, 969_999: 2, 970_000: 3,
		970_001: 3, 2_000_000: 3,
	} {
		m := memory(used)
		for i, tier := range tiers {
			err := m.Admit(tier)
			if (err != nil) != (i < refused) {
				t.Errorf("%d bytes in use, tier %d: got %v, want refused %t", used, tier, err, i < refused)
			}
			if err != nil && (failure(err) != overloaded || bridge.AsError(err).RetryAfter == 0) {
				t.Errorf("got %v (%s), want %s with a time to retry", err, failure(err), overloaded)
			}
		}
	}
	var unlimited *limit.Memory
	if err := unlimited.Admit(limit.NewCalls); err != nil {
		t.Error(err)
	}
}

// The memory in use is measured a hundred times a second, however many requests there are, and garbage is collected
// once before they are refused.
func TestMemoryInUseIsMeasuredAHundredTimesASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		measured, collected, used := 0, 0, int64(0)
		m := limit.NewMemory(1000, func(collect bool) int64 {
			measured++
			if collect {
				collected++
			}
			return used
		}, zerolog.Nop())
		second := func() (refused int) {
			measured, collected = 0, 0
			for range 1000 {
				if m.Admit(limit.NewCalls) != nil {
					refused++
				}
				bridgetest.Pass(time.Millisecond)
			}
			return refused
		}
		if n := second(); n != 0 || measured != 100 || collected != 0 {
			t.Errorf("enough memory: got %d refused, %d measurements, %d collections, want 0, 100, 0",
				n, measured, collected)
		}
		used = 1000
		if n := second(); n != 1000 || measured != 101 || collected != 1 {
			t.Errorf("no memory: got %d refused, %d measurements, %d collections, want 1000, 101, 1",
				n, measured, collected)
		}
		used = 969
		if n := second(); n != 0 {
			t.Errorf("some memory again: got %d refused, want 0", n)
		}
	})
}

func TestGarbageIsCollectedBeforeRequestsAreRefused(t *testing.T) {
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

func TestShortageOfMemoryIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		m := limit.NewMemory(1000, func(bool) int64 { return 900 }, zerolog.New(&log))
		for range 1000 {
			_ = m.Admit(limit.NewSessions) // is refused each time
			bridgetest.Pass(20 * time.Millisecond)
		}
		if lines := strings.Count(log.String(), "\n"); lines != 2 ||
			!strings.Contains(log.String(), "raise limits.memory") {
			t.Errorf("got %d lines of log in 20 s, want 2 that name limits.memory:\n%s", lines, log.String())
		}
	})
}

// Bodies of several requests may reserve an eighth of the memory, and at most a third of what is not in use. A single
// body is always accepted.
func TestBodiesReserveMemory(t *testing.T) {
	for _, c := range []struct {
		name  string
		used  int64 // by something else
		first int64 // reserved by another request
		body  int64
		ok    bool
	}{
		{"one below", 0, 60_000, 64_999, true},
		{"at the limit", 0, 60_000, 65_000, true},
		{"one above", 0, 60_000, 65_001, false},
		{"the only one", 0, 0, 500_000, true},
		{"beside one above the limit", 0, 500_000, 1, false},
		{"one below a third of the rest", 700_000, 60_000, 39_999, true},
		{"a third of the rest", 700_000, 60_000, 40_000, true},
		{"one above a third of the rest", 700_000, 60_000, 40_001, false},
		{"the only one, longer than a third of the rest", 949_999, 0, 120_000, true},
	} {
		m := memory(c.used)
		if err := m.Admit(limit.NewCalls); err != nil { // measures the memory in use
			t.Fatal(err)
		}
		if err := m.ReserveBody(c.first); err != nil {
			t.Fatal(err)
		}
		err := m.ReserveBody(c.body)
		if (err == nil) != c.ok || err != nil && failure(err) != overloaded {
			t.Errorf("%s: got %v, want success %t", c.name, err, c.ok)
		}
		m.ReleaseBody(c.first)
		if err == nil {
			m.ReleaseBody(c.body)
		}
		if m.ReserveBody(1) != nil || m.ReserveBody(500_000) == nil || m.ReserveBody(1) != nil {
			t.Errorf("%s: the reservation is not exactly zero after its release", c.name)
		}
	}
}

// Calls with answers to input requests, and Listens, are not refused.
func TestCallsAreRefusedWhileMemoryIsShort(t *testing.T) {
	h := func(used int64) bridge.Handler {
		return limit.New(bridge.HandlerFunc(func(context.Context, *bridge.Call, bridge.Emit) (*bridge.Result, error) {
			return &bridge.Result{}, nil
		}), limit.Options{Memory: memory(used)})
	}
	answered := call("").Retry(map[string]*pb.InputResponse{"a": {}}, nil)
	listen := &bridge.Call{Method: bridge.Listen, Request: &pb.ListenRequest{}}
	for _, c := range []struct {
		used int64
		call *bridge.Call
		want string
	}{
		{969_999, call(""), ""},
		{970_000, call(""), overloaded},
		{970_001, call(""), overloaded},
		{999_999, answered, ""},
		{999_999, listen, ""},
	} {
		got := ""
		if _, err := h(c.used).Handle(t.Context(), c.call, ignore); err != nil {
			got = failure(err)
		}
		if got != c.want {
			t.Errorf("%d bytes in use, %s: got %q, want %q", c.used, c.call.Method.Name, got, c.want)
		}
	}
}

// Garbage does not count as memory in use.
func TestProcessReportsMemoryInUse(t *testing.T) {
	const size = 64 << 20
	before := limit.MemoryInUse(true)
	used := make([]byte, size)
	between := limit.MemoryInUse(true)
	if grown := between - before; grown < size-1<<20 || grown > size+16<<20 {
		t.Errorf("got %d bytes more in use, want %d", grown, size)
	}
	used[0] = 1
	used = nil
	for range 8 {
		used = make([]byte, size/8)
	}
	_ = used
	if after := limit.MemoryInUse(true); after-before > size/2 {
		t.Errorf("got %d bytes more in use than before the allocation, want about 0", after-before)
	}
}
