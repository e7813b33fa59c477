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

	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mcpserver"
)

func TestInvalidPosts(t *testing.T) {
	f := newFront(t, mcpserver.Options{Limits: limits.Limits{Body: 1000}})
	body, h := modern(1, "tools/list", "", noCaps)
	pad := func(n int) string { return body + strings.Repeat(" ", n-len(body)) }
	for _, c := range []struct {
		name, body string
		h          header
		status     int
	}{
		{
			"JSON with a charset", body,
			header{"Content-Type", "", "Content-Type", "application/json; charset=UTF-8"},
			200,
		},
		{"another charset", body, header{"Content-Type", "", "Content-Type", "application/json; charset=latin1"}, 415},
		{"text", body, header{"Content-Type", "", "Content-Type", "text/plain"}, 415},
		{
			"JSON with a letter that is like an i", body,
			header{"Content-Type", "", "Content-Type", "appl\u0130cation/json"},
			415,
		},
		{"no type", body, header{"Content-Type", ""}, 415},
		{"compressed", body, header{"Content-Encoding", "gzip"}, 415},
		{
			"compressed, by the second of two headers", body,
			header{"Content-Encoding", "identity", "Content-Encoding", "gzip"},
			415,
		},
		{"accepts all", body, header{"Accept", "", "Accept", "*/*"}, 200},
		{"accepts classes", body, header{"Accept", "", "Accept", "text/*;q=0.5, application/*"}, 200},
		{"accepts anything", body, header{"Accept", ""}, 400},
		{
			"accepts in two headers", body,
			header{"Accept", "", "Accept", "application/json", "Accept", "text/event-stream"},
			200,
		},
		{"accepts no stream", body, header{"Accept", "", "Accept", "application/json"}, 400},
		{
			"accepts JSON less than others", body,
			header{"Accept", "", "Accept", "*/*;q=0, application/json;q=0.5, text/*;q=0, text/event-stream"},
			200,
		},
		{
			"accepts JSON in another form only", body,
			header{"Accept", "", "Accept", "application/json;a=b;q=0, application/json, text/event-stream"},
			200,
		},
		{"weighs JSON with 0", body, header{"Accept", "", "Accept", "*/*, application/json; q=0"}, 400},
		{
			"weighs JSON with 0.0", body,
			header{"Accept", "", "Accept", "application/json;Q = 0.000, text/event-stream"},
			400,
		},
		{
			"weighs JSON with 0 behind a parameter", body,
			header{"Accept", "", "Accept", "application/json;charset=utf-8;q=0, text/event-stream"},
			400,
		},
		{"weighs JSON with next to nothing", body, header{"Accept", "", "Accept", "*/*;q=0.001"}, 200},
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

// Backends receive valid text only, also from headers. Headers that are not forwarded may contain anything.
func TestInvalidHeadersAreNotForwarded(t *testing.T) {
	f := newFront(t, mcpserver.Options{PassHeaders: []string{"X-Team"}})
	for value, status := range map[string]int{"blue": 200, "bl\u00fc": 200, "bl\xfc": 400, "\xff": 400} {
		for _, more := range []header{{"X-Team", value}, {"X-Team", "red", "X-Team", value}} {
			body, h := modern(1, "tools/call", `"name":"echo"`, noCaps, "Mcp-Name", "echo")
			results := []*http.Response{f.post(body, append(h, more...))}
			for _, rev := range legacyRevisions {
				c := f.initialize(rev, "{}")
				results = append(results, c.post(call("1", "echo", "{}", ""), append(c.headers(), more...)))
			}
			for _, res := range results {
				if msg := read(t, res).next(); res.StatusCode != status || status == 200 &&
					get(t, msg, "result") == "null" {
					t.Errorf("%q: %s, %s", value, res.Status, msg)
				}
			}
		}
		c := f.initialize("2025-11-25", "{}")
		if res := c.post(call("1", "echo", "{}", ""), append(c.headers(), "X-Other", value)); res.StatusCode != 200 {
			t.Errorf("%q in another header: %s", value, res.Status)
		}
	}
}

// A GET may have a body up to a limit, which is ignored.
func TestGETBodyLimit(t *testing.T) {
	bridgetest.SkipIfShort(t)
	f := newFront(t, mcpserver.Options{})
	for n, status := range map[int]int{4095: 404, 4096: 404, 4097: 400} { // the session is unknown
		res := f.do(t.Context(), http.MethodGet, f.url, strings.Repeat(" ", n),
			header{"Accept", "text/event-stream", "Mcp-Session-Id", "x"})
		if res.StatusCode != status {
			t.Errorf("%d bytes: %s", n, res.Status)
		}
	}
}

// A body with a Content-Length above the limit is rejected before it is read.
func TestUnsentBodiesAreNotAwaited(t *testing.T) {
	f := newFront(t, mcpserver.Options{Limits: limits.Limits{Body: 1000}})
	addr := strings.TrimSuffix(strings.TrimPrefix(f.url, "http://"), "/mcp")
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: %s\r\nAccept: application/json, text/event-stream\r\nContent-Type: "+
		"application/json\r\nContent-Length: 1001\r\n\r\n{", addr)
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("%s", res.Status)
	}
}

// A client that does not read its response delays neither the call's end nor the shutdown.
func TestResponsesAreNotBufferedForIdleReaders(t *testing.T) {
	bridgetest.SkipIfShort(t)
	f := newFront(t, mcpserver.Options{Limits: limits.Limits{WriteTime: 50 * time.Millisecond, Body: 64 << 20}})
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
	fmt.Fprintf(silent, "POST /mcp HTTP/1.1\r\nHost: %s\r\nAccept: application/json, "+
		"text/event-stream\r\nContent-Type: application/json\r\nMcp-Session-Id: %s\r\nContent-Length: %d\r\n\r\n%s",
		addr, c.id, len(body), body)
	for f.h.Calls.Of("echo") == 0 {
		runtime.Gosched() // the call starts shortly after its last byte
	}
	c.do(t.Context(), http.MethodDelete, f.url, "", c.headers()) // waits for the session's calls
}
