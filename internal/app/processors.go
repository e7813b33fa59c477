package app

import (
	"context"
	"math"
	"os"
	"runtime"
	"time"
)

const (
	// measureInterval is how often the use of processors is measured, and idleInterval how often while the process is
	// idle.
	measureInterval = 100 * time.Millisecond
	idleInterval    = 500 * time.Millisecond
	// idleUse is the maximum number of processors that an idle process uses.
	idleUse = .01
	// growAbove is the share in use above which there are too few processors. Fewer are enough if at most the share
	// targetUse of them would be in use.
	growAbove = .9
	targetUse = .75
	// shrinkAfter is the number of measurements after which the number of processors may be reduced.
	shrinkAfter = 10
)

// A scheduler sets the number of processors that Go uses (GOMAXPROCS).
type scheduler struct {
	count func() int  // returns the number in use
	use   func(n int) // sets the number
	all   func()      // sets the number to that of the machine or container
}

func goScheduler() scheduler {
	return scheduler{
		count: func() int { return runtime.GOMAXPROCS(0) },
		use:   func(n int) { runtime.GOMAXPROCS(n) },
		all:   runtime.SetDefaultGOMAXPROCS,
	}
}

// processors limits the number of processors that Go uses to the number that has work. Whenever a goroutine becomes
// ready to run, Go wakes threads for unused processors, which search for more work. If calls arrive one by one, there
// is none: with a single processor, the bridge spends a fifth less on them, and responds sooner.
type processors struct {
	scheduler

	peak    float64 // the maximum in use since samples was 0
	samples int
}

// TuneProcessors limits the number of processors that Go uses to the number that has work, until ctx ends. It does
// nothing if the operator has set GOMAXPROCS, or the system does not report the processor time of the process.
func TuneProcessors(ctx context.Context) {
	if _, ok := processorTime(); !ok || os.Getenv("GOMAXPROCS") != "" {
		return
	}
	p := processors{scheduler: goScheduler()}
	p.watch(ctx, func() time.Duration { took, _ := processorTime(); return took })
}

// adjust adjusts the number of processors to how many were in use since the last measurement.
func (p *processors) adjust(inUse float64) {
	now := p.count()
	if inUse > growAbove*float64(now) { // the demand beyond them cannot be measured
		p.all()
		p.peak, p.samples = 0, 0
		return
	}
	p.peak = max(p.peak, inUse)
	if p.samples++; p.samples < shrinkAfter {
		return
	}
	if needed := max(1, int(math.Ceil(p.peak/targetUse))); needed < now {
		p.use(needed)
	}
	p.peak, p.samples = 0, 0
}

// watch calls adjust until ctx ends. used returns the processor time of the process.
func (p *processors) watch(ctx context.Context, used func() time.Duration) {
	wait, lastTime, lastUsed := measureInterval, time.Now(), used()
	for timer := time.NewTimer(wait); ; timer.Reset(wait) {
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case now := <-timer.C:
			total := used()
			inUse := (total - lastUsed).Seconds() / max(now.Sub(lastTime), time.Millisecond).Seconds()
			p.adjust(inUse)
			if wait = measureInterval; inUse < idleUse {
				wait = idleInterval
			}
			lastTime, lastUsed = now, total
		}
	}
}
