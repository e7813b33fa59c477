package mcpserver

import (
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

const (
	// progressEvery is how often a client is told the progress of a call, once it has been told progressBurst times: more is
	// of no use to anybody who looks at it (every revision: basic/utilities/progress, rate limiting).
	progressEvery = 100 * time.Millisecond
	progressBurst = 64
	// maxProgressText bounds the text that comes with progress, in bytes.
	maxProgressText = 8 << 10
)

// A pacer passes progress on no faster than a client can use it. What it holds back is replaced by what comes later, and
// passed on when it is time.
type pacer struct {
	send func(*pb.Progress) error

	mu    sync.Mutex
	due   time.Time    // when the next one is, if there had been no burst
	held  *pb.Progress // nil if nothing is held back
	timer *time.Timer
	ended bool
	err   error
}

// tell takes progress. It fails when progress before it could not be passed on.
func (p *pacer) tell(pr *pb.Progress) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(pr.GetMessage()) > maxProgressText {
		pr = proto.CloneOf(pr)
		pr.Message = proto.String(strings.ToValidUTF8(pr.GetMessage()[:maxProgressText], ""))
	}
	now := time.Now()
	if early := p.due.Add(-progressBurst * progressEvery).Sub(now); early > 0 {
		p.held = pr
		if p.timer == nil {
			p.timer = time.AfterFunc(early, p.late)
		}
		return p.err
	}
	p.held = nil
	p.pass(pr, now)
	return p.err
}

// pass passes progress on. The caller holds mu.
func (p *pacer) pass(pr *pb.Progress, now time.Time) {
	if p.due.Before(now) {
		p.due = now
	}
	p.due = p.due.Add(progressEvery)
	p.err = p.send(pr)
}

// late passes on what is held back.
func (p *pacer) late() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = nil
	p.flush()
}

// flush passes on what is held back, unless the request has been answered. The caller holds mu.
func (p *pacer) flush() {
	if p.held != nil && !p.ended {
		p.pass(p.held, time.Now())
	}
	p.held = nil
}

// end passes on what is held back, if anybody wants it still. Nothing is passed on afterwards.
func (p *pacer) end(wanted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
	}
	p.ended = !wanted
	p.flush()
	p.ended = true
}
