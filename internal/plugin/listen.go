package plugin

import (
	"context"
	"sync"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/feed"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// An acknowledger ensures that a Listen is acknowledged, because subscribers wait for it. If the backend does not do so
// soon, the capabilities of its Discover response apply; if it does so later, all may have changed in between.
type acknowledger struct {
	p    *Plugin
	call *bridge.Call
	next bridge.Emit

	mu      sync.Mutex // held while next is called
	acked   bool       // by the backend
	assumed bool       // by the bridge
}

// acknowledge returns the Emit to use for a Listen in place of emit, and the function to call at its end.
func (p *Plugin) acknowledge(ctx context.Context, l *instance, call *bridge.Call,
	emit bridge.Emit,
) (bridge.Emit, func()) {
	a := &acknowledger{p: p, call: call, next: emit}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer p.panics.Recover("acknowledging a Listen", nil)
		a.wait(ctx, l)
	})
	return a.emit, func() {
		cancel()
		wg.Wait()
	}
}

// wait acknowledges in place of a backend that has not done so, and later warns if it still has not.
func (a *acknowledger) wait(ctx context.Context, l *instance) {
	if !sleep(ctx, a.p.intervals.acknowledge) {
		return
	}
	res, err := a.p.Handle(ctx, a.call.With(bridge.Discover, &pb.DiscoverRequest{Context: a.call.Context()}), nil)
	if err != nil {
		return // the Listen fails too, or is acknowledged when the backend responds again
	}
	d, _ := res.Complete.(*pb.DiscoverResponse)
	a.mu.Lock()
	if !a.acked {
		a.assumed = true
		// its error ends the Listen with its next event
		_ = a.next(ctx, bridge.Event{
			Change: feed.Acknowledgment(feed.Supported(a.filter(), d.GetCapabilities(), false)),
		})
	}
	a.mu.Unlock()
	if !sleep(ctx, a.p.intervals.busy) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.acked {
		l.warnUnacknowledged.Do(func() {
			a.p.log.Warn().Str("method", bridge.Listen.GRPC).
				Str("fix", "send the event `acknowledged`, with the notifications that will be sent, as soon as "+
					"Listen is called").
				Msg("the backend does not acknowledge Listen; it is assumed to notify of what its Discover declares")
		})
	}
}

func (a *acknowledger) filter() *pb.SubscriptionFilter {
	r, _ := a.call.Request.(*pb.ListenRequest)
	return r.GetNotifications()
}

func (a *acknowledger) emit(ctx context.Context, e bridge.Event) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	ack := e.Change.GetAcknowledged()
	if ack == nil {
		return a.next(ctx, e)
	}
	late := a.assumed && !a.acked
	a.acked = true
	if !late {
		return a.next(ctx, e)
	}
	for _, change := range feed.All(ack.GetNotifications()) {
		if err := a.next(ctx, bridge.Event{Change: change}); err != nil {
			return err
		}
	}
	return nil
}

// sleep waits for d. It returns false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
