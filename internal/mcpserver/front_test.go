package mcpserver_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/mcpserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A front is a server in front of a scripted handler, and an HTTP client of it.
type front struct {
	*testing.T
	h   *bridgetest.Handler
	s   *mcpserver.Server
	url string
	c   *http.Client
}

func newFront(t *testing.T, o mcpserver.Options) *front {
	t.Helper()
	return newFrontOf(t, o, func(h bridge.Handler) bridge.Handler { return h })
}

// newFrontOf returns a server in front of a scripted handler wrapped by wrap.
func newFrontOf(t *testing.T, o mcpserver.Options, wrap func(bridge.Handler) bridge.Handler) *front {
	t.Helper()
	o.Log = zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel)
	f := &front{T: t, h: bridgetest.New(), c: &http.Client{Transport: &http.Transport{}}}
	f.s = mcpserver.New(wrap(f.h), o)
	srv := httptest.NewServer(f.s)
	f.url = srv.URL + "/mcp"
	t.Cleanup(func() {
		f.s.Close()
		f.c.CloseIdleConnections()
		srv.Close()
	})
	return f
}

// header are the headers of a request, as alternating names and values; an empty value removes one.
type header []string

// do sends a request with h and the headers that every client sends.
func (f *front) do(ctx context.Context, method, url, body string, h header) *http.Response {
	f.Helper()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		f.Fatal(err)
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(h); i += 2 {
		switch {
		case h[i] == "Host":
			req.Host = h[i+1]
		case h[i+1] == "":
			req.Header.Del(h[i])
		default:
			req.Header.Add(h[i], h[i+1])
		}
	}
	res, err := f.c.Do(req)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { res.Body.Close() })
	return res
}

func (f *front) post(body string, h header) *http.Response {
	f.Helper()
	return f.do(f.Context(), http.MethodPost, f.url, body, h)
}

// An event is a server-sent event.
type event struct{ id, name, data, retry string }

// A stream reads the messages of a response, which is one message or a stream of events.
type stream struct {
	t *testing.T
	r *bufio.Reader
	// json is true if the response is one message.
	json bool
	last string // the ID of the last event
}

func read(t *testing.T, res *http.Response) *stream {
	t.Helper()
	return &stream{
		t: t, r: bufio.NewReader(res.Body),
		json: strings.HasPrefix(res.Header.Get("Content-Type"), "application/json"),
	}
}

// event returns the next event, or false at the end.
func (s *stream) event() (event, bool) {
	var e event
	begun := false
	for {
		line, err := s.r.ReadString('\n')
		if err != nil {
			return event{}, false
		}
		line = strings.TrimSuffix(line, "\n")
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "" && begun:
			if e.id != "" {
				s.last = e.id
			}
			return e, true
		case line == "":
			continue
		case name == "":
			continue
		case name == "id":
			e.id = value
		case name == "event":
			e.name = value
		case name == "data":
			e.data = value
		case name == "retry":
			e.retry = value
		}
		begun = true
	}
}

// next returns the next message as compact JSON, or "" at the end. It skips events without data.
func (s *stream) next() string {
	s.t.Helper()
	if s.json {
		data, err := io.ReadAll(s.r)
		if err != nil {
			s.t.Fatal(err)
		}
		return string(data)
	}
	for {
		e, ok := s.event()
		if !ok {
			return ""
		}
		if e.data != "" {
			return e.data
		}
	}
}

// rest returns all further messages.
func (s *stream) rest() []string {
	s.t.Helper()
	var all []string
	for m := s.next(); m != ""; m = s.next() {
		all = append(all, m)
		if s.json {
			break
		}
	}
	return all
}

// modern returns the body and headers of a modern request.
func modern(id int, method, params, meta string, more ...string) (string, header) {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s"_meta":{`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}%s}}}`,
		id, method, comma(params), meta)
	h := header{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method}
	return body, append(h, more...)
}

func comma(s string) string {
	if s == "" {
		return ""
	}
	return s + ","
}

const (
	noCaps  = `,"io.modelcontextprotocol/clientCapabilities":{}`
	allCaps = `,"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"sampling":{},"roots":{}}`
)

// callModern calls a tool and returns the status and all messages.
func (f *front) callModern(tool, args, meta, more string) (int, []string) {
	f.Helper()
	params := `"name":"` + tool + `"`
	if args != "" {
		params += `,"arguments":` + args
	}
	params += more
	body, h := modern(1, "tools/call", params, meta, "Mcp-Name", tool)
	res := f.post(body, h)
	return res.StatusCode, read(f.T, res).rest()
}

// A client is a legacy client's session.
type client struct {
	*front
	rev, id string
}

func (f *front) initialize(rev, caps string) *client {
	f.Helper()
	res := f.post(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"`+rev+
		`","capabilities":`+caps+
		`,"clientInfo":{"name":"old","version":"1"}}}`, nil)
	if res.StatusCode != 200 {
		f.Fatalf("initialize: %s %s", res.Status, read(f.T, res).rest())
	}
	c := &client{f, rev, res.Header.Get("Mcp-Session-Id")}
	if got := get(f.T, read(f.T, res).next(), "result.protocolVersion"); got != `"`+rev+`"` {
		f.Fatalf("negotiated %s", got)
	}
	if res := c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`); res.StatusCode != 202 {
		f.Fatalf("initialized: %s", res.Status)
	}
	return c
}

func (c *client) headers() header {
	h := header{"Mcp-Session-Id", c.id}
	if c.rev >= "2025-06-18" {
		h = append(h, "MCP-Protocol-Version", c.rev)
	}
	return h
}

func (c *client) send(body string) *http.Response { c.Helper(); return c.post(body, c.headers()) }

func (c *client) get(ctx context.Context, last string) *http.Response {
	c.Helper()
	h := c.headers()
	if last != "" {
		h = append(h, "Last-Event-ID", last)
	}
	return c.do(ctx, http.MethodGet, c.url, "", h)
}

// openSSE opens the event stream of HTTP+SSE and returns it and the URL for messages.
func (f *front) openSSE(ctx context.Context, h ...string) (*stream, string) {
	f.Helper()
	s := read(f.T, f.do(ctx, http.MethodGet, f.url, "",
		append(header{"Accept", "", "Accept", "text/event-stream"}, h...)))
	e, ok := s.event()
	if !ok || e.name != "endpoint" || !strings.HasPrefix(e.data, "/mcp?") {
		f.Fatalf("first event: %+v", e)
	}
	return s, strings.TrimSuffix(f.url, "/mcp") + e.data
}

// get returns a part of a message, as JSON.
func get(t *testing.T, msg, path string) string {
	t.Helper()
	var v any
	d := json.NewDecoder(bytes.NewReader([]byte(msg)))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v: %s", err, msg)
	}
	for name := range strings.SplitSeq(path, ".") {
		switch x := v.(type) {
		case map[string]any:
			v = x[strings.ReplaceAll(name, "·", ".")]
		case []any:
			var i int
			fmt.Sscan(name, &i)
			if i >= len(x) {
				return "null"
			}
			v = x[i]
		default:
			return "null"
		}
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// want checks parts of a message: alternating paths and JSON.
func want(t *testing.T, msg string, parts ...string) {
	t.Helper()
	for i := 0; i < len(parts); i += 2 {
		if got := get(t, msg, parts[i]); got != parts[i+1] {
			t.Errorf("%s is %s, want %s, in %s", parts[i], got, parts[i+1], msg)
		}
	}
}
