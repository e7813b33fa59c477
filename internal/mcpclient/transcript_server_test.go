package mcpclient_test

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest/transcript"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
)

// A server is a scripted MCP server: an endpoint over in-memory connections, or programs on pipes.
type server struct {
	t        *testing.T
	revision string            // if not empty, the server responds to the first messages of a connection
	script   map[string]string // responses by method, or by method and target

	client *http.Transport // of the endpoint; else nil
	sse    bool            // HTTP+SSE

	mu        sync.Mutex // guards the rest
	exchanges []*exchange
	outputs   []string // so far
	sessions  int
	programs  int
	streams   map[string]*exchange // of HTTP+SSE, by the path for messages
}

// An exchange is a request of the Client that the conversation responds to, or a program. Those without a label have
// the messages of a session that the script responds to: the order of messages of two sessions is not fixed.
type exchange struct {
	label    string
	session  string
	id       string // of the JSON-RPC request
	open     bool
	begun    bool // the status and headers were sent
	received []string
	send     chan []string
}

// newServer returns a server with the settings.
func newServer(t *testing.T, settings map[string]string, sse bool) *server {
	t.Helper()
	s := &server{t: t, sse: sse, revision: settings["revision"], streams: map[string]*exchange{}}
	can := settings["capabilities"]
	if can == "" {
		can = `{"tools":{}}`
	}
	delete(settings, "revision")
	delete(settings, "capabilities")
	s.script = map[string]string{"DELETE": "200"}
	switch s.revision {
	case "":
	case "2026-07-28":
		s.script["server/discover"] = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":` + can +
			`,"ttlMs":3600000,"cacheScope":"private"}`
		s.script["initialize"] = `error {"code":-32601,"message":"unknown method"}`
	default:
		s.script["server/discover"] = `error {"code":-32601,"message":"unknown method"}`
		s.script["initialize"] = `{"protocolVersion":"` + s.revision + `","capabilities":` + can +
			`,"serverInfo":{"name":"server","version":"1"}}`
		s.script["GET"] = "405"
	}
	if sse {
		delete(s.script, "GET")
	}
	maps.Copy(s.script, settings)
	return s
}

// scripted returns the response of the script to a message, or "" if the conversation has it.
func (s *server) scripted(m *jsonrpc.Message) string {
	for _, key := range []string{m.Method + " " + target(m), m.Method} {
		if text, ok := s.script[key]; ok {
			return strings.TrimPrefix(text, "-")
		}
	}
	if !m.IsRequest() {
		return "202"
	}
	return ""
}

// target returns the name of the tool or prompt, or the URI of the resource.
func target(m *jsonrpc.Message) string {
	for _, name := range []string{"name", "uri", "taskId"} {
		if text, ok := rawjson.String(rawjson.Get(m.Params, name)); ok {
			return text
		}
	}
	return ""
}

// responseTo returns the response that a script has as a result or error.
func responseTo(id []byte, text string) string {
	if failure, ok := strings.CutPrefix(text, "error "); ok {
		return `{"jsonrpc":"2.0","id":` + string(id) + `,"error":` + failure + `}`
	}
	return `{"jsonrpc":"2.0","id":` + string(id) + `,"result":` + text + `}`
}

// record adds the lines of a message that the script responds to.
func (s *server) record(r *http.Request, lines []string) {
	session := r.URL.RawQuery + r.Header.Get("Mcp-Session-Id")
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.exchanges {
		if x.label == "" && x.session == session {
			x.received = append(x.received, lines...)
			return
		}
	}
	s.exchanges = append(s.exchanges, &exchange{session: session, received: lines})
}

// begin returns a new exchange with the lines of the Client. Its label is the end of the method, and unique among the
// open ones.
func (s *server) begin(label, id string, lines []string) *exchange {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := &exchange{id: id, open: true, received: lines, send: make(chan []string)}
	for n := 1; x.label == "" || s.openExchange(x.label) != nil; n++ {
		if x.label = label; n > 1 {
			x.label = label + strconv.Itoa(n)
		}
	}
	s.exchanges = append(s.exchanges, x)
	return x
}

// openExchange returns the open exchange with a label, or nil.
func (s *server) openExchange(label string) *exchange {
	for _, x := range s.exchanges {
		if x.open && x.label == label {
			return x
		}
	}
	return nil
}

// end ends an exchange, with a last line.
func (s *server) end(x *exchange, line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x.open = false
	if line != "" {
		x.received = append(x.received, line)
	}
}

// output returns the lines of the Client since the last call, by label.
func (s *server) output() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortStableFunc(s.exchanges, func(a, b *exchange) int {
		return cmp.Or(strings.Compare(a.label, b.label), strings.Compare(a.session, b.session))
	})
	for _, x := range s.exchanges {
		for _, line := range x.received {
			all = append(all, x.label+"> "+line)
		}
		x.received = nil
	}
	s.outputs = append(s.outputs, all...)
	return all
}

// send sends lines of the conversation.
func (s *server) send(label string, lines []string) {
	s.t.Helper()
	s.mu.Lock()
	x := s.openExchange(label)
	s.mu.Unlock()
	if x == nil {
		s.t.Fatalf("no open request has the label %q; the output so far is\n%s", label, strings.Join(s.outputs, "\n"))
	}
	for i := range lines {
		lines[i] = strings.ReplaceAll(lines[i], "$id", x.id)
	}
	x.send <- lines
}

// listen returns the transport of a Client of the endpoint.
func (s *server) listen() http.RoundTripper {
	l := transcript.NewPipes()
	srv := &http.Server{Handler: s}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = srv.Serve(l) // until it is closed
	}()
	s.client = &http.Transport{DialContext: l.Dial}
	s.t.Cleanup(func() {
		s.client.CloseIdleConnections()
		srv.Close()
		<-served
	})
	return s.client
}

// requestLines returns a request as lines: method and path, headers other than those of every request, and body.
func (s *server) requestLines(r *http.Request, body []byte) []string {
	lines := []string{r.Method + " " + r.URL.RequestURI()}
	accept := map[string]string{
		http.MethodPost: "application/json, text/event-stream", http.MethodGet: "text/event-stream",
	}[r.Method]
	if got := r.Header.Get("Accept"); accept != "" && got != accept {
		s.t.Errorf("%s: got Accept: %s", lines[0], got)
	}
	if r.Method == http.MethodPost && r.Header.Get("Content-Type") != "application/json" {
		s.t.Errorf("%s: got Content-Type: %s", lines[0], r.Header.Get("Content-Type"))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		switch name {
		case "Accept", "Accept-Encoding", "Content-Type", "Content-Length", "User-Agent":
		default:
			lines = append(lines, name+": "+r.Header.Get(name))
		}
	}
	if len(body) > 0 {
		lines = append(lines, string(body))
	}
	return lines
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	lines := s.requestLines(r, body)
	if r.Method != http.MethodPost {
		s.serveOther(w, r, lines)
		return
	}
	m, err := jsonrpc.Parse(body, limits.Defaults())
	if err != nil {
		s.t.Errorf("invalid message: %v", err)
		return
	}
	text := s.scripted(&m)
	if s.sse && s.revision != "" && r.URL.Path == "/mcp" {
		text = "405"
	}
	s.mu.Lock()
	stream := s.streams[r.URL.RequestURI()]
	s.mu.Unlock()
	switch isResult := text != "" && !isStatus.MatchString(text); {
	case stream != nil && (isResult || text == ""):
		s.record(r, lines)
		w.WriteHeader(http.StatusAccepted)
		if isResult {
			stream.send <- []string{"data: " + responseTo(m.ID, text)}
		}
	case text != "":
		s.record(r, lines)
		s.respond(w, &m, text)
	default:
		s.converse(w, r, s.begin(path.Base(m.Method), string(m.ID), lines))
	}
}

// serveOther handles a request without a message: GET or DELETE.
func (s *server) serveOther(w http.ResponseWriter, r *http.Request, lines []string) {
	text, ok := s.script[r.Method]
	if ok && r.Header.Get("Last-Event-Id") == "" {
		if r.Method == http.MethodGet {
			s.end(s.begin("stream", "", lines), "")
		} else {
			s.record(r, lines)
		}
		s.respond(w, nil, text)
		return
	}
	x := s.begin("stream", "", lines)
	if s.sse && s.revision != "" {
		s.mu.Lock()
		endpoint := fmt.Sprint("/post?session=", len(s.streams)+1)
		s.streams[endpoint] = x
		s.mu.Unlock()
		s.write(w, x, []string{"200 text/event-stream", "event: endpoint", "data: " + endpoint})
	}
	s.converse(w, r, x)
}

// respond sends a scripted response: a status and text, a result or an error.
func (s *server) respond(w http.ResponseWriter, m *jsonrpc.Message, text string) {
	if isStatus.MatchString(text) {
		code, _ := strconv.Atoi(text[:3])
		w.WriteHeader(code)
		_, _ = io.WriteString(w, strings.TrimPrefix(text[3:], " "))
		return
	}
	if m.Method == "initialize" && !strings.HasPrefix(text, "error ") {
		s.mu.Lock()
		s.sessions++
		w.Header().Set("Mcp-Session-Id", fmt.Sprint("s", s.sessions))
		s.mu.Unlock()
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, responseTo(m.ID, text))
}

// converse sends the lines of the conversation until it ends or the Client disconnects.
func (s *server) converse(w http.ResponseWriter, r *http.Request, x *exchange) {
	for {
		select {
		case lines := <-x.send:
			if s.write(w, x, lines) {
				s.end(x, "")
				return
			}
		case <-r.Context().Done():
			s.end(x, "(cut)")
			return
		}
	}
}

// write writes lines of a response, and reports whether it has ended.
func (s *server) write(w http.ResponseWriter, x *exchange, lines []string) (ended bool) {
	if !x.begun && lines[0] != "(cut)" {
		x.begun = true
		status, media, _ := strings.Cut(lines[0], " ")
		code, err := strconv.Atoi(status)
		if err != nil {
			s.t.Errorf("%s: the response begins with %q, want a status", x.label, lines[0])
			return true
		}
		if media != "" {
			w.Header().Set("Content-Type", media)
		}
		lines = lines[1:]
		for len(lines) > 0 && isHead.MatchString(lines[0]) && lines[0][0] < 'a' {
			name, value, _ := strings.Cut(lines[0], ": ")
			w.Header().Set(name, value)
			lines = lines[1:]
		}
		w.WriteHeader(code)
		if media != "text/event-stream" {
			_, _ = io.WriteString(w, strings.Join(lines, "\n"))
			return true
		}
		_ = http.NewResponseController(w).Flush()
	}
	for _, line := range lines {
		switch {
		case line == "(end)":
			return true
		case line == "(cut)":
			s.end(x, "")
			panic(http.ErrAbortHandler)
		case isHead.MatchString(line):
			_, _ = io.WriteString(w, line+"\n")
		default: // the end of an event
			_, _ = io.WriteString(w, line+"\n\n")
		}
	}
	_ = http.NewResponseController(w).Flush()
	return false
}

// program is a program on stdio: it reads and writes lines.
func (s *server) program(ctx context.Context, in io.Reader, out io.Writer) {
	s.mu.Lock()
	s.programs++
	x := &exchange{open: true, send: make(chan []string)}
	if s.programs > 1 {
		x.label = fmt.Sprint("program", s.programs)
	}
	s.exchanges = append(s.exchanges, x)
	s.mu.Unlock()
	write := func(line string) { _, _ = io.WriteString(out, line+"\n") }
	var wg sync.WaitGroup
	defer wg.Wait()
	ended := make(chan struct{})
	wg.Go(func() {
		defer close(ended)
		lines := bufio.NewScanner(in)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			m, err := jsonrpc.Parse([]byte(lines.Text()), limits.Defaults())
			if err != nil {
				s.t.Errorf("invalid message: %v", err)
				return
			}
			s.mu.Lock()
			x.received = append(x.received, lines.Text())
			s.mu.Unlock()
			if text := s.scripted(&m); m.IsRequest() && text != "" {
				write(responseTo(m.ID, text))
			}
		}
		s.end(x, "(end)")
	})
	for {
		select {
		case lines := <-x.send:
			if lines[0] == "(end)" {
				s.end(x, "")
				if c, ok := in.(io.Closer); ok {
					c.Close()
				}
				return
			}
			write(lines[0])
		case <-ended:
			return
		case <-ctx.Done():
			return
		}
	}
}
