package mcpclient

import (
	"errors"
	"fmt"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A hangWatch detects a hanging program. Silence alone is no sign: many servers execute one call at a time and read
// nothing meanwhile. So if the program prints nothing at all, not even on standard error, while a call waits, it is
// pinged once: a second ping would not be read either. If it then prints nothing until the hang timeout, it hangs. A
// process that is stopped by a signal cannot be working, so it hangs earlier.
type hangWatch struct {
	at       time.Time     // of the last check
	received int64         // number of lines until then
	silent   time.Duration // how long the program was silent while calls waited
	stopped  int           // number of consecutive checks in which it was stopped
	ping     *exchange     // the pending ping
}

// errStoppedBySignal means that a process is stopped.
var errStoppedBySignal = errors.New("the program hangs: it has been stopped (SIGSTOP), and answers nothing")

// watch ends a hanging program.
func (s *stdio) watch() {
	tick := time.NewTicker(s.p.c.intervals.hangCheck)
	defer tick.Stop()
	v := hangWatch{at: time.Now()}
	defer func() { s.endPing(&v) }()
	for {
		select {
		case now := <-tick.C:
			if err := s.check(&v, now); err != nil {
				s.p.lose(err) // calls fail before the program has ended
				s.kill()
				return
			}
		case <-s.p.done:
			return
		}
	}
}

// check returns why the program must be ended, or nil.
func (s *stdio) check(v *hangWatch, now time.Time) error {
	pace := &s.p.c.intervals
	passed := min(now.Sub(v.at), 2*pace.hangCheck) // without the time during which the bridge itself was stopped
	v.at = now
	if n := s.received.Load(); n != v.received {
		v.received, v.silent, v.stopped = n, 0, 0
		if v.ping != nil && v.ping.currentState().isAnswered() {
			s.endPing(v)
		}
	}
	waiting, leaving := s.p.waitState()
	if leaving && !waiting {
		s.endPing(v)
	}
	if !waiting {
		return nil
	}
	if v.silent += passed; v.silent < pace.pingAfter {
		return nil
	}
	if v.ping == nil {
		v.ping = s.sendPing()
		return nil
	}
	v.stopped++
	if !s.stopped() {
		v.stopped = 0
	}
	switch {
	case v.stopped >= pace.stopped:
		return errStoppedBySignal
	case v.silent >= s.p.c.o.HangTimeout:
		return fmt.Errorf("the program hangs: it has sent nothing for %s while calls are pending, and does not "+
			"respond to %s",
			v.silent.Round(time.Second), v.ping.method)
	}
	return nil
}

// sendPing sends a request to which every server responds: ping, or server/discover in the modern era, which has no
// ping. It returns nil if the connection was lost.
func (s *stdio) sendPing() *exchange {
	none := purpose{listens: true} // all other messages are ignored
	var x *exchange
	var err error
	if s.p.rev().Modern() {
		x, err = s.p.beginRequest(bridge.Discover, &pb.DiscoverRequest{}, none)
	} else if x, err = s.p.begin("ping", none); err == nil {
		x.body = jsonrpc.AppendRequest(nil, []byte(x.id), x.method, nil)
	}
	if err != nil {
		return nil
	}
	s.p.c.log.Debug().Str("method", x.method).
		Msg("a call is pending and the server sends nothing; sending a ping")
	s.p.start(x)
	return x
}

// endPing removes the pending ping.
func (s *stdio) endPing(v *hangWatch) {
	if v.ping != nil {
		s.p.end(v.ping)
		v.ping = nil
	}
}

// waitState reports whether a call waits for the server, and whether the peer must be left. A call that waits for its
// caller's responses does not count, nor a session that is starting, which has the start timeout.
func (p *peer) waitState() (waiting, leaving bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, x := range p.running {
		starts := x.method == methodInitialize || x.method == bridge.Discover.Name
		waiting = waiting || x.sent.Load() && !x.listens && !starts && x.waitsForServer()
	}
	return waiting, p.closing
}

// waitsForServer reports whether the exchange waits for the server.
func (x *exchange) waitsForServer() bool {
	s := x.currentState()
	return s != suspended && !s.isAnswered()
}
