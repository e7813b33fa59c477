package mcpserver_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge/mcpserver"
)

func TestHostAndOrigin(t *testing.T) {
	f := newFront(t, mcpserver.Options{AllowedHosts: []string{"mcp.example.com"}, AllowedOrigins: []string{"https://app.example.com"}})
	body, h := modern(1, "tools/list", "", noCaps)
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
	} {
		x := h
		if c.host != "" {
			x = append(x, "Host", c.host)
		}
		if c.origin != "" {
			x = append(x, "Origin", c.origin)
		}
		for _, method := range []string{http.MethodPost, http.MethodOptions} {
			want := c.status
			if method == http.MethodOptions && want == 200 {
				want = 204
			}
			res := f.do(t.Context(), method, f.url, body, x)
			if res.StatusCode != want {
				t.Errorf("%s Host %q Origin %q: %s", method, c.host, c.origin, res.Status)
			}
			if got := res.Header.Get("Access-Control-Allow-Origin"); c.status == 200 && got != c.origin || c.status != 200 && got != "" {
				t.Errorf("%s Origin %q: may be read by %q", method, c.origin, got)
			}
		}
		if res := f.do(t.Context(), http.MethodGet, f.url, "", append(header{"Mcp-Session-Id", "x"}, x[len(h):]...)); (res.StatusCode == 403) != (c.status == 403) {
			t.Errorf("GET Host %q Origin %q: %s", c.host, c.origin, res.Status)
		}
	}
}

// A page that calls blindly sends no Origin, but its browser tells whose it is.
func TestBlindCallsOfPages(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	body, h := modern(1, "tools/list", "", noCaps)
	for site, status := range map[string]int{"cross-site": 403, "same-site": 403, "same-origin": 200, "none": 200} {
		if res := f.post(body, append(h, "Sec-Fetch-Site", site)); res.StatusCode != status {
			t.Errorf("%s: %s", site, res.Status)
		}
	}
	if res := f.post(body, append(h, "Sec-Fetch-Site", "cross-site", "Origin", "http://localhost:6274")); res.StatusCode != 200 {
		t.Errorf("a page of this machine: %s", res.Status)
	}
}

func TestHowManyHeaderFieldsThereMayBe(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	body, h := modern(1, "tools/list", "", noCaps)
	// What the client adds by itself: Accept, Accept-Encoding, Content-Length, Content-Type, User-Agent.
	for fields, status := range map[int]int{255: 200, 256: 200, 257: 431} {
		x := h
		for range fields - 5 - len(h)/2 {
			x = append(x, "X", "y")
		}
		if res := f.post(body, x); res.StatusCode != status {
			t.Errorf("%d fields: %s", fields, res.Status)
		}
	}
}

func TestWhatAPostMustBe(t *testing.T) {
	f := newFront(t, mcpserver.Options{MaxBody: 1000})
	body, h := modern(1, "tools/list", "", noCaps)
	pad := func(n int) string { return body + strings.Repeat(" ", n-len(body)) }
	for _, c := range []struct {
		name, body string
		h          header
		status     int
	}{
		{"JSON with a charset", body, header{"Content-Type", "", "Content-Type", "application/json; charset=UTF-8"}, 200},
		{"another charset", body, header{"Content-Type", "", "Content-Type", "application/json; charset=latin1"}, 415},
		{"text", body, header{"Content-Type", "", "Content-Type", "text/plain"}, 415},
		{"no type", body, header{"Content-Type", ""}, 415},
		{"compressed", body, header{"Content-Encoding", "gzip"}, 415},
		{"accepts all", body, header{"Accept", "", "Accept", "*/*"}, 200},
		{"accepts classes", body, header{"Accept", "", "Accept", "text/*;q=0.5, application/*"}, 200},
		{"accepts anything", body, header{"Accept", ""}, 400},
		{"accepts in two headers", body, header{"Accept", "", "Accept", "application/json", "Accept", "text/event-stream"}, 200},
		{"accepts no stream", body, header{"Accept", "", "Accept", "application/json"}, 400},
		{"accepts no JSON", body, header{"Accept", "", "Accept", "text/event-stream"}, 400},
		{"below the limit", pad(999), nil, 200},
		{"at the limit", pad(1000), nil, 200},
		{"above the limit", pad(1001), nil, 413},
		{"empty", "", nil, 400},
	} {
		if res := f.post(c.body, append(h, c.h...)); res.StatusCode != c.status {
			t.Errorf("%s: %s", c.name, res.Status)
		}
	}
}

// A body that is promised too long is refused before it comes.
func TestPromisedBodiesAreNotWaitedFor(t *testing.T) {
	f := newFront(t, mcpserver.Options{MaxBody: 1000})
	addr := strings.TrimSuffix(strings.TrimPrefix(f.url, "http://"), "/mcp")
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: %s\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\nContent-Length: 1001\r\n\r\n{", addr)
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("%s", res.Status)
	}
}

// A client that does not read its answer keeps neither the answer nor the end of the server waiting.
func TestAnswersAreNotKeptForThoseWhoDoNotRead(t *testing.T) {
	f := newFront(t, mcpserver.Options{WriteTimeout: 50 * time.Millisecond, MaxBody: 64 << 20})
	c := f.initialize("2025-11-25", clientCaps)
	addr := strings.TrimSuffix(strings.TrimPrefix(f.url, "http://"), "/mcp")
	silent, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if err := silent.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	body := call("1", "echo", `{"x":"`+strings.Repeat("x", 32<<20)+`"}`, "")
	fmt.Fprintf(silent, "POST /mcp HTTP/1.1\r\nHost: %s\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\nMcp-Session-Id: %s\r\nContent-Length: %d\r\n\r\n%s",
		addr, c.id, len(body), body)
	for f.h.Calls.Of("echo") == 0 {
		runtime.Gosched() // the call has begun soon after its last byte
	}
	c.do(t.Context(), http.MethodDelete, f.url, "", c.headers()) // waits for the session's calls
}
