package plugin

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/feed"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// listen makes a Listen call with stream, and ensures that it is acknowledged, because subscribers wait for it.
func (p *Plugin) listen(ctx context.Context, l *life, call *bridge.Call, emit bridge.Emit,
	stream func(context.Context, bridge.Emit) attempt,
) (a attempt) {
	r, _ := call.Request.(*pb.ListenRequest)
	s := feed.NewStream(r.GetNotifications)
	source := s.Source()
	var first atomic.Pointer[pb.ListenResponse] // the acknowledgment of the backend
	_, err := s.Answer(ctx, emit, func(acked *pb.SubscriptionFilter) *pb.ListenResponse {
		return cmp.Or(first.Load(), feed.Acknowledgment(acked))
	}, func(ctx context.Context) (_ *bridge.Result, err error) {
		defer p.panics.Recover(bridge.Listen.Name, func(e *bridge.Error) { a.err, err = e, e })
		ctx, cancel := context.WithCancel(ctx)
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		wg.Go(func() {
			defer p.panics.Recover("acknowledging a Listen", nil)
			p.assume(ctx, l, call, source)
		})
		a = stream(ctx, func(_ context.Context, e bridge.Event) error {
			if ack := e.Change.GetAcknowledged(); ack != nil {
				first.CompareAndSwap(nil, e.Change)
				source.Acknowledge(ack.GetNotifications())
			} else {
				source.Report(e.Change)
			}
			return nil
		})
		return a.result, a.err
	})
	if err != a.err { //nolint:errorlint // it is that of emit
		a = attempt{err: err, ours: true}
	}
	return a
}

// assume acknowledges what Discover declares in place of a backend that does not acknowledge soon, and later warns if
// it still has not.
func (p *Plugin) assume(ctx context.Context, l *life, call *bridge.Call, source *feed.Source) {
	if !pass(ctx, p.pace.acknowledge) || source.Acknowledged() != nil {
		return
	}
	res, err := p.Handle(ctx, call.With(bridge.Discover, &pb.DiscoverRequest{Context: call.Context()}), nil)
	if err != nil {
		return // the Listen fails too, or is acknowledged when the backend responds again
	}
	d, _ := res.Complete.(*pb.DiscoverResponse)
	r, _ := call.Request.(*pb.ListenRequest)
	source.Assume(feed.Supported(r.GetNotifications(), d.GetCapabilities(), false))
	if !pass(ctx, p.pace.busy) || source.Acknowledged() != nil {
		return
	}
	l.unacknowledged.Do(func() {
		p.log.Warn().Str("method", bridge.Listen.GRPC).
			Str("fix", "send the event `acknowledged`, with the notifications that will be sent, as soon as "+
				"Listen is called").
			Msg("the backend does not acknowledge Listen; it is assumed to notify of what its Discover declares")
	})
}

// pass waits for d. It reports false if ctx ends before.
func pass(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
