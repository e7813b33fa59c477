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

// A place is where panics come from.
type place struct {
	count  int
	latest [often]time.Time
}

// places are those of a process: there are only as many as there are lines of code.
type places struct {
	mu   sync.Mutex
	seen map[string]*place
}

// note counts a panic of a place, and returns how many it has had.
func (p *places) note(name string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.seen[name]
	if at == nil {
		at = &place{}
		p.seen[name] = at
	}
	copy(at.latest[:], at.latest[1:])
	at.latest[often-1] = time.Now()
	at.count++
	return at.count
}

// Unwell returns a place from which three panics have come within the last minute, in whichever of the Panics that
// count together; or nothing.
func (p *Panics) Unwell() string {
	p.places.mu.Lock()
	defer p.places.mu.Unlock()
	for name, at := range p.places.seen {
		if time.Since(at.latest[0]) < while {
			return name
		}
	}
	return ""
}
