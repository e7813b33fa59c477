package mcpserver

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpbridge/mcpbridge/bridge/mcphttp"
)

// A guard keeps web pages from reaching the bridge through a browser on the same machine: by a DNS name that is rebound to
// this machine, the Host header shows; by a script of another site, the Origin header (every revision: basic/transports,
// security). It looks at every request, on every endpoint.
type guard struct {
	hosts, origins []string
}

func newGuard(o Options) guard { return guard{hosts: o.AllowedHosts, origins: o.AllowedOrigins} }

// maxFields bounds how many header fields a request may have. How long they may be together is the HTTP server's business.
const maxFields = 256

// check returns why a request is refused, or nothing.
func (g guard) check(r *http.Request) (status int, why string) {
	fields := 0
	for _, values := range r.Header {
		fields += len(values)
	}
	if fields > maxFields {
		return http.StatusRequestHeaderFieldsTooLarge, "there are " + strconv.Itoa(fields) + " header fields: at most " + strconv.Itoa(maxFields) + " are allowed"
	}
	if !g.hostAllowed(r.Host) {
		return http.StatusForbidden, "Host " + strconv.Quote(r.Host) + " is not allowed: name it with --allow-host or serve.http.allowedHosts if it is this bridge's"
	}
	origins := r.Header["Origin"]
	if len(origins) > 1 || len(origins) == 1 && !g.originAllowed(origins[0], r.Host) {
		return http.StatusForbidden, "Origin " + strconv.Quote(strings.Join(origins, ", ")) + " is not allowed: name it with --allow-origin or serve.http.allowedOrigins if you trust its pages"
	}
	// A browser sends no Origin with a request that a page makes blindly, such as that for an image.
	if site := r.Header.Get("Sec-Fetch-Site"); len(origins) == 0 && (site == "cross-site" || site == "same-site") {
		return http.StatusForbidden, "Sec-Fetch-Site is " + strconv.Quote(site) + " and there is no Origin: a page of another site may not call"
	}
	return 0, ""
}

func (g guard) hostAllowed(host string) bool {
	name := hostname(host)
	return isLocal(name) || slices.ContainsFunc(g.hosts, func(h string) bool {
		return h == "*" || strings.EqualFold(h, host) || strings.EqualFold(h, name)
	})
}

// originAllowed reports whether pages of an origin may use the bridge: those of this machine, those it serves itself, and
// those it is told to trust.
func (g guard) originAllowed(origin, host string) bool {
	if slices.ContainsFunc(g.origins, func(o string) bool { return o == "*" || strings.EqualFold(o, origin) }) {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || !strings.EqualFold(origin, u.Scheme+"://"+u.Host) {
		return false // an origin has a scheme and a host, and nothing else
	}
	return isLocal(u.Hostname()) || strings.EqualFold(u.Host, host)
}

// hostname returns a Host header without its port.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

// isLocal reports whether a name always means this machine, and is written as everybody writes it.
func isLocal(name string) bool {
	if strings.EqualFold(name, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.IsLoopback() && !ip.Is4In6() && ip.Zone() == ""
}

// allowOrigin lets the page that made an allowed request read the response.
func (g guard) allowOrigin(h http.Header, r *http.Request) {
	if origin := r.Header.Get("Origin"); origin != "" {
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Expose-Headers", mcphttp.HeaderSession+", "+mcphttp.HeaderVersion+", Retry-After, WWW-Authenticate")
		h.Add("Vary", "Origin")
	}
}

// preflight answers a browser that asks whether a page may make a request.
func (g guard) preflight(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Access-Control-Allow-Methods", "POST, GET, DELETE")
	// Which headers there are depends on the tool that is called (2026-07-28: streamable-http, custom headers).
	h.Set("Access-Control-Allow-Headers", r.Header.Get("Access-Control-Request-Headers"))
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
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
