// Package router makes one bridge.Handler of several: a server that has what all of them have.
//
// Tools and prompts get names that say whose they are, NAME_tool, whether they clash or not: a name must not change because
// another server is added. Resources keep their URIs. The answers to lists are the others' one after the other. With one
// route only, the Router is that route, and nothing is changed.
//
// A route that is down does not take the others down: lists and server/discover are answered without it, with a ttl of 0 and a warning in
// the log, and who listens receives list_changed when it is back. Calls of what it has fail as they would without a router. A route that
// starts is not down: lists wait for it.
package router

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/contain"
	"github.com/mcpbridge/mcpbridge/internal/feed"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A Route is one of the servers that a Router is made of.
type Route struct {
	// Name is what its tools and prompts begin with. It is 1 to 32 letters, digits, '_', '-' and '.', and none of the names may
	// be the beginning of another one up to a '_'. With one route only it may be anything.
	Name string
	// Handler answers what is meant for it.
	Handler bridge.Handler
	// Started waits while what serves clients of an era starts, and returns nil when it answers or is down. It returns
	// an error if ctx ends before. Nil: the server does not start.
	Started func(ctx context.Context, era bridge.Era) error
}

// Options are what a Router can be told.
type Options struct {
	// Log gets what is wrong with the routes. The zero value logs nothing.
	Log zerolog.Logger
	// Panics counts the panics of the whole process. If nil, those of this package are counted alone.
	Panics *contain.Panics
	// Info is what the Router says it is, if it has several routes. Nil: mcpbridge, with the names and versions of the
	// routes.
	Info *pb.Implementation
	// Patience is how long lists, server/discover and the beginning of a Listen wait for a route that has started and does not answer. If zero,
	// 5 s is used. After three fifths of it, a list takes what callers without capabilities get: a server of the legacy era has a connection
	// for them, while that of this caller may have yet to be made.
	Patience time.Duration
}

const (
	// absentFor is how long a route that did not answer is not waited for again, and retryFor how long it is waited for then: there
	// is little hope, and somebody waits for what the others have.
	absentFor = time.Second
	retryFor  = 500 * time.Millisecond
)

// A Router implements bridge.Handler on top of its routes.
type Router struct {
	o      Options
	routes []*route
	uris   memory[int]    // the route that has a resource
	short  memory[string] // the name that a shortened one stands for, by shortKey
	said   memory[struct{}]
	seek   seeking
	gaps   gaps
	panics *contain.Panics
}

var _ bridge.Handler = (*Router)(nil)

// A route is a Route, and what is known of it.
type route struct {
	Route
	index  int
	prefix string

	mu sync.Mutex // guards what follows
	// known is what the route declared last, in each era. It is not changed.
	known [bridge.Eras]*pb.DiscoverResponse
	// absent is why it does not answer, nil if it does; until then nobody but one caller waits for it.
	absent error
	until  time.Time
	// templates are the beginnings of the URIs of its resource templates, up to the first variable.
	templates []string
}

var goodName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,32}$`)

// New returns a Router of routes, in that order: where two have the same resource, the first is asked.
func New(routes []Route, o Options) (*Router, error) {
	if len(routes) == 0 {
		return nil, errors.New("there are no servers to route to")
	}
	if o.Patience == 0 {
		o.Patience = 5 * time.Second
	}
	r := &Router{o: o}
	r.gaps = gaps{r: r, open: map[gap]*bridge.Call{}, listeners: map[*feed.Pending]*pb.SubscriptionFilter{}}
	r.panics = o.Panics.With(o.Log)
	for i, one := range routes {
		rt := &route{Route: one, index: i, prefix: one.Name + "_"}
		if len(routes) > 1 && !goodName.MatchString(one.Name) {
			return nil, fmt.Errorf("server %q: with several servers a name must be 1 to 32 letters, digits, '_', '-' and '.', because tools are called NAME_tool", one.Name)
		}
		for _, other := range r.routes {
			switch {
			case other.Name == one.Name:
				return nil, fmt.Errorf("two servers are called %q: rename one", one.Name)
			case strings.HasPrefix(other.prefix, rt.prefix) || strings.HasPrefix(rt.prefix, other.prefix):
				return nil, fmt.Errorf("servers %q and %q: a tool of the one could be called like a tool of the other; rename one", other.Name, one.Name)
			}
		}
		r.routes = append(r.routes, rt)
	}
	return r, nil
}

// Handle implements bridge.Handler.
func (r *Router) Handle(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
	if len(r.routes) == 1 {
		return r.routes[0].Handler.Handle(ctx, call, emit)
	}

	switch req := call.Request.(type) {
	case *pb.DiscoverRequest:
		return r.discover(ctx, call)
	case *pb.ListToolsRequest, *pb.ListPromptsRequest, *pb.ListResourcesRequest, *pb.ListResourceTemplatesRequest:
		return r.list(ctx, call)
	case *pb.CallToolRequest:
		rt, name, err := r.resolve(ctx, call, bridge.ListTools, "tool", req.GetName())
		if err != nil {
			return nil, err
		}
		named := bridge.ShallowCopy(req)
		named.Name = name
		return rt.Handler.Handle(ctx, call.With(call.Method, named), emit)
	case *pb.GetPromptRequest:
		rt, name, err := r.resolve(ctx, call, bridge.ListPrompts, "prompt", req.GetName())
		if err != nil {
			return nil, err
		}
		named := bridge.ShallowCopy(req)
		named.Name = name
		return rt.Handler.Handle(ctx, call.With(call.Method, named), emit)
	case *pb.ReadResourceRequest:
		return r.about(ctx, call, req.GetUri(), emit)
	case *pb.CompleteRequest:
		return r.complete(ctx, call, req, emit)
	case *pb.ListenRequest:
		return r.listen(ctx, call, req, emit)
	}
	return nil, bridge.Errorf(codes.Unimplemented, "there is no %s", call.Method.Name)
}

// An answer is what a route says to a call.
type answer struct {
	route  *route
	result proto.Message // of the method's type
	shared bool          // the result is that of callers without capabilities
	err    error
}

// ask has some routes answer a call each, at the same time, and returns what they say, in their order. It waits for one that starts as
// long as that takes, for none longer than the Router has patience after that, and for one that has not answered before much shorter.
func (r *Router) ask(ctx context.Context, routes []*route, call func(*route) *bridge.Call) []answer {
	answers := make([]answer, len(routes))
	var wg sync.WaitGroup
	for i, rt := range routes {
		answers[i].route = rt
		wg.Go(func() {
			defer r.panics.Recover("asking "+rt.Name, func(e *bridge.Error) { answers[i].err = e })
			own := call(rt)
			if rt.Started != nil && rt.Started(ctx, own.Era()) != nil {
				answers[i].err = ctx.Err()
				return
			}
			patience, err := rt.awaited(r.o.Patience)
			if err != nil {
				answers[i].err = err
				return
			}
			limited, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			answers[i].result, answers[i].shared, answers[i].err = r.answer(limited, rt, own, patience*3/5)
			if ctx.Err() == nil {
				r.noteAnswer(rt, answers[i].err)
			}
		})
	}
	wg.Wait()
	return answers
}

// answer has a route answer a call. If that is for a list and takes long, or the caller's own connection is refused or fails, the answer is
// that for callers without capabilities, which is shared.
func (r *Router) answer(ctx context.Context, rt *route, call *bridge.Call, long time.Duration) (result proto.Message, shared bool, err error) {
	if call.Method == bridge.Discover || proto.Size(call.Context().GetClientCapabilities()) == 0 {
		result, err = r.once(ctx, rt, call)
		return result, false, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	answers := make(chan answer, 2)
	wg.Go(func() {
		m, err := r.once(ctx, rt, call)
		answers <- answer{result: m, err: err}
	})
	late := time.NewTimer(long)
	defer late.Stop()
	share := func() {
		late.Stop()
		wg.Go(func() {
			m, err := r.once(ctx, rt, withoutCapabilities(call))
			answers <- answer{result: m, shared: true, err: err}
		})
	}
	for left := 1; left > 0; {
		select {
		case <-late.C:
			left++
			share()
		case a := <-answers:
			left--
			switch {
			case a.err == nil:
				return a.result, a.shared, nil
			case !a.shared:
				if err = a.err; left == 0 && down(err) && ctx.Err() == nil {
					left++
					share()
				}
			case err == nil:
				err = a.err // the caller's own follows, unless the route hangs
			}
		}
	}
	return nil, false, err
}

// withoutCapabilities returns a call by a caller that can do nothing.
func withoutCapabilities(call *bridge.Call) *bridge.Call {
	req := bridge.ShallowCopy(call.Request)
	caller := bridge.ShallowCopy(req.GetContext())
	caller.ClientCapabilities = nil
	m := req.ProtoReflect()
	m.Set(m.Descriptor().Fields().ByName("context"), protoreflect.ValueOfMessage(caller.ProtoReflect()))
	return call.With(call.Method, req)
}

// nobody hears the events of a call that has none.
func nobody(context.Context, bridge.Event) error { return nil }

// once has a route answer a call that has no events.
func (r *Router) once(ctx context.Context, rt *route, call *bridge.Call) (proto.Message, error) {
	res, err := r.safely(ctx, rt, call, nobody)
	switch {
	case err != nil:
		return nil, err
	case res == nil || res.Complete == nil || res.Complete.ProtoReflect().Descriptor() != call.Method.NewResult().ProtoReflect().Descriptor():
		return nil, bridge.ProtocolViolation(pb.CallFailure_OUTCOME_EXECUTED, "server %q, %s: the answer is not one of this method", rt.Name, call.Method.Name)
	}
	return res.Complete, nil
}

// safely has a route answer a call in a goroutine of ours, where a bug would end the bridge: no front is around it.
func (r *Router) safely(ctx context.Context, rt *route, call *bridge.Call, emit bridge.Emit) (res *bridge.Result, err error) {
	defer r.panics.Recover(call.Method.Name, func(e *bridge.Error) { res, err = nil, e })

	return rt.Handler.Handle(ctx, call, emit)
}

// awaited returns for how long a route is to be waited for, or why not at all. Of those who ask when it is time to try again, one
// tries.
func (rt *route) awaited(patience time.Duration) (time.Duration, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if rt.absent == nil {
		return patience, nil
	}
	now := time.Now()
	if now.Before(rt.until) {
		return 0, rt.absent
	}
	patience = min(patience, retryFor)
	rt.until = now.Add(patience + absentFor)
	return patience, nil
}

// missing returns why a route does not answer, nil if it did when it was asked last, or may be asked again.
func (rt *route) missing() error {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if time.Now().Before(rt.until) {
		return rt.absent
	}
	return nil
}

// noteAnswer notes whether a route has answered.
func (r *Router) noteAnswer(rt *route, err error) {
	if err != nil && refused(err) {
		return
	}
	gone := err != nil && down(err)
	rt.mu.Lock()
	was := rt.absent != nil
	rt.absent = nil
	if gone {
		rt.absent, rt.until = err, time.Now().Add(absentFor)
	}
	rt.mu.Unlock()
	switch {
	case gone && !was:
		r.o.Log.Warn().Str("server", rt.Name).Err(err).Msg("the server does not answer: lists go on without what it has")
	case was && !gone:
		r.o.Log.Info().Str("server", rt.Name).Msg("the server answers again")
	}
}

// down reports whether an error is that of a server that does not answer, and not what it answers.
func down(err error) bool {
	e := bridge.AsError(err)
	return e.Code == codes.Unavailable || e.Code == codes.DeadlineExceeded || e.Failure.GetOutcome() == pb.CallFailure_OUTCOME_NOT_EXECUTED
}

// refused reports whether a call is one too many. That may be so for its caller alone, and says nothing of the server.
func refused(err error) bool {
	return bridge.AsError(err).Failure.GetReason() == bridge.ReasonOverloaded
}

// hasNone reports whether an error says that a server does not have what it was asked for. Servers say of a resource that it does
// not exist by NOT_FOUND, by INVALID_ARGUMENT (-32602, which is right since 2026-07-28), or have no resources at all.
func hasNone(err error) bool {
	switch bridge.AsError(err).Code {
	case codes.NotFound, codes.InvalidArgument, codes.Unimplemented:
		return true
	}
	return false
}

// warn logs what is wrong with something that a server has, once.
func (r *Router) warn(rt *route, what, which, why string) {
	const most = 128
	if len(which) > most {
		which = which[:most] + "…"
	}
	key := rt.Name + "\x00" + what + "\x00" + which
	if _, again := r.said.get(key); again {
		return
	}
	r.said.put(key, struct{}{})
	r.o.Log.Warn().Str("server", rt.Name).Str("which", which).Str("reason", why).Msg(what)
}
