package mcpclient

import (
	"crypto/rand"
	"crypto/subtle"
	"sync"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// pendingCalls are the calls that are suspended, by the states that their callers come back with.
type pendingCalls struct {
	c *Client

	mu    sync.Mutex
	calls map[string]*pendingCall
	full  bool // no call is suspended any more: the client is to end
}

// A pendingCall waits for its caller to come back with the answers.
type pendingCall struct {
	x       *exchange
	binding []byte
	until   time.Time
}

// unknownState is what is wrong with a state that stands for no call. Which of these it is must not be told to
// everybody.
const unknownState = "the state is not known: it was used already, came too late, or belongs to another call, or the bridge was started anew. " +
	"The call may have been executed: make it again, without the state, only if that does no harm"

// comesBack is how long it takes at most that who waits for a legacy client says that there is no answer.
const comesBack = 10 * time.Second

// suspend keeps a call until its caller comes back, and returns what to ask the caller. How many there are is bounded
// by the sessions: each has one to itself.
func (l *pendingCalls) suspend(x *exchange, call *bridge.Call) (*bridge.Result, error) {
	needs := &pb.InputRequired{Requests: map[string]*pb.InputRequest{}}
	for _, a := range x.asks {
		needs.Requests[a.key] = a.req
	}
	token := rand.Text() + rand.Text()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.full {
		return nil, &lost{err: errClosed}
	}
	ttl := l.c.o.Limits.LegacyStateTTL
	if rev, ok := bridge.ParseRevision(call.Context().GetProtocolVersion()); ok && !rev.Modern() {
		ttl = max(ttl, l.c.o.Limits.AnswerTime+comesBack)
	}
	x.move(inFlight, suspended)
	l.calls[token] = &pendingCall{x: x, binding: call.Binding(), until: time.Now().Add(ttl)}
	needs.State = []byte(token)
	return &bridge.Result{InputRequired: needs}, nil
}

// take returns the call that a state stands for, once and only for the same call of the same caller.
func (l *pendingCalls) take(call *bridge.Call) *exchange {
	token := string(bridge.State(call.Request))
	l.mu.Lock()
	defer l.mu.Unlock()
	held := l.calls[token]
	if held == nil || subtle.ConstantTimeCompare(held.binding, call.Binding()) != 1 || time.Now().After(held.until) {
		return nil
	}
	delete(l.calls, token)
	return held.x
}

// sweep gives up the calls that have waited too long. The server is told.
func (l *pendingCalls) sweep(now time.Time) {
	for _, held := range l.remove(func(p *pendingCall) bool { return now.After(p.until) }) {
		l.c.log.Info().Str("method", held.x.method).Msg("a call waited too long for its caller to answer, and is given up")
		l.c.leave(held.x, false)
	}
}

// makeRoom gives up the call that has been suspended for longest of another owner than one, who keeps more than half of
// all sessions by calls that wait for answers. It reports false if there is none: whoever keeps less has a right to
// them.
func (l *pendingCalls) makeRoom(but string) bool {
	l.mu.Lock()
	count := map[string]int{}
	for _, held := range l.calls {
		count[held.x.p.owner]++
	}
	var oldest string
	for token, held := range l.calls {
		many := held.x.p.owner != but && count[held.x.p.owner] > max(l.c.o.MaxSessions/2, 1)
		if many && (oldest == "" || held.until.Before(l.calls[oldest].until)) {
			oldest = token
		}
	}
	held := l.calls[oldest]
	delete(l.calls, oldest)
	l.mu.Unlock()
	if held == nil {
		return false
	}
	l.c.log.Info().Str("method", held.x.method).Msg("a call that waits for its caller to answer is given up: its caller has too many, and others none")
	l.c.leave(held.x, false)
	return true
}

// empty gives up every call, and lets none be suspended any more.
func (l *pendingCalls) empty() {
	l.mu.Lock()
	l.full = true
	l.mu.Unlock()
	for _, held := range l.remove(func(*pendingCall) bool { return true }) {
		l.c.leave(held.x, false)
	}
}

func (l *pendingCalls) remove(which func(*pendingCall) bool) []*pendingCall {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []*pendingCall
	for token, held := range l.calls {
		if which(held) {
			delete(l.calls, token)
			out = append(out, held)
		}
	}
	return out
}
