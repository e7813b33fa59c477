package router

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

const (
	// maxPublic is the maximum length of a name, which is that of the interfaces of models.
	maxPublic = 64
	// hashLen is the number of hexadecimal digits at the end of a shortened name.
	hashLen = 12
)

// toolName matches valid tool names (every revision: server/tools, tool names). A tool with another name is dropped,
// because some clients would reject the whole list.
var toolName = regexp.MustCompile(`^[a-zA-Z0-9_.-]+$`)

// public returns the public name of a tool or prompt of a route: NAME_name. A name of more than 64 bytes is shortened,
// and ends with "_" and 12 digits of its hash, so that it is always the same. A name that looks shortened is shortened
// too, so that it is not ambiguous.
func (rt *route) public(name string) string {
	full := rt.prefix + name
	if len(full) <= maxPublic && !looksShort(full) {
		return full
	}
	cut := maxPublic - hashLen - 1
	for !utf8.RuneStart(full[cut]) {
		cut--
	}
	sum := sha256.Sum256([]byte(full))
	return full[:cut] + "_" + hex.EncodeToString(sum[:])[:hashLen]
}

// looksShort reports whether a name may be a shortened one, which may be up to three bytes shorter where a rune would
// be split.
func looksShort(name string) bool {
	if len(name) > maxPublic || len(name) < maxPublic-utf8.UTFMax+1 {
		return false
	}
	end := name[len(name)-hashLen-1:]
	return end[0] == '_' && strings.Trim(end[1:], "0123456789abcdef") == ""
}

// shortKey is the key of a shortened name in Router.short.
func shortKey(list *bridge.Method, public string) string { return list.Name + " " + public }

// resolve returns the route of a tool or prompt, and its name on the route.
func (r *Router) resolve(ctx context.Context, call *bridge.Call, list *bridge.Method, kind,
	public string,
) (*route, string, error) {
	for _, rt := range r.routes {
		name, ok := strings.CutPrefix(public, rt.prefix)
		if !ok {
			continue
		}
		if !looksShort(public) {
			return rt, name, nil
		}
		name, err := r.fullName(ctx, call, rt, list, public)
		if err != nil {
			return nil, "", err
		}
		if name == "" {
			return nil, "", bridge.Errorf(codes.NotFound, "there is no %s %q", kind, public)
		}
		return rt, name, nil
	}
	prefixes := make([]string, len(r.routes))
	for i, rt := range r.routes {
		prefixes[i] = rt.prefix
	}
	if len(public) > 2*maxPublic {
		public = public[:2*maxPublic] + "…"
	}
	return nil, "", bridge.Errorf(codes.NotFound, "there is no %s %q: with several servers, names begin with one of %s",
		kind, public, strings.Join(prefixes, ", "))
}

// fullName returns the name on the route of a shortened name, or "" if there is none. If no list has contained it yet,
// the route's list is read.
func (r *Router) fullName(ctx context.Context, call *bridge.Call, rt *route, list *bridge.Method,
	public string,
) (string, error) {
	if name, ok := r.short.get(shortKey(list, public)); ok {
		return name, nil
	}
	req := list.NewRequest(call.Context())
	for range limits.SearchPages {
		m, err := r.callOnce(ctx, rt, call.With(list, req))
		if err != nil {
			return "", err
		}
		switch m := m.(type) {
		case *pb.ListToolsResponse:
			for _, t := range m.GetTools() {
				r.recordName(rt, list, t.GetName())
			}
		case *pb.ListPromptsResponse:
			for _, t := range m.GetPrompts() {
				r.recordName(rt, list, t.GetName())
			}
		}
		if name, ok := r.short.get(shortKey(list, public)); ok {
			return name, nil
		}
		next := *bridge.PageOf(m).NextCursor
		if next == nil {
			break
		}
		req = bridge.ShallowCopy(req)
		*bridge.Cursor(req) = next
	}
	return "", nil
}

// recordName stores a shortened name, and returns the public name.
func (r *Router) recordName(rt *route, list *bridge.Method, name string) string {
	public := rt.public(name)
	if public != rt.prefix+name {
		r.short.put(shortKey(list, public), name)
	}
	return public
}
