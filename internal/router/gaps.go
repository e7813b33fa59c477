package router

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/feed"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

const (
	// maxGaps is the maximum number of open gaps. Above it, a short list is reported only when another server's list
	// changes.
	maxGaps = 256
	// fillTimeout bounds one request for a missing part. A hanging server may respond to the next one.
	fillTimeout = time.Minute
)

// A gap is a list that was sent without the part of one route, or with the part for callers without capabilities.
type gap struct {
	route    *route
	list     *bridge.Method
	audience bridge.Audience
	session  string
}

// gaps are the open gaps. While there are listeners, the missing parts are requested until they are available; then the
// lists are reported as changed. Without listeners, nothing is requested.
type gaps struct {
	r *Router

	mu        sync.Mutex
	open      map[gap]*bridge.Call                     // the calls that request the missing part
	listeners map[*feed.Pending]*pb.SubscriptionFilter // with their filters
	ctx       context.Context                          //nolint:containedctx // it ends with the last listener
	cancel    context.CancelFunc
	requests  *sync.WaitGroup // the requests with ctx
}

// add records a gap in the list that the caller of call received.
func (g *gaps) add(rt *route, call *bridge.Call) {
	caller := call.Context()
	key := gap{rt, call.Method, bridge.AudienceOf(caller), call.Session}
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, again := g.open[key]; again || len(g.open) >= maxGaps {
		return
	}
	g.open[key] = call.With(call.Method, call.Method.NewRequest(&pb.CallContext{
		ProtocolVersion: caller.GetProtocolVersion(), ClientInfo: caller.GetClientInfo(),
		ClientCapabilities: caller.GetClientCapabilities(), Verified: caller.GetVerified(),
	}))
	if g.ctx != nil {
		g.request(g.ctx, key)
	}
}

// addListener adds a listener, and returns the function that removes it.
func (g *gaps) addListener(changes *feed.Pending, lists *pb.SubscriptionFilter) (leave func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.listeners[changes] = lists
	if g.ctx == nil {
		g.ctx, g.cancel = context.WithCancel(context.Background())
		g.requests = &sync.WaitGroup{}
		for key := range g.open {
			g.request(g.ctx, key)
		}
	}
	return func() {
		g.mu.Lock()
		delete(g.listeners, changes)
		filling := &sync.WaitGroup{}
		if len(g.listeners) == 0 {
			g.cancel()
			g.ctx, filling = nil, g.requests
		}
		g.mu.Unlock()
		filling.Wait()
	}
}

// request requests the missing part until it is available or ctx ends. The caller holds mu.
func (g *gaps) request(ctx context.Context, key gap) {
	call := g.open[key]
	g.requests.Go(func() {
		defer g.r.panics.Recover("completing "+key.list.Name, nil)
		var b feed.Backoff
		for {
			limited, cancel := context.WithTimeout(ctx, fillTimeout)
			_, err := g.r.callOnce(limited, key.route, call)
			cancel()
			if ctx.Err() == nil && (err == nil || !isDown(err)) {
				g.complete(key, err)
				return
			}
			if !b.Wait(ctx) {
				return
			}
		}
	})
}

// complete removes a gap, and reports the list as changed if the route has one.
func (g *gaps) complete(key gap, err error) {
	has := err == nil || bridge.AsError(err).Code != codes.Unimplemented
	if has {
		g.r.recordResponse(key.route, err)
	}
	change := feed.All(feed.ListOf(key.list))[0]
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.open, key)
	for l, lists := range g.listeners {
		if has && feed.Matches(lists, change) {
			l.Add(change)
		}
	}
}
