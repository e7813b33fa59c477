package limit

import (
	"math"
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
)

// A Tier is a class of requests that is rejected while memory is low. The longer-lived a class is, the sooner.
type Tier int

// The tiers, in order of their thresholds.
const (
	NewSessions Tier = iota
	NewStreams
	NewCalls
)

var tiers = [...]struct {
	share float64
	what  string
}{
	NewSessions: {.85, "new sessions are rejected"},
	NewStreams:  {.92, "new streams are rejected"},
	NewCalls:    {.97, "new calls are rejected"},
}

const (
	// readInterval is the minimum interval between measurements.
	readInterval = 10 * time.Millisecond
	// collectInterval is the minimum interval between garbage collections before a rejection. Without them, a process
	// that rejects everything would not notice that memory is free again.
	collectInterval = time.Second
	// logInterval is the minimum interval between warnings.
	logInterval = 10 * time.Second
	// Request bodies may use 1/bodiesShare of the memory.
	bodiesShare = 8
	// bodyCost is the memory that a call needs, in multiples of its body.
	bodyCost = 3
)

// A Memory limits the memory of the process. Its methods may be called concurrently. A nil Memory has no limit.
type Memory struct {
	limit int64
	read  func(collect bool) int64
	log   zerolog.Logger

	start                    time.Time
	readAt, collectAt, logAt atomic.Int64 // next times, in nanoseconds since start
	inUse                    atomic.Int64
	bodies                   atomic.Int64

	mu     sync.Mutex // guards relief
	relief []func()
}

// NewMemory returns a Memory with a limit in bytes. read returns the bytes in use, after a garbage collection if
// collect is set.
func NewMemory(limit int64, read func(collect bool) int64, log zerolog.Logger) *Memory {
	return &Memory{limit: limit, read: read, log: log, start: time.Now()}
}

// OnPressure registers f, which is called to release caches before something is rejected.
func (m *Memory) OnPressure(f func()) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.relief = append(m.relief, f)
}

func (m *Memory) relieve() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.relief {
		f()
	}
}

// Admit returns an error if requests of the tier are rejected because memory is low.
func (m *Memory) Admit(t Tier) error {
	if m == nil {
		return nil
	}
	if m.due(&m.readAt, readInterval) {
		m.inUse.Store(m.read(false))
	}
	row := tiers[t]
	threshold := int64(row.share * float64(m.limit))
	if m.inUse.Load() < threshold {
		return nil
	}
	if m.due(&m.collectAt, collectInterval) {
		m.relieve()
		m.inUse.Store(m.read(true))
	}
	inUse := m.inUse.Load()
	if inUse < threshold {
		return nil
	}
	if m.due(&m.logAt, logInterval) {
		m.log.Warn().Int64("taken", inUse).Int64("limit", m.limit).
			Msg("memory is low: " + row.what + "; raise limits.memory or the container's limit, or run more processes")
	}
	return lowMemory("memory is low (%.0f %% in use), %s: try again later", 100*float64(inUse)/float64(m.limit),
		row.what)
}

// due reports whether the time is reached, and sets the next one. It returns true to one of concurrent callers only.
func (m *Memory) due(at *atomic.Int64, every time.Duration) bool {
	now, then := int64(time.Since(m.start)), at.Load()
	return now >= then && at.CompareAndSwap(then, now+int64(every))
}

// ReserveBody reserves memory for n more bytes of a request body. It returns an error if all bodies together exceed
// their share or the free memory. A single body may have any size.
func (m *Memory) ReserveBody(n int64) error {
	if m == nil {
		return nil
	}
	if all := m.bodies.Add(n); all > n && (all > m.limit/bodiesShare || m.inUse.Load()+bodyCost*all > m.limit) {
		m.bodies.Add(-n)
		return lowMemory("memory is low: requests in flight have %d bytes, this one adds %d: try again later", all-n, n)
	}
	return nil
}

// ReleaseBody releases n bytes that ReserveBody reserved.
func (m *Memory) ReleaseBody(n int64) {
	if m != nil {
		m.bodies.Add(-n)
	}
}

func lowMemory(format string, args ...any) error {
	e := bridge.Failed(codes.ResourceExhausted, bridge.OutcomeNotExecuted, bridge.ReasonOverloaded,
		format, args...)
	e.RetryAfter = collectInterval
	return e
}

// MemoryInUse returns the memory of this process without garbage: what was in use at the last garbage collection, and
// overhead. Garbage grows up to the limit however little is in use.
func MemoryInUse(collect bool) int64 {
	if collect {
		runtime.GC()
	}
	const all, released, free, objects, live = 0, 1, 2, 3, 4
	samples := []metrics.Sample{
		all:      {Name: "/memory/classes/total:bytes"},
		released: {Name: "/memory/classes/heap/released:bytes"},
		free:     {Name: "/memory/classes/heap/free:bytes"},
		objects:  {Name: "/memory/classes/heap/objects:bytes"},
		live:     {Name: "/gc/heap/live:bytes"},
	}
	metrics.Read(samples)
	of := func(i int) int64 { return int64(min(samples[i].Value.Uint64(), math.MaxInt64)) }
	return of(all) - of(released) - of(free) - of(objects) + of(live)
}
