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

// A Guard keeps web pages from reaching the bridge through a browser on the same machine: by a DNS name that is rebound to
// this machine, the Host header shows; by a script of another site, the Origin header (every revision: basic/transports,
// security). It looks at every request, on every endpoint, and answers browsers that ask whether a page may call.
type Guard struct {
	// Hosts are the Host headers to accept besides those of this machine (localhost, 127.0.0.1, [::1]), with or without a
	// port. "*" accepts every one.
	Hosts []string
	// Origins are the Origin headers to accept besides those of this machine, such as "https://app.example.com". "*" accepts
	// every one. A request without an Origin does not come from a browser and is accepted.
	Origins []string
	// Addresses says that a Host header may be any IP address: a name that is rebound to this machine is none.
	Addresses bool
	// Limits are the limits of header fields and of bodies that are no message. Zero fields are the defaults.
	Limits limits.Limits
	// Log receives what is refused, at most once a second.
	Log zerolog.Logger

	once    sync.Once
	refused rate.Sometimes
}

// Admit reports whether a request is to be served. If it is not, it has been answered.
func (g *Guard) Admit(w http.ResponseWriter, r *http.Request) bool {
	g.once.Do(func() { g.Limits, g.refused.Interval = g.Limits.OrDefaults(), logEvery })
	// net/http overlooks Transfer-Encoding before HTTP/1.1, and would take a body for the next request; after it, it overlooks a
	// Content-Length beside it, by which a proxy before us may have read where the next request begins (RFC 9112, 6.1).
	if !r.ProtoAtLeast(1, 1) || len(r.TransferEncoding) > 0 {
		w.Header().Set("Connection", "close")
	}
	if status, why := g.check(r, g.Limits.HeaderFields); why != "" {
		g.refused.Do(func() {
			g.Log.Warn().Str("remote", r.RemoteAddr).Msg("refused: " + why + "; further refusals in the next second are not logged")
		})
		Refuse(w, status, why)
		return false
	}
	if r.Method != http.MethodPost && r.ContentLength != 0 { // nobody reads it, and net/http waits for it
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(g.Limits.BodyTime)) // an error says that nobody sends any more
	}
	allowOrigin(w.Header(), r)
	if r.Method == http.MethodOptions {
		preflight(w, r)
		return false
	}
	return true
}

// Refuse answers a request, whose body need not have been read, with an error that belongs to no message. The connection ends,
// as otherwise net/http would wait for the body; but not one of HTTP/2, on which others are answered, too.
func Refuse(w http.ResponseWriter, status int, why string) {
	// An error of any of these lines means that nobody reads any more.
	rc := http.NewResponseController(w)
	_ = rc.SetWriteDeadline(time.Now().Add(refusalTimeout))
	// net/http reads on for a while, so that the client sees the answer before the end of the connection.
	_ = rc.SetReadDeadline(time.Now().Add(drainTimeout))
	if !shared(w) {
		w.Header().Set("Connection", "close")
	}
	w.Header().Set("Content-Type", JSON)
	w.WriteHeader(status)
	_, _ = w.Write(jsonrpc.AppendError(nil, nil, &pb.JsonRpcError{Code: codeInvalidRequest, Message: &why, Data: jsonrpc.NotExecuted}, true))
}

// shared reports whether a response is one of several on its connection: those of HTTP/2, and no others, can be pushed.
func shared(w http.ResponseWriter) bool {
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
	// refusalTimeout is how long a client may take to read why it is refused.
	refusalTimeout = 10 * time.Second
	// drainTimeout is how long it may still send what nobody wants.
	drainTimeout = time.Second
	// logEvery is the minimum interval between lines of the log about refused requests.
	logEvery = time.Second
	// codeInvalidRequest is the JSON-RPC code of what is refused before it is read.
	codeInvalidRequest = -32600
)

// check returns why a request is refused, or nothing.
func (g *Guard) check(r *http.Request, maxFields int) (status int, why string) {
	fields := 0
	for _, values := range r.Header {
		fields += len(values)
	}
	if fields > maxFields {
		return http.StatusRequestHeaderFieldsTooLarge, "there are " + strconv.Itoa(fields) + " header fields: at most " + strconv.Itoa(maxFields) + " are allowed"
	}
	// Over HTTP/2 a request has more ways to say two things than over HTTP/1.1, where net/http sees to it (RFC 9113, 8.3.1).
	if r.ProtoMajor > 1 && r.URL.IsAbs() {
		return http.StatusBadRequest, ":path is " + quote(r.RequestURI) + ": it must begin with /"
	}
	// "*" is for OPTIONS (RFC 9112, 3.2.4). Who speaks HTTP/2 where HTTP/1.1 is spoken says it first.
	if r.RequestURI == "*" && r.Method != http.MethodOptions {
		return http.StatusBadRequest, quote(r.Method) + " needs a path, and not *: over HTTP/2, use TLS"
	}
	if other := slices.IndexFunc(r.Header["Host"], func(h string) bool { return !same(hostname(h), hostname(r.Host)) }); other >= 0 {
		return http.StatusBadRequest, ":authority is " + quote(r.Host) + " and host is " + quote(r.Header["Host"][other]) + ": they must be the same"
	}
	if !g.hostAllowed(r.Host) {
		return http.StatusForbidden, "Host " + quote(r.Host) + " is not allowed: name it with --allow-host or serve.http.allowedHosts if it is this bridge's"
	}
	origins := r.Header["Origin"]
	if len(origins) > 1 || len(origins) == 1 && !g.originAllowed(origins[0], r.Host) {
		return http.StatusForbidden, "Origin " + quote(strings.Join(origins, ", ")) + " is not allowed: name it with --allow-origin or serve.http.allowedOrigins if you trust its pages"
	}
	// A browser sends no Origin with a request that a page makes blindly, such as that for an image.
	if site := r.Header.Get("Sec-Fetch-Site"); len(origins) == 0 && (site == "cross-site" || site == "same-site") {
		return http.StatusForbidden, "Sec-Fetch-Site is " + quote(site) + " and there is no Origin: a page of another site may not call"
	}
	return 0, ""
}

// quote returns somebody else's text as it can be shown and logged: short, and without what terminals obey.
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

// originAllowed reports whether pages of an origin may use the bridge: those of this machine, those it serves itself, and
// those it is told to trust.
func (g *Guard) originAllowed(origin, host string) bool {
	if slices.ContainsFunc(g.Origins, func(o string) bool { return o == "*" || same(o, origin) }) {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || !same(origin, u.Scheme+"://"+u.Host) {
		return false // an origin has a scheme and a host, and nothing else
	}
	return isLocal(u.Hostname()) || same(u.Host, host)
}

// same reports whether two names are the same but for the case of their letters. Names in headers are ASCII: to strings.EqualFold,
// ſ is an s.
func same(a, b string) bool { return IsText(a) && IsText(b) && strings.EqualFold(a, b) }

// hostname returns a Host header without its port, if that is one.
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

// isLocal reports whether a name always means this machine, and is written as everybody writes it.
func isLocal(name string) bool {
	if same(name, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.IsLoopback() && !ip.Is4In6() && ip.Zone() == ""
}

// allowOrigin lets the page that made an allowed request read the response.
func allowOrigin(h http.Header, r *http.Request) {
	if origin := r.Header.Get("Origin"); origin != "" {
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Expose-Headers", HeaderSession+", "+HeaderVersion+", Retry-After, WWW-Authenticate")
		h.Add("Vary", "Origin")
	}
}

// preflight answers a browser that asks whether a page may make a request, and whoever else asks what there is (RFC 9110, 9.3.7).
func preflight(w http.ResponseWriter, r *http.Request) {
	const methods = "POST, GET, DELETE"
	h := w.Header()
	h.Set("Allow", methods)
	h.Set("Access-Control-Allow-Methods", methods)
	// Which headers there are depends on the tool that is called (2026-07-28: streamable-http, custom headers).
	h.Set("Access-Control-Allow-Headers", r.Header.Get("Access-Control-Request-Headers"))
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
}
