package mcpserver_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest/transcript"
	"github.com/mcpbridge/mcpbridge/internal/catalog"
	"github.com/mcpbridge/mcpbridge/internal/lifecycle"
	"github.com/mcpbridge/mcpbridge/internal/mcpserver"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	"github.com/mcpbridge/mcpbridge/internal/tasks"
)

// A conversation is the messages of a client and a server in a bubble of testing/synctest.
type conversation struct {
	t       *testing.T
	server  *mcpserver.Server
	life    *lifecycle.Lifecycle
	backend *backend
	names   *transcript.Names

	// The client's properties: see testdata/transcripts/README.md.
	revision, capabilities string
	shown                  []string // response headers in the transcript

	stdin  io.WriteCloser // of stdio; else nil
	client *http.Client
	sse    bool

	exchanges []*exchange // in order
}

// An exchange is an HTTP request and its response, or both directions of stdio.
type exchange struct {
	label  string
	cancel context.CancelFunc

	mu       sync.Mutex
	received []string // by the server, since the last call of Output
	ended    bool
}

func (x *exchange) add(line string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.received = append(x.received, line)
}

func (x *exchange) end() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ended = true
}

func newConversation(
	t *testing.T, o mcpserver.Options, b *backend, policy tasks.Policy, client map[string]string,
) *conversation {
	t.Helper()
	handler := bridge.Handler(b)
	if client["catalog"] != "" || o.Tasks != nil {
		handler = catalog.New(b, catalog.Options{
			SkipArguments: true, SkipOutput: true, Tasks: o.Tasks, TaskPolicy: policy,
		})
	}
	o.Lifecycle = lifecycle.New()
	c := &conversation{
		t: t, life: o.Lifecycle, server: mcpserver.New(handler, o), backend: b, revision: client["revision"],
		capabilities: client["capabilities"],
		names:        transcript.NewNames(findNames),
		shown:        []string{"Mcp-Session-Id", "Retry-After", "Allow"},
	}
	t.Cleanup(c.server.Close)
	if c.capabilities == "" {
		c.capabilities = "{}"
	}
	if show := client["show"]; show != "" {
		c.shown = append(c.shown, show)
	}
	c.names.Add("server", `"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"bridgetest","title":"Bridge Test","version":"1"}}`)
	c.names.Text["$meta"] = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":` +
		`{"name":"client","version":"1"},"io.modelcontextprotocol/clientCapabilities":` + c.capabilities
	switch transport := client["transport"]; transport {
	case "stdio":
		c.serveStdio()
	case "http", "sse":
		c.sse = transport == "sse"
		c.serveHTTP()
	default:
		t.Fatalf("unknown transport %q", transport)
	}
	if c.revision != "" && c.revision != "2026-07-28" {
		c.initialize()
	}
	return c
}

// serveStdio makes the server serve a pair of pipes.
func (c *conversation) serveStdio() {
	in, stdin := io.Pipe()
	stdout, out := io.Pipe()
	x := &exchange{}
	c.stdin, c.exchanges = stdin, []*exchange{x}
	go func() {
		if err := c.server.ServeStdio(context.WithoutCancel(c.t.Context()), in, out); err != nil {
			x.add(err.Error())
		}
		out.Close()
	}()
	go func() {
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			x.add(lines.Text())
		}
		x.add("(end)")
	}()
	c.t.Cleanup(func() { stdin.Close() })
}

// serveHTTP makes the server serve in-memory connections.
func (c *conversation) serveHTTP() {
	l := transcript.NewPipes()
	srv := &http.Server{Handler: c.server}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = srv.Serve(l) // until it is closed
	}()
	transport := &http.Transport{DialContext: l.Dial}
	c.client = &http.Client{Transport: transport}
	c.t.Cleanup(func() {
		for _, x := range c.exchanges {
			x.cancel()
		}
		transport.CloseIdleConnections()
		srv.Close()
		<-served
	})
}

// initialize starts a session as a legacy client does. The transcript omits it.
func (c *conversation) initialize() {
	c.t.Helper()
	post := "POST"
	if c.sse {
		c.Send("stream", []string{"GET"})
		synctest.Wait()
		post = "POST /mcp?sessionId=" + c.names.Text[c.newest("$session")]
	}
	begin := `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"` + c.revision +
		`","capabilities":` +
		c.capabilities + `,"clientInfo":{"name":"client","version":"1"}}}`
	const ready = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	for _, message := range []string{begin, ready} {
		if c.stdin != nil {
			c.Send("", []string{message})
		} else {
			session := "" // none yet
			if message == ready {
				session = c.names.Text[c.newest("$session")]
			}
			c.Send("", []string{post, "Mcp-Session-Id: " + session, message})
		}
		synctest.Wait()
		for _, line := range c.Output() { // names the session
			if strings.Contains(line, `"error"`) {
				c.t.Fatalf("initialize: %s", line)
			}
		}
	}
}

// newest returns the newest of the names $x, $x2, $x3 in the server's output so far.
func (c *conversation) newest(name string) string {
	c.Output()
	newest := name
	for have := range c.names.Text {
		if strings.HasPrefix(have, name) && (len(have) > len(newest) || len(have) == len(newest) && have > newest) {
			newest = have
		}
	}
	return newest
}

// IsComplete reports whether the lines are a complete request: with HTTP, including the body if the method has one.
func (c *conversation) IsComplete(_ string, lines []string) bool {
	last := lines[len(lines)-1]
	return c.stdin != nil || len(lines) > 1 && !isHeader(last)
}

func isHeader(line string) bool {
	name, _, ok := strings.Cut(line, ":")
	return ok && !strings.ContainsAny(name, "{[\" ")
}

// Send sends a line of stdio, or an HTTP request with its method and path, headers and body.
func (c *conversation) Send(label string, lines []string) {
	c.t.Helper()
	if c.stdin != nil {
		if _, err := io.WriteString(c.stdin, lines[0]+"\n"); err != nil {
			c.t.Fatal(err)
		}
		return
	}
	method, path, _ := strings.Cut(lines[0], " ")
	if path == "" {
		path = "/mcp"
	}
	body := ""
	headers := lines[1:]
	if n := len(headers); n > 0 && !isHeader(headers[n-1]) {
		headers, body = headers[:n-1], headers[n-1]
	}
	if x := c.exchange(label); x != nil && !x.ended {
		c.t.Fatalf("%s %s: the label %q is in use; choose another one", method, body, label)
	}
	ctx, cancel := context.WithCancel(c.t.Context())
	req, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	c.setHeaders(req, body)
	for _, line := range headers {
		name, _, _ := strings.Cut(line, ":")
		req.Header.Del(name)
	}
	for _, line := range headers {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(value) != "" {
			req.Header.Add(name, strings.TrimSpace(value))
		}
	}
	x := &exchange{label: label, cancel: cancel}
	c.exchanges = append(c.exchanges, x)
	go func() {
		defer x.end()
		c.receive(x, req)
	}()
}

// setHeaders sets the headers that a client of the revision sends with every request.
func (c *conversation) setHeaders(req *http.Request, body string) {
	h := req.Header
	if req.Method == http.MethodPost {
		h.Set("Content-Type", "application/json")
		h.Set("Accept", "application/json, text/event-stream")
	} else {
		h.Set("Accept", "text/event-stream")
	}
	if c.sse {
		return
	}
	if session := c.names.Text["$session"]; session != "" {
		h.Set("Mcp-Session-Id", session)
	}
	if c.revision >= "2025-06-18" {
		h.Set("MCP-Protocol-Version", c.revision)
	}
	if c.revision != "2026-07-28" || rawjson.Check([]byte(body)) != nil {
		return
	}
	text := func(name string) string {
		value := string(rawjson.Get([]byte(body), name))
		return strings.Trim(value, `"`)
	}
	h.Set("Mcp-Method", text("method"))
	params := rawjson.Get([]byte(body), "params")
	for _, name := range []string{"name", "uri", "taskId"} {
		if value := rawjson.Get(params, name); value != nil {
			h.Set("Mcp-Name", strings.Trim(string(value), `"`))
		}
	}
}

// receive sends a request and records the response as it arrives.
func (c *conversation) receive(x *exchange, req *http.Request) {
	res, err := c.client.Do(req)
	if err != nil {
		x.add("(no response)")
		return
	}
	defer res.Body.Close()
	media := res.Header.Get("Content-Type")
	x.add(strings.TrimSpace(res.Status[:3] + " " + media))
	for _, name := range c.shown {
		if value := res.Header.Get(name); value != "" {
			x.add(name + ": " + value)
		}
	}
	lines := bufio.NewReader(res.Body)
	for {
		line, err := lines.ReadString('\n')
		if line = strings.TrimSuffix(line, "\n"); line != "" {
			x.add(line)
		}
		switch {
		case err == nil:
		case err != io.EOF:
			x.add("(cut)")
			return
		case media == "text/event-stream":
			x.add("(end)")
			return
		default:
			return
		}
	}
}

// Expand replaces names by their texts.
func (c *conversation) Expand(line string) string { return c.names.Expand(line) }

// exchange returns the last exchange with a label.
func (c *conversation) exchange(label string) *exchange {
	var last *exchange
	for _, x := range c.exchanges {
		if x.label == label {
			last = x
		}
	}
	return last
}

// Output returns the messages and incidents since the last call, of one exchange after the other and of the backend.
func (c *conversation) Output() []string {
	var all []string
	for _, x := range c.exchanges {
		x.mu.Lock()
		for _, line := range x.received {
			all = append(all, strings.TrimRight(x.label+"< "+c.names.Shorten(line), " "))
		}
		x.received = nil
		x.mu.Unlock()
	}
	for {
		select {
		case <-c.backend.Started:
			all = append(all, "= the tool runs")
		case <-c.backend.Ended:
			all = append(all, "= the tool is canceled")
		default:
			return all
		}
	}
}
