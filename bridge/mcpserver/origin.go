package mcpserver

import (
	"net/http"
	"strings"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// An origin is what is known of where a message comes from, besides what it says itself.
type origin struct {
	// header is the request's that brought it. On stdio there is none.
	header http.Header
	// principal is who sent it, if that was checked.
	principal *pb.Principal
}

// origin returns where a request comes from.
func (s *Server) origin(r *http.Request) origin {
	o := origin{header: r.Header}
	if s.opts.Principal != nil {
		o.principal = s.opts.Principal(r)
	}
	return o
}

// samePrincipal reports whether two callers are the same one. Their scopes and claims may differ from one request to the next.
func samePrincipal(a, b *pb.Principal) bool {
	return (a == nil) == (b == nil) && a.GetIssuer() == b.GetIssuer() && a.GetSubject() == b.GetSubject()
}

// passed returns the headers of a request that backends are told, by lower-case names.
func (s *Server) passed(h http.Header) map[string]string {
	if len(s.opts.PassHeaders) == 0 || h == nil {
		return nil
	}
	out := map[string]string{}
	for _, name := range s.opts.PassHeaders {
		if v := h.Values(name); len(v) > 0 {
			out[strings.ToLower(name)] = strings.Join(v, ", ")
		}
	}
	return out
}
