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
	"github.com/mcpbridge/mcpbridge/internal/limits"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

const (
	// maxTemplates is the maximum number of templates that are stored per route, and maxTemplate the maximum length of
	// one.
	maxTemplates = 1_024
	maxTemplate  = 1_024
	// searchInterval is the minimum interval between searches of the lists for a resource.
	searchInterval = 5 * time.Second
)

// recordOwner records that a route has a resource. If several have it, the first one is recorded.
func (r *Router) recordOwner(rt *route, uri string) {
	if i, ok := r.uris.get(uri); !ok || rt.index < i {
		r.uris.put(uri, rt.index)
	}
}

// recordTemplate records a template of a route by its literal prefix, which differs between nearly all templates. It
// affects only the order in which the routes are called.
func (rt *route) recordTemplate(template string) {
	start, _, _ := strings.Cut(template, "{")
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if start != "" && len(start) <= maxTemplate && len(rt.templates) < maxTemplates &&
		!slices.Contains(rt.templates, start) {
		rt.templates = append(rt.templates, start)
	}
}

// matchLength returns the length of the longest prefix of a template of the route that matches a URI.
func (rt *route) matchLength(uri string) int {
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

// candidates returns the routes in the order in which they are called for a resource, and whether the first is known to
// have it: the one that listed it or has read it; then those with a matching template, the longest prefix first; then
// the others.
func (r *Router) candidates(uri string) (routes []*route, known bool) {
	routes = slices.Clone(r.routes)
	fits := make([]int, len(routes))
	for i, rt := range routes {
		fits[i] = rt.matchLength(uri)
		known = known || fits[i] > 0
	}
	if i, ok := r.uris.get(uri); ok {
		fits[i], known = maxTemplate+1, true
	}
	slices.SortStableFunc(routes, func(a, b *route) int { return cmp.Compare(fits[b.index], fits[a.index]) })
	return routes, known
}

// findRoutes is like holders, but searches the lists of the routes if it is unknown which one has the resource.
func (r *Router) findRoutes(ctx context.Context, call *bridge.Call, uri string) (routes []*route, known bool) {
	if routes, known = r.candidates(uri); known {
		return routes, known
	}
	r.searchLists(ctx, call)
	return r.candidates(uri)
}

// A search is a search of the lists of all routes.
type search struct {
	mu    sync.Mutex
	done  chan struct{} // nil if no search is in progress
	after time.Time     // the earliest time of the next search
}

// searchLists searches the lists of all routes, at a limited rate. Concurrent callers wait for the same search.
func (r *Router) searchLists(ctx context.Context, call *bridge.Call) {
	s := &r.search
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
		s.done, s.after = nil, time.Now().Add(searchInterval)
	}()
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, list := range []*bridge.Method{bridge.ListResources, bridge.ListResourceTemplates} {
		wg.Go(func() {
			defer r.panics.Recover(list.Name, nil)
			r.searchList(ctx, call, list)
		})
	}
}

// searchList searches one kind of lists. The list method itself records the entries.
func (r *Router) searchList(ctx context.Context, call *bridge.Call, list *bridge.Method) {
	req := list.NewRequest(call.Context())
	for range limits.SearchPages {
		res, err := r.list(ctx, call.With(list, req))
		if err != nil {
			return // without the list, the routes are called one after the other
		}
		next := *bridge.PageOf(res.Complete).NextCursor
		if next == nil {
			return
		}
		req = bridge.ShallowCopy(req)
		*bridge.Cursor(req) = next
	}
}

// callResource executes a call with a resource: on the route that has it, or else on the first that does not report it
// as unknown. An unavailable route is skipped, because another one may have the resource; if none does, its error is
// returned.
func (r *Router) callResource(ctx context.Context, call *bridge.Call, uri string,
	emit bridge.Emit,
) (*bridge.Result, error) {
	routes, known := r.findRoutes(ctx, call, uri)
	if !known && bridge.IsRetry(call.Request) {
		// Responses and state are for one route only, and it is unknown for which: the call starts again.
		call = call.Retry(nil, nil)
	}
	var downErr, notFoundErr error
	for i, rt := range routes {
		if i > 0 && known && bridge.IsRetry(call.Request) {
			break // another route must not see what one route received
		}
		if err := rt.downError(); err != nil && !known {
			downErr = cmp.Or(downErr, err)
			continue
		}
		res, err := rt.Handler.Handle(ctx, call, emit)
		switch {
		case err == nil:
			if uri != "" { // a reference of unknown type has no URI
				r.uris.put(uri, rt.index)
			}
			return res, nil
		case ctx.Err() != nil || known && i == 0 && !isNotFound(err):
			return nil, err
		case isNotFound(err):
			if notFoundErr == nil || !known && bridge.AsError(notFoundErr).Code != codes.NotFound &&
				bridge.AsError(err).Code == codes.NotFound {
				notFoundErr = err
			}
		case bridge.AsError(err).Outcome == bridge.OutcomeNotExecuted:
			downErr = cmp.Or(downErr, err)
		default:
			return nil, err
		}
	}
	if downErr != nil {
		return nil, downErr
	}
	return nil, notFoundErr
}

// complete executes a completion on the route of its prompt or resource template.
func (r *Router) complete(ctx context.Context, call *bridge.Call, req *pb.CompleteRequest,
	emit bridge.Emit,
) (*bridge.Result, error) {
	prompt := req.GetReference().GetPrompt()
	if prompt == nil {
		return r.callResource(ctx, call, req.GetReference().GetResource().GetUri(), emit)
	}
	rt, name, err := r.resolve(ctx, call, bridge.ListPrompts, "prompt", prompt.GetName())
	if err != nil {
		return nil, err
	}
	prompt = bridge.ShallowCopy(prompt)
	prompt.Name = name
	ref := bridge.ShallowCopy(req.GetReference())
	ref.Reference = &pb.CompletionReference_Prompt{Prompt: prompt}
	named := bridge.ShallowCopy(req)
	named.Reference = ref
	return rt.Handler.Handle(ctx, call.With(call.Method, named), emit)
}
