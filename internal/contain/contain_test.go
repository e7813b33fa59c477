package contain_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"
	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/contain"
)

// answer is what answers a call, and has a bug.
func answer(p *contain.Panics, bug func()) (res string, err error) {
	defer p.Recover("tools/call", func(e *bridge.Error) { res, err = "", e })
	bug()
	return "fine", nil
}

// A line is what is looked at of a line of the log.
type line struct {
	Doing, Place, Panic, Stack string
	Count                      int
}

func lines(t *testing.T, log *bytes.Buffer) (all []line) {
	t.Helper()
	for text := range strings.Lines(log.String()) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		all = append(all, l)
	}
	return all
}

func missing() *line { return nil }

func TestPanicBecomesTheErrorOfItsCall(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	p := contain.New(zerolog.New(&log))
	if res, err := answer(p, func() {}); res != "fine" || err != nil {
		t.Errorf("without a bug: %q, %v", res, err)
	}
	if log.Len() > 0 {
		t.Errorf("logged without a bug: %s", &log)
	}
	for _, bug := range []func(){
		func() { panic("a secret") },
		func() { panic(errors.New("a secret")) },
		func() { _ = []int{}[len(t.Name())] },
		func() { t.Log(missing().Doing) },
	} {
		res, err := answer(p, bug)
		e, _ := errors.AsType[*bridge.Error](err)
		if res != "" || e == nil || e.Code != codes.Internal || e.Reason != "INTERNAL" ||
			e.Outcome != bridge.OutcomeUnknown || strings.Contains(e.PublicMessage(), "secret") {
			t.Errorf("got %q, %v", res, err)
		}
	}
}

// The stack is logged once for each place, and that it happened again each time.
func TestStackOfAPanicIsLoggedOncePerPlace(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	p := contain.New(zerolog.New(zerolog.SyncWriter(&log)))
	one, other := func() { panic(1) }, func() { panic(2) }
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			_, _ = answer(p, one) // what it returns is tested above
			_, _ = answer(p, other)
		})
	}
	wg.Wait()
	stacks, last := map[string]int{}, map[string]int{}
	for _, l := range lines(t, &log) {
		if l.Doing != "tools/call" || !strings.Contains(l.Place, "contain_test.TestStackOfAPanicIsLoggedOncePerPlace") {
			t.Errorf("logged %+v", l)
		}
		if l.Stack != "" {
			stacks[l.Place]++
		}
		last[l.Place] = max(last[l.Place], l.Count)
	}
	for place, n := range last {
		if n != 10 || stacks[place] != 1 {
			t.Errorf("%s: %d times, %d stacks", place, n, stacks[place])
		}
	}
	if len(last) != 2 {
		t.Errorf("%d places: %v", len(last), last)
	}
}

// A function that handles a panic may panic, too.
func TestPanicWhileReportingAPanicIsContained(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	p := contain.New(zerolog.New(&log))
	func() {
		defer p.Recover("it", func(*bridge.Error) { panic("again") })
		panic("once")
	}()
	if all := lines(t, &log); len(all) != 2 || all[0].Panic != "once" || all[1].Panic != "again" {
		t.Errorf("logged %s", &log)
	}
}
