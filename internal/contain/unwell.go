package contain

import (
	"sync"
	"time"
)

// A process in which often panics come from one place within a while is unwell.
const (
	often = 3
	while = time.Minute
)

// A tally knows when each place panicked last.
type tally struct {
	mu     sync.Mutex
	latest map[string][often]time.Time // there are only as many as there are lines of code
}

// all is the tally of the process, for it is the process that is well or not, whichever part of it panics.
var all = tally{latest: map[string][often]time.Time{}}

// Unwell returns a place from which three panics have come within the last minute, in whichever part of the process; or nothing.
// It may be called concurrently.
func Unwell() string { return all.unwell() }

func (t *tally) note(place string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	times := t.latest[place]
	copy(times[:], times[1:])
	times[often-1] = time.Now()
	t.latest[place] = times
}

func (t *tally) unwell() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	for place, times := range t.latest {
		if time.Since(times[0]) < while {
			return place
		}
	}
	return ""
}
