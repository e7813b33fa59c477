package router

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// How long it takes until a route that ended a Listen is asked again.
const (
	relistenMin = 100 * time.Millisecond
	relistenMax = 10 * time.Second
)

// An ear is what one Listen of the Router hears of one route.
type ear struct {
	r     *Router
	route *route
	// want is what is asked of the route. It does not change.
	want *pb.SubscriptionFilter
	// guessed are the URIs of want of which it is not known whether they are the route's.
	guessed []string
	heard   chan<- sound
	begun   <-chan struct{} // closed when the caller has been told what it will be told
}

// A sound is something that an ear hears. Exactly one field is set besides ear.
type sound struct {
	ear    *ear
	acked  *pb.SubscriptionFilter // what the route will tell from now on
	change *pb.ListenResponse
	deaf   error // the route never tells changes
}

// listen reports what changes in any route, and when a route that was missing from a list is back. It acknowledges what any of the routes
// does, and all lists, once all routes have acknowledged or have not for as long as the Router has patience. Of a route that comes later,
// or comes back, everything is reported to have changed: nobody knows what has.
func (r *Router) listen(ctx context.Context, call *bridge.Call, req *pb.ListenRequest, emit bridge.Emit) (*bridge.Result, error) {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	heard, begun := make(chan sound), make(chan struct{})
	lists := listsOf(req.GetNotifications())
	late := bridge.NewPending(bridge.MaxPending, bridge.MaxPendingSize, func() *pb.SubscriptionFilter { return lists })
	defer r.gaps.join(late)()
	filled := late.Ready()
	if len(bridge.ChangesOf(lists)) == 0 {
		filled = nil
	}
	ears := r.ears(ctx, call, req, heard, begun)
	for _, e := range ears {
		wg.Go(func() {
			defer r.panics.Recover(bridge.Listen.Name, func(*bridge.Error) { cancel() }) // who listens begins again
			e.listen(ctx, call, req)
		})
	}

	acked := map[*ear]*pb.SubscriptionFilter{}
	deaf, started := 0, false
	patience := time.NewTimer(r.o.Patience)
	defer patience.Stop()
	enough := patience.C
	for {
		if !started && (len(acked) == len(ears) || enough == nil) {
			started = true
			ack := &pb.SubscriptionsAcknowledged{Notifications: together(req.GetNotifications(), ears, acked)}
			if err := emit(ctx, bridge.Event{Change: &pb.ListenResponse{Event: &pb.ListenResponse_Acknowledged{Acknowledged: ack}}}); err != nil {
				return nil, err
			}
			close(begun)
		}
		var tell []*pb.ListenResponse
		select {
		case s := <-heard:
			switch {
			case s.change != nil:
				tell = []*pb.ListenResponse{s.change}
			case s.acked != nil:
				if started {
					tell = bridge.ChangesOf(s.acked)
				}
				acked[s.ear] = s.acked
			default:
				acked[s.ear] = &pb.SubscriptionFilter{}
				if deaf++; deaf == len(ears) && filled == nil {
					return nil, s.deaf
				}
			}
		case <-enough:
			enough = nil
		case <-ifStarted(started, filled):
			tell = late.Take()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		for _, change := range tell {
			if err := emit(ctx, bridge.Event{Change: change}); err != nil {
				return nil, err
			}
		}
	}
}

// ears returns an ear for each route that may tell something of what is asked for.
func (r *Router) ears(ctx context.Context, call *bridge.Call, req *pb.ListenRequest, heard chan<- sound, begun <-chan struct{}) []*ear {
	ears := make([]*ear, len(r.routes))
	for i, rt := range r.routes {
		ears[i] = &ear{r: r, route: rt, want: &pb.SubscriptionFilter{}, heard: heard, begun: begun}
		if f := req.GetNotifications(); f != nil {
			ears[i].want = bridge.ShallowCopy(f)
			ears[i].want.ResourceSubscriptions = nil
		}
	}
	for _, uri := range req.GetNotifications().GetResourceSubscriptions() {
		routes, known := r.find(ctx, call, uri)
		if known {
			f := ears[routes[0].index].want
			f.ResourceSubscriptions = append(f.ResourceSubscriptions, uri)
			continue
		}
		for _, e := range ears {
			e.want.ResourceSubscriptions = append(e.want.ResourceSubscriptions, uri)
			e.guessed = append(e.guessed, uri)
		}
	}
	return slices.DeleteFunc(ears, func(e *ear) bool { return proto.Size(e.want) == 0 })
}

// ifStarted returns a channel to receive from once a Listen has been acknowledged, and one that blocks before.
func ifStarted(started bool, c <-chan struct{}) <-chan struct{} {
	if !started {
		return nil
	}
	return c
}

// listsOf returns the lists that a filter names.
func listsOf(f *pb.SubscriptionFilter) *pb.SubscriptionFilter {
	if f == nil {
		return &pb.SubscriptionFilter{}
	}
	return &pb.SubscriptionFilter{
		ToolsListChanged: f.ToolsListChanged, PromptsListChanged: f.PromptsListChanged, ResourcesListChanged: f.ResourcesListChanged,
	}
}

// together returns what of the wanted changes is reported: all lists, what routes have acknowledged, and all that was requested of those
// that have not yet.
func together(want *pb.SubscriptionFilter, ears []*ear, acked map[*ear]*pb.SubscriptionFilter) *pb.SubscriptionFilter {
	out := listsOf(want)
	uris := map[string]bool{}
	for _, e := range ears {
		f, ok := acked[e]
		if !ok {
			f = e.want
		}
		either(&out.ElicitationsCompleted, f.ElicitationsCompleted)
		for _, uri := range f.GetResourceSubscriptions() {
			uris[uri] = true
		}
	}
	for _, uri := range want.GetResourceSubscriptions() {
		if uris[uri] {
			out.ResourceSubscriptions = append(out.ResourceSubscriptions, uri)
		}
	}
	return out
}

// listen listens to the route until ctx ends or the route says that it does not tell changes, again and again.
func (e *ear) listen(ctx context.Context, call *bridge.Call, req *pb.ListenRequest) {
	pause := relistenMin
	filter := e.want
	for {
		own := bridge.ShallowCopy(req)
		own.Notifications = filter
		acked := false
		_, err := e.r.safely(ctx, e.route, call.With(call.Method, own), func(_ context.Context, ev bridge.Event) error {
			switch ack := ev.Change.GetAcknowledged(); {
			case ev.Change.GetEvent() == nil || acked && ack != nil:
				return nil
			case ack != nil:
				pause, acked = relistenMin, true
				f := ack.GetNotifications()
				if f == nil {
					f = &pb.SubscriptionFilter{}
				}
				return e.say(ctx, sound{acked: f})
			}
			select {
			case <-e.begun:
			case <-ctx.Done():
			}
			return e.say(ctx, sound{change: ev.Change})
		})
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			switch {
			case bridge.AsError(err).Code == codes.Unimplemented:
				_ = e.say(ctx, sound{deaf: err}) // it is the last word, whether anybody hears it or not
				return
			case hasNone(err) && len(e.guessed) > 0:
				filter = e.certain()
				e.guessed = nil
				continue
			}
		}
		e.r.o.Log.Debug().Err(err).Str("server", e.route.Name).Dur("again_in", pause).Msg("the server ended its Listen")
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		pause = min(2*pause, relistenMax)
	}
}

// say passes on what the ear hears. It fails when nobody wants to know any more.
func (e *ear) say(ctx context.Context, s sound) error {
	s.ear = e
	select {
	case e.heard <- s:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// certain returns what is asked of the route without what was guessed.
func (e *ear) certain() *pb.SubscriptionFilter {
	filter := bridge.ShallowCopy(e.want)
	filter.ResourceSubscriptions = slices.DeleteFunc(slices.Clone(e.want.GetResourceSubscriptions()), func(uri string) bool {
		return slices.Contains(e.guessed, uri)
	})
	return filter
}
