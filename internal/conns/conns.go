// Package conns limits the number of connections of a port, and the rates of the HTTP/2 frames that arrive on each.
// When the port is full, an idle connection of an unauthenticated client is closed for a new one. Connections of
// authenticated clients and connections with a call in flight are never closed for others.
package conns

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/internal/limits"
)

// warnEvery is the minimum interval between warnings about a full port, and floodEvery between those about floods.
const warnEvery, floodEvery = 10 * time.Second, time.Second

// A Port counts the connections of one port. Its methods may be called concurrently.
type Port struct {
	// Name is the protocol in log messages, such as "gRPC".
	Name string
	// MaxConns is the maximum number of connections. If zero, limits.Connections is used.
	MaxConns int
	// Log receives the warnings about a full port.
	Log zerolog.Logger

	mu     sync.Mutex // guards what follows
	all    map[*Conn]struct{}
	hosts  map[netip.Prefix]*host
	opened uint64 // number of accepted connections

	warned          time.Time
	closed, refused int // since warned: number of idle connections closed, and of new connections rejected

	flooded time.Time // when a flood was logged last
}

// A host is where connections come from: an IPv4 address, or an IPv6 network of 64 bits.
type host struct {
	from  netip.Prefix
	conns int
	idle  int // used by victim
}

// A standing is how far a client has been authenticated.
type standing int32

const (
	anonymous     standing = iota
	caller                 // it made a call that was admitted; without authentication, every call is
	authenticated          // it authenticated with a token or a certificate
)

// A Conn is a connection of a Port.
type Conn struct {
	net.Conn

	port     *Port
	host     *host // nil if it has no IP address
	number   uint64
	calls    atomic.Int32
	standing atomic.Int32
	hijacked atomic.Bool
}

// Listener returns a listener with the connections of ln that Add accepts, each as a *Conn. It closes all others
// immediately: in a backlog, they would wait until the clients of the open connections disconnect.
func (p *Port) Listener(ln net.Listener) net.Listener { return &listener{ln, p} }

type listener struct {
	net.Listener
	port *Port
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if added := l.port.Add(c); added != nil {
			return added, nil
		}
	}
}

// Add adds an accepted connection. If the port is full and no other connection can be closed for it, Add closes it
// and returns nil.
func (p *Port) Add(c net.Conn) *Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	most := p.MaxConns
	if most == 0 {
		most = limits.Connections
	}
	h := p.host(c.RemoteAddr())
	// One host may use three quarters of a port that is not very small.
	crowded := h != nil && most >= 4 && h.conns >= most-most/4
	if crowded || len(p.all) >= most {
		var of *host
		if crowded {
			of = h
		}
		victim := p.victim(of)
		if victim == nil {
			p.refused++
			p.warn(c.RemoteAddr(), most)
			_ = c.Close() // nothing was read
			p.forget(h)
			return nil
		}
		p.closed++
		p.warn(c.RemoteAddr(), most)
		_ = victim.Conn.Close() // its read fails, which ends its serving goroutine
		p.remove(victim)
	}
	p.opened++
	if p.all == nil {
		p.all = map[*Conn]struct{}{}
	}
	if h != nil {
		h.conns++
	}
	added := &Conn{Conn: c, port: p, host: h, number: p.opened}
	p.all[added] = struct{}{}
	return added
}

// victim returns the connection to close for a new one, or nil. Candidates are idle and not authenticated. If of is not
// nil, only its connections are candidates. Those without any call come first, then those of the host with the most
// candidates, then the oldest.
func (p *Port) victim(of *host) *Conn {
	lowest := authenticated
	for c := range p.all {
		if c.idle(of) {
			lowest = min(lowest, c.getStanding())
		}
	}
	if lowest == authenticated {
		return nil
	}
	for _, h := range p.hosts {
		h.idle = 0
	}
	for c := range p.all {
		if c.host != nil && c.idle(of) && c.getStanding() == lowest {
			c.host.idle++
		}
	}
	var victim *Conn
	for c := range p.all {
		if !c.idle(of) || c.getStanding() != lowest {
			continue
		}
		if victim == nil || c.idleOfHost() > victim.idleOfHost() ||
			c.idleOfHost() == victim.idleOfHost() && c.number < victim.number {
			victim = c
		}
	}
	return victim
}

func (c *Conn) idle(of *host) bool { return c.calls.Load() == 0 && (of == nil || c.host == of) }

func (c *Conn) getStanding() standing { return standing(c.standing.Load()) }

func (c *Conn) idleOfHost() int {
	if c.host == nil {
		return 0
	}
	return c.host.idle
}

// Network returns the prefix that identifies a host: an IPv4 address, or an IPv6 /64. It is invalid if ip is invalid.
func Network(ip netip.Addr) netip.Prefix {
	ip = ip.Unmap()
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	network, _ := ip.Prefix(bits) // invalid if there is an error
	return network
}

// host returns the host of an address, or nil if it has no IP address.
func (p *Port) host(a net.Addr) *host {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return nil
	}
	from := Network(tcp.AddrPort().Addr())
	if !from.IsValid() {
		return nil
	}
	if p.hosts == nil {
		p.hosts = map[netip.Prefix]*host{}
	}
	h := p.hosts[from]
	if h == nil {
		h = &host{from: from}
		p.hosts[from] = h
	}
	return h
}

// forget removes a host without connections.
func (p *Port) forget(h *host) {
	if h != nil && h.conns == 0 {
		delete(p.hosts, h.from)
	}
}

// remove removes a connection, if it is present.
func (p *Port) remove(c *Conn) {
	if _, ok := p.all[c]; !ok {
		return
	}
	delete(p.all, c)
	if c.host != nil {
		c.host.conns--
		p.forget(c.host)
	}
}

// warn logs that the port is full, with the counts since the last warning. The caller holds mu.
func (p *Port) warn(from net.Addr, most int) {
	now := time.Now()
	if now.Sub(p.warned) < warnEvery {
		return
	}
	p.warned = now
	e := p.Log.Warn().Int("connections", len(p.all)).Int("limit", most).
		Int("idle_closed", p.closed).Int("refused", p.refused)
	if from != nil {
		e.Str("remote", from.String())
	}
	var top *host
	for _, h := range p.hosts {
		if top == nil || h.conns > top.conns {
			top = h
		}
	}
	if top != nil {
		e.Stringer("most_from", top.from).Int("of_them", top.conns)
	}
	e.Msgf("too many %s connections: idle ones of unauthenticated clients are closed for new ones, or new ones are "+
		"refused; restrict access to the port in the network", p.Name)
	p.closed, p.refused = 0, 0
}

// warnFlood logs that a connection was closed because of too many frames.
func (p *Port) warnFlood(c *Conn, resets int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if now.Sub(p.flooded) < floodEvery {
		return
	}
	p.flooded = now
	e := p.Log.Warn().Int("resets", resets)
	if from := c.RemoteAddr(); from != nil {
		e.Stringer("remote", from)
	}
	e.Msgf("closed a %s connection: its client sent too many HTTP/2 frames without a request, or reset too many "+
		"requests; "+
		"further ones in the next second are not logged", p.Name)
}

// Begin records that an admitted call starts, and whether its caller is authenticated. End must follow.
func (c *Conn) Begin(identified bool) {
	c.calls.Add(1)
	stands := caller
	if identified {
		stands = authenticated
	}
	if c.getStanding() < stands {
		c.standing.Store(int32(stands))
	}
}

// End records that a call ended.
func (c *Conn) End() { c.calls.Add(-1) }

// Hijack records that the connection was hijacked, which counts as a call until Release.
func (c *Conn) Hijack() {
	if !c.hijacked.Swap(true) {
		c.calls.Add(1)
	}
}

// Release records that a hijacked connection was returned to its server.
func (c *Conn) Release() {
	if c.hijacked.Swap(false) {
		c.calls.Add(-1)
	}
}

// Authenticated records that the client authenticated before any call.
func (c *Conn) Authenticated() { c.standing.Store(int32(authenticated)) }

// CloseWrite closes the writing side, if the connection supports it, as package net/http does before it closes a
// connection.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Of returns the Conn that c is, or that c wraps as a TLS connection does, or nil.
func Of(c net.Conn) *Conn {
	for {
		switch at := c.(type) {
		case *Conn:
			return at
		case interface{ NetConn() net.Conn }:
			c = at.NetConn()
		default:
			return nil
		}
	}
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	c.port.mu.Lock()
	c.port.remove(c)
	c.port.mu.Unlock()
	return c.Conn.Close()
}
