package mcpserver

import (
	"context"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/conns"
	"github.com/mcpbridge/mcpbridge/internal/lifecycle"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// An origin is what is known of where a message comes from, besides what it says itself.
type origin struct {
	// header is the request's that brought it. On stdio there is none.
	header http.Header
	// principal is who sent it, if that was checked.
	principal *pb.Principal
	// session identifies the connection, if all of it is one caller's.
	session string
}

// origin returns where a request comes from.
func (s *Server) origin(r *http.Request) origin {
	o := origin{header: r.Header}
	if s.opts.Principal != nil {
		o.principal = s.opts.Principal(r)
	}
	return o
}

// networkOf returns where a request comes from. If that is no network, it is not valid.
func networkOf(r *http.Request) netip.Prefix {
	at, _ := netip.ParseAddrPort(r.RemoteAddr)
	return conns.Network(at.Addr())
}

// until returns until when somebody is let in; zero: for ever.
func (s *Server) until(p *pb.Principal) time.Time {
	if s.opts.Until == nil || p == nil {
		return time.Time{}
	}
	return s.opts.Until(p)
}

// letIn returns a context that ends when streams that only wait for changes are to end, and at the given time if that is not zero. A stream
// is opened by somebody whose token was good then, and after that nothing else looks at it.
func (s *Server) letIn(until time.Time) (context.Context, context.CancelFunc) {
	if until.IsZero() {
		return s.life.Until(lifecycle.Draining), func() {}
	}
	return bridge.WithWallDeadline(s.life.Until(lifecycle.Draining), until, context.DeadlineExceeded)
}

// samePrincipal reports whether two callers are the same one. Their scopes and claims may differ from one request to the next.
func samePrincipal(a, b *pb.Principal) bool {
	return (a == nil) == (b == nil) && a.GetIssuer() == b.GetIssuer() && a.GetSubject() == b.GetSubject()
}

// unpassable returns why backends cannot be told the headers of a request, which must be text, or nothing.
func (s *Server) unpassable(h http.Header) string {
	for _, name := range s.opts.PassHeaders {
		for _, v := range h.Values(name) {
			if !utf8.ValidString(v) {
				return name + " is " + strconv.Quote(rawjson.Shorten(v)) + ", which is no UTF-8: backends are told it as text"
			}
		}
	}
	return ""
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
