package limit

import (
	"cmp"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A PrincipalCounter limits what each authenticated caller holds. Unauthenticated callers are not counted. It must
// not be used concurrently.
type PrincipalCounter struct {
	// Max is the maximum per principal.
	Max int

	n map[principal]int
}

// Acquire adds one to p's count, and returns false if it has reached the maximum.
func (s *PrincipalCounter) Acquire(p *pb.Principal) bool {
	if p == nil {
		return true
	}
	who := principal{p.GetIssuer(), p.GetSubject()}
	if s.n[who] >= s.Max {
		return false
	}
	if s.n == nil {
		s.n = map[principal]int{}
	}
	s.n[who]++
	return true
}

// Release subtracts one from p's count.
func (s *PrincipalCounter) Release(p *pb.Principal) {
	if p == nil {
		return
	}
	who := principal{p.GetIssuer(), p.GetSubject()}
	if s.n[who]--; s.n[who] == 0 {
		delete(s.n, who)
	}
}

// Streams limits the open subscription streams of all fronts that share it. It may be used concurrently.
type Streams struct {
	// Max is the maximum number of streams.
	Max int
	// Reason is the reason of the error above Max. If empty, bridge.ReasonOverloaded is used.
	Reason string
	// PerPrincipal is the maximum of an authenticated caller.
	PerPrincipal int
	// Memory rejects new streams while memory is low. If nil, it is not limited.
	Memory *Memory

	mu     sync.Mutex // guards what follows
	n      int
	owners PrincipalCounter
}

// StreamsOf returns Streams with the limits of the configuration.
func StreamsOf(l limits.Limits, memory *Memory) *Streams {
	l = l.OrDefaults()
	return &Streams{Max: l.Streams, PerPrincipal: l.StreamsPerCaller, Memory: memory}
}

// Open counts a stream of p until done is called. It returns an error at the limit.
func (s *Streams) Open(p *pb.Principal) (done func(), err error) {
	if err := s.Memory.Admit(NewStreams); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n >= s.Max {
		return nil, tooManyStreams(cmp.Or(s.Reason, bridge.ReasonOverloaded), "too many open streams (limit %d)", s.Max)
	}
	s.owners.Max = s.PerPrincipal
	if !s.owners.Acquire(p) {
		return nil, tooManyStreams(bridge.ReasonTooMany, "too many open streams of this caller (limit %d)",
			s.owners.Max)
	}
	s.n++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.n--
		s.owners.Release(p)
	}, nil
}

func tooManyStreams(reason, why string, limit int) error {
	e := bridge.Failed(codes.ResourceExhausted, bridge.OutcomeNotExecuted, reason,
		why+": end one of them, or try again later", limit)
	e.RetryAfter = time.Second
	return e
}
