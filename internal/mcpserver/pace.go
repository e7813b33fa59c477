package mcpserver

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/internal/limits"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A rate is a rate limit: one event per interval, after a burst. The caller must synchronize access.
type rate struct {
	every time.Duration
	burst int
	due   time.Time // when the next event is allowed, without a burst
}

// delay returns how long until an event is allowed. If that is zero, it counts the event.
func (r *rate) delay(now time.Time) time.Duration {
	if d := r.due.Add(-time.Duration(r.burst) * r.every).Sub(now); d > 0 {
		return d
	}
	r.count(now)
	return 0
}

// count counts an event, even if it was too early.
func (r *rate) count(now time.Time) {
	if r.due.Before(now) {
		r.due = now
	}
	r.due = r.due.Add(r.every)
}

const (
	// maxProgressText is the maximum length of a progress message, in bytes.
	maxProgressText = 8 << 10
)

// A sampler limits the log messages of a call, and counts the dropped ones.
type sampler struct {
	rate    rate
	dropped int
	worst   pb.LogLevel // the most severe of the dropped ones
}

func newSampler() sampler {
	return sampler{rate: rate{every: limits.LogInterval, burst: limits.LogBurst}}
}

// allows reports whether a message may be sent now. If not, it counts the message as dropped.
func (s *sampler) allows(l *pb.LogMessage) bool {
	if s.rate.delay(time.Now()) <= 0 {
		return true
	}
	s.dropped++
	s.worst = max(s.worst, l.GetLevel())
	return false
}

// summary returns a message about the messages dropped since the last summary, or nil.
func (s *sampler) summary() *pb.LogMessage {
	if s.dropped == 0 {
		return nil
	}
	l := &pb.LogMessage{
		Level: s.worst, Logger: proto.String("mcpbridge"),
		Data: fmt.Sprintf(`"%d log messages were dropped: a call can send %d, and then %d per second"`, s.dropped,
			limits.LogBurst, time.Second/limits.LogInterval),
	}
	s.dropped, s.worst = 0, 0
	s.rate.count(time.Now())
	return l
}

// A pacer limits the rate of progress notifications. Above the limit, only the latest one is sent, with a delay.
type pacer struct {
	send func(*pb.Progress) error

	mu      sync.Mutex
	rate    rate
	delayed *pb.Progress // delayed notification, or nil
	timer   *time.Timer
	ended   bool
	err     error
}

// report handles progress. It returns an error if earlier progress could not be sent.
func (p *pacer) report(pr *pb.Progress) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(pr.GetMessage()) > maxProgressText {
		pr = proto.CloneOf(pr)
		pr.Message = proto.String(strings.ToValidUTF8(pr.GetMessage()[:maxProgressText], ""))
	}
	if delay := p.rate.delay(time.Now()); delay > 0 {
		p.delayed = pr
		if p.timer == nil {
			p.timer = time.AfterFunc(delay, p.sendDelayed)
		}
		return p.err
	}
	p.delayed = nil
	p.err = p.send(pr)
	return p.err
}

func newPacer(send func(*pb.Progress) error) *pacer {
	return &pacer{send: send, rate: rate{every: limits.ProgressInterval, burst: limits.ProgressBurst}}
}

// sendDelayed sends the delayed notification.
func (p *pacer) sendDelayed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = nil
	p.flush()
}

// flush sends the delayed notification, unless the request has a response. The caller holds mu.
func (p *pacer) flush() {
	if p.delayed != nil && !p.ended {
		p.rate.count(time.Now())
		p.err = p.send(p.delayed)
	}
	p.delayed = nil
}

// end sends the delayed notification if it is wanted. Nothing is sent afterwards.
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
