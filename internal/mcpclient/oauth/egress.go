package oauth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
	"github.com/go-json-experiment/json"

	"github.com/mcpbridge/mcpbridge/internal/mcphttp"
)

const (
	maxDocument  = 1 << 20 // bytes of a metadata document, a registration or a token response
	maxURL       = 2048    // bytes of a URL in a document
	maxRedirects = 3
	fetchTimeout = 15 * time.Second
)

// errNotFound means that a URL has no document. It does not mean that the document could not be fetched.
var errNotFound = errors.New("document not found")

// An egress sends requests to URLs that the MCP server and its authorization server choose. To prevent server-side
// request forgery, it checks addresses when it connects, after the name is resolved for the last time.
type egress struct {
	server  string // host:port of the MCP server, which the configuration names
	local   bool   // the MCP server is on this machine, so its authorization server may be too, without TLS
	private bool   // private addresses are allowed
	guard   *ssrf.Guardian

	resolver *net.Resolver // if nil, that of the system
	proxy    func(*http.Request) (*url.URL, error)
	trusted  sync.Map // host:port from the configuration: proxies, the identity provider

	transport *http.Transport
	get       *http.Client // follows a few redirects
	post      *http.Client // follows none: its requests contain secrets
}

func newEgress(o *Options, server *url.URL) *egress {
	e := &egress{
		server: hostPort(server), local: isLoopback(server.Hostname()), private: o.AllowPrivate,
		guard: ssrf.New(ssrf.WithAnyPort()), proxy: http.ProxyFromEnvironment,
	}
	e.transport = &http.Transport{
		DialContext: e.dial, Proxy: e.trustedProxy, TLSClientConfig: o.TLS.Clone(), ForceAttemptHTTP2: true,
		HTTP2: mcphttp.HTTP2Config(), TLSHandshakeTimeout: fetchTimeout, ResponseHeaderTimeout: fetchTimeout,
		MaxResponseHeaderBytes: 64 << 10, MaxIdleConnsPerHost: 2, IdleConnTimeout: 30 * time.Second,
	}
	e.get = &http.Client{Transport: e.transport, Timeout: fetchTimeout}
	e.get.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return fmt.Errorf("more than %d redirects", maxRedirects)
		}
		return e.check(r.URL)
	}
	e.post = &http.Client{Transport: e.transport, Timeout: fetchTimeout}
	e.post.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return e
}

// trustedProxy returns the proxy for a request. The proxy decides which names it connects to; check still refuses
// literal private addresses.
func (e *egress) trustedProxy(r *http.Request) (*url.URL, error) {
	p, err := e.proxy(r)
	if p != nil {
		e.trusted.Store(hostPort(p), true)
	}
	return p, err
}

func (e *egress) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: fetchTimeout, Resolver: e.resolver}
	if _, trusted := e.trusted.Load(address); !trusted && !strings.EqualFold(address, e.server) && !e.private {
		d.Control = e.control
	}
	return d.DialContext(ctx, network, address)
}

// control returns an error unless connections to address, a resolved one, are allowed.
func (e *egress) control(network, address string, c syscall.RawConn) error {
	if to, err := netip.ParseAddrPort(address); err == nil && e.local && to.Addr().Unmap().IsLoopback() {
		return nil
	}
	if err := e.guard.Safe(network, address, c); err != nil {
		return fmt.Errorf("%s is not a public address, and not the server's own; allowPrivate allows it: %w",
			address, err)
	}
	return nil
}

// parse parses and checks a URL from a document.
func (e *egress) parse(address string) (*url.URL, error) {
	if len(address) > maxURL {
		return nil, fmt.Errorf("URL of %d bytes exceeds %d bytes", len(address), maxURL)
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("%q is not a URL", address)
	}
	return u, e.check(u)
}

// check returns an error unless a URL may be requested. It requires TLS, except on this machine (2025-03-26 and later:
// authorization, communication security), where control decides.
func (e *egress) check(u *url.URL) error {
	switch {
	case u.Host == "" || u.Hostname() == "" || u.Opaque != "":
		return fmt.Errorf("%q is not a URL with a host", u.Redacted())
	case u.User != nil:
		return fmt.Errorf("%q has a user name", u.Redacted())
	case u.Fragment != "":
		return fmt.Errorf("%q has a fragment", u)
	case !isSecure(u):
		return fmt.Errorf("%q does not begin with https://", u)
	}
	// control checks resolved names. With a proxy, control sees only the proxy, so literal addresses are checked here.
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil && !e.private && hostPort(u) != e.server {
		network := "tcp4"
		if ip.Unmap().Is6() {
			network = "tcp6"
		}
		return e.control(network, netip.AddrPortFrom(ip.Unmap().WithZone(""), 443).String(), nil)
	}
	return nil
}

// getJSON decodes the JSON object at a URL into out. It returns errNotFound if there is none.
func (e *egress) getJSON(ctx context.Context, address string, header http.Header, out any) error {
	return e.doJSON(ctx, e.get, http.MethodGet, address, header, nil, out)
}

// postJSON sends a JSON object to a URL and decodes the response into out.
func (e *egress) postJSON(ctx context.Context, address string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	return e.doJSON(ctx, e.post, http.MethodPost, address, http.Header{"Content-Type": {"application/json"}}, body, out)
}

func (e *egress) doJSON(
	ctx context.Context, c *http.Client, method, address string, header http.Header, body []byte, out any,
) error {
	u, err := e.parse(address)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	maps.Copy(req.Header, header)
	req.Header.Set("Accept", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		return err // the error has the URL
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	switch {
	case err != nil:
		return fmt.Errorf("%s %s: %w", method, address, err)
	case len(text) > maxDocument:
		return fmt.Errorf("%s %s: response body exceeds %d bytes", method, address, maxDocument)
	case resp.StatusCode >= 400 && resp.StatusCode < 500 && !isTemporary[resp.StatusCode]:
		return &statusError{url: address, status: resp.StatusCode, body: text}
	case resp.StatusCode >= 300:
		return fmt.Errorf("%s %s: status %s", method, address, resp.Status)
	case !bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{")):
		// Many servers respond with an HTML page and status 200 to every unknown path.
		return fmt.Errorf("%s %s: %w", method, address, errNotFound)
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("%s %s: %w", method, address, err)
	}
	return nil
}

// isTemporary has the statuses from 400 to 499 after which another attempt may succeed.
var isTemporary = map[int]bool{
	http.StatusRequestTimeout: true, http.StatusTooEarly: true, http.StatusTooManyRequests: true,
}

// A statusError is a response with a permanent status of 400 to 499.
type statusError struct {
	url    string
	status int
	body   []byte
}

func (e *statusError) Error() string { return fmt.Sprintf("%s: status %d", e.url, e.status) }

// Is reports whether target is errNotFound.
func (e *statusError) Is(target error) bool { return target == errNotFound }

// isSecure reports whether requests to a URL cannot be intercepted: it has TLS or is on this machine.
func isSecure(u *url.URL) bool {
	return u.Scheme == "https" || u.Scheme == "http" && isLoopback(u.Hostname())
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

var defaultPorts = map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}

// hostPort returns the address that is dialed for a URL.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = defaultPorts[u.Scheme]
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// origin returns the origin of a URL as browsers define it.
func origin(u *url.URL) string {
	scheme, host := strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	if port := defaultPorts[scheme]; u.Port() == port || u.Port() == "" {
		host = strings.TrimSuffix(strings.TrimSuffix(host, ":"+port), ":")
	}
	return scheme + "://" + host
}
