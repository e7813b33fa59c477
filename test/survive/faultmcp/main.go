// Command faultmcp is an MCP server that fails as the arguments of each call specify. Like faultplug, it writes a
// journal of its actions, to the file FAULTMCP_JOURNAL.
//
// It serves stdin and stdout. If FAULTMCP_HTTP is set, it serves Streamable HTTP at that address and prints the URL.
// FAULTMCP_ERA is legacy (2025-11-25) or modern (2026-07-28).
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/mcpbridge/mcpbridge/test/survive/checker"
	"github.com/mcpbridge/mcpbridge/test/survive/fault"
)

func main() { os.Exit(run()) }

func run() int {
	w, err := fault.Open("FAULTMCP_JOURNAL")
	if err != nil {
		fmt.Fprintln(os.Stderr, "faultmcp:", err)
		return 2
	}
	w.Note(checker.Start, "-")
	s := &server{Worker: w, modern: os.Getenv("FAULTMCP_ERA") == "modern"}
	if addr := os.Getenv("FAULTMCP_HTTP"); addr != "" {
		err = s.serveHTTP(addr)
	} else {
		err = s.serveStdio()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "faultmcp:", err)
		return 1
	}
	return 0
}

// A server answers messages of any transport.
type server struct {
	*fault.Worker
	modern bool
}

// A message contains the relevant members of a JSON-RPC message.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string          `json:"name"`
		Arguments Arguments       `json:"arguments"`
		RequestID json.RawMessage `json:"requestId"`
		Meta      struct {
			ProgressToken json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	} `json:"params"`
}

// Arguments are the arguments of every tool.
type Arguments struct {
	fault.Work
	// Fault is the fault of the response: over HTTP reset, cut, forget, or a status; over stdio print.
	Fault string `json:"fault,omitempty"`
	// Before makes the call fail before its work, which is then not executed.
	Before bool `json:"before,omitempty"`
	// Bytes is the number of bytes that are sent before the fault, or of lines to print that are not MCP.
	Bytes int `json:"bytes,omitempty"`
}

const (
	tools = `{"tools":[{"name":"work","inputSchema":{"type":"object"}},` +
		`{"name":"hang","inputSchema":{"type":"object"}}]`
	capabilities = `"capabilities":{"tools":{"listChanged":true}}`
	serverInfo   = `{"name":"faultmcp","version":"1"}`
)

// answer returns the response to a request that is not a tool call.
func (s *server) answer(m *message) string {
	var result string
	switch {
	case m.Method == "initialize" && !s.modern:
		result = `{"protocolVersion":"2025-11-25",` + capabilities + `,"serverInfo":` + serverInfo + `}`
	case m.Method == "server/discover" && s.modern:
		result = `{"resultType":"complete","supportedVersions":["2026-07-28"],` + capabilities +
			`,"_meta":{"io.modelcontextprotocol/serverInfo":` + serverInfo + `}}`
	case m.Method == "tools/list" && s.modern:
		result = tools + `,"resultType":"complete","ttlMs":60000,"cacheScope":"public"}`
	case m.Method == "tools/list":
		result = tools + `}`
	case m.Method == "ping" && !s.modern:
		result = `{}`
	default:
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown method"}}`,
			m.ID)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

// call executes a tool call and returns its response, or "" if it was canceled.
func (s *server) call(ctx context.Context, m *message, send func(string)) string {
	progress := func(n, total int, pad string) {
		if token := m.Params.Meta.ProgressToken; token != nil {
			send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"total":%d,"message":%q}}`,
				token, n, total, pad))
		}
	}
	var done fault.Done
	var err error
	if m.Params.Name == "hang" {
		done, err = s.Hang(ctx, m.Params.Arguments.Token, func() { progress(1, 0, "") })
	} else {
		done, err = s.Do(ctx, m.Params.Arguments.Work, progress)
	}
	if err != nil {
		return ""
	}
	text, _ := json.Marshal(done) //nolint:errchkjson // every value can be encoded
	kind := ""
	if s.modern {
		kind = `"resultType":"complete",`
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{%s"content":[{"type":"text","text":%q}],"structuredContent":%s}}`, m.ID, kind, text, text)
}

// serveStdio serves one client until stdin ends.
func (s *server) serveStdio() error {
	var mu sync.Mutex // guards running and stdout
	running := map[string]context.CancelFunc{}
	send := func(line string) {
		if line == "" {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(line)
	}
	var calls sync.WaitGroup
	defer calls.Wait()
	ctx, end := context.WithCancel(context.Background())
	defer end()
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var m message
		if err := json.Unmarshal(in.Bytes(), &m); err != nil {
			return fmt.Errorf("%.200q: %w", in.Text(), err)
		}
		switch {
		case m.Method == "notifications/cancelled":
			mu.Lock()
			if cancel := running[string(m.Params.RequestID)]; cancel != nil {
				cancel()
			}
			mu.Unlock()
		case m.ID == nil || m.Method == "":
		case m.Method != "tools/call":
			send(s.answer(&m))
		default:
			callCtx, cancel := context.WithCancel(ctx)
			mu.Lock()
			running[string(m.ID)] = cancel
			mu.Unlock()
			calls.Go(func() {
				defer cancel()
				if a := &m.Params.Arguments; a.Fault == "print" {
					send(strings.Repeat("loading\n", a.Bytes) + "loaded")
				}
				response := s.call(callCtx, &m, send)
				mu.Lock()
				delete(running, string(m.ID))
				mu.Unlock()
				send(response)
			})
		}
	}
	return in.Err()
}
