package conns_test

import (
	"bytes"
	"crypto/tls"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/internal/conns"
)

// A peer is the server's end of a connection from an address. It records whether it was closed.
type peer struct {
	net.Conn
	from   net.Addr
	closed bool
}

func (p *peer) RemoteAddr() net.Addr { return p.from }

func (p *peer) Close() error {
	p.closed = true
	return nil
}

func from(address string) *peer {
	if address == "" {
		return &peer{from: &net.UnixAddr{Net: "unix"}}
	}
	return &peer{from: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address))}
}

func TestIdleConnectionIsClosedForANewOne(t *testing.T) {
	type client struct {
		from string
		is   string // what its client has done
	}
	const full = 4
	for name, tt := range map[string]struct {
		there []client
		comes string
		gone  int // which of them; -1: the new one
	}{
		"the oldest that has made no call": {[]client{
			{"", "called"},
			{"", ""},
			{"", ""},
			{"", "calls"},
		}, "", 1},
		"one that has made a call": {[]client{
			{"", "calls"},
			{"", "known"},
			{"", "called"},
			{"", "called"},
		}, "", 2},
		"no connection with an authenticated call": {[]client{
			{"", "known"},
			{"", "known"},
			{"", "known"},
			{"", "known"},
		}, "", -1},
		"no connection with a call": {[]client{
			{"", "calls"},
			{"", "calls"},
			{"", "calls"},
			{"", "calls"},
		}, "", -1},
		"one of the address that has most": {[]client{
			{"10.0.0.1:1", ""},
			{"10.0.0.2:1", ""},
			{"10.0.0.2:2", ""},
			{"10.0.0.3:1", ""},
		}, "10.0.0.1:2", 1},
		"one of the network that has most": {[]client{
			{"[2001:db8:1::1]:1", ""},
			{"[2001:db8:2::1]:1", ""},
			{"[2001:db8:2::2]:1", ""},
			{"[2001:db8:3::1]:1", ""},
		}, "10.0.0.1:2", 1},
		"one of an address that has its share, by itself": {[]client{
			{"10.0.0.1:1", "calls"},
			{"10.0.0.1:2", "called"},
			{"10.0.0.1:3", "calls"},
		}, "10.0.0.1:4", 1},
		"the new one of an address that has its share": {[]client{
			{"10.0.0.1:1", "calls"},
			{"10.0.0.1:2", "known"},
			{"10.0.0.1:3", "calls"},
		}, "10.0.0.1:4", -1},
		"none for one of another address below the limit": {[]client{
			{"10.0.0.1:1", "calls"},
			{"10.0.0.1:2", "known"},
			{"10.0.0.1:3", "calls"},
		}, "10.0.0.2:1", -2},
		"none for one of a socket below the limit": {
			[]client{{"", "calls"}, {"", "calls"}, {"", "calls"}},
			"", -2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			p := &conns.Port{Name: "test", MaxConns: full, Log: zerolog.New(&log)}
			var peers []*peer
			for _, c := range tt.there {
				end := from(c.from)
				conn := p.Add(end)
				if conn == nil {
					t.Fatal("there is no room from the beginning")
				}
				peers = append(peers, end)
				if c.is != "" {
					conn.Begin(c.is == "known")
				}
				if c.is != "" && c.is != "calls" {
					conn.End()
				}
			}
			end := from(tt.comes)
			added := p.Add(end)
			if (added == nil) != (tt.gone == -1) || end.closed != (tt.gone == -1) {
				t.Errorf("the new one is let in: %v, and closed: %v", added != nil, end.closed)
			}
			for i, c := range peers {
				if c.closed != (i == tt.gone) {
					t.Errorf("%d is closed: %v", i, c.closed)
				}
			}
			if logged := strings.Contains(log.String(), "too many test connections"); logged != (tt.gone != -2) {
				t.Errorf("got the log %q", &log)
			}
		})
	}
}

// Places of connections that have ended are free, those that gave way once and not twice.
func TestClosedConnectionsFreeTheirPlaces(t *testing.T) {
	p := &conns.Port{MaxConns: 2}
	first, second := p.Add(from("10.0.0.1:1")), p.Add(from("10.0.0.1:2"))
	if third := p.Add(from("10.0.0.1:3")); third == nil { // first has given way
		t.Fatal("no connection was closed")
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second.Begin(false)
	for range 3 {
		c := p.Add(from("10.0.0.2:1"))
		if c == nil {
			t.Fatal("a place is lost")
		}
		c.Begin(false)
		if more := p.Add(from("10.0.0.3:1")); more != nil {
			t.Fatal("there are three")
		}
		c.End()
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A hijacked connection is not closed for a new one until it is released, however often it is hijacked or released.
func TestHijackedConnectionsAreNotClosedForNewOnes(t *testing.T) {
	p := &conns.Port{MaxConns: 1}
	c := p.Add(from("10.0.0.1:1"))
	c.Begin(false)
	c.Release() // as every new connection
	c.Hijack()
	c.Hijack()
	c.End()
	if p.Add(from("10.0.0.2:1")) != nil {
		t.Error("it has given way")
	}
	c.Release()
	c.Release()
	c.Begin(false)
	if p.Add(from("10.0.0.2:1")) != nil {
		t.Error("it has given way during a call")
	}
	c.End()
	if p.Add(from("10.0.0.2:1")) == nil {
		t.Error("it is kept")
	}
}

// Connections are found below TLS and below counted frames.
func TestOfFindsTheConnection(t *testing.T) {
	p := &conns.Port{}
	c := p.Add(from("10.0.0.1:1"))
	if conns.Of(c) != c || conns.Of(tls.Server(c, nil)) != c || conns.Of(c.Framed(tls.Server(c, nil))) != c ||
		conns.Of(from("10.0.0.1:1")) != nil {
		t.Error("another one is found")
	}
}

// Refused connections are logged once every ten seconds, with their number.
func TestWarningsAboutAFullPortAreRateLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		p := &conns.Port{Name: "test", MaxConns: 1, Log: zerolog.New(&log)}
		for range 1_000 {
			p.Add(from("10.0.0.1:1"))
		}
		<-time.After(10 * time.Second)
		p.Add(from("10.0.0.1:1"))
		lines := slices.Collect(strings.Lines(log.String()))
		if len(lines) != 2 || !strings.Contains(lines[0], `"idle_closed":1,`) ||
			!strings.Contains(lines[1], `"idle_closed":999,`) ||
			!strings.Contains(lines[1], `"most_from":"10.0.0.1/32"`) {
			t.Errorf("got %s", lines)
		}
	})
}
