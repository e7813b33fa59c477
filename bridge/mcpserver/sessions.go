package mcpserver

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/bridge/limit"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// SessionLimits are the bounds of Sessions. The zero value has sensible ones.
type SessionLimits struct {
	// Most is how many there may be, with those of HTTP+SSE. Zero: 100,000.
	Most int
	// PerPrincipal is how many of them may be of one verified caller. Zero: 1,000.
	PerPrincipal int
	// Replay is how many bytes of events all of them keep together for responses that take over. Zero: 256 MiB.
	Replay int
}

// A Sessions counts the legacy sessions of all Servers that have it, and bounds what they keep together. It may be used concurrently.
type Sessions struct {
	most   int
	replay replay

	sweeping sync.Mutex // guards swept, and is held while sessions that are over are ended; before mu, and before that of a Server
	swept    time.Time

	mu      sync.Mutex // guards what follows
	n       int
	owners  limit.Shares
	servers map[*Server]struct{} // that have not closed
}

const (
	// sweepEvery is how often sessions that are over are ended, although there is room for others.
	sweepEvery = time.Minute
	// sweepFull is how often they are if there is none: each of many thousands is looked at, whoever asks. It is when who was refused is
	// told to try again.
	sweepFull = time.Second
)

// NewSessions returns the Sessions of one or several Servers.
func NewSessions(l SessionLimits) *Sessions {
	return &Sessions{
		most: cmp.Or(l.Most, 100_000), owners: limit.Shares{Most: cmp.Or(l.PerPrincipal, 1000)}, replay: replay{most: cmp.Or(l.Replay, maxReplayOfAll)},
		swept: time.Now(), servers: map[*Server]struct{}{},
	}
}

// begin counts one more, of p's if that is somebody, until leave. There is an error if there are as many as may be, and none of them is
// over.
func (s *Sessions) begin(p *pb.Principal) error {
	s.sweep(sweepEvery)
	if s.enter(p) == nil {
		return nil
	}
	s.sweep(sweepFull)
	return s.enter(p)
}

func (s *Sessions) enter(p *pb.Principal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n >= s.most {
		return tooManySessions(bridge.ReasonOverloaded, "%d sessions are open, which is the most", s.most)
	}
	if !s.owners.Enter(p) {
		return tooManySessions(bridge.ReasonTooMany, "you have %d sessions open, which is the most of one caller", s.owners.Most)
	}
	s.n++
	return nil
}

// leave counts one less of p's.
func (s *Sessions) leave(p *pb.Principal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n--
	s.owners.Leave(p)
}

func tooManySessions(reason, why string, most int) error {
	e := bridge.Failed(codes.ResourceExhausted, pb.CallFailure_OUTCOME_NOT_EXECUTED, reason, why+": end one of them, or try again later", most)
	e.Failure.RetryAfterMs = proto.Int64(sweepFull.Milliseconds())
	return e
}

// sweep ends the sessions of all servers that are over, if it has been so long since that was done. Who comes meanwhile waits for it.
func (s *Sessions) sweep(after time.Duration) {
	s.sweeping.Lock()
	defer s.sweeping.Unlock()
	now := time.Now()
	if now.Sub(s.swept) < after {
		return
	}
	s.swept = now
	for _, server := range s.all() {
		server.endIdle(now)
	}
}

func (s *Sessions) all() []*Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.servers))
}

// add has the sessions of a server counted, until remove.
func (s *Sessions) add(server *Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.servers[server] = struct{}{}
}

func (s *Sessions) remove(server *Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.servers, server)
}
