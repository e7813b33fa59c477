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

// maxCursor is the maximum length of a route's cursor. The Router's own is a third longer, and has the route's name.
const maxCursor = 8 << 10

// cursor returns the Router's cursor for a cursor of a route.
func (rt *route) cursor(own string) *string {
	return proto.String(base64.RawURLEncoding.EncodeToString([]byte(rt.Name + "\x00" + own)))
}

// start returns the routes that a page includes, and the first one's own cursor.
func (r *Router) start(cursor *string) ([]*route, *string, error) {
	if cursor == nil {
		return r.routes, nil, nil
	}
	bad := bridge.Errorf(codes.InvalidArgument,
		"the cursor is not from a list of this server: request the list without a cursor")
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

// list returns a page of the concatenated lists of the routes: it ends where a page of a route ends that is not the
// last one. The first pages of the other routes are requested concurrently, because most lists have only one page.
func (r *Router) list(ctx context.Context, call *bridge.Call) (*bridge.Result, error) {
	routes, own, err := r.start(*bridge.Cursor(call.Request))
	if err != nil {
		return nil, err
	}
	answers := r.callRoutes(ctx, routes, func(rt *route) *bridge.Call {
		var cursor *string
		if rt == routes[0] {
			cursor = own
		}
		req := bridge.ShallowCopy(call.Request)
		*bridge.Cursor(req) = cursor
		return call.With(call.Method, req)
	})
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	out := call.Method.NewResult()
	b := pageMerger{Page: bridge.PageOf(out), out: out, r: r, list: call.Method, seen: map[string]bool{}}
	for i, a := range answers {
		if a.err != nil && i == 0 && own != nil && bridge.AsError(a.err).Code == codes.InvalidArgument {
			return nil, a.err // the cursor is invalid
		}
		b.add(a)
		if a.shared || a.err != nil && isDown(a.err) {
			r.gaps.add(a.route, call)
		}
		if *b.NextCursor != nil {
			break
		}
	}
	if b.answered == 0 {
		return nil, b.emptyErr()
	}
	return &bridge.Result{Complete: b.out}, nil
}

// A pageMerger merges the pages of several routes into one.
type pageMerger struct {
	bridge.Page
	out         proto.Message // the merged page
	r           *Router
	list        *bridge.Method
	seen        map[string]bool // the URIs on the page
	answered    int
	downErr     error // the error of a route that did not respond
	unsupported error // the error of a route without such a list
}

// emptyErr returns the error if there is no page at all.
func (b *pageMerger) emptyErr() error {
	if b.downErr != nil {
		return b.downErr
	}
	return b.unsupported
}

// add adds the page or the error of a route.
func (b *pageMerger) add(a response) {
	if a.err != nil {
		if bridge.AsError(a.err).Code == codes.Unimplemented {
			b.unsupported = a.err
			return
		}
		if b.downErr == nil {
			b.downErr = a.err
		}
		if !isDown(a.err) || isOverloaded(a.err) { // other errors are logged elsewhere
			b.r.warn(a.route, "list is missing", b.list.Name, a.err.Error())
		}
		*b.TTL = proto.Int64(0)
		return
	}
	p := bridge.PageOf(a.result) // may be shared, and is not modified
	ttl := *p.TTL
	if a.shared {
		b.r.warn(a.route, "list is that of callers without capabilities, until there is a connection for this caller",
			b.list.Name, "that takes long")
		ttl = proto.Int64(0)
	}
	first := b.answered == 0 && b.downErr == nil
	b.answered++
	if first {
		*b.TTL = ttl
	} else {
		*b.TTL = shorterTTL(*b.TTL, ttl)
	}
	// All pages of a list must have the same scope (2026-07-28: server/utilities/caching, pagination), and that of a
	// page that was not requested yet is unknown. Private is always allowed.
	if *b.CacheScope = *p.CacheScope; len(b.r.routes) > 1 {
		*b.CacheScope = "private"
	}
	*b.Meta, *b.Extra = union(*b.Meta, *p.Meta), union(*b.Extra, *p.Extra)
	rt := a.route
	switch m := a.result.(type) {
	case *pb.ListToolsResponse:
		out := b.out.(*pb.ListToolsResponse)
		for _, t := range m.GetTools() {
			if !toolName.MatchString(t.GetName()) {
				b.r.warn(rt, "tool dropped", t.GetName(), "its name must be letters, digits, '_', '-' and '.'")
				continue
			}
			t = bridge.ShallowCopy(t)
			t.Name = b.r.recordName(rt, b.list, t.GetName())
			out.Tools = append(out.Tools, t)
		}
	case *pb.ListPromptsResponse:
		out := b.out.(*pb.ListPromptsResponse)
		for _, q := range m.GetPrompts() {
			q = bridge.ShallowCopy(q)
			q.Name = b.r.recordName(rt, b.list, q.GetName())
			out.Prompts = append(out.Prompts, q)
		}
	case *pb.ListResourcesResponse:
		out := b.out.(*pb.ListResourcesResponse)
		for _, res := range m.GetResources() {
			if b.isFirst(rt, res.GetUri()) {
				b.r.recordOwner(rt, res.GetUri())
				out.Resources = append(out.Resources, res)
			}
		}
	case *pb.ListResourceTemplatesResponse:
		out := b.out.(*pb.ListResourceTemplatesResponse)
		for _, t := range m.GetResourceTemplates() {
			if b.isFirst(rt, t.GetUriTemplate()) {
				rt.recordTemplate(t.GetUriTemplate())
				out.ResourceTemplates = append(out.ResourceTemplates, t)
			}
		}
	}
	if *p.NextCursor == nil {
		return
	}
	if len(**p.NextCursor) > maxCursor {
		b.r.warn(rt, "list is cut", b.list.Name,
			fmt.Sprintf("its cursor has %d bytes, and the limit is %d", len(**p.NextCursor), maxCursor))
		return
	}
	*b.NextCursor = rt.cursor(**p.NextCursor)
}

// isFirst reports whether no earlier route has this URI or template on the page. A client may use either of two entries
// with the same URI, so that only the first can be listed.
func (b *pageMerger) isFirst(rt *route, uri string) bool {
	if b.seen[uri] {
		b.r.warn(rt, "resource dropped", uri, "a server before it has one with the same URI")
		return false
	}
	b.seen[uri] = true
	return true
}

// shorterTTL returns the TTL of a merge of two results. A missing TTL means until a change is reported, or zero, so
// that a merge with one has none.
func shorterTTL(a, b *int64) *int64 {
	switch {
	case a == nil && b == nil:
		return nil
	case a == nil || b == nil:
		return proto.Int64(0)
	}
	return proto.Int64(min(*a, *b))
}

// union returns a JSON object with the members of both objects. The first has precedence. A value that is not an object
// has no members.
func union(left, right string) string {
	a, b := rawjson.AsBytes(left), rawjson.AsBytes(right)
	switch {
	case len(b) == 0 || rawjson.Check(b) != nil || !rawjson.IsObject(b):
		return left
	case len(a) == 0 || rawjson.Check(a) != nil || !rawjson.IsObject(a):
		return right
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
	return rawjson.AsString(append(out, '}'))
}
