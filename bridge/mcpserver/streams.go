package mcpserver

import (
	"errors"
	"net/http"
	"sync"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/bridge/limit"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A shares counts what verified callers have, of which each may have most. What callers have whom nobody has verified is not
// counted. Whoever has it guards it.
type shares struct {
	most int
	n    map[owner]int
}

// An owner is a verified caller.
type owner struct{ issuer, subject string }

// enter counts one more of p's. It reports false if p has as many as may be.
func (s *shares) enter(p *pb.Principal) bool {
	if p == nil {
		return true
	}
	o := owner{p.GetIssuer(), p.GetSubject()}
	if s.n[o] >= s.most {
		return false
	}
	if s.n == nil {
		s.n = map[owner]int{}
	}
	s.n[o]++
	return true
}

// leave counts one less of p's.
func (s *shares) leave(p *pb.Principal) {
	if p == nil {
		return
	}
	o := owner{p.GetIssuer(), p.GetSubject()}
	if s.n[o]--; s.n[o] == 0 {
		delete(s.n, o)
	}
}

// A streams counts the streams that are open. It may be used concurrently.
type streams struct {
	memory *limit.Memory
	most   int
	reason string // why one beyond the most fails

	mu     sync.Mutex
	n      int
	owners shares
}

// open counts one more, of p's if that is somebody, until done. There is an error if there are as many as may be.
func (s *streams) open(p *pb.Principal) (done func(), err error) {
	if err := s.memory.Full(limit.NewStreams); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n >= s.most {
		return nil, tooManyStreams(s.reason, s.most)
	}
	if !s.owners.enter(p) {
		return nil, tooManyStreams(reasonYours, s.owners.most)
	}
	s.n++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.n--
		s.owners.leave(p)
	}, nil
}

func tooManyStreams(reason string, most int) error {
	return bridge.Failed(codes.ResourceExhausted, pb.CallFailure_OUTCOME_NOT_EXECUTED, reason,
		"%d streams are open, which is the most: end one of them, or try again later", most)
}

// reasonYours is why something fails of which the caller itself has too much.
const reasonYours = "TOO_MANY"

// refuseFull answers a request that is one too many: of all, or of its caller's.
func refuseFull(w http.ResponseWriter, err error) {
	status := http.StatusServiceUnavailable
	if errors.Is(err, errTooManyOfOne) || bridge.AsError(err).Failure.GetReason() == reasonYours {
		status = http.StatusTooManyRequests
	}
	w.Header().Set("Retry-After", "1")
	refuse(w, status, err.Error())
}
