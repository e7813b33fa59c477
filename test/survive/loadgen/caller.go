// Package loadgen implements MCP clients that record everything they receive.
package loadgen

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mcpbridge/mcpbridge/test/survive/checker"
)

// runs distinguishes tokens of different runs of the program.
var runs = strconv.FormatInt(time.Now().UnixMilli()%1e9, 36)

var tokens atomic.Int64

// NewToken returns a unique token.
func NewToken() string { return runs + "-" + strconv.FormatInt(tokens.Add(1), 10) }

// Work is a call: the arguments of the tools of faultplug and faultmcp.
type Work struct {
	Tool   string `json:"-"` // empty: work
	Token  string `json:"token"`
	Ms     int    `json:"ms,omitempty"`
	Events int    `json:"events,omitempty"`
	Die    string `json:"die,omitempty"`
	At     int    `json:"at,omitempty"`
	Pad    int    `json:"pad,omitempty"`
	// Fault, Before and Bytes are for faultmcp only.
	Fault  string `json:"fault,omitempty"`
	Before bool   `json:"before,omitempty"`
	Bytes  int    `json:"bytes,omitempty"`
	// OnEvent is called with each progress notification. If it returns false, the caller closes the connection.
	OnEvent func(c *checker.Call) bool `json:"-"`
}

func (w *Work) complete() (arguments string) {
	if w.Tool == "" {
		w.Tool = "work"
	}
	if w.Token == "" {
		w.Token = NewToken()
	}
	text, _ := json.Marshal(w) //nolint:errchkjson // every value can be encoded
	return string(text)
}

// A Caller is an MCP client over HTTP. It makes one call at a time; Notify may be called meanwhile.
type Caller struct {
	*Conn
	Number  int
	Era     string
	URL     string
	session string
	// Asked declares that a legacy client answers forms.
	Asked bool
	// Renewed counts sessions that had to be replaced.
	Renewed int
	// Resumes makes the client resume a stream that ended without a response, as legacy clients may.
	Resumes bool
}

// NewCaller returns a client. In the legacy era, its first call opens a session.
func NewCaller(endpoint, era string, number int) (*Caller, error) {
	conn, err := NewConn(endpoint)
	if err != nil {
		return nil, err
	}
	return &Caller{Conn: conn, Number: number, Era: era, URL: endpoint}, nil
}

// Headers returns the headers of every request of the client.
func (c *Caller) Headers(tool string) string {
	if c.Era == Modern {
		return "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: " + tool + "\r\n"
	}
	return "MCP-Protocol-Version: 2025-11-25\r\nMcp-Session-Id: " + c.session + "\r\n"
}

// Open opens the session of a legacy client. If the bridge ends before it has received the initialized notification,
// Open starts another session (2025-11-25: basic/transports, session management).
func (c *Caller) Open() error {
	if c.Era == Modern || c.session != "" {
		return nil
	}
	first := initialize
	if c.Asked {
		first = strings.Replace(first, `"capabilities":{}`, `"capabilities":{"elicitation":{}}`, 1)
	}
	for again := 0; ; again++ {
		resp, body, err := c.Do(http.MethodPost, "", []byte(first))
		if err != nil {
			return fmt.Errorf("initialize: %w", err)
		}
		if c.session = resp.Header.Get("Mcp-Session-Id"); resp.StatusCode != http.StatusOK || c.session == "" {
			return fmt.Errorf("initialize: status %d: %.300s", resp.StatusCode, body)
		}
		resp, body, err = c.Do(http.MethodPost, c.Headers(""), []byte(initialized))
		switch {
		case err == nil && resp.StatusCode == http.StatusNotFound && again < 3:
			c.session = ""
			c.Renewed++
		case err == nil && resp.StatusCode != http.StatusAccepted:
			return fmt.Errorf("notifications/initialized: status %d: %.300s", resp.StatusCode, body)
		default:
			return err
		}
	}
}

const (
	initialize  = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":` + clientInfo + `}}`
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

// Call makes a call and returns its history.
func (c *Caller) Call(w Work) checker.Call {
	arguments := w.complete()
	call := checker.Call{Token: w.Token, Caller: c.Number, Era: c.Era, Tool: w.Tool, Sent: w.Events}
	if err := c.Open(); err != nil {
		call.Begin = time.Now().UnixNano()
		call.End, call.Broken = call.Begin, err.Error()
		return call
	}
	body := request(c.Era, w.Token, w.Tool, arguments)
	call.Begin = time.Now().UnixNano()
	resp, err := c.Send(http.MethodPost, c.Headers(w.Tool), body)
	last := ""
	for err == nil {
		call.Status = resp.StatusCode
		err = c.Messages(resp, func(m checker.Message) bool {
			if m.ID != "" {
				last = m.ID
			}
			if m.Data == "" {
				return true
			}
			if note(&call, []byte(m.Data)) {
				call.End = time.Now().UnixNano()
				return true
			}
			if w.OnEvent != nil && !w.OnEvent(&call) {
				call.Dropped = time.Now().UnixNano()
				c.Close()
				return false
			}
			return true
		})
		if err != nil || len(call.Answers) > 0 || !c.Resumes || last == "" || resp.StatusCode != http.StatusOK {
			break
		}
		resp, err = c.Stream(c.Conn, last)
	}
	if err != nil {
		c.Close()
		if call.Dropped == 0 {
			call.Broken = err.Error()
		}
	}
	if call.End == 0 {
		call.End = time.Now().UnixNano()
	}
	return call
}

// Notify sends the cancellation of a legacy client's call on its own connection.
func (c *Caller) Notify(on *Conn, token string) error {
	body := fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%q}}`, token)
	resp, text, err := on.Do(http.MethodPost, c.Headers(""), body)
	if err == nil && resp.StatusCode != http.StatusAccepted {
		err = fmt.Errorf("notifications/cancelled: status %d: %.200s", resp.StatusCode, text)
	}
	return err
}

// End ends the session and closes the connection.
func (c *Caller) End() {
	if c.session != "" {
		_, _, _ = c.Do(http.MethodDelete, c.Headers(""), nil) // the session may have ended
		c.session = ""
	}
	c.Close()
}

// Leave abandons the session without ending it. The next call opens a new one.
func (c *Caller) Leave() { c.session = "" }

// Forget abandons a session that the server has ended.
func (c *Caller) Forget() {
	c.session = ""
	c.Renewed++
	c.Close()
}

// Stream opens the GET stream of a session. If after is not empty, it resumes after that event.
func (c *Caller) Stream(on *Conn, after string) (*http.Response, error) {
	h := c.Headers("")
	if after != "" {
		h += "Last-Event-ID: " + after + "\r\n"
	}
	return on.Send(http.MethodGet, h, nil)
}

// Listen opens a subscription of the modern era.
func Listen(on *Conn, id string) (*http.Response, error) {
	body := fmt.Appendf(nil,
		`{"jsonrpc":"2.0","id":%q,"method":"subscriptions/listen","params":{"_meta":{%s},"notifications":{"toolsListChanged":true}}}`, id, modernMeta)
	return on.Send(http.MethodPost, "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\n", body)
}

// IsResponse reports whether a message is the response to the request with the ID.
func IsResponse(m checker.Message, id string) bool {
	return strings.Contains(m.Data, `"id":"`+id+`"`) && strings.Contains(m.Data, `"result"`)
}

// Request returns the body of a call's request.
func Request(era string, w Work) []byte {
	arguments := w.complete()
	return request(era, w.Token, w.Tool, arguments)
}

// TaskRequest returns the body of a request of the modern era, of a client with forms and tasks. params are members.
func TaskRequest(id, method, params string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%q,"method":%q,"params":{"_meta":{`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":%s,`+
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":`+
		`{}}}},%s}}`, id, method, clientInfo, params)
}

// Note records a message of a call.
func Note(c *checker.Call, m checker.Message) { note(c, []byte(m.Data)) }
