package app

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// fakeScheduler returns a scheduler of eight processors. It records how many are to be used.
func fakeScheduler(counts *[]int) scheduler {
	n := 8
	use := func(m int) {
		n = m
		*counts = append(*counts, m)
	}
	return scheduler{count: func() int { return n }, use: use, all: func() { use(8) }}
}

// Fewer processors are used when they have sufficed for a second, and all as soon as those that are used are crowded.
func TestGOMAXPROCSFollowsTheLoad(t *testing.T) {
	for name, tt := range map[string]struct {
		from   int
		inUse  []float64 // one measurement after another
		counts []int
	}{
		"nothing to do":          {8, slices.Repeat([]float64{0}, 10), []int{1}},
		"not for long yet":       {8, slices.Repeat([]float64{0}, 9), nil},
		"one call after another": {1, slices.Repeat([]float64{.6}, 100), nil},
		"some work":              {8, slices.Repeat([]float64{1.6}, 10), []int{3}},
		"as much as there is":    {8, slices.Repeat([]float64{7}, 100), nil},
		"a burst":                {1, []float64{.1, .95}, []int{8}},
		"a peak counts":          {8, append(slices.Repeat([]float64{0}, 8), 4, 0), []int{6}},
		"a burst, and calm":      {1, append([]float64{.95}, slices.Repeat([]float64{.5}, 10)...), []int{8, 1}},
		"too many for fewer":     {2, slices.Repeat([]float64{.8}, 100), nil},
		"few enough":             {2, slices.Repeat([]float64{.75}, 10), []int{1}},
		"not crowded":            {2, slices.Repeat([]float64{1.8}, 100), nil},
		"crowded":                {2, []float64{1.81}, []int{8}},
		"crowded though all":     {8, []float64{7.9, 7.9}, []int{8, 8}}, // the container may have got more
	} {
		t.Run(name, func(t *testing.T) {
			var counts []int
			p := processors{scheduler: fakeScheduler(&counts)}
			if tt.from != 8 {
				p.use(tt.from)
				counts = nil
			}
			for _, inUse := range tt.inUse {
				p.adjust(inUse)
			}
			if !slices.Equal(counts, tt.counts) {
				t.Errorf("set %v, want %v", counts, tt.counts)
			}
		})
	}
}

// A process that has nothing to do is looked at twice a second, and a burst has all processors soon after.
func TestProcessorWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var counts []int
		p := processors{scheduler: fakeScheduler(&counts)}
		var busy atomic.Bool
		var took time.Duration
		measurements, last := 0, time.Now()
		go p.watch(ctx, func() time.Duration {
			if busy.Load() {
				took += time.Since(last)
			}
			last = time.Now()
			measurements++
			return took
		})
		time.Sleep(10 * time.Second) //nolint:forbidigo // by the bubble's clock
		synctest.Wait()
		if !slices.Equal(counts, []int{1}) || measurements > 25 {
			t.Errorf("after 10 s without work: set %v in %d measurements", counts, measurements)
		}
		busy.Store(true)
		time.Sleep(600 * time.Millisecond) //nolint:forbidigo // by the bubble's clock
		synctest.Wait()
		if n := p.count(); n != 8 {
			t.Errorf("600 ms after work came, there are %d processors", n)
		}
	})
}

// The scheduler sets GOMAXPROCS.
func TestSchedulerSetsGOMAXPROCS(t *testing.T) {
	goScheduler().all()
	all := goScheduler().count()
	goScheduler().use(1)
	if n := goScheduler().count(); n != 1 {
		t.Errorf("use(1): it uses %d", n)
	}
	goScheduler().all()
	if n := goScheduler().count(); n != all {
		t.Errorf("all(): it uses %d of %d", n, all)
	}
}
