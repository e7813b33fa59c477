package app

import (
	"context"
	"math"
	"os"
	"runtime"
	"time"
)

const (
	// lookTime is how often it is looked how busy the process is, and restTime how often while it does nothing.
	lookTime = 100 * time.Millisecond
	restTime = 500 * time.Millisecond
	// restUse is how many processors are in use, at most, in a process that does nothing.
	restUse = .01
	// Processors of which so much is in use are too few, and fewer suffice if they would be used no more than that.
	crowded = .9
	roomy   = .75
	// calmLooks is for how many looks fewer must have sufficed.
	calmLooks = 10
)

// A scheduler sets the number of processors that Go uses (GOMAXPROCS).
type scheduler struct {
	count func() int  // returns the number in use
	use   func(n int) // has it use so many
	all   func()      // has it use as many as the machine, or the container, has
}

func goScheduler() scheduler {
	return scheduler{
		count: func() int { return runtime.GOMAXPROCS(0) },
		use:   func(n int) { runtime.GOMAXPROCS(n) },
		all:   runtime.SetDefaultGOMAXPROCS,
	}
}

// processors has Go use as many processors as there is work for. Whenever something becomes ready to run, Go wakes a
// thread for each processor that it may use and does not, to see whether there is more. For calls that come one by one
// there never is: with a single processor, a bridge spends a fifth less on them, and answers sooner.
type processors struct {
	scheduler

	peak  float64 // how many were in use at most, since it was begun to count looks
	looks int
}

// TuneProcessors has Go use as many processors as there is work for, until ctx ends. It does nothing if the operator
// has set GOMAXPROCS, or the system does not report the processor time of the process.
func TuneProcessors(ctx context.Context) {
	if _, ok := processorTime(); !ok || os.Getenv("GOMAXPROCS") != "" {
		return
	}
	p := processors{scheduler: goScheduler()}
	p.watch(ctx, func() time.Duration { took, _ := processorTime(); return took })
}

// look adjusts the number of processors to how many were in use since the last look.
func (p *processors) look(inUse float64) {
	now := p.count()
	if inUse > crowded*float64(now) { // the demand beyond them cannot be measured
		p.all()
		p.peak, p.looks = 0, 0
		return
	}
	p.peak = max(p.peak, inUse)
	if p.looks++; p.looks < calmLooks {
		return
	}
	if enough := max(1, int(math.Ceil(p.peak/roomy))); enough < now {
		p.use(enough)
	}
	p.peak, p.looks = 0, 0
}

// watch looks until ctx ends. Used returns the processor time of the process.
func (p *processors) watch(ctx context.Context, used func() time.Duration) {
	wait, then, had := lookTime, time.Now(), used()
	for timer := time.NewTimer(wait); ; timer.Reset(wait) {
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case now := <-timer.C:
			has := used()
			inUse := (has - had).Seconds() / max(now.Sub(then), time.Millisecond).Seconds()
			p.look(inUse)
			if wait = lookTime; inUse < restUse {
				wait = restTime
			}
			then, had = now, has
		}
	}
}
