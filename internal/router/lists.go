package router

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// maxCursor is how long a cursor of a route may be. Ours are a third longer, and its name.
const maxCursor = 8 << 10

// A page is a page of a list. Only one of the lists has anything in it.
type page struct {
	tools     []*pb.Tool
	prompts   []*pb.Prompt
	resources []*pb.Resource
	templates []*pb.ResourceTemplate
	next      *string
	ttl       *int64
	scope     *pb.CacheScope
	meta      []byte
	extra     []byte
}

// openPage returns the page that a message is.
func openPage(m proto.Message) page {
	switch m := m.(type) {
	case *pb.ListToolsResponse:
		return page{tools: m.GetTools(), next: m.NextCursor, ttl: m.TtlMs, scope: m.CacheScope, meta: m.GetMeta(), extra: m.GetExtra()}
	case *pb.ListPromptsResponse:
		return page{prompts: m.GetPrompts(), next: m.NextCursor, ttl: m.TtlMs, scope: m.CacheScope, meta: m.GetMeta(), extra: m.GetExtra()}
	case *pb.ListResourcesResponse:
		return page{resources: m.GetResources(), next: m.NextCursor, ttl: m.TtlMs, scope: m.CacheScope, meta: m.GetMeta(), extra: m.GetExtra()}
	case *pb.ListResourceTemplatesResponse:
		return page{templates: m.GetResourceTemplates(), next: m.NextCursor, ttl: m.TtlMs, scope: m.CacheScope, meta: m.GetMeta(), extra: m.GetExtra()}
	}
	return page{}
}

// message returns the message that a page of the list is.
func (p *page) message(list *bridge.Method) proto.Message {
	switch list {
	case bridge.ListTools:
		return &pb.ListToolsResponse{Tools: p.tools, NextCursor: p.next, TtlMs: p.ttl, CacheScope: p.scope, Meta: p.meta, Extra: p.extra}
	case bridge.ListPrompts:
		return &pb.ListPromptsResponse{Prompts: p.prompts, NextCursor: p.next, TtlMs: p.ttl, CacheScope: p.scope, Meta: p.meta, Extra: p.extra}
	case bridge.ListResources:
		return &pb.ListResourcesResponse{Resources: p.resources, NextCursor: p.next, TtlMs: p.ttl, CacheScope: p.scope, Meta: p.meta, Extra: p.extra}
	default:
		return &pb.ListResourceTemplatesResponse{ResourceTemplates: p.templates, NextCursor: p.next, TtlMs: p.ttl, CacheScope: p.scope, Meta: p.meta, Extra: p.extra}
	}
}

// cursorOf returns where a request for a page has it start.
func cursorOf(req bridge.Request) *string {
	switch req := req.(type) {
	case *pb.ListToolsRequest:
		return req.Cursor
	case *pb.ListPromptsRequest:
		return req.Cursor
	case *pb.ListResourcesRequest:
		return req.Cursor
	case *pb.ListResourceTemplatesRequest:
		return req.Cursor
	}
	return nil
}

// withCursor returns a request for another page.
func withCursor(req bridge.Request, cursor *string) bridge.Request {
	req = bridge.ShallowCopy(req)
	switch req := req.(type) {
	case *pb.ListToolsRequest:
		req.Cursor = cursor
	case *pb.ListPromptsRequest:
		req.Cursor = cursor
	case *pb.ListResourcesRequest:
		req.Cursor = cursor
	case *pb.ListResourceTemplatesRequest:
		req.Cursor = cursor
	}
	return req
}

// cursor returns the cursor that stands for a route's own one.
func (rt *route) cursor(own string) *string {
	return proto.String(base64.RawURLEncoding.EncodeToString([]byte(rt.Name + "\x00" + own)))
}

// start returns the routes whose lists are asked for a page, and the first one's own cursor.
func (r *Router) start(cursor *string) ([]*route, *string, error) {
	if cursor == nil {
		return r.routes, nil, nil
	}
	bad := bridge.Errorf(codes.InvalidArgument, "the cursor is not one that a list of this server has told: ask for the list from its beginning")
	if len(*cursor) > base64.RawURLEncoding.EncodedLen(maxCursor+64) {
		return nil, nil, bad
	}
	raw, err := bridge.DecodeBase64(base64.RawURLEncoding, []byte(*cursor))
	if err != nil {
		return nil, nil, bad
	}
	name, own, ok := strings.Cut(string(raw), "\x00")
	for i, rt := range r.routes {
		if ok && rt.Name == name {
			return r.routes[i:], &own, nil
		}
	}
	return nil, nil, bad
}

// list answers a call for a page. It is the routes' lists, one after the other: a page ends where a route's page does that is not its
// last. The others' first pages are asked for at the same time, because most have no other.
func (r *Router) list(ctx context.Context, call *bridge.Call) (*bridge.Result, error) {
	routes, own, err := r.start(cursorOf(call.Request))
	if err != nil {
		return nil, err
	}
	answers := r.ask(ctx, routes, func(rt *route) *bridge.Call {
		var cursor *string
		if rt == routes[0] {
			cursor = own
		}
		return call.With(call.Method, withCursor(call.Request, cursor))
	})
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b := binder{r: r, list: call.Method, seen: map[string]bool{}}
	for i, a := range answers {
		if a.err != nil && i == 0 && own != nil && bridge.AsError(a.err).Code == codes.InvalidArgument {
			return nil, a.err // it is the cursor that is wrong
		}
		b.add(a)
		if a.shared || a.err != nil && down(a.err) {
			r.gaps.add(a.route, call)
		}
		if b.next != nil {
			break
		}
	}
	if b.answered == 0 {
		return nil, b.worst()
	}
	return &bridge.Result{Complete: b.message(call.Method)}, nil
}

// A binder makes one page of those of several routes.
type binder struct {
	page
	r        *Router
	list     *bridge.Method
	seen     map[string]bool // the URIs that are on the page
	answered int
	missing  error // why one of the routes has not answered
	without  error // that of a route that does not have such a list
}

// worst returns why there is no page at all.
func (b *binder) worst() error {
	if b.missing != nil {
		return b.missing
	}
	return b.without
}

// add adds what a route answers.
func (b *binder) add(a answer) {
	if a.err != nil {
		if bridge.AsError(a.err).Code == codes.Unimplemented {
			b.without = a.err
			return
		}
		if b.missing == nil {
			b.missing = a.err
		}
		if !down(a.err) || refused(a.err) { // of the others the log says more already
			b.r.warn(a.route, "list is missing", b.list.Name, a.err.Error())
		}
		b.ttl = proto.Int64(0)
		return
	}
	p := openPage(a.result)
	if a.shared {
		b.r.warn(a.route, "list is that of callers without capabilities, until there is a connection for this caller", b.list.Name, "that takes long")
		p.ttl = proto.Int64(0)
	}
	first := b.answered == 0 && b.missing == nil
	b.answered++
	if first {
		b.ttl = p.ttl
	} else {
		b.ttl = shorterTTL(b.ttl, p.ttl)
	}
	// All pages of a list must have the same scope (2026-07-28: server/utilities/caching, pagination), and nobody knows that of a page
	// that was not asked for. Private is what a page of any route can be.
	if b.scope = p.scope; len(b.r.routes) > 1 {
		b.scope = pb.CacheScope_CACHE_SCOPE_PRIVATE.Enum()
	}
	b.meta, b.extra = union(b.meta, p.meta), union(b.extra, p.extra)
	rt := a.route
	for _, t := range p.tools {
		if !toolName.MatchString(t.GetName()) {
			b.r.warn(rt, "tool dropped", t.GetName(), "its name must be letters, digits, '_', '-' and '.'")
			continue
		}
		t = bridge.ShallowCopy(t)
		t.Name = b.r.noteName(rt, b.list, t.GetName())
		b.tools = append(b.tools, t)
	}
	for _, q := range p.prompts {
		q = bridge.ShallowCopy(q)
		q.Name = b.r.noteName(rt, b.list, q.GetName())
		b.prompts = append(b.prompts, q)
	}
	for _, res := range p.resources {
		if b.fresh(rt, res.GetUri()) {
			b.r.own(rt, res.GetUri())
			b.resources = append(b.resources, res)
		}
	}
	for _, t := range p.templates {
		if b.fresh(rt, t.GetUriTemplate()) {
			rt.learn(t.GetUriTemplate())
			b.templates = append(b.templates, t)
		}
	}
	if p.next == nil {
		return
	}
	if len(*p.next) > maxCursor {
		b.r.warn(rt, "list is cut", b.list.Name, fmt.Sprintf("its cursor has %d bytes, and at most %d are taken", len(*p.next), maxCursor))
		return
	}
	b.next = rt.cursor(*p.next)
}

// fresh reports whether no route before has listed a URI or template on this page. Clients take one of two that are the same, and it
// must be known which.
func (b *binder) fresh(rt *route, uri string) bool {
	if b.seen[uri] {
		b.r.warn(rt, "resource dropped", uri, "a server before it has one with the same URI")
		return false
	}
	b.seen[uri] = true
	return true
}

// shorterTTL returns how long what is made of two answers is true. Not said means until it is told to have changed, or no time at
// all; nobody can say which of the two for both.
func shorterTTL(a, b *int64) *int64 {
	switch {
	case a == nil && b == nil:
		return nil
	case a == nil || b == nil:
		return proto.Int64(0)
	}
	return proto.Int64(min(*a, *b))
}

// union returns a JSON object with the members of two. Where both have one, it is that of the first. What is not an object has
// none.
func union(a, b []byte) []byte {
	switch {
	case len(b) == 0 || rawjson.Check(b) != nil || !rawjson.IsObject(b):
		return a
	case len(a) == 0 || rawjson.Check(a) != nil || !rawjson.IsObject(a):
		return b
	}
	out, names := []byte{'{'}, map[string]bool{}
	for _, object := range [][]byte{a, b} {
		for name, value := range rawjson.Members(object) {
			if names[string(name)] {
				continue
			}
			names[string(name)] = true
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(append(rawjson.AppendString(out, string(name)), ':'), value...)
		}
	}
	return append(out, '}')
}
