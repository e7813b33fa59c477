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
)

const (
	// Most is the default maximum number of connections of a port.
	Most = 4_096
	// warnEvery is the minimum interval between warnings about a full port, and floodEvery between those about floods.
	warnEvery, floodEvery = 10 * time.Second, time.Second
)

// A Port counts the connections of one port. Its methods may be called concurrently.
type Port struct {
	// Name is the protocol in log messages, such as "gRPC".
	Name string
	// Most is the maximum number of connections. If zero, the constant Most is used.
	Most int
	// Log receives the warnings about a full port.
	Log zerolog.Logger

	mu     sync.Mutex // guards what follows
	all    map[*Conn]struct{}
	hosts  map[netip.Prefix]*host
	opened uint64 // so many were accepted

	warned          time.Time
	closed, refused int // since then: idle ones that gave way, and new ones that did not get in

	flooded time.Time // when a flood was logged last
}

// A host is where connections come from: an IPv4 address, or an IPv6 network of 64 bits.
type host struct {
	from  netip.Prefix
	conns int
	idle  int // while room looks for one that can give way
}

// A standing is how far a client has been authenticated.
type standing int32

const (
	stranger standing = iota
	caller            // it made a call that was admitted; without authentication, every call is
	known             // it authenticated with a token or a certificate
)

// A Conn is one of a Port's connections.
type Conn struct {
	net.Conn

	port     *Port
	host     *host // nil: it is of no network
	number   uint64
	calls    atomic.Int32
	standing atomic.Int32
	taken    atomic.Bool
}

// Listener returns ln, of whose connections it returns those that Add accepts, each a *Conn. Others are not left
// waiting: whoever holds the port's connections would decide for how long.
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

// Add returns a connection that was accepted, as one of those of the port. It returns nil, and has closed it, if there is no room: no
// other connection gives way to it.
func (p *Port) Add(c net.Conn) *Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	most := p.Most
	if most == 0 {
		most = Most
	}
	h := p.host(c.RemoteAddr())
	// The last quarter is for others than the address that has the rest. That of a small port is not worth dividing.
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

// victim returns the connection that gives way to a new one, of a host if that is not nil; nil: none does. It is idle, of a client that
// has not shown who it is: of those that have made no call if there are any, of the host that has most of them, the oldest.
func (p *Port) victim(of *host) *Conn {
	lowest := known
	for c := range p.all {
		if c.idle(of) {
			lowest = min(lowest, c.stands())
		}
	}
	if lowest == known {
		return nil
	}
	for _, h := range p.hosts {
		h.idle = 0
	}
	for c := range p.all {
		if c.host != nil && c.idle(of) && c.stands() == lowest {
			c.host.idle++
		}
	}
	var victim *Conn
	for c := range p.all {
		if !c.idle(of) || c.stands() != lowest {
			continue
		}
		if victim == nil || c.idleOfHost() > victim.idleOfHost() || c.idleOfHost() == victim.idleOfHost() && c.number < victim.number {
			victim = c
		}
	}
	return victim
}

func (c *Conn) idle(of *host) bool { return c.calls.Load() == 0 && (of == nil || c.host == of) }

func (c *Conn) stands() standing { return standing(c.standing.Load()) }

func (c *Conn) idleOfHost() int {
	if c.host == nil {
		return 0
	}
	return c.host.idle
}

// Network returns what counts as one address: that of IPv4, or of IPv6 the network of 64 bits. If ip is none, it is not
// valid.
func Network(ip netip.Addr) netip.Prefix {
	ip = ip.Unmap()
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	network, _ := ip.Prefix(bits) // which is not valid if there is an error
	return network
}

// host returns the host of an address, or nil if it is of no network.
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

// forget forgets a host that has no connections.
func (p *Port) forget(h *host) {
	if h != nil && h.conns == 0 {
		delete(p.hosts, h.from)
	}
}

// remove removes a connection, if it is there.
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

// warn says that there are too many connections, with those since it was said last. The caller holds mu.
func (p *Port) warn(from net.Addr, most int) {
	now := time.Now()
	if now.Sub(p.warned) < warnEvery {
		return
	}
	p.warned = now
	e := p.Log.Warn().Int("connections", len(p.all)).Int("limit", most).Int("idle_closed", p.closed).Int("refused", p.refused)
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
	e.Msgf("too many %s connections: idle ones of clients that have not authenticated are closed for new ones, and else new ones refused; "+
		"limit at the network who can reach the port", p.Name)
	p.closed, p.refused = 0, 0
}

// warnFlood logs that a connection was closed whose client sent too many frames of HTTP/2, so many of them resets.
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
	e.Msgf("closed a %s connection: its client sent too many HTTP/2 frames that request nothing, or reset requests as soon as it made them; "+
		"further ones in the next second are not logged", p.Name)
}

// Begin notes that a call has begun that was let in, and whether its caller has shown who it is. End has to follow.
func (c *Conn) Begin(identified bool) {
	c.calls.Add(1)
	stands := caller
	if identified {
		stands = known
	}
	if c.stands() < stands {
		c.standing.Store(int32(stands))
	}
}

// End notes that a call has ended.
func (c *Conn) End() { c.calls.Add(-1) }

// Take notes that the connection was taken over by a call that lasts, such as a stream, and counts as one until it is
// given Back.
func (c *Conn) Take() {
	if !c.taken.Swap(true) {
		c.calls.Add(1)
	}
}

// Back notes that the connection was given back, if it had been taken over.
func (c *Conn) Back() {
	if c.taken.Swap(false) {
		c.calls.Add(-1)
	}
}

// Known notes that the client has shown who it is, before any call.
func (c *Conn) Known() { c.standing.Store(int32(known)) }

// CloseWrite closes the writing side, where a connection has that: package net/http does before it closes, so that its
// answer is read.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Of returns the connection of a port that c is, or is built on, as TLS is. If it is none, nil.
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
