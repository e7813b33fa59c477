package mcpclient_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mcpclient"
)

// A fake is an MCP server over HTTP whose behavior its test defines.
type fake struct {
	*httptest.Server
	// modern selects the era.
	modern bool
	// answer responds to requests other than those of the session itself.
	answer func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message)
	// get handles GET. If nil, the response is 405.
	get http.HandlerFunc
	// discover responds to server/discover. If nil, the response depends on the era.
	discover func(w http.ResponseWriter, m *jsonrpc.Message)
	// ping responds to ping. If nil, at once.
	ping func(w http.ResponseWriter, m *jsonrpc.Message)
	// noSession disables sessions.
	noSession bool
	// noInitialize makes initialize unsupported. capabilities are those of the server; if empty, it has tools.
	noInitialize bool
	capabilities string

	// respond receives the responses of the client, if it is not nil.
	respond func(body []byte)

	mu   sync.Mutex
	seen []string // the methods of all messages
	n    atomic.Int64
	// cancelled and responses receive a value for each notifications/cancelled and each response.
	cancelled, responses chan struct{}
}

func newFake(t *testing.T, modern bool, answer func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message)) *fake {
	t.Helper()
	f := &fake{modern: modern, answer: answer, cancelled: make(chan struct{}, 100), responses: make(chan struct{}, 100)}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodGet && f.get != nil:
		f.get(w, r)
		return
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body, _ := io.ReadAll(r.Body)
	m, err := jsonrpc.Parse(body, limits.Defaults())
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	f.seen = append(f.seen, m.Method)
	f.mu.Unlock()
	can := f.capabilities
	if can == "" {
		can = `{"tools":{}}`
	}
	switch {
	case m.Method == "server/discover" && f.discover != nil:
		f.discover(w, &m)
	case m.Method == "server/discover" && f.modern:
		result(w, &m, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":`+can+
			`,"ttlMs":0,"cacheScope":"private"}`)
	case m.Method == "initialize" && f.noInitialize:
		w.WriteHeader(http.StatusBadRequest)
	case m.Method == "server/discover":
		w.WriteHeader(http.StatusBadRequest)
	case m.Method == "initialize":
		if !f.noSession {
			w.Header().Set("Mcp-Session-Id", fmt.Sprint("s", f.n.Add(1)))
		}
		result(w, &m, `{"protocolVersion":"2025-11-25","capabilities":`+can+`,"serverInfo":{"name":"f","version":"1"}}`)
	case m.Method == "ping" && f.ping != nil:
		f.ping(w, &m)
	case m.Method == "ping":
		result(w, &m, `{}`)
	case !m.IsRequest():
		if m.Method == "notifications/cancelled" {
			f.cancelled <- struct{}{}
		}
		if m.IsResponse() && f.respond != nil {
			f.respond(body)
		}
		if m.IsResponse() {
			f.responses <- struct{}{}
		}
		w.WriteHeader(http.StatusAccepted)
	default:
		f.answer(w, r, &m)
	}
}

// count returns the number of messages with the method.
func (f *fake) count(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, m := range f.seen {
		if m == method {
			n++
		}
	}
	return n
}

func result(w http.ResponseWriter, m *jsonrpc.Message, text string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(jsonrpc.AppendResult(nil, m.ID, []byte(text)))
}

func stream(w http.ResponseWriter, events ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range events {
		_, _ = io.WriteString(w, e)
	}
	_ = http.NewResponseController(w).Flush()
}

const hello = `{"content":[{"type":"text","text":"hello"}]}`

// quick shortens the client's intervals.
func quick(c *mcpclient.Client) { c.Hasten() }

// sseServer returns an HTTP+SSE server of 2024-11-05. It sends the JSON that answer writes as an event.
func sseServer(answer func(http.ResponseWriter, *http.Request, *jsonrpc.Message)) http.HandlerFunc {
	var mu sync.Mutex
	streams, last := map[string]chan string{}, 0
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodGet:
			events := make(chan string, 10)
			mu.Lock()
			last++
			session := strconv.Itoa(last)
			streams[session] = events
			mu.Unlock()
			stream(w, "event: endpoint\ndata: /post?session="+session+"\n\n")
			for {
				select {
				case e := <-events:
					stream(w, "data: "+e+"\n\n")
				case <-r.Context().Done():
					return
				}
			}
		case r.URL.Path != "/post":
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		body, _ := io.ReadAll(r.Body)
		m, _ := jsonrpc.Parse(body, limits.Defaults())
		rec := httptest.NewRecorder()
		switch {
		case m.Method == "initialize":
			result(rec, &m, `{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"f","version":"1"}}`)
		case m.IsRequest():
			answer(rec, r, &m)
		}
		if rec.Code != http.StatusOK {
			w.WriteHeader(rec.Code)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		if rec.Body.Len() > 0 {
			mu.Lock()
			streams[r.URL.Query().Get("session")] <- rec.Body.String()
			mu.Unlock()
		}
	}
}
