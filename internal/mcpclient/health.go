package mcpclient

import (
	"errors"
	"fmt"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A hangWatch is what is known of whether a program hangs.
//
// That it says nothing is no sign: many servers do one thing at a time, and read nothing meanwhile. So while a call
// waits and nothing at all is heard, not even on standard error, the program is asked what every server answers, and
// only once: what it does not read it does not read twice. It then has as long to say anything as a call may last. Only
// one that somebody has stopped cannot be at work.
type hangWatch struct {
	at       time.Time     // of the last look
	heard    int64         // how much had been heard by then
	silent   time.Duration // how long nothing has been, while calls waited
	stopped  int           // in how many looks in a row it was stopped
	question *exchange     // what it was asked
}

// errStoppedBySignal is that a program is stopped.
var errStoppedBySignal = errors.New("the program hangs: it has been stopped (SIGSTOP), and answers nothing")

// watch ends a program that hangs.
func (s *stdio) watch() {
	tick := time.NewTicker(s.p.c.pace.look)
	defer tick.Stop()
	v := hangWatch{at: time.Now()}
	defer func() { s.dismiss(&v) }()
	for {
		select {
		case now := <-tick.C:
			if err := s.look(&v, now); err != nil {
				s.p.lose(err) // at once: who waits learns it before the end of the program does
				s.kill()
				return
			}
		case <-s.p.gone:
			return
		}
	}
}

// look returns why the program is to be ended, if it is.
func (s *stdio) look(v *hangWatch, now time.Time) error {
	pace := &s.p.c.pace
	passed := min(now.Sub(v.at), 2*pace.look) // not what passed while we were stopped ourselves
	v.at = now
	if n := s.heard.Load(); n != v.heard {
		v.heard, v.silent, v.stopped = n, 0, 0
		if v.question != nil && v.question.now().isAnswered() {
			s.dismiss(v)
		}
	}
	waiting, leaving := s.p.waited()
	if leaving && !waiting {
		s.dismiss(v)
	}
	if !waiting {
		return nil
	}
	if v.silent += passed; v.silent < pace.quiet {
		return nil
	}
	if v.question == nil {
		v.question = s.ask()
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
		return fmt.Errorf("the program hangs: it has said nothing for %s although calls waited, and does not answer %s", v.silent.Round(time.Second), v.question.method)
	}
	return nil
}

// ask asks the program what every server answers: ping, or in the modern era, which has none, server/discover. It
// returns nil if the server is gone.
func (s *stdio) ask() *exchange {
	none := use{listens: true} // of what the server says, nothing is meant for it
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
	s.p.c.log.Debug().Str("method", x.method).Msg("a call waits and the server says nothing; it is asked whether it is there")
	s.p.start(x)
	return x
}

// dismiss forgets what the program was asked.
func (s *stdio) dismiss(v *hangWatch) {
	if v.question != nil {
		s.p.end(v.question)
		v.question = nil
	}
}

// waited reports whether a call waits for what the server does, and whether the peer is to be left. One that waits for
// what its caller answers does not, and while the session begins, the start timeout holds.
func (p *peer) waited() (waiting, leaving bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, x := range p.running {
		starts := x.method == methodInitialize || x.method == bridge.Discover.Name
		waiting = waiting || x.sent.Load() && !x.listens && !starts && x.waits()
	}
	return waiting, p.leaving
}

// waits reports whether the exchange waits for what the server does.
func (x *exchange) waits() bool {
	s := x.now()
	return s != suspended && !s.isAnswered()
}
