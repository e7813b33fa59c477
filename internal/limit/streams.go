package limit

import (
	"cmp"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A Shares counts what verified callers have. What callers have whom nobody has verified is not counted. Whoever has it guards it.
type Shares struct {
	// Most is how many each may have.
	Most int

	n map[principal]int
}

// Enter counts one more of p's. It reports false if p has as many as may be.
func (s *Shares) Enter(p *pb.Principal) bool {
	if p == nil {
		return true
	}
	who := principal{p.GetIssuer(), p.GetSubject()}
	if s.n[who] >= s.Most {
		return false
	}
	if s.n == nil {
		s.n = map[principal]int{}
	}
	s.n[who]++
	return true
}

// Leave counts one less of p's.
func (s *Shares) Leave(p *pb.Principal) {
	if p == nil {
		return
	}
	who := principal{p.GetIssuer(), p.GetSubject()}
	if s.n[who]--; s.n[who] == 0 {
		delete(s.n, who)
	}
}

// A Streams counts the streams that are open and only tell what changes, of all fronts that have it. It may be used
// concurrently.
type Streams struct {
	// Most is how many there may be.
	Most int
	// Reason is why one beyond Most fails. Empty: bridge.ReasonOverloaded.
	Reason string
	// PerPrincipal is how many of them may be of one verified caller.
	PerPrincipal int
	// Memory is how much there is: while it is short, none is opened. Nil: there is enough.
	Memory *Memory

	mu     sync.Mutex // guards what follows
	n      int
	owners Shares
}

// StreamsOf returns the Streams of a process.
func StreamsOf(l limits.Limits, memory *Memory) *Streams {
	l = l.OrDefaults()
	return &Streams{Most: l.Streams, PerPrincipal: l.StreamsPerCaller, Memory: memory}
}

// Open counts one more, of p's if that is somebody, until done. There is an error if there are as many as may be.
func (s *Streams) Open(p *pb.Principal) (done func(), err error) {
	if err := s.Memory.Full(NewStreams); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n >= s.Most {
		return nil, tooManyStreams(cmp.Or(s.Reason, bridge.ReasonOverloaded), "%d streams are open, which is the most", s.Most)
	}
	s.owners.Most = s.PerPrincipal
	if !s.owners.Enter(p) {
		return nil, tooManyStreams(bridge.ReasonTooMany, "you have %d streams open, which is the most of one caller", s.owners.Most)
	}
	s.n++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.n--
		s.owners.Leave(p)
	}, nil
}

func tooManyStreams(reason, why string, most int) error {
	e := bridge.Failed(codes.ResourceExhausted, pb.CallFailure_OUTCOME_NOT_EXECUTED, reason, why+": end one of them, or try again later", most)
	e.Failure.RetryAfterMs = proto.Int64(1_000)
	return e
}
