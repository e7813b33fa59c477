package mcphttp

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/time/rate"

	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A Guard rejects requests of web pages that reach the bridge through a browser on the same machine, by DNS rebinding
// (the Host header) or from a script of another site (the Origin header; every revision: basic/transports, security).
// It checks all requests on all endpoints, and responds to CORS preflight requests.
type Guard struct {
	// Hosts are the allowed Host headers besides those of this machine (localhost, 127.0.0.1, [::1]), with or without
	// a port. "*" allows all.
	Hosts []string
	// Origins are the allowed Origin headers besides those of this machine, such as "https://app.example.com". "*"
	// allows all. A request without Origin is allowed: it does not come from a browser.
	Origins []string
	// Addresses allows IP addresses in the Host header: DNS rebinding needs a name.
	Addresses bool
	// Limits has the maximum number of header fields, and the time to read a body that is not of a POST. If a field is
	// zero, its default is used.
	Limits limits.Limits
	// Log receives rejections, at most one per second.
	Log zerolog.Logger

	once    sync.Once
	refused rate.Sometimes
}

// Admit reports whether a request is allowed. If not, it has sent the response.
func (g *Guard) Admit(w http.ResponseWriter, r *http.Request) bool {
	g.once.Do(func() { g.Limits, g.refused.Interval = g.Limits.OrDefaults(), logEvery })
	// Prevent request smuggling: net/http ignores a Transfer-Encoding in HTTP/1.0, and a Content-Length beside a
	// Transfer-Encoding in HTTP/1.1. A proxy may have used the ignored header (RFC 9112, 6.1).
	if !r.ProtoAtLeast(1, 1) || len(r.TransferEncoding) > 0 {
		w.Header().Set("Connection", "close")
	}
	if status, why := g.check(r, g.Limits.HeaderFields); why != "" {
		g.refused.Do(func() {
			g.Log.Warn().Str("remote", r.RemoteAddr).
				Msg("refused: " + why + "; further refusals in the next second are not logged")
		})
		Refuse(w, status, why)
		return false
	}
	if r.Method != http.MethodPost && r.ContentLength != 0 { // net/http waits for the unread body
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(g.Limits.BodyTime))
	}
	allowOrigin(w.Header(), r)
	if r.Method == http.MethodOptions {
		preflight(w, r)
		return false
	}
	return true
}

// Refuse sends an error response without a message ID. The request's body need not have been read. An HTTP/1
// connection is closed, because net/http would wait for the body.
func Refuse(w http.ResponseWriter, status int, why string) {
	// Errors below mean that the client disconnected.
	rc := http.NewResponseController(w)
	_ = rc.SetWriteDeadline(time.Now().Add(limits.RefusalTimeout))
	// net/http keeps reading, so that the client receives the response before a reset.
	_ = rc.SetReadDeadline(time.Now().Add(drainTimeout))
	if !isHTTP2(w) {
		w.Header().Set("Connection", "close")
	}
	w.Header().Set("Content-Type", JSON)
	w.WriteHeader(status)
	e := &pb.JsonRpcError{Code: codeInvalidRequest, Message: why, Data: jsonrpc.NotExecuted}
	_, _ = w.Write(jsonrpc.AppendError(nil, nil, e, true))
}

// isHTTP2 reports whether the connection is shared with other responses. Only HTTP/2 supports push.
func isHTTP2(w http.ResponseWriter) bool {
	for {
		if _, ok := w.(http.Pusher); ok {
			return true
		}
		inner, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return false
		}
		w = inner.Unwrap()
	}
}

const (
	// drainTimeout is how long the rest of a rejected request is read.
	drainTimeout = time.Second
	// logEvery is the minimum interval between log lines about rejections.
	logEvery = time.Second

	codeInvalidRequest = -32600
)

// check returns the status and reason of a rejection, or "".
func (g *Guard) check(r *http.Request, maxFields int) (status int, why string) {
	fields := 0
	for _, values := range r.Header {
		fields += len(values)
	}
	if fields > maxFields {
		return http.StatusRequestHeaderFieldsTooLarge,
			"there are " + strconv.Itoa(fields) + " header fields: at most " + strconv.Itoa(maxFields) + " are allowed"
	}
	// Contradictory HTTP/2 requests (RFC 9113, 8.3.1). net/http rejects those of HTTP/1.1.
	if r.ProtoMajor > 1 && r.URL.IsAbs() {
		return http.StatusBadRequest, ":path is " + quote(r.RequestURI) + ": it must begin with /"
	}
	// "*" is for OPTIONS (RFC 9112, 3.2.4), and in the preface of HTTP/2.
	if r.RequestURI == "*" && r.Method != http.MethodOptions {
		return http.StatusBadRequest, quote(r.Method) + " requires a path and not *; HTTP/2 requires TLS"
	}
	differs := func(h string) bool { return !same(hostname(h), hostname(r.Host)) }
	if other := slices.IndexFunc(r.Header["Host"], differs); other >= 0 {
		return http.StatusBadRequest, ":authority is " + quote(r.Host) + " and host is " +
			quote(r.Header["Host"][other]) + ": they must be the same"
	}
	if !g.hostAllowed(r.Host) {
		return http.StatusForbidden, "Host " + quote(r.Host) +
			" is not allowed: name it with --allow-host or serve.http.allowedHosts if it is this bridge's"
	}
	origins := r.Header["Origin"]
	if len(origins) > 1 || len(origins) == 1 && !g.originAllowed(origins[0], r.Host) {
		return http.StatusForbidden, "Origin " + quote(strings.Join(origins, ", ")) +
			" is not allowed: name it with --allow-origin or serve.http.allowedOrigins if you trust its pages"
	}
	// Browsers send no Origin with requests without CORS, such as for an image.
	if site := r.Header.Get("Sec-Fetch-Site"); len(origins) == 0 && (site == "cross-site" || site == "same-site") {
		return http.StatusForbidden, "Sec-Fetch-Site is " + quote(site) +
			" and there is no Origin: requests of other sites are not allowed"
	}
	return 0, ""
}

// quote returns text of a client for logs: short, and without control characters.
func quote(text string) string { return strconv.Quote(rawjson.Shorten(text)) }

func (g *Guard) hostAllowed(host string) bool {
	name := hostname(host)
	if _, err := netip.ParseAddr(name); err == nil && g.Addresses {
		return true
	}
	return isLocal(name) || slices.ContainsFunc(g.Hosts, func(h string) bool {
		return h == "*" || same(h, host) || same(h, name)
	})
}

// originAllowed reports whether an origin is allowed: those of this machine, of the bridge itself, and the configured
// ones.
func (g *Guard) originAllowed(origin, host string) bool {
	if slices.ContainsFunc(g.Origins, func(o string) bool { return o == "*" || same(o, origin) }) {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || !same(origin, u.Scheme+"://"+u.Host) {
		return false // not just a scheme and a host
	}
	return isLocal(u.Hostname()) || same(u.Host, host)
}

// same compares ASCII names without regard to case. strings.EqualFold alone equates ſ and s.
func same(a, b string) bool { return IsText(a) && IsText(b) && strings.EqualFold(a, b) }

// hostname returns a Host header without its port.
func hostname(host string) string {
	name, port, err := net.SplitHostPort(host)
	if err != nil || strings.Trim(port, "0123456789") != "" {
		name = host
	}
	if inner, ok := strings.CutPrefix(name, "["); ok && strings.HasSuffix(inner, "]") {
		name = inner[:len(inner)-1]
	}
	if strings.HasPrefix(host, "[") && !strings.Contains(name, ":") {
		return host // only IPv6 has brackets
	}
	return name
}

// isLocal reports whether a name is the canonical form of a loopback name or address.
func isLocal(name string) bool {
	if same(name, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.IsLoopback() && !ip.Is4In6() && ip.Zone() == ""
}

// allowOrigin allows the page that made an allowed request to read the response.
func allowOrigin(h http.Header, r *http.Request) {
	if origin := r.Header.Get("Origin"); origin != "" {
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Expose-Headers", HeaderSession+", "+HeaderVersion+", Retry-After, WWW-Authenticate")
		h.Add("Vary", "Origin")
	}
}

// preflight responds to OPTIONS (RFC 9110, 9.3.7), which browsers send before cross-origin requests.
func preflight(w http.ResponseWriter, r *http.Request) {
	const methods = "POST, GET, DELETE"
	h := w.Header()
	h.Set("Allow", methods)
	h.Set("Access-Control-Allow-Methods", methods)
	// The headers depend on the tool (2026-07-28: streamable-http, custom headers).
	h.Set("Access-Control-Allow-Headers", r.Header.Get("Access-Control-Request-Headers"))
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
}
