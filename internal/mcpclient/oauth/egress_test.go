package oauth

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

func listenAt(address string) (net.Listener, error) {
	return new(net.ListenConfig).Listen(context.Background(), "tcp", address)
}

// remote returns the egress of a server that is not on this machine.
func remote(t *testing.T, change func(*Options)) *egress {
	t.Helper()
	o := Options{Server: "https://mcp.example/mcp"}
	if change != nil {
		change(&o)
	}
	return newEgress(&o, must(url.Parse(o.Server)))
}

// F17, I08: a server's metadata have private addresses.
func TestPrivateAddresses(t *testing.T) {
	inside := []string{
		"127.0.0.1", "127.1", "127.255.255.254", "localhost", "LOCALHOST", "localhost.", "0.0.0.0", "0", "[::1]",
		"[::]", "[0:0:0:0:0:0:0:1]",
		"[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "2130706433", "0x7f000001", "0x7f.1", "017700000001",
		"0177.0.0.1",
		"169.254.169.254", "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "2852039166", "0xa9fea9fe",
		"0251.0376.0251.0376",
		"[fd00:ec2::254]", "[fe80::1]", "[fe80::1%25eth0]", "[fec0::1]", "[fc00::1]", "[fd12:3456::1]",
		"10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.0.1", "192.168.255.255", "100.64.0.1",
		"100.127.255.255",
		"[::ffff:10.0.0.1]", "[2002:0a00:0001::]", "[2002:7f00:1::1]", "[2002:a9fe:a9fe::]", "[64:ff9b::a9fe:a9fe]",
		"[64:ff9b::7f00:1]",
		"[64:ff9b:1::a9fe:a9fe]", "[2001::1]", "[2001:db8::1]", "[100::1]", "[ff02::1]", "[3fff::1]", "[5f00::1]",
		"192.0.0.1", "192.0.0.170", "192.0.2.1", "192.88.99.1", "198.18.0.1", "198.19.255.255", "198.51.100.1",
		"203.0.113.1", "224.0.0.1",
		"239.255.255.255", "240.0.0.1", "255.255.255.255", "0.1.2.3",
	}
	// Nothing may connect here.
	l, err := listenAt("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var reached atomic.Int32
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			reached.Add(1)
			c.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	e := remote(t, nil)
	// Some of these are names on some systems, which then cannot be resolved.
	e.resolver = &net.Resolver{PreferGo: true, Dial: noNameServer}
	for _, host := range inside {
		for _, scheme := range []string{"https", "http"} {
			for _, p := range []string{"", ":" + port} {
				address := scheme + "://" + host + p + "/x"
				if err := e.getJSON(t.Context(), address, nil, &struct{}{}); err == nil {
					t.Errorf("%s: got no error", address)
				} else if strings.Contains(err.Error(), "refused") && !strings.Contains(err.Error(), "lookup") {
					t.Errorf("%s: connection attempt: %v", address, err)
				}
			}
		}
	}
	for _, address := range []string{
		"", "/x", "x", "//x", "https:", "https:///x", "https:x", "ftp://x/",
		"file:///etc/passwd", "gopher://127.0.0.1/", "https://u:p@mcp.example/", "https://mcp.example/#f", "unix:///x",
		"data:,x", "http+unix://x", "HTTPS ://x", "https://[::1", "https://exa mple/", "\x00",
	} {
		if err := e.getJSON(t.Context(), address, nil, &struct{}{}); err == nil {
			t.Errorf("%q: got no error", address)
		}
	}
	if n := reached.Load(); n > 0 {
		t.Errorf("got %d connections, want none", n)
	}
}

func noNameServer(context.Context, string, string) (net.Conn, error) {
	return nil, fmt.Errorf("no name server")
}

func TestPublicAddresses(t *testing.T) {
	e := remote(t, nil)
	for _, a := range []string{"93.184.215.14:443", "8.8.8.8:8443", "[2606:2800:220:1::1]:443"} {
		network := "tcp4"
		if strings.HasPrefix(a, "[") {
			network = "tcp6"
		}
		if err := e.control(network, a, nil); err != nil {
			t.Errorf("%s: %v", a, err)
		}
	}
}

// A server on this machine may have its authorization server there, but not at other private addresses.
func TestServerOnThisMachine(t *testing.T) {
	e := remote(t, func(o *Options) { o.Server = "http://localhost:3000/mcp" })
	for address, ok := range map[string]bool{
		"127.0.0.1:1": true, "[::1]:1": true, "10.0.0.1:443": false,
		"169.254.169.254:80": false,
	} {
		network := "tcp4"
		if strings.HasPrefix(address, "[") {
			network = "tcp6"
		}
		if err := e.control(network, address, nil); (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
	}
	for address, ok := range map[string]bool{
		"http://127.0.0.1/": true, "http://localhost:80/": true,
		"http://as.example/": false, "http://10.0.0.1/": false, "https://10.0.0.1/": false,
	} {
		if _, err := e.parse(address); (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// A name resolves to a public address when it is checked, and to a private one when it is dialed.
func TestDNSRebinding(t *testing.T) {
	var reached, asked atomic.Int32
	inside := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer inside.Close()
	e := remote(t, nil)
	answer := netip.MustParseAddr("127.0.0.1")
	e.resolver = &net.Resolver{PreferGo: true, Dial: dialNameServer(t, func() netip.Addr {
		asked.Add(1)
		return answer
	})}
	_, port, _ := net.SplitHostPort(inside.Listener.Addr().String())
	address := "https://rebind.example:" + port + "/"
	if _, err := e.parse(address); err != nil {
		t.Fatal("want no error for the name:", err)
	}
	err := e.getJSON(t.Context(), address, nil, &struct{}{})
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:"+port+" is not a public address") {
		t.Error(err)
	}
	if asked.Load() == 0 || reached.Load() > 0 {
		t.Errorf("got %d queries and %d connections", asked.Load(), reached.Load())
	}
	// With private addresses allowed, it connects.
	e.private = true
	e.transport.TLSClientConfig = inside.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	e.transport.TLSClientConfig.ServerName = "example.com"
	if err := e.getJSON(t.Context(), address, nil, &struct{}{}); reached.Load() != 1 {
		t.Error(err)
	}
	// The server itself may have a private address.
	e.private, e.server = false, "rebind.example:"+port
	e.transport.CloseIdleConnections()
	if err := e.getJSON(t.Context(), address, nil, &struct{}{}); reached.Load() != 2 {
		t.Error(err)
	}
}

// dialNameServer returns a function that dials a name server with one address for every name.
func dialNameServer(t *testing.T, address func() netip.Addr) func(context.Context, string, string) (net.Conn, error) {
	t.Helper()
	pc, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pc.Close() })
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil {
				continue
			}
			m.Response, m.Additionals = true, nil
			if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
				m.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
					Body:   &dnsmessage.AResource{A: address().As4()},
				}}
			}
			pc.WriteTo(must(m.Pack()), from)
		}
	}()
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", pc.LocalAddr().String())
	}
}

func TestRedirects(t *testing.T) {
	hops := 0
	var to string
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if hops > 0 {
			hops--
			http.Redirect(rw, r, to, http.StatusFound)
			return
		}
		io.WriteString(rw, "{}")
	}))
	defer s.Close()
	e := remote(t, func(o *Options) { o.Server = s.URL })
	for _, row := range []struct {
		hops int
		to   string
		err  string
	}{
		{0, "", ""},
		{maxRedirects, "/again", ""},
		{maxRedirects + 1, "/again", "more than 3 redirects"},
		{1, "http://169.254.169.254/", "does not begin with https://"},
		{1, "https://169.254.169.254/", "is not a public address"},
		{1, "https://[::ffff:10.0.0.1]/", "is not a public address"},
		{1, "http://mcp.example/", "does not begin with https://"},
		{1, "file:///etc/passwd", "is not a URL with a host"},
		{1, "https://user@mcp.example/", "user name"},
	} {
		hops, to = row.hops, row.to
		err := e.getJSON(t.Context(), s.URL, nil, &struct{}{})
		if row.err == "" && err != nil || row.err != "" && (err == nil || !strings.Contains(err.Error(), row.err)) {
			t.Errorf("%d to %q: %v, want %q", row.hops, row.to, err, row.err)
		}
	}
}

// A proxy may have a private address, and decides itself about the addresses behind it.
func TestProxy(t *testing.T) {
	var got []string
	proxy := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		got = append(got, r.Method+" "+r.Host)
		rw.WriteHeader(http.StatusForbidden)
	}))
	defer proxy.Close()
	e := remote(t, nil)
	e.proxy = func(*http.Request) (*url.URL, error) { return url.Parse(proxy.URL) }
	if err := e.getJSON(t.Context(), "https://as.example/", nil, &struct{}{}); err == nil ||
		!strings.Contains(err.Error(), "Forbidden") {
		t.Error(err)
	}
	if err := e.getJSON(t.Context(), "https://169.254.169.254/", nil, &struct{}{}); err == nil ||
		!strings.Contains(err.Error(), "is not a public address") {
		t.Error(err)
	}
	if len(got) != 1 || got[0] != "CONNECT as.example:443" {
		t.Errorf("the proxy got requests for %q", got)
	}
}

// I10: an untrusted certificate, and one of another server.
func TestCertificates(t *testing.T) {
	s := httptest.NewTLSServer(
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("unexpected request") }))
	s.Config.ErrorLog = nil
	defer s.Close()
	if err := remote(t, func(o *Options) { o.Server = s.URL }).
		getJSON(t.Context(), s.URL, nil, &struct{}{}); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Error(err)
	}
	trusting := s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	trusting.ServerName = "evil.example"
	e := remote(t, func(o *Options) { o.Server, o.TLS = s.URL, trusting })
	if err := e.getJSON(t.Context(), s.URL, nil, &struct{}{}); err == nil ||
		!strings.Contains(err.Error(), "certificate") {
		t.Error(err)
	}
}

// A response that does not end, one whose header does not end, and a slow one.
func TestAnswersAreLimited(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/header":
			for i := range 10 {
				rw.Header().Set(fmt.Sprint("X-", i), strings.Repeat("x", 8<<10))
			}
		case "/never":
			<-r.Context().Done()
		case "/drops":
			for r.Context().Err() == nil {
				if _, err := io.WriteString(rw, " "); err != nil {
					return
				}
				rw.(http.Flusher).Flush()
			}
		}
	}))
	defer s.Close()
	e := remote(t, func(o *Options) { o.Server = s.URL })
	if e.get.Timeout != fetchTimeout || e.post.Timeout != fetchTimeout {
		t.Error("want a timeout of every fetch")
	}
	e.get.Timeout = 50 * time.Millisecond
	for path, want := range map[string]string{"/header": "exceeded", "/never": "Timeout", "/drops": ""} {
		err := e.getJSON(t.Context(), s.URL+path, nil, &struct{}{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	e.transport.CloseIdleConnections()
}
