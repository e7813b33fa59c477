package mcpserver

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/limit"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A Sessions counts the legacy sessions of all Servers that share it, and limits the memory of their logs. It may be
// used concurrently.
type Sessions struct {
	max    int
	replay replayLimit

	// sweeping guards what follows. It is held while expired sessions, or sessions that make room for new ones, are
	// ended. It is acquired before mu, and before the lock of a Server.
	sweeping    sync.Mutex
	lastSweep   time.Time
	noRoomAt    time.Time // the last time that no session could make room
	evicted     int       // number since the last warning
	lastWarning time.Time // time of the last warning

	mu      sync.Mutex // guards what follows
	n       int
	owners  limit.PrincipalCounter
	servers map[*Server]struct{} // servers that are not closed
}

const (
	// sweepEvery is the interval at which expired sessions are ended while there is room.
	sweepEvery = time.Minute
	// sweepFull is the interval while there is no room. It is not shorter, because many thousand sessions are checked.
	// It is also the Retry-After of rejected clients.
	sweepFull = time.Second
	// evictEvery is the minimum interval between warnings about sessions that make room for new ones.
	evictEvery = 10 * time.Second
	// evictShare is the limit on sessions divided by the number that is ended at a time to make room. More than one is
	// ended, because each search checks all sessions.
	evictShare = 64
)

// NewSessions returns the Sessions of one or several Servers.
func NewSessions(l limits.Limits) *Sessions {
	l = l.OrDefaults()
	return &Sessions{
		max: l.Sessions, owners: limit.PrincipalCounter{Max: l.SessionsPerCaller}, replay: replayLimit{max: l.Replay},
		lastSweep: time.Now(), servers: map[*Server]struct{}{},
	}
}

// begin counts a new session of the principal p, if any, from a network, until release. It returns an error if the
// limit is reached, and no session has expired or makes room.
func (s *Sessions) begin(p *pb.Principal, from netip.Prefix) error {
	s.sweep(sweepEvery)
	if s.acquire(p) == nil {
		return nil
	}
	s.sweep(sweepFull)
	err := s.acquire(p)
	if err != nil && bridge.AsError(err).Reason == bridge.ReasonOverloaded {
		s.makeRoom(from)
		err = s.acquire(p)
	}
	return err
}

// The order in which anonymous sessions without open requests make room for new ones.
const (
	rankNotReady = iota // the client has not sent notifications/initialized
	rankUnused          // it has made no request
	// it has. Only those of a network with three quarters of all sessions make room, and only for other networks
	rankUsed
)

// A candidate is a session that could make room.
type candidate struct {
	*session
	rank    int
	lastUse time.Time
}

// makeRoom ends anonymous sessions if there is no room for a new one from a network: sessions of the lowest rank, of
// the network that has the most sessions, the least recently used first.
func (s *Sessions) makeRoom(from netip.Prefix) {
	s.sweeping.Lock()
	defer s.sweeping.Unlock()
	s.mu.Lock()
	full := s.n >= s.max
	s.mu.Unlock()
	now := time.Now()
	if !full || now.Sub(s.noRoomAt) < sweepFull {
		return
	}
	perNetwork := map[netip.Prefix]int{}
	var all []candidate
	for _, server := range s.all() {
		all = server.candidates(all, perNetwork)
	}
	all = slices.DeleteFunc(all, func(c candidate) bool {
		return c.rank == rankUsed && (perNetwork[c.network] < s.max-s.max/4 || c.network == from)
	})
	if len(all) == 0 {
		s.noRoomAt = now
		return
	}
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(perNetwork[b.network], perNetwork[a.network]),
			a.lastUse.Compare(b.lastUse))
	})
	first := all[0]
	for _, c := range all[:min(len(all), max(1, s.max/evictShare))] {
		if c.rank == first.rank && c.network == first.network && c.s.evict(c) {
			s.evicted++
		}
	}
	if now.Sub(s.lastWarning) >= evictEvery {
		first.s.log.Warn().Int("limit", s.max).Int("ended", s.evicted).Stringer("most_from", first.network).
			Int("of_them", perNetwork[first.network]).
			Msg("too many sessions: those of clients that have not authenticated and never used them are ended for " +
				"new ones; " +
				"restrict access to the port by a firewall, or require tokens (serve.http.auth)")
		s.lastWarning, s.evicted = now, 0
	}
}

func (s *Sessions) acquire(p *pb.Principal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n >= s.max {
		return tooManySessions(bridge.ReasonOverloaded, "too many sessions (limit %d)", s.max)
	}
	if !s.owners.Acquire(p) {
		return tooManySessions(bridge.ReasonTooMany, "too many sessions of this caller (limit %d)", s.owners.Max)
	}
	s.n++
	return nil
}

// release counts an ended session of p.
func (s *Sessions) release(p *pb.Principal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n--
	s.owners.Release(p)
}

func tooManySessions(reason, why string, most int) error {
	e := bridge.Failed(codes.ResourceExhausted, bridge.OutcomeNotExecuted, reason,
		why+": end one of them, or try again later", most)
	e.RetryAfter = sweepFull
	return e
}

// sweep ends the expired sessions of all servers, if the interval has passed. Concurrent callers wait for it.
func (s *Sessions) sweep(after time.Duration) {
	s.sweeping.Lock()
	defer s.sweeping.Unlock()
	now := time.Now()
	if now.Sub(s.lastSweep) < after {
		return
	}
	s.lastSweep = now
	for _, server := range s.all() {
		server.endIdle(now)
	}
}

func (s *Sessions) all() []*Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.servers))
}

// add registers a server, whose sessions are then swept and can make room.
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

// candidates appends the server's sessions that could make room to all, and adds the number of its anonymous sessions
// by network to of.
func (s *Server) candidates(all []candidate, perNetwork map[netip.Prefix]int) []candidate {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ss := range s.sessions {
		if ss.caller.GetVerified().GetPrincipal() != nil {
			continue
		}
		perNetwork[ss.network]++
		ss.mu.Lock()
		if ss.idleLocked() {
			all = append(all, candidate{ss, ss.rankLocked(), ss.lastUse})
		}
		ss.mu.Unlock()
	}
	return all
}

// rankLocked returns the session's rank among those that make room. The caller holds mu.
func (ss *session) rankLocked() int {
	select {
	case <-ss.ready:
	default:
		if !ss.hasRequested {
			return rankNotReady
		}
	}
	if !ss.hasRequested {
		return rankUnused
	}
	return rankUsed
}

// evict ends a session that makes room, unless it is used meanwhile. It reports whether it did.
func (s *Server) evict(c candidate) bool {
	s.mu.Lock()
	c.mu.Lock()
	ok := s.sessions[c.id] == c.session && c.idleLocked() && c.rankLocked() == c.rank
	c.mu.Unlock()
	if ok {
		delete(s.sessions, c.id)
		s.opts.Sessions.release(nil)
	}
	s.mu.Unlock()
	if ok {
		c.end(errEnded)
	}
	return ok
}
