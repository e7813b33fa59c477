package router

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/feed"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A part is the part of a Listen of the Router for one route.
type part struct {
	r     *Router
	route *route
	call  *bridge.Call // the Listen of the Router
	// filter is the filter for the route, and guessed are its URIs that may belong to another route.
	filter  *pb.SubscriptionFilter
	guessed []string
	source  *feed.Source
}

// listen reports the changes of all routes, and when a route that was missing from a list is back. It acknowledges all
// lists, and what any route acknowledged, once every route has acknowledged or Options.MaxWait has passed. For a route
// that acknowledges later or reconnects, everything is reported as changed.
func (r *Router) listen(ctx context.Context, call *bridge.Call, req *pb.ListenRequest,
	emit bridge.Emit,
) (*bridge.Result, error) {
	want := req.GetNotifications()
	lists := feed.Lists(want)
	s := feed.NewStream(func() *pb.SubscriptionFilter { return want })
	parts := r.parts(ctx, call, want)
	for _, p := range parts {
		p.source = s.Source(p.filter)
	}
	defer r.gaps.addListener(s.Pending, lists)()
	maxWait := time.NewTimer(r.o.MaxWait)
	defer maxWait.Stop()
	return s.Answer(ctx, maxWait.C, emit, func(acked *pb.SubscriptionFilter) *pb.ListenResponse {
		return feed.Acknowledgment(feed.Both(want, feed.Either(lists, acked)))
	}, func(ctx context.Context) (*bridge.Result, error) {
		return nil, r.listenRoutes(ctx, parts, feed.IsEmpty(lists))
	})
}

// listenRoutes listens to routes until ctx ends. If none of them reports changes, and alone is set because nothing else
// does, it returns the error of the last one.
func (r *Router) listenRoutes(ctx context.Context, parts []*part, alone bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	var failed atomic.Int64
	for _, p := range parts {
		wg.Go(func() {
			defer r.panics.Recover(bridge.Listen.Name, func(e *bridge.Error) { cancel(e) }) // the caller listens again
			err := p.listen(ctx)
			switch {
			case ctx.Err() != nil:
			case int(failed.Add(1)) == len(parts) && alone:
				cancel(err)
			default:
				p.source.Acknowledge(nil)
			}
		})
	}
	<-ctx.Done()
	wg.Wait()
	return context.Cause(ctx)
}

// parts returns a part for each route that may report some of the requested changes.
func (r *Router) parts(ctx context.Context, call *bridge.Call, want *pb.SubscriptionFilter) []*part {
	parts := make([]*part, len(r.routes))
	for i, rt := range r.routes {
		parts[i] = &part{r: r, route: rt, call: call, filter: &pb.SubscriptionFilter{}}
		if want != nil {
			parts[i].filter = bridge.ShallowCopy(want)
			parts[i].filter.ResourceSubscriptions = nil
		}
	}
	for _, uri := range want.GetResourceSubscriptions() {
		routes, known := r.findRoutes(ctx, call, uri)
		if known {
			f := parts[routes[0].index].filter
			f.ResourceSubscriptions = append(f.ResourceSubscriptions, uri)
			continue
		}
		for _, p := range parts {
			p.filter.ResourceSubscriptions = append(p.filter.ResourceSubscriptions, uri)
			p.guessed = append(p.guessed, uri)
		}
	}
	return slices.DeleteFunc(parts, func(p *part) bool { return proto.Size(p.filter) == 0 })
}

// listen listens to the route until ctx ends or the route does not support Listen.
func (p *part) listen(ctx context.Context) error {
	filter := p.filter
	return feed.Follow(ctx, func(reset func()) error {
		err := p.callOnce(ctx, filter, reset)
		if len(p.guessed) > 0 && isNotFound(err) && bridge.AsError(err).Code != codes.Unimplemented {
			filter, p.guessed = p.withoutGuessed(), nil
			err = p.callOnce(ctx, filter, reset)
		}
		return err
	}, func(err error, again time.Duration) bool {
		p.r.o.Log.Debug().Err(err).Str("server", p.route.Name).Dur("again_in", again).Msg("the server ended its Listen")
		return err != nil && bridge.AsError(err).Code == codes.Unimplemented
	})
}

// callOnce makes one Listen call to the route.
func (p *part) callOnce(ctx context.Context, filter *pb.SubscriptionFilter, reset func()) error {
	own := bridge.ShallowCopy(p.call.Request.(*pb.ListenRequest)) //nolint:forcetypeassert // it is a Listen
	own.Notifications = filter
	acked := false
	_, err := p.r.callRecovered(ctx, p.route, p.call.With(p.call.Method, own),
		func(_ context.Context, e bridge.Event) error {
			switch ack := e.Change.GetAcknowledged(); {
			case ack == nil && e.Change.GetEvent() != nil:
				p.source.Report(e.Change)
			case ack != nil && !acked:
				acked = true
				reset()
				p.source.Acknowledge(ack.GetNotifications())
			}
			return ctx.Err()
		})
	return err
}

// withoutGuessed returns the filter for the route without the guessed URIs.
func (p *part) withoutGuessed() *pb.SubscriptionFilter {
	filter := bridge.ShallowCopy(p.filter)
	filter.ResourceSubscriptions = slices.DeleteFunc(slices.Clone(p.filter.GetResourceSubscriptions()),
		func(uri string) bool {
			return slices.Contains(p.guessed, uri)
		})
	return filter
}
