package mcpserver

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A rate is how often something may happen: every so often, after burst times at once. Whoever has it guards it.
type rate struct {
	every time.Duration
	burst int
	due   time.Time // when the next time is, without a burst
}

// early returns how much too early it would be now. If it is not, it counts as happening.
func (r *rate) early(now time.Time) time.Duration {
	if d := r.due.Add(-time.Duration(r.burst) * r.every).Sub(now); d > 0 {
		return d
	}
	r.happens(now)
	return 0
}

// happens counts that it happens, too early or not.
func (r *rate) happens(now time.Time) {
	if r.due.Before(now) {
		r.due = now
	}
	r.due = r.due.Add(r.every)
}

const (
	// progressEvery is how often a client is told the progress of a call, once it has been told progressBurst times: more is
	// of no use to anybody who looks at it (every revision: basic/utilities/progress, rate limiting).
	progressEvery = 100 * time.Millisecond
	progressBurst = 64
	// maxProgressText bounds the text that comes with progress, in bytes.
	maxProgressText = 8 << 10
	// logEvery is how often a client is told a log message of a call, once it has been told logBurst (every revision: server/utilities/logging,
	// implementation considerations).
	logEvery = 10 * time.Millisecond
	logBurst = 1024
)

// A sampler lets through as many log messages of a call as a client can use, and counts the others.
type sampler struct {
	rate    rate
	leftOut int
	worst   pb.LogLevel // of those that were left out
}

func newSampler() sampler { return sampler{rate: rate{every: logEvery, burst: logBurst}} }

// lets reports whether the client is told a message now.
func (s *sampler) lets(l *pb.LogMessage) bool {
	if s.rate.early(time.Now()) <= 0 {
		return true
	}
	s.leftOut++
	s.worst = max(s.worst, l.GetLevel())
	return false
}

// summary returns what is to be told of messages that were left out since it was last asked, or nil. It is one more message.
func (s *sampler) summary() *pb.LogMessage {
	if s.leftOut == 0 {
		return nil
	}
	l := &pb.LogMessage{
		Level: s.worst, Logger: proto.String("mcpbridge"),
		Data: fmt.Sprintf(`"%d log messages were left out: of a call, %d are told, and then %d a second"`, s.leftOut, logBurst, time.Second/logEvery),
	}
	s.leftOut, s.worst = 0, 0
	s.rate.happens(time.Now())
	return l
}

// A pacer passes progress on no faster than a client can use it. What it holds back is replaced by what comes later, and
// passed on when it is time.
type pacer struct {
	send func(*pb.Progress) error

	mu    sync.Mutex
	rate  rate
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
	if early := p.rate.early(time.Now()); early > 0 {
		p.held = pr
		if p.timer == nil {
			p.timer = time.AfterFunc(early, p.late)
		}
		return p.err
	}
	p.held = nil
	p.err = p.send(pr)
	return p.err
}

func newPacer(send func(*pb.Progress) error) *pacer {
	return &pacer{send: send, rate: rate{every: progressEvery, burst: progressBurst}}
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
		p.rate.happens(time.Now())
		p.err = p.send(p.held)
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
