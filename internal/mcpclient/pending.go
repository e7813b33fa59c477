package mcpclient

import (
	"crypto/rand"
	"crypto/subtle"
	"sync"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// pendingCalls are the suspended calls, by the request state with which their callers return.
type pendingCalls struct {
	c *Client

	mu    sync.Mutex
	calls map[string]*pendingCall
	full  bool // the client is stopping: no call is suspended any more
}

// A pendingCall waits for its caller to return with responses.
type pendingCall struct {
	x       *exchange
	binding []byte
	until   time.Time
}

// unknownState is the error of a state without a call. It does not reveal the reason, because the caller is not
// authenticated as the owner.
const unknownState = "the state is not known: it was used already, came too late, or belongs to another call, or " +
	"the bridge was started anew. " +
	"The call may have been executed: make it again, without the state, only if that does no harm"

// responseGrace is the maximum time that a front needs to report that a legacy client has not responded.
const responseGrace = 10 * time.Second

// suspend keeps a call until its caller returns, and returns the input requests. The number of suspended calls is
// limited by the sessions: each has one exclusively.
func (l *pendingCalls) suspend(x *exchange, call *bridge.Call) (*bridge.Result, error) {
	required := &pb.InputRequired{}
	for _, a := range x.requests {
		required.InputRequests = append(required.InputRequests, a.req)
	}
	token := rand.Text() + rand.Text()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.full {
		return nil, &lostError{err: errClosed}
	}
	ttl := l.c.o.Limits.LegacyStateTTL
	if rev, ok := bridge.ParseRevision(call.Context().GetVerified().GetProtocolVersion()); ok && !rev.Modern() {
		ttl = max(ttl, l.c.o.Limits.AnswerTime+responseGrace)
	}
	x.transition(inFlight, suspended)
	l.calls[token] = &pendingCall{x: x, binding: call.Binding(), until: time.Now().Add(ttl)}
	required.RequestState = []byte(token)
	return &bridge.Result{InputRequired: required}, nil
}

// take returns the call of a state, once and only for the same call of the same caller.
func (l *pendingCalls) take(call *bridge.Call) *exchange {
	token := string(bridge.State(call.Request))
	l.mu.Lock()
	defer l.mu.Unlock()
	pending := l.calls[token]
	if pending == nil || subtle.ConstantTimeCompare(pending.binding, call.Binding()) != 1 ||
		time.Now().After(pending.until) {
		return nil
	}
	delete(l.calls, token)
	return pending.x
}

// sweep cancels the expired calls.
func (l *pendingCalls) sweep(now time.Time) {
	for _, pending := range l.remove(func(p *pendingCall) bool { return now.After(p.until) }) {
		l.c.log.Info().Str("method", pending.x.method).
			Msg("canceled a call whose caller did not send the input responses in time")
		l.c.endExchange(pending.x, false)
	}
}

// makeRoom cancels the oldest suspended call of an owner whose suspended calls have more than half of all sessions. The
// owner but needs the session, so its calls are not canceled. It returns false if there is no such call.
func (l *pendingCalls) makeRoom(except string) bool {
	l.mu.Lock()
	count := map[string]int{}
	for _, pending := range l.calls {
		count[pending.x.p.owner]++
	}
	var oldest string
	for token, pending := range l.calls {
		many := pending.x.p.owner != except && count[pending.x.p.owner] > max(l.c.o.MaxSessions/2, 1)
		if many && (oldest == "" || pending.until.Before(l.calls[oldest].until)) {
			oldest = token
		}
	}
	pending := l.calls[oldest]
	delete(l.calls, oldest)
	l.mu.Unlock()
	if pending == nil {
		return false
	}
	l.c.log.Info().Str("method", pending.x.method).
		Msg("canceled a call that waits for input responses: its caller uses more than half of all sessions")
	l.c.endExchange(pending.x, false)
	return true
}

// empty cancels every call, and prevents further ones.
func (l *pendingCalls) empty() {
	l.mu.Lock()
	l.full = true
	l.mu.Unlock()
	for _, pending := range l.remove(func(*pendingCall) bool { return true }) {
		l.c.endExchange(pending.x, false)
	}
}

func (l *pendingCalls) remove(which func(*pendingCall) bool) []*pendingCall {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []*pendingCall
	for token, pending := range l.calls {
		if which(pending) {
			delete(l.calls, token)
			out = append(out, pending)
		}
	}
	return out
}
