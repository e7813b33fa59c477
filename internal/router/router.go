// Package router merges several bridge.Handlers into one: a server with the tools, prompts and resources of all of
// them.
//
// Tools and prompts have public names with the name of their server, NAME_tool, even if they are unique: a name must
// not change when another server is added. Resources keep their URIs. Lists are concatenated. With one route only,
// calls pass through unchanged.
//
// An unavailable route does not affect the others: lists and server/discover are returned without it, with a TTL of 0
// and a warning in the log, and listeners receive list_changed when it is back. Calls to it fail as without a router. A
// route that is starting is not unavailable: lists wait for it.
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

// A Route is one of the servers of a Router.
type Route struct {
	// Name is the prefix of its tools and prompts. It has 1 to 32 letters, digits, '_', '-' and '.', and no name may be
	// the prefix of another one up to a '_'. With one route, any name is allowed.
	Name string
	// Handler is the server.
	Handler bridge.Handler
	// Started waits while the server for clients of an era starts, and returns nil when it responds or is down. It
	// returns an error if ctx ends first. Nil means that the server does not start.
	Started func(ctx context.Context, era bridge.Era) error
}

// Options configure a Router.
type Options struct {
	// Log receives the errors of routes. The zero value logs nothing.
	Log zerolog.Logger
	// Panics counts panics. If nil, those of this package are counted separately.
	Panics *contain.Panics
	// Info describes the Router, if it has several routes. If nil, it describes mcpbridge, with the names and versions
	// of the routes.
	Info *pb.Implementation
	// MaxWait is the time that lists, server/discover and the start of a Listen wait for a route that has started and
	// does not respond. If zero, 5 s is used. After three fifths of it, a list uses the result for callers without
	// capabilities: a legacy server has a connection for them, while the connection of this caller may still be
	// starting.
	MaxWait time.Duration
}

const (
	// downTime is how long calls do not wait for an unresponsive route, and retryWait how long they wait after that: a
	// short time, because the others have responded by then.
	downTime  = time.Second
	retryWait = 500 * time.Millisecond
)

// A Router is a bridge.Handler for several routes.
type Router struct {
	o      Options
	routes []*route
	uris   memory[int]    // the route of a resource
	short  memory[string] // the full name of a shortened one, by shortKey
	warned memory[struct{}]
	search search
	gaps   gaps
	panics *contain.Panics
}

var _ bridge.Handler = (*Router)(nil)

// A route is a Route with its state.
type route struct {
	Route
	index  int
	prefix string

	mu sync.Mutex // guards what follows
	// lastDeclared is the last declaration of the route in each era. It is not modified.
	lastDeclared [bridge.Eras]*pb.DiscoverResponse
	// downErr is the error of an unresponsive route, or nil; until then only one caller waits for it.
	downErr   error
	downUntil time.Time
	// templates are the literal prefixes of its resource templates.
	templates []string
}

var routeName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,32}$`)

// New returns a Router of routes. If several have the same resource, the first one is used.
func New(routes []Route, o Options) (*Router, error) {
	if len(routes) == 0 {
		return nil, errors.New("there are no servers to route to")
	}
	if o.MaxWait == 0 {
		o.MaxWait = 5 * time.Second
	}
	r := &Router{o: o}
	r.gaps = gaps{r: r, open: map[gap]*bridge.Call{}, listeners: map[*feed.Pending]*pb.SubscriptionFilter{}}
	r.panics = o.Panics.With(o.Log)
	for i, one := range routes {
		rt := &route{Route: one, index: i, prefix: one.Name + "_"}
		if len(routes) > 1 && !routeName.MatchString(one.Name) {
			return nil, fmt.Errorf("server %q: with several servers a name must be 1 to 32 letters, digits, '_', "+
				"'-' and '.', because tools are called NAME_tool", one.Name)
		}
		for _, other := range r.routes {
			switch {
			case other.Name == one.Name:
				return nil, fmt.Errorf("two servers are named %q: rename one", one.Name)
			case strings.HasPrefix(other.prefix, rt.prefix) || strings.HasPrefix(rt.prefix, other.prefix):
				return nil, fmt.Errorf("servers %q and %q: tools of both could have the same name; "+
					"rename one", other.Name, one.Name)
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
		return r.callResource(ctx, call, req.GetUri(), emit)
	case *pb.CompleteRequest:
		return r.complete(ctx, call, req, emit)
	case *pb.ListenRequest:
		return r.listen(ctx, call, req, emit)
	}
	return nil, bridge.Errorf(codes.Unimplemented, "there is no %s", call.Method.Name)
}

// A response is the response of a route.
type response struct {
	route  *route
	result proto.Message // of the method's type
	shared bool          // the result is that for callers without capabilities
	err    error
}

// callRoutes sends calls to some routes concurrently, and returns their responses in the same order. It waits for a
// route that is starting, after that for at most Options.MaxWait, and only for a short time for a route that did not
// respond before.
func (r *Router) callRoutes(ctx context.Context, routes []*route, call func(*route) *bridge.Call) []response {
	answers := make([]response, len(routes))
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
			maxWait, err := rt.waitTime(r.o.MaxWait)
			if err != nil {
				answers[i].err = err
				return
			}
			limited, cancel := context.WithTimeout(ctx, maxWait)
			defer cancel()
			answers[i].result, answers[i].shared, answers[i].err = r.callWithFallback(limited, rt, own, maxWait*3/5)
			if ctx.Err() == nil {
				r.recordResponse(rt, answers[i].err)
			}
		})
	}
	wg.Wait()
	return answers
}

// callWithFallback sends a call to a route. If a list takes long, or the caller's own connection is refused or fails,
// the shared result for callers without capabilities is used.
func (r *Router) callWithFallback(ctx context.Context, rt *route, call *bridge.Call,
	long time.Duration,
) (result proto.Message, shared bool, err error) {
	if call.Method == bridge.Discover || proto.Size(call.Context().GetClientCapabilities()) == 0 {
		result, err = r.callOnce(ctx, rt, call)
		return result, false, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	answers := make(chan response, 2)
	wg.Go(func() {
		m, err := r.callOnce(ctx, rt, call)
		answers <- response{result: m, err: err}
	})
	late := time.NewTimer(long)
	defer late.Stop()
	callShared := func() {
		late.Stop()
		wg.Go(func() {
			m, err := r.callOnce(ctx, rt, withoutCapabilities(call))
			answers <- response{result: m, shared: true, err: err}
		})
	}
	for left := 1; left > 0; {
		select {
		case <-late.C:
			left++
			callShared()
		case a := <-answers:
			left--
			switch {
			case a.err == nil:
				return a.result, a.shared, nil
			case !a.shared:
				if err = a.err; left == 0 && isDown(err) && ctx.Err() == nil {
					left++
					callShared()
				}
			case err == nil:
				err = a.err // the caller's own error follows, unless the route hangs
			}
		}
	}
	return nil, false, err
}

// withoutCapabilities returns the call of a caller without capabilities.
func withoutCapabilities(call *bridge.Call) *bridge.Call {
	req := bridge.ShallowCopy(call.Request)
	caller := bridge.ShallowCopy(req.GetContext())
	caller.ClientCapabilities = nil
	m := req.ProtoReflect()
	m.Set(m.Descriptor().Fields().ByName("context"), protoreflect.ValueOfMessage(caller.ProtoReflect()))
	return call.With(call.Method, req)
}

// dropEvents drops the events of a call.
func dropEvents(context.Context, bridge.Event) error { return nil }

// callOnce sends a call without events to a route.
func (r *Router) callOnce(ctx context.Context, rt *route, call *bridge.Call) (proto.Message, error) {
	res, err := r.callRecovered(ctx, rt, call, dropEvents)
	switch {
	case err != nil:
		return nil, err
	case res == nil || res.Complete == nil ||
		res.Complete.ProtoReflect().Descriptor() != call.Method.NewResult().ProtoReflect().Descriptor():
		return nil, bridge.ProtocolViolation(bridge.OutcomeExecuted,
			"server %q, %s: the response is one of another method", rt.Name, call.Method.Name)
	}
	return res.Complete, nil
}

// callRecovered sends a call to a route from a goroutine of the Router, where no front recovers panics.
func (r *Router) callRecovered(ctx context.Context, rt *route, call *bridge.Call,
	emit bridge.Emit,
) (res *bridge.Result, err error) {
	defer r.panics.Recover(call.Method.Name, func(e *bridge.Error) { res, err = nil, e })

	return rt.Handler.Handle(ctx, call, emit)
}

// waitTime returns how long to wait for a route, or its error. After downTime, one caller tries again.
func (rt *route) waitTime(maxWait time.Duration) (time.Duration, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if rt.downErr == nil {
		return maxWait, nil
	}
	now := time.Now()
	if now.Before(rt.downUntil) {
		return 0, rt.downErr
	}
	maxWait = min(maxWait, retryWait)
	rt.downUntil = now.Add(maxWait + downTime)
	return maxWait, nil
}

// downError returns the error of an unresponsive route, or nil if it may be called.
func (rt *route) downError() error {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if time.Now().Before(rt.downUntil) {
		return rt.downErr
	}
	return nil
}

// recordResponse records whether a route has responded.
func (r *Router) recordResponse(rt *route, err error) {
	if err != nil && isOverloaded(err) {
		return
	}
	nowDown := err != nil && isDown(err)
	rt.mu.Lock()
	wasDown := rt.downErr != nil
	rt.downErr = nil
	if nowDown {
		rt.downErr, rt.downUntil = err, time.Now().Add(downTime)
	}
	rt.mu.Unlock()
	switch {
	case nowDown && !wasDown:
		r.o.Log.Warn().Str("server", rt.Name).Err(err).
			Msg("the server does not respond; lists omit its entries")
	case wasDown && !nowDown:
		r.o.Log.Info().Str("server", rt.Name).Msg("the server responds again")
	}
}

// isDown reports whether an error means that the server did not respond.
func isDown(err error) bool {
	e := bridge.AsError(err)
	return e.Code == codes.Unavailable || e.Code == codes.DeadlineExceeded ||
		e.Outcome == bridge.OutcomeNotExecuted
}

// isOverloaded reports whether a call was above a limit, which may be the limit of one caller, and does not mean that
// the server is down.
func isOverloaded(err error) bool {
	return bridge.AsError(err).Reason == bridge.ReasonOverloaded
}

// isNotFound reports whether an error means that a server does not have what was requested. For an unknown resource
// servers return NOT_FOUND, INVALID_ARGUMENT (-32602, which is correct since 2026-07-28), or have no resources at all.
func isNotFound(err error) bool {
	switch bridge.AsError(err).Code {
	case codes.NotFound, codes.InvalidArgument, codes.Unimplemented:
		return true
	}
	return false
}

// warn logs an error in an entry of a server, once.
func (r *Router) warn(rt *route, what, which, why string) {
	const most = 128
	if len(which) > most {
		which = which[:most] + "…"
	}
	key := rt.Name + "\x00" + what + "\x00" + which
	if _, again := r.warned.get(key); again {
		return
	}
	r.warned.put(key, struct{}{})
	r.o.Log.Warn().Str("server", rt.Name).Str("which", which).Str("reason", why).Msg(what)
}
