package contain

import (
	"sync"
	"time"
)

// A process is degraded while threshold panics of one place are within the window.
const (
	threshold = 3
	window    = time.Minute
)

// A place is a line of code that panicked.
type place struct {
	count  int
	latest [threshold]time.Time
}

// places contains at most as many places as there are lines of code.
type places struct {
	mu   sync.Mutex
	seen map[string]*place
}

// add counts a panic of a place, and returns its count.
func (p *places) add(name string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.seen[name]
	if at == nil {
		at = &place{}
		p.seen[name] = at
	}
	copy(at.latest[:], at.latest[1:])
	at.latest[threshold-1] = time.Now()
	at.count++
	return at.count
}

// Degraded returns a place with three panics within the last minute, or "".
func (p *Panics) Degraded() string {
	p.places.mu.Lock()
	defer p.places.mu.Unlock()
	for name, at := range p.places.seen {
		if time.Since(at.latest[0]) < window {
			return name
		}
	}
	return ""
}
