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
	maxURL       = 2048    // bytes of an address that somebody else names
	maxRedirects = 3
	fetchTimeout = 15 * time.Second
)

// errAbsent says that there is no document at an address, which is not the same as that it could not be had.
var errAbsent = errors.New("there is no such document")

// An egress fetches what the MCP server and its authorization server name: metadata, registrations, tokens. They can name
// anything, so what it connects to is checked when the connection is made, when the name has been resolved for good.
type egress struct {
	server  string // host:port of the MCP server: whoever has named it wants it to be reached
	local   bool   // the MCP server is on this machine, so its authorization server may be too, without TLS
	private bool   // private addresses are allowed
	guard   *ssrf.Guardian

	resolver *net.Resolver // nil: the system's
	proxy    func(*http.Request) (*url.URL, error)
	named    sync.Map // host:port of what the operator has named: proxies, the identity provider

	transport *http.Transport
	get       *http.Client // follows a few redirects
	post      *http.Client // follows none: what it sends is secret
}

func newEgress(o *Options, server *url.URL) *egress {
	e := &egress{
		server: hostPort(server), local: isLoopback(server.Hostname()), private: o.AllowPrivate,
		guard: ssrf.New(ssrf.WithAnyPort()), proxy: http.ProxyFromEnvironment,
	}
	e.transport = &http.Transport{
		DialContext: e.dial, Proxy: e.viaProxy, TLSClientConfig: o.TLS.Clone(), ForceAttemptHTTP2: true, HTTP2: mcphttp.HTTP2Config(),
		TLSHandshakeTimeout: fetchTimeout, ResponseHeaderTimeout: fetchTimeout, MaxResponseHeaderBytes: 64 << 10,
		MaxIdleConnsPerHost: 2, IdleConnTimeout: 30 * time.Second,
	}
	e.get = &http.Client{Transport: e.transport, Timeout: fetchTimeout, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return fmt.Errorf("more than %d redirects", maxRedirects)
		}
		return e.check(r.URL)
	}}
	e.post = &http.Client{Transport: e.transport, Timeout: fetchTimeout, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	return e
}

// viaProxy returns the proxy for a request. Whether what is behind a proxy may be reached is for the proxy to say, except
// that check refuses private addresses that are written as such.
func (e *egress) viaProxy(r *http.Request) (*url.URL, error) {
	p, err := e.proxy(r)
	if p != nil {
		e.named.Store(hostPort(p), true)
	}
	return p, err
}

func (e *egress) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: fetchTimeout, Resolver: e.resolver}
	if _, named := e.named.Load(address); !named && !strings.EqualFold(address, e.server) && !e.private {
		d.Control = e.control
	}
	return d.DialContext(ctx, network, address)
}

// control decides whether a connection to an address, which is an IP address by now, may be made.
func (e *egress) control(network, address string, c syscall.RawConn) error {
	if to, err := netip.ParseAddrPort(address); err == nil && e.local && to.Addr().Unmap().IsLoopback() {
		return nil
	}
	if err := e.guard.Safe(network, address, c); err != nil {
		return fmt.Errorf("%s is not a public address, and neither the server's own; allowPrivate allows it: %w", address, err)
	}
	return nil
}

// parse returns an address that somebody else has named, if it may be used at all.
func (e *egress) parse(address string) (*url.URL, error) {
	if len(address) > maxURL {
		return nil, fmt.Errorf("an address of %d bytes, and %d are the most", len(address), maxURL)
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("%q is not a URL", address)
	}
	return u, e.check(u)
}

// check says what is wrong with an address, if anything is. Everything needs TLS, except on this machine (2025-03-26 and later:
// authorization, communication security), which control says whether it may be reached.
func (e *egress) check(u *url.URL) error {
	switch {
	case u.Host == "" || u.Hostname() == "" || u.Opaque != "":
		return fmt.Errorf("%q is not a URL with a host", u.Redacted())
	case u.User != nil:
		return fmt.Errorf("%q has a user name in it", u.Redacted())
	case u.Fragment != "":
		return fmt.Errorf("%q has a fragment", u)
	case !isSafe(u):
		return fmt.Errorf("%q does not begin with https://", u)
	}
	// A name is checked when it has been resolved. A proxy resolves it itself, so what needs no resolving is checked now.
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil && !e.private && hostPort(u) != e.server {
		network := "tcp4"
		if ip.Unmap().Is6() {
			network = "tcp6"
		}
		return e.control(network, netip.AddrPortFrom(ip.Unmap().WithZone(""), 443).String(), nil)
	}
	return nil
}

// document reads the JSON object at an address into out. It returns errAbsent if there is none.
func (e *egress) document(ctx context.Context, address string, header http.Header, out any) error {
	return e.exchange(ctx, e.get, http.MethodGet, address, header, nil, out)
}

// submit sends a JSON object to an address and reads the one that it answers with.
func (e *egress) submit(ctx context.Context, address string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	return e.exchange(ctx, e.post, http.MethodPost, address, http.Header{"Content-Type": {"application/json"}}, body, out)
}

func (e *egress) exchange(ctx context.Context, c *http.Client, method, address string, header http.Header, body []byte, out any) error {
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
		return err // it names the address
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	switch {
	case err != nil:
		return fmt.Errorf("%s %s: %w", method, address, err)
	case len(text) > maxDocument:
		return fmt.Errorf("%s %s: the answer is longer than %d bytes", method, address, maxDocument)
	case resp.StatusCode >= 400 && resp.StatusCode < 500 && !isForNow[resp.StatusCode]:
		return &refusal{address: address, status: resp.StatusCode, text: text}
	case resp.StatusCode >= 300:
		return fmt.Errorf("%s %s: it answers %s", method, address, resp.Status)
	case !bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{")):
		// Many sites answer whatever is not there with a page of theirs.
		return fmt.Errorf("%s %s: %w", method, address, errAbsent)
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("%s %s: %w", method, address, err)
	}
	return nil
}

// isForNow has the statuses from 400 to 499 that may be another one in a moment.
var isForNow = map[int]bool{http.StatusRequestTimeout: true, http.StatusTooEarly: true, http.StatusTooManyRequests: true}

// A refusal is an answer with a status of 400 to 499 that will be the same the next time.
type refusal struct {
	address string
	status  int
	text    []byte // the body
}

func (r *refusal) Error() string {
	return fmt.Sprintf("%s answers with status %d", r.address, r.status)
}

// Is reports whether target is errAbsent: a document that is refused is not there.
func (r *refusal) Is(target error) bool { return target == errAbsent }

// isSafe reports whether nobody can listen on the way to a URL: it has TLS, or is on this machine.
func isSafe(u *url.URL) bool {
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

// hostPort returns where a URL is dialled.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = defaultPorts[u.Scheme]
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// origin returns what browsers call a URL's origin.
func origin(u *url.URL) string {
	scheme, host := strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	if port := defaultPorts[scheme]; u.Port() == port || u.Port() == "" {
		host = strings.TrimSuffix(strings.TrimSuffix(host, ":"+port), ":")
	}
	return scheme + "://" + host
}
