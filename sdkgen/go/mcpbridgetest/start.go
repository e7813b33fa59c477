package mcpbridgetest

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
)

func copied[M proto.Message](m M) M { return proto.CloneOf(m) }

// messageTimeout is the time that a test waits for one message.
const messageTimeout = 30 * time.Second

const methodNotFound = -32601

// A Client is an MCP client of a program behind the real bridge, over stdio. It is not safe for concurrent use.
type Client struct {
	t        testing.TB
	in       io.WriteCloser
	messages chan Message
	id       int
	// Notifications are the notifications received so far.
	Notifications []Message
	// Answer returns the result of a request of the server, such as "elicitation/create". If nil, requests fail.
	Answer func(method string, params json.RawMessage) (result any)
}

// A Message is a JSON-RPC message.
type Message struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  *struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data,omitempty"`
	} `json:"error,omitempty"`
}

// Start runs a program behind the bridge and connects to it as a client of revision 2025-11-25 with all capabilities.
// Both end with the test. bridge is the program of the bridge; if it is empty, MCPBRIDGE_BIN, or else mcpbridge in
// PATH. Start waits for the program with a list request: the bridge answers initialize while the program starts.
func Start(tb testing.TB, bridge string, command ...string) *Client {
	tb.Helper()
	bridge = cmp.Or(bridge, os.Getenv("MCPBRIDGE_BIN"), "mcpbridge")
	args := append([]string{"run", "--stdio", "--"}, command...)
	// Not the test's context: the bridge must shut down gracefully.
	ctx := context.WithoutCancel(tb.Context())
	cmd := exec.CommandContext(ctx, bridge, args...) //nolint:gosec // It is the author's own machine.
	cmd.Stderr = &log{t: tb}
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	cmd.WaitDelay = messageTimeout
	if err := cmd.Start(); err != nil {
		tb.Fatalf("starting the bridge: %v: build it, or set MCPBRIDGE_BIN to its path", err)
	}
	c := &Client{t: tb, in: in, messages: make(chan Message, 100)}
	go func() {
		defer close(c.messages)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 64<<20)
		for lines.Scan() {
			var m Message
			if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
				m.Method = "not JSON: " + lines.Text()
			}
			c.messages <- m
		}
	}()
	tb.Cleanup(func() {
		_ = in.Close() // Closing stdin stops a stdio server.
		for range c.messages {
			continue
		}
		_ = cmd.Wait()
	})
	initialized := c.Request("initialize", map[string]any{
		"protocolVersion": "2025-11-25", "clientInfo": map[string]any{"name": "mcpbridgetest", "version": "1"},
		"capabilities": map[string]any{
			"elicitation": map[string]any{"form": map[string]any{}, "url": map[string]any{}},
			"sampling":    map[string]any{"tools": map[string]any{}}, "roots": map[string]any{},
		},
	})
	if e := initialized.Error; e != nil {
		tb.Fatalf("initialize: error %d: %s", e.Code, e.Message)
	}
	c.Notify("notifications/initialized", nil)
	if e := c.Request("tools/list", nil).Error; e != nil && e.Code != methodNotFound {
		tb.Fatalf("the program does not serve; see the bridge's log: tools/list: error %d: %s", e.Code, e.Message)
	}
	return c
}

// Notify sends a notification.
func (c *Client) Notify(method string, params any) {
	c.t.Helper()
	c.send(map[string]any{"jsonrpc": "2.0", "method": method, "params": orEmpty(params)})
}

// Send sends a request and returns its id, without waiting for the answer.
func (c *Client) Send(method string, params any) int {
	c.t.Helper()
	c.id++
	c.send(map[string]any{"jsonrpc": "2.0", "id": c.id, "method": method, "params": orEmpty(params)})
	return c.id
}

// Request sends a request and returns the response.
func (c *Client) Request(method string, params any) Message {
	c.t.Helper()
	return c.Await(c.Send(method, params))
}

// Call calls a tool and returns the text of its result.
func (c *Client) Call(name string, args any) string {
	c.t.Helper()
	m := c.Request("tools/call",
		map[string]any{"name": name, "arguments": orEmpty(args), "_meta": map[string]any{"progressToken": c.id}})
	if m.Error != nil {
		return fmt.Sprintf("error %d: %s", m.Error.Code, m.Error.Message)
	}
	var r struct{ Content []struct{ Text string } }
	if err := json.Unmarshal(m.Result, &r); err != nil {
		c.t.Fatal(err)
	}
	var text strings.Builder
	for _, block := range r.Content {
		text.WriteString(block.Text)
	}
	return text.String()
}

// Await returns the response to the request with an id.
func (c *Client) Await(id int) Message {
	c.t.Helper()
	for {
		m := c.next()
		if m.Method == "" && string(m.ID) == strconv.Itoa(id) {
			return m
		}
	}
}

// AwaitNotification returns the next notification of a method, or a previous unread one.
func (c *Client) AwaitNotification(method string) Message {
	c.t.Helper()
	for {
		for i, m := range c.Notifications {
			if m.Method == method {
				c.Notifications = slices.Delete(c.Notifications, i, i+1)
				return m
			}
		}
		c.next()
	}
}

// next returns the next message. It stores notifications, and answers requests.
func (c *Client) next() Message {
	c.t.Helper()
	select {
	case m, ok := <-c.messages:
		switch {
		case !ok:
			c.t.Fatal("the bridge has ended")
		case m.Method != "" && m.ID == nil:
			c.Notifications = append(c.Notifications, m)
		case m.Method != "":
			answer := map[string]any{
				"jsonrpc": "2.0", "id": m.ID,
				"error": map[string]any{"code": -1, "message": "no Answer"},
			}
			if c.Answer != nil {
				delete(answer, "error")
				answer["result"] = c.Answer(m.Method, m.Params)
			}
			c.send(answer)
		}
		return m
	case <-time.After(messageTimeout):
		c.t.Fatalf("nothing came for %v", messageTimeout)
	}
	return Message{}
}

func (c *Client) send(m any) {
	c.t.Helper()
	text, err := json.Marshal(m)
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.in.Write(append(text, '\n')); err != nil {
		c.t.Fatalf("cannot write to the bridge: %v", err)
	}
}

func orEmpty(params any) any {
	if params == nil {
		return struct{}{}
	}
	return params
}

// A log writes the bridge's log to the test's, while the test runs.
type log struct {
	t     testing.TB
	mu    sync.Mutex // guards ended
	ended bool
}

// Write implements io.Writer.
func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.ended = l.t.Context().Err() != nil
	}
	if !l.ended {
		l.t.Logf("bridge: %s", b)
	}
	return len(b), nil
}
