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
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A Tier is what is refused while memory is short. The more of it is taken, the more is: first what would stay for long.
type Tier int

// The tiers, in the order in which they are reached.
const (
	NewSessions Tier = iota
	NewStreams
	NewCalls
)

// tiers say from which share of the memory on something is refused.
var tiers = [...]struct {
	share float64
	what  string
}{
	NewSessions: {.85, "no session is begun"},
	NewStreams:  {.92, "no stream is opened"},
	NewCalls:    {.97, "no call is taken"},
}

const (
	// readEvery is how often it is looked at how much memory is taken.
	readEvery = 10 * time.Millisecond
	// collectEvery is how often garbage is collected before something is refused. What is free again is only known afterwards, and
	// while everything is refused nothing else would collect it.
	collectEvery = time.Second
	// tellEvery is how often the log says that memory is short.
	tellEvery = 10 * time.Second
	// bodiesShare is how much of the memory the bodies of requests may have, as one divided by it.
	bodiesShare = 8
	// bodyCost is how many times its body a call takes until it is answered.
	bodyCost = 3
)

// A Memory knows how much of the memory that the process may take is taken. Its methods may be called concurrently; with a nil one,
// there is always enough.
type Memory struct {
	limit int64
	read  func(collect bool) int64
	log   zerolog.Logger

	began                     time.Time
	readAt, collectAt, tellAt atomic.Int64 // when something is due, in nanoseconds since began
	taken                     atomic.Int64
	bodies                    atomic.Int64

	mu     sync.Mutex // guards relief
	relief []func()
}

// NewMemory returns a Memory of so many bytes. How many are taken is what read says, after it has collected garbage if it is told to.
func NewMemory(limit int64, read func(collect bool) int64, log zerolog.Logger) *Memory {
	return &Memory{limit: limit, read: read, log: log, began: time.Now()}
}

// Relieve has f called, before something is refused, to let go what is kept for nobody. It returns at once.
func (m *Memory) Relieve(f func()) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.relief = append(m.relief, f)
}

// relieve lets go what is kept for nobody.
func (m *Memory) relieve() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.relief {
		f()
	}
}

// Full returns why something is refused, or nil.
func (m *Memory) Full(t Tier) error {
	if m == nil {
		return nil
	}
	if m.due(&m.readAt, readEvery) {
		m.taken.Store(m.read(false))
	}
	row := tiers[t]
	most := int64(row.share * float64(m.limit))
	if m.taken.Load() < most {
		return nil
	}
	if m.due(&m.collectAt, collectEvery) {
		m.relieve()
		m.taken.Store(m.read(true))
	}
	taken := m.taken.Load()
	if taken < most {
		return nil
	}
	if m.due(&m.tellAt, tellEvery) {
		m.log.Warn().Int64("taken", taken).Int64("limit", m.limit).
			Msg("memory is short, and " + row.what + ": raise limits.memory, or the container's, or serve from more than one process")
	}
	return short("%.0f %% of the memory is taken, and %s: try again later", 100*float64(taken)/float64(m.limit), row.what)
}

// due reports whether it is time for something that is done once in a while, by one of those who ask.
func (m *Memory) due(at *atomic.Int64, every time.Duration) bool {
	now, then := int64(time.Since(m.began)), at.Load()
	return now >= then && at.CompareAndSwap(then, now+int64(every))
}

// TakeBody notes that the body of a request has n more bytes, until they are given back. It returns an error if bodies take as much
// as they may, or more than what is left. A single one may be as long as it likes.
func (m *Memory) TakeBody(n int64) error {
	if m == nil {
		return nil
	}
	if all := m.bodies.Add(n); all > n && (all > m.limit/bodiesShare || m.taken.Load()+bodyCost*all > m.limit) {
		m.bodies.Add(-n)
		return short("the requests that are answered have %d bytes, and %d more are too many: try again later", all-n, n)
	}
	return nil
}

// GiveBody gives back what TakeBody has taken.
func (m *Memory) GiveBody(n int64) {
	if m != nil {
		m.bodies.Add(-n)
	}
}

// short is the error of what memory is too short for.
func short(format string, args ...any) error {
	e := bridge.Failed(codes.ResourceExhausted, pb.CallFailure_OUTCOME_NOT_EXECUTED, bridge.ReasonOverloaded, format, args...)
	e.Failure.RetryAfterMs = proto.Int64(collectEvery.Milliseconds())
	return e
}

// Process is what Go says that this process takes: what was in use when garbage was last collected, and what is around it. Garbage
// does not count: there is as much of it as the limit allows, however little is in use. Nothing is stopped for that.
func Process(collect bool) int64 {
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
