package router

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

const (
	// maxTemplates is how many templates of a route are remembered, and maxTemplate how long one may be.
	maxTemplates = 1_024
	maxTemplate  = 1_024
	// seekAgain is how long resources are not looked for in lists again after one was not found there.
	seekAgain = 5 * time.Second
)

// own remembers that a route has a resource. If several do, it is the first of them.
func (r *Router) own(rt *route, uri string) {
	if i, ok := r.uris.get(uri); !ok || rt.index < i {
		r.uris.put(uri, rt.index)
	}
}

// learn remembers a template of a route: the beginning of it, which is where nearly all templates differ. It decides who is asked
// first, not who has a resource.
func (rt *route) learn(template string) {
	start, _, _ := strings.Cut(template, "{")
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if start != "" && len(start) <= maxTemplate && len(rt.templates) < maxTemplates && !slices.Contains(rt.templates, start) {
		rt.templates = append(rt.templates, start)
	}
}

// fits returns how much of a URI is the beginning of a template of the route.
func (rt *route) fits(uri string) int {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	most := 0
	for _, start := range rt.templates {
		if len(start) > most && strings.HasPrefix(uri, start) {
			most = len(start)
		}
	}
	return most
}

// holders returns the routes in the order in which they are asked for a resource, and whether the first is known to have it: who
// listed it or has answered for it; then those with a template that begins like it, the longest beginning first; then the
// others.
func (r *Router) holders(uri string) (routes []*route, known bool) {
	routes = slices.Clone(r.routes)
	fits := make([]int, len(routes))
	for i, rt := range routes {
		fits[i] = rt.fits(uri)
		known = known || fits[i] > 0
	}
	if i, ok := r.uris.get(uri); ok {
		fits[i], known = maxTemplate+1, true
	}
	slices.SortStableFunc(routes, func(a, b *route) int { return cmp.Compare(fits[b.index], fits[a.index]) })
	return routes, known
}

// find returns what holders does, and looks into the lists of the routes before if it is not known who has the resource.
func (r *Router) find(ctx context.Context, call *bridge.Call, uri string) (routes []*route, known bool) {
	if routes, known = r.holders(uri); known {
		return routes, known
	}
	r.look(ctx, call)
	return r.holders(uri)
}

// A seeking is somebody's look into the lists of all routes.
type seeking struct {
	mu    sync.Mutex
	done  chan struct{} // nil if nobody looks
	after time.Time     // when it may be done again
}

// look looks into the lists of all routes, unless that was done a moment ago. Who comes while somebody else looks, waits.
func (r *Router) look(ctx context.Context, call *bridge.Call) {
	s := &r.seek
	s.mu.Lock()
	done := s.done
	switch {
	case done != nil:
		s.mu.Unlock()
		select {
		case <-done:
		case <-ctx.Done():
		}
		return
	case time.Now().Before(s.after):
		s.mu.Unlock()
		return
	}
	s.done = make(chan struct{})
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		close(s.done)
		s.done, s.after = nil, time.Now().Add(seekAgain)
	}()
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, list := range []*bridge.Method{bridge.ListResources, bridge.ListResourceTemplates} {
		wg.Go(func() {
			defer r.panics.Recover(list.Name, nil)
			r.lookInto(ctx, call, list)
		})
	}
}

// lookInto looks into one kind of lists. What they say is remembered by list itself.
func (r *Router) lookInto(ctx context.Context, call *bridge.Call, list *bridge.Method) {
	req := list.NewRequest(call.Context())
	for range maxFindPages {
		res, err := r.list(ctx, call.With(list, req))
		if err != nil {
			return // what is missing is missing; routes are asked one after the other then
		}
		next := *bridge.PageOf(res.Complete).NextCursor
		if next == nil {
			return
		}
		req = bridge.ShallowCopy(req)
		*bridge.Cursor(req) = next
	}
}

// about answers a call that is about a resource: by the route that has it, or else by the first that does not say that there is no
// such thing. A route that is down is passed over, because another one may have it; if none does, that is the error.
func (r *Router) about(ctx context.Context, call *bridge.Call, uri string, emit bridge.Emit) (*bridge.Result, error) {
	routes, known := r.find(ctx, call, uri)
	if !known && bridge.IsRetry(call.Request) {
		// Answers and state are for one route only, and it is not known for which: the call begins again.
		call = call.Retry(nil, nil)
	}
	var absent, none error
	for i, rt := range routes {
		if i > 0 && known && bridge.IsRetry(call.Request) {
			break // what was given to one route is not shown to another
		}
		if err := rt.missing(); err != nil && !known {
			absent = cmp.Or(absent, err)
			continue
		}
		res, err := rt.Handler.Handle(ctx, call, emit)
		switch {
		case err == nil:
			if uri != "" { // a reference of unknown type has none
				r.uris.put(uri, rt.index)
			}
			return res, nil
		case ctx.Err() != nil || known && i == 0 && !hasNone(err):
			return nil, err
		case hasNone(err):
			if none == nil || !known && bridge.AsError(none).Code != codes.NotFound && bridge.AsError(err).Code == codes.NotFound {
				none = err
			}
		case bridge.AsError(err).Failure.GetOutcome() == pb.CallFailure_OUTCOME_NOT_EXECUTED:
			absent = cmp.Or(absent, err)
		default:
			return nil, err
		}
	}
	if absent != nil {
		return nil, absent
	}
	return nil, none
}

// complete has an argument completed by the route that has what it is an argument of.
func (r *Router) complete(ctx context.Context, call *bridge.Call, req *pb.CompleteRequest, emit bridge.Emit) (*bridge.Result, error) {
	prompt := req.GetRef().GetPrompt()
	if prompt == nil {
		return r.about(ctx, call, req.GetRef().GetResource().GetUri(), emit)
	}
	rt, name, err := r.resolve(ctx, call, bridge.ListPrompts, "prompt", prompt.GetName())
	if err != nil {
		return nil, err
	}
	prompt = bridge.ShallowCopy(prompt)
	prompt.Name = name
	ref := bridge.ShallowCopy(req.GetRef())
	ref.Reference = &pb.CompletionReference_Prompt{Prompt: prompt}
	named := bridge.ShallowCopy(req)
	named.Ref = ref
	return rt.Handler.Handle(ctx, call.With(call.Method, named), emit)
}
