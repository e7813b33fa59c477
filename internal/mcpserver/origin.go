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

// An origin is the source of a message.
type origin struct {
	// header is that of the HTTP request. It is nil on stdio.
	header http.Header
	// principal is the authenticated sender, if any.
	principal *pb.Principal
	// session identifies the connection, if it belongs to one caller.
	session string
}

// origin returns the origin of an HTTP request.
func (s *Server) origin(r *http.Request) origin {
	o := origin{header: r.Header}
	if s.opts.Principal != nil {
		o.principal = s.opts.Principal(r)
	}
	return o
}

// networkOf returns the network of an HTTP request. The prefix is invalid for other transports.
func networkOf(r *http.Request) netip.Prefix {
	at, _ := netip.ParseAddrPort(r.RemoteAddr)
	return conns.Network(at.Addr())
}

// accessExpiry returns the time at which a principal's access ends, or zero if it does not end.
func (s *Server) accessExpiry(p *pb.Principal) time.Time {
	if s.opts.AccessExpiry == nil || p == nil {
		return time.Time{}
	}
	return s.opts.AccessExpiry(p)
}

// accessContext returns a context that ends when streams of changes must end: when the server drains, and at the given
// time if that is not zero. A client's token is checked only when it opens a stream.
func (s *Server) accessContext(until time.Time) (context.Context, context.CancelFunc) {
	if until.IsZero() {
		return s.life.Until(lifecycle.Draining), func() {}
	}
	return bridge.WithWallDeadline(s.life.Until(lifecycle.Draining), until, context.DeadlineExceeded)
}

// samePrincipal reports whether two principals are the same. Scopes and claims may differ between requests.
func samePrincipal(a, b *pb.Principal) bool {
	return (a == nil) == (b == nil) && a.GetIssuer() == b.GetIssuer() && a.GetSubject() == b.GetSubject()
}

// checkPassHeaders returns an error text if a header that is forwarded to backends is not UTF-8. Otherwise it returns
// "".
func (s *Server) checkPassHeaders(h http.Header) string {
	for _, name := range s.opts.PassHeaders {
		for _, v := range h.Values(name) {
			if !utf8.ValidString(v) {
				return name + " is " + strconv.Quote(rawjson.Shorten(v)) +
					", which is not UTF-8: backends receive it as text"
			}
		}
	}
	return ""
}

// forwardedHeaders returns the headers of a request that are forwarded to backends, by lower-case names.
func (s *Server) forwardedHeaders(h http.Header) map[string]string {
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
