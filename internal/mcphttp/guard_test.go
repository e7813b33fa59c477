package mcphttp_test

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/mcphttp"
)

// A guarded is a server behind a Guard.
type guarded struct {
	*testing.T
	url  string
	seen int // the number of admitted requests
}

func newGuarded(t *testing.T, g *mcphttp.Guard) *guarded {
	t.Helper()
	out := &guarded{T: t}
	srv := httptest.NewServer(admitted(g, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { out.seen++ })))
	t.Cleanup(srv.Close)
	out.url = srv.URL
	return out
}

// do makes a request with headers, as alternating names and values.
func (g *guarded) do(method string, header ...string) *http.Response {
	g.Helper()
	req, err := http.NewRequestWithContext(g.Context(), method, g.url, strings.NewReader("{}"))
	if err != nil {
		g.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
			continue
		}
		req.Header.Add(header[i], header[i+1])
	}
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		g.Fatal(err)
	}
	g.Cleanup(func() { res.Body.Close() })
	return res
}

func TestHostAndOriginAreChecked(t *testing.T) {
	g := newGuarded(t, &mcphttp.Guard{Hosts: []string{"mcp.example.com"}, Origins: []string{"https://app.example.com"}})
	for _, c := range []struct {
		host, origin string
		status       int
	}{
		{"", "", 200},
		{"localhost", "", 200},
		{"localhost:1", "", 200},
		{"127.0.0.9:80", "", 200},
		{"[::1]:8080", "", 200},
		{"[::1]", "", 200},
		{"mcp.example.com", "", 200},
		{"mcp.example.com:443", "", 200},
		{"MCP.example.com", "", 200},
		{"evil.example.com", "", 403},
		{"localhost.evil.example.com", "", 403},
		{"10.0.0.1", "", 403},
		{"localhost.", "", 403},
		{"127.1", "", 403},
		{"0x7f000001", "", 403},
		{"2130706433", "", 403},
		{"[::ffff:127.0.0.1]:80", "", 403},
		{"[::1", "", 403},
		{"::1]", "", 403},
		{"[localhost]", "", 403},
		{"[127.0.0.1]:80", "", 403},
		{"", "http://localhost:6274", 200},
		{"", "http://[::1]:1", 200},
		{"", "https://app.example.com", 200},
		{"mcp.example.com", "https://mcp.example.com", 200},
		{"", "https://app.example.com.evil.example.com", 403},
		{"", "https://app.example.com:444", 403},
		{"", "http://app.example.com", 403},
		{"", "https://evil.example.com", 403},
		{"", "http://localhost@evil.example.com", 403},
		{"", "http://evil@localhost", 403},
		{"", "http://localhost/path", 403},
		{"", "http://[::ffff:127.0.0.1]", 403},
		{"evil.example.com:8080", "http://evil.example.com:8080", 403},
		{"", "file://localhost", 403},
		{"", "null", 403},
		{"", "http://localho\u017ft", 403},
		{"", "https://app.example.com\u017f", 403},
		{"", "http\u017f://app.example.com", 403},
	} {
		var header []string
		if c.host != "" {
			header = append(header, "Host", c.host)
		}
		if c.origin != "" {
			header = append(header, "Origin", c.origin)
		}
		for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete, http.MethodOptions} {
			want := c.status
			if method == http.MethodOptions && want == 200 {
				want = 204
			}
			before := g.seen
			res := g.do(method, header...)
			if res.StatusCode != want || (g.seen > before) != (want == 200) {
				t.Errorf("%s Host %q Origin %q: got %s, admitted %t, want %d",
					method, c.host, c.origin, res.Status, g.seen > before, want)
			}
			if got := res.Header.Get("Access-Control-Allow-Origin"); c.status == 200 && got != c.origin ||
				c.status != 200 && got != "" {
				t.Errorf("%s Origin %q: got allowed origin %q", method, c.origin, got)
			}
			if got := res.Header.Get("Allow"); (got == "POST, GET, DELETE") != (want == 204) {
				t.Errorf("%s: got Allow %q with status %d", method, got, res.StatusCode)
			}
			if body, err := io.ReadAll(res.Body); err != nil || want == 403 &&
				!strings.Contains(string(body), `"code":-32600`) {
				t.Errorf("%s: got %s, %v, want code -32600", method, body, err)
			}
		}
	}
}

// Without an Origin, Sec-Fetch-Site identifies requests of pages.
func TestCrossSiteRequestsAreRefused(t *testing.T) {
	g := newGuarded(t, &mcphttp.Guard{})
	for site, status := range map[string]int{"cross-site": 403, "same-site": 403, "same-origin": 200, "none": 200} {
		if res := g.do(http.MethodPost, "Sec-Fetch-Site", site); res.StatusCode != status {
			t.Errorf("%s: got %s, want %d", site, res.Status, status)
		}
	}
	if res := g.do(http.MethodPost, "Sec-Fetch-Site", "cross-site", "Origin",
		"http://localhost:6274"); res.StatusCode != 200 {
		t.Errorf("a page of this machine: got %s, want 200", res.Status)
	}
}

func TestHeaderFieldsAreLimited(t *testing.T) {
	g := newGuarded(t, &mcphttp.Guard{})
	// Added by the client: Accept-Encoding, Connection, Content-Length, User-Agent.
	const own = 4
	for fields, status := range map[int]int{255: 200, 256: 200, 257: 431} {
		var header []string
		for i := range fields - own {
			header = append(header, "X-"+strconv.Itoa(i%7), "y")
		}
		if res := g.do(http.MethodPost, header...); res.StatusCode != status {
			t.Errorf("%d fields: got %s, want %d", fields, res.Status, status)
		}
	}
}

func TestAddressesAreAcceptedAsHosts(t *testing.T) {
	g := newGuarded(t, &mcphttp.Guard{Addresses: true})
	for host, status := range map[string]int{
		"10.0.0.1": 200, "10.0.0.1:9090": 200, "[fd00::1]:9090": 200,
		"evil.example.com": 403, "127.1": 403,
	} {
		if res := g.do(http.MethodGet, "Host", host); res.StatusCode != status {
			t.Errorf("%s: got %s, want %d", host, res.Status, status)
		}
	}
}

// A refused request is answered and its connection closed before its body has arrived.
func TestRefusalDoesNotWaitForTheBody(t *testing.T) {
	bridgetest.SkipIfShort(t)
	for _, method := range []string{"POST", "GET", "PUT"} {
		t.Run(method, func(t *testing.T) {
			srv := httptest.NewServer(
				admitted(&mcphttp.Guard{}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
					t.Error("got an admitted request, want none")
				})))
			t.Cleanup(srv.Close)
			c, err := new(net.Dialer).DialContext(t.Context(), "tcp", srv.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := c.Write([]byte(method +
				" / HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 1000\r\n\r\n{")); err != nil {
				t.Fatal(err)
			}
			if err := c.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(c)
			if err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 40") {
				t.Errorf("got %q, %v, want a status 40x and the end", got, err)
			}
		})
	}
}

// An HTTP/2 connection stays open after a refusal, because it also has other requests.
func TestRefusalKeepsTheHTTP2Connection(t *testing.T) {
	srv := httptest.NewUnstartedServer(
		admitted(&mcphttp.Guard{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/deep" {
				mcphttp.Refuse(wrapped{w}, http.StatusTeapot, "no")
			}
		})))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(srv.Close)
	for _, c := range []struct {
		path, origin string
		status       int
	}{{"/", "http://evil.example", 403}, {"/", "", 200}, {"/deep", "", 418}, {"/", "", 200}} {
		var reused bool
		ctx := httptrace.WithClientTrace(t.Context(),
			&httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused }})
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL+c.path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		if c.origin != "" {
			req.Header.Set("Origin", c.origin)
		}
		res, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body) // it may be empty
		res.Body.Close()
		if res.StatusCode != c.status || res.ProtoMajor != 2 || reused != (c.origin == "") {
			t.Errorf("%+v: got %s %s, reused connection %t", c, res.Proto, res.Status, reused)
		}
	}
}

// A wrapped ResponseWriter has the methods of the other one only through Unwrap.
type wrapped struct{ http.ResponseWriter }

func (w wrapped) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func TestContradictingHostsOfHTTP2AreRefused(t *testing.T) {
	for _, c := range []struct {
		target, host string
		status       int
	}{
		{"/mcp", "", 200},
		{"/mcp", "LOCALHOST", 200},
		{"/mcp", "localhost:443", 200},
		{"/mcp", "evil.example", 400},
		{"/mcp", "127.0.0.1", 400},
		{"http://evil.example/mcp", "", 400},
		{"http://localhost/mcp", "", 400},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, c.target, http.NoBody)
		r.ProtoMajor, r.ProtoMinor, r.Host = 2, 0, "localhost"
		if c.host != "" {
			r.Header.Set("Host", c.host)
		}
		w := httptest.NewRecorder()
		admitted(&mcphttp.Guard{}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
		if w.Code != c.status {
			t.Errorf("%+v: got %d", c, w.Code)
		}
	}
}

// The target * is for OPTIONS, and HTTP/2 requires TLS.
func TestAsteriskIsRefusedWithoutOptions(t *testing.T) {
	for line, status := range map[string]int{"PRI * HTTP/2.0": 400, "POST * HTTP/1.1": 400} {
		g := newGuarded(t, &mcphttp.Guard{})
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(g.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, line+"\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != status || g.seen != 0 {
			t.Errorf("%s: got %s, %d admitted, want %d, 0", line, res.Status, g.seen, status)
		}
	}
}

// net/http ignores Transfer-Encoding in HTTP/1.0. The body, which it then does not read, must not be the next request.
func TestHTTP10RequestsCloseTheConnection(t *testing.T) {
	g := newGuarded(t, &mcphttp.Guard{})
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(g.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const hidden = "POST /hidden HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
	if _, err := io.WriteString(c,
		"POST / HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n"+
			hidden); err != nil {
		t.Fatal(err)
	}
	if err := c.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	got, _ := io.ReadAll(c) // it ends with the connection, or with a reset
	if n := strings.Count(string(got), "HTTP/1."); n != 1 || g.seen != 1 {
		t.Errorf("got %d responses, %d admitted requests, want 1, 1: %q", n, g.seen, got)
	}
}

// A client's text is short in the log, and contains no control characters of terminals.
func TestRefusalsAreLoggedWithoutControlCharacters(t *testing.T) {
	for _, origin := range []string{"http://a\u202eb", "http://a\u009b31m", strings.Repeat("x", 100_000)} {
		var log bytes.Buffer
		h := admitted(&mcphttp.Guard{Log: zerolog.New(&log)}, http.NotFoundHandler())
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody)
		r.Host = "localhost"
		r.Header.Set("Origin", origin)
		h.ServeHTTP(httptest.NewRecorder(), r)
		if strings.ContainsAny(log.String(), "\u202e\u009b") || log.Len() == 0 || log.Len() > 1000 {
			t.Errorf("got %d logged bytes, want at most 1000 without control characters: %.1000q",
				log.Len(), log.String())
		}
	}
}

func TestRefusalsAreLoggedOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		h := admitted(&mcphttp.Guard{Log: zerolog.New(&log)}, http.NotFoundHandler())
		for range 2 {
			for range 1_000 {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody)
				r.Host = "evil.example"
				h.ServeHTTP(httptest.NewRecorder(), r)
			}
			<-time.After(2 * time.Second)
		}
		if lines := strings.Count(log.String(), "evil.example"); lines != 2 {
			t.Errorf("got %d lines, want 2", lines)
		}
	})
}

// admitted returns an http.Handler that passes the requests that g admits to next.
func admitted(g *mcphttp.Guard, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.Admit(w, r) {
			next.ServeHTTP(w, r)
		}
	})
}
