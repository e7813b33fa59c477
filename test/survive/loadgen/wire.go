package loadgen

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpbridge/mcpbridge/test/survive/checker"
)

// The names of the eras in a history.
const (
	Legacy = "legacy" // 2025-11-25, with a session
	Modern = "modern" // 2026-07-28
	Stdio  = "stdio"  // 2025-11-25 over stdin and stdout
)

const clientInfo = `{"name":"survive","version":"1"}`

const modernMeta = `"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":` + clientInfo

// A Conn is a connection to an MCP endpoint over HTTP/1.1, opened on demand. One request runs at a time; Close may be
// called meanwhile.
type Conn struct {
	host, path string
	// Header is sent with every request, such as Authorization: complete lines.
	Header string
	conn   net.Conn
	r      *bufio.Reader
	buf    []byte
}

// NewConn returns a connection to the endpoint at a URL.
func NewConn(endpoint string) (*Conn, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, err
	}
	return &Conn{host: u.Host, path: u.Path}, nil
}

// Close closes the connection. The next request opens another one.
func (c *Conn) Close() {
	if c.conn != nil {
		_ = c.conn.Close() // the server may have closed it
		c.conn = nil
	}
}

// Dead reports whether the server has closed the connection.
func (c *Conn) Dead() bool {
	if c.conn == nil {
		return true
	}
	tcp, ok := c.conn.(syscall.Conn)
	if !ok {
		return false
	}
	_ = c.conn.SetDeadline(time.Time{}) // the last deadline may have passed
	raw, err := tcp.SyscallConn()
	if err != nil {
		return true
	}
	dead := false
	err = raw.Read(func(fd uintptr) bool {
		n, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		dead = err == nil && n == 0 || err != nil && !errors.Is(err, unix.EAGAIN)
		return true
	})
	return dead || err != nil
}

// messageTimeout is the time limit for each message.
const messageTimeout = 60 * time.Second

// Send sends a request, and returns the response. Its body must be read to the end, or the connection closed. headers
// are complete lines.
func (c *Conn) Send(method, headers string, body []byte) (*http.Response, error) {
	if err := c.write(method, headers, body); err != nil {
		return nil, err
	}
	return http.ReadResponse(c.r, nil)
}

// Abandon sends a request, and closes the connection after a time, like a client that is killed.
func (c *Conn) Abandon(headers string, body []byte, after time.Duration) {
	if c.write(http.MethodPost, headers, body) == nil {
		time.Sleep(after)
	}
	c.Close()
}

func (c *Conn) write(method, headers string, body []byte) error {
	if c.Dead() { // servers close idle connections
		c.Close()
		conn, err := net.DialTimeout("tcp", c.host, 10*time.Second)
		if err != nil {
			return err
		}
		c.conn, c.r = conn, bufio.NewReaderSize(conn, 8<<10)
	}
	c.buf = fmt.Appendf(c.buf[:0], "%s %s HTTP/1.1\r\nHost: %s\r\nAccept: application/json, text/event-stream\r\n%s%s",
		method, c.path, c.host, c.Header, headers)
	if method == http.MethodPost {
		c.buf = fmt.Appendf(c.buf, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	c.buf = append(append(c.buf, "\r\n"...), body...)
	_ = c.conn.SetDeadline(time.Now().Add(messageTimeout)) // the write reports errors
	_, err := c.conn.Write(c.buf)
	return err
}

// Do sends a request and reads the response. It returns the body, or the last event of a stream.
func (c *Conn) Do(method, headers string, body []byte) (*http.Response, []byte, error) {
	resp, err := c.Send(method, headers, body)
	if err != nil {
		c.Close()
		return nil, nil, err
	}
	var last []byte
	err = c.Messages(resp, func(m checker.Message) bool {
		if m.Data != "" {
			last = []byte(m.Data)
		}
		return true
	})
	return resp, last, err
}

// Messages calls f with each message of a response, until the end or until f returns false. It closes the connection
// if it cannot be reused.
func (c *Conn) Messages(resp *http.Response, f func(m checker.Message) bool) error {
	defer resp.Body.Close()
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.Close {
			c.Close()
		}
		if err == nil && len(body) > 0 {
			f(checker.Message{Data: string(body)})
		}
		return err
	}
	err := ReadEvents(resp.Body, func(m checker.Message) bool {
		if c.conn != nil {
			_ = c.conn.SetDeadline(time.Now().Add(messageTimeout)) // as above
		}
		return f(m)
	})
	if err != nil || resp.Close {
		c.Close()
	}
	return err
}

// errStopped means that the callback stopped reading.
var errStopped = errors.New("stopped")

// ReadEvents calls f with each complete event of a stream. It returns nil at the end of the stream.
func ReadEvents(r io.Reader, f func(m checker.Message) bool) error {
	br := bufio.NewReaderSize(r, 16<<10)
	var m checker.Message
	for {
		line, err := br.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		line = bytes.TrimRight(line, "\r\n")
		name, value, _ := bytes.Cut(line, []byte{':'})
		value = bytes.TrimPrefix(value, []byte{' '})
		switch {
		case len(line) == 0:
			if m != (checker.Message{}) && !f(m) {
				return errStopped
			}
			m = checker.Message{}
		case string(name) == "id":
			m.ID = string(value)
		case string(name) == "data":
			m.Data += string(value)
		}
	}
}

// A message contains the relevant members of a JSON-RPC message.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Progress      float64         `json:"progress"`
		ProgressToken json.RawMessage `json:"progressToken"`
	} `json:"params"`
	Result *struct {
		IsError bool                    `json:"isError"`
		Content []struct{ Text string } `json:"content"`
		Done    struct {
			Token string `json:"token"`
			PID   int    `json:"pid"`
		} `json:"structuredContent"`
	} `json:"result"`
	Error *RPCError `json:"error"`
}

// An RPCError is a JSON-RPC error of the bridge.
type RPCError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    struct {
		Reason  string `json:"reason"`
		Outcome string `json:"outcome"`
	} `json:"data"`
}

// note records a message of a call, and reports whether it was the response.
func note(c *checker.Call, text []byte) (answered bool) {
	var m message
	if err := json.Unmarshal(text, &m); err != nil {
		c.Foreign = append(c.Foreign, fmt.Sprintf("invalid message: %.100q", text))
		return false
	}
	mine := `"` + c.Token + `"`
	switch {
	case m.Method == "notifications/progress" && string(m.Params.ProgressToken) == mine:
		if len(c.Answers) > 0 {
			c.Late++
		}
		c.Events = append(c.Events, int(m.Params.Progress))
		return false
	case m.Method != "":
		c.Foreign = append(c.Foreign, m.Method)
		return false
	case m.Error != nil && (m.ID == nil || string(m.ID) == "null"): // rejected before its id was read
	case string(m.ID) != mine:
		c.Foreign = append(c.Foreign, string(m.ID))
		return false
	}
	var a checker.Answer
	switch {
	case m.Error != nil:
		a = checker.Answer{
			Failed: true, Code: m.Error.Code, Reason: m.Error.Data.Reason, Outcome: m.Error.Data.Outcome,
			Text: m.Error.Message,
		}
	case m.Result != nil:
		a = checker.Answer{Failed: m.Result.IsError, Token: m.Result.Done.Token, PID: m.Result.Done.PID}
		if a.Failed && len(m.Result.Content) > 0 {
			a.Text = m.Result.Content[0].Text
		}
	}
	c.Answers = append(c.Answers, a)
	return true
}

// request returns the JSON-RPC request of a call, in any era.
func request(era, token, tool, arguments string) []byte {
	meta := ""
	if era == Modern {
		meta = modernMeta + ","
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%q,"method":"tools/call","params":{"name":%q,"_meta":{%s"progressToken":%q},"arguments":%s}}`,
		token, tool, meta, token, arguments)
}
