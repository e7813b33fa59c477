package oauth

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// privateAddresses are loopback, private, shared, link-local, translated, documentation and reserved ones (RFC 6890 and
// its successors; CVE-2026-44430).
var privateAddresses = strings.Fields(`
	127.0.0.1 127.0.0.2 127.1.2.3 127.255.255.254 0.0.0.0 0.1.2.3 10.0.0.1 10.1.2.3 10.255.255.255 172.16.0.1
	172.20.10.2 172.31.255.255 192.168.0.1 192.168.1.1 192.168.255.255 100.64.0.1 100.100.100.200 100.127.255.255
	169.254.0.1 169.254.169.254 169.254.170.2 192.0.0.1 192.0.0.170 192.0.0.192 192.0.2.1 192.88.99.1
	198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255
	::1 :: ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 ::ffff:192.168.0.1 ::127.0.0.1 ::ffff:0:127.0.0.1
	fc00::1 fd00::1 fd00:ec2::254 fd12:3456:789a::1 fe80::1 fe80::a9fe:a9fe febf::1 fec0::1 feff::1 ff02::1 ff05::2
	2002:7f00:1::1 2002:a00:1:: 2002:a9fe:a9fe:: 2002:c0a8:1:: 64:ff9b::7f00:1 64:ff9b::a00:1
	64:ff9b::a9fe:a9fe 64:ff9b:1::a9fe:a9fe 2001::1 2001:0:7f00:1:: 2001:2::1 2001:db8::1 2001:10::1 100::1 3fff::1 5f00::1`)

// privateNames are names that some resolvers resolve to a private address.
var privateNames = strings.Fields(`
	127.1 127.0.1 0 0x7f.1 0x7f000001 0x7F.0x0.0x0.0x1 017700000001 0177.0.0.1 0177.0.0.01 00000177.0.0.1 2130706433
	4294967295 10.1 0xa.1 012.0.0.1 167772161 169.254.43518 0xa9fea9fe 0251.0376.0251.0376 2852039166
	0xA9.0xFE.0xA9.0xFE 127.0.0.1. 127。0。0。1 １２７.0.0.1 ①②⑦.0.0.1 localhost LOCALHOST LocalHost localhost.
	localhost.localdomain ip6-localhost ip6-loopback [::ffff:7f00:1] [0:0:0:0:0:0:0:1] [0000::1] [::1%25lo]
	[fe80::1%25eth0] [::FFFF:169.254.169.254]
	metadata metadata.google.internal instance-data kubernetes.default.svc host.docker.internal`)

// No connection to a private address is made, in whatever form metadata have it. A trace, which is independent of
// the guard, records all connections.
func TestPrivateAddressesInAnyForm(t *testing.T) {
	var mu sync.Mutex
	var made []string // connections that the guard allowed
	var refused int   // those that it refused
	var form, allowed string
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{ConnectDone: func(_, to string, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err != nil && strings.Contains(err.Error(), "is not a public address") {
			refused++
		} else if to != allowed {
			made = append(made, fmt.Sprintf("%s: to %s: %v", form, to, err))
		}
	}})
	var names nameServer
	resolver := &net.Resolver{PreferGo: true, Dial: names.serve(t)}
	e := remote(t, nil)
	e.resolver = resolver
	tried := 0
	check := func(how, address string) {
		t.Helper()
		tried++
		mu.Lock()
		form = how + " " + address
		mu.Unlock()
		if err := e.getJSON(ctx, address, nil, &struct{}{}); err == nil {
			t.Errorf("%s %s: got no error", how, address)
		}
	}
	for _, text := range privateAddresses {
		ip := netip.MustParseAddr(text)
		host := ip.String()
		if ip.Is6() {
			host = "[" + host + "]"
		}
		for _, port := range []string{"", ":1", ":8443"} {
			check("literally", "https://"+host+port+"/x")
			check("literally", "http://"+host+port+"/x")
		}
		names.set(ip)
		check("by its name", "https://as.example/.well-known/oauth-authorization-server")
		names.set(netip.MustParseAddr("10.9.8.7"), ip, netip.MustParseAddr("fd00::7"))
		check("by a name with several addresses", "https://as.example:1/")
		names.set(ip)
		names.alias("inside.example.")
		check("by an alias", "https://as.example/")
		names.alias("")
	}
	for _, host := range privateNames {
		names.set(netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1"))
		for _, scheme := range []string{"https://", "http://", "HTTPS://"} {
			check("spelled", scheme+host+"/")
			check("spelled", scheme+host+":1/")
		}
	}
	// An allowed server redirects to a private address, in the first, second or third response.
	var to string
	hops := 0
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		hops--
		if hops > 0 {
			http.Redirect(rw, r, "/again", http.StatusFound)
			return
		}
		rw.Header().Set("Location", to)
		rw.WriteHeader([]int{301, 302, 303, 307, 308}[tried%5])
	}))
	defer s.Close()
	e = newEgress(&Options{}, must(url.Parse("https://mcp.example/")))
	e.resolver, e.server = resolver, strings.TrimPrefix(s.URL, "http://")
	allowed = e.server
	for _, text := range privateAddresses {
		ip := netip.MustParseAddr(text)
		host := ip.String()
		if ip.Is6() {
			host = "[" + host + "]"
		}
		names.set(ip)
		for responses, address := range map[int]string{
			1: "https://" + host + "/", 2: "//" + host + "/",
			3: "https://as.example/",
		} {
			to, hops = address, responses
			tried++
			err := e.getJSON(ctx, s.URL, nil, &struct{}{})
			if err == nil || !strings.Contains(err.Error(), "not a public address") &&
				!strings.Contains(err.Error(), "does not begin with https://") {
				t.Errorf("redirect to %s (%s): got %v", to, ip, err)
			}
		}
	}
	e.transport.CloseIdleConnections()
	if len(made) > 0 {
		t.Errorf("got %d connections, want none: %q", len(made), made)
	}
	if tried < 200 || refused < 200 {
		t.Errorf("got %d forms and %d refused connections, want at least 200", tried, refused)
	}
	t.Logf("%d forms, %d connections begun and refused, %d made", tried, refused, len(made))
}

// A nameServer has the same addresses for every name.
type nameServer struct {
	mu        sync.Mutex // guards the rest
	canonical string     // the name that every name is an alias of, if any
	addresses []netip.Addr
}

func (n *nameServer) alias(canonical string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.canonical = canonical
}

func (n *nameServer) set(all ...netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addresses = all
}

// serve returns a function that dials the name server, which runs until the end of the test.
func (n *nameServer) serve(t *testing.T) func(context.Context, string, string) (net.Conn, error) {
	t.Helper()
	pc, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { pc.Close(); <-done })
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			size, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:size]) != nil || len(m.Questions) == 0 {
				continue
			}
			if _, err := pc.WriteTo(n.answer(&m), from); err != nil {
				return
			}
		}
	}()
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", pc.LocalAddr().String())
	}
}

func (n *nameServer) answer(m *dnsmessage.Message) []byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	m.Response, m.Additionals = true, nil
	q := m.Questions[0]
	header := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}
	if n.canonical != "" {
		alias := dnsmessage.MustNewName(n.canonical)
		header.Type = dnsmessage.TypeCNAME
		m.Answers = append(m.Answers,
			dnsmessage.Resource{Header: header, Body: &dnsmessage.CNAMEResource{CNAME: alias}})
		header.Name, header.Type = alias, q.Type
	}
	for _, ip := range n.addresses {
		switch {
		case q.Type == dnsmessage.TypeA && ip.Is4():
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: ip.As4()}})
		case q.Type == dnsmessage.TypeAAAA && ip.Is6():
			m.Answers = append(m.Answers,
				dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: ip.As16()}})
		}
	}
	out, err := m.Pack()
	if err != nil {
		panic(err)
	}
	return out
}
