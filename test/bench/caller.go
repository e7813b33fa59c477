package main

import (
	"bytes"
	"fmt"
	"net"
	"net/url"
	"time"
)

// An era is the era of a caller.
type era string

const (
	legacy era = "legacy" // 2025-11-25, with a session
	modern era = "modern" // 2026-07-28
)

const clientInfo = `{"name":"bench","version":"1"}`

const modernMeta = `{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":` + clientInfo + `}`

// A client makes sequential calls, and verifies their answers.
type client interface {
	// call makes the next call. It returns an error if the answer is wrong.
	call() error
	// decoded returns the number of decoded answers. The others were compared with a decoded one.
	decoded() int
	close()
}

// A dialer connects a client to an endpoint.
type dialer func(endpoint string, e era, p payload) (client, error)

// dialRaw connects a caller.
func dialRaw(endpoint string, e era, p payload) (client, error) { return dial(endpoint, e, p) }

// A caller is an MCP client with a keep-alive connection, and a session in the legacy era. It makes sequential calls.
type caller struct {
	conn      net.Conn
	responses *responseReader
	host      string
	path      string
	session   string
	request   []byte // the whole request of a call, head and body
	at        []int  // where the call's number stands in it
	answers   *answerCheck
	next      int
}

// patience is the time limit for a call.
const patience = 30 * time.Second

// dial connects a caller and, in the legacy era, opens its session.
func dial(endpoint string, e era, p payload) (*caller, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, err
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		return nil, err
	}
	c := &caller{
		conn: conn, responses: newResponseReader(conn), host: u.Host, path: u.Path,
		answers: newAnswerCheck(p), next: firstCall,
	}
	if err := c.prepare(e, p); err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}

func (c *caller) prepare(e era, p payload) error {
	meta, headers := "", "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n"
	if e == modern {
		meta = `"_meta":` + modernMeta + `,`
	} else {
		if err := c.initialize(); err != nil {
			return fmt.Errorf("open a session: %w", err)
		}
		headers = c.sessionHeaders()
	}
	body := fmt.Appendf(nil,
		`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo",%s"arguments":%s}}`,
		firstCall, meta, p.arguments)
	c.request = c.http("POST", headers, body)
	c.at = places(c.request, firstCall)
	return nil
}

// initialize performs the legacy handshake.
func (c *caller) initialize() error {
	resp, err := c.exchange(c.http("POST", "", []byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{`+
		`"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":`+clientInfo+`}}`)))
	if err != nil {
		return err
	}
	message, err := resp.message()
	if err != nil {
		return err
	}
	if resp.status != 200 || resp.session == "" || !bytes.Contains(message, []byte(`"2025-11-25"`)) {
		return fmt.Errorf("initialize: status %d, session %q: %.300q", resp.status, resp.session, message)
	}
	c.session = resp.session
	resp, err = c.exchange(c.http("POST", c.sessionHeaders(),
		[]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)))
	if err == nil && resp.status != 202 {
		err = fmt.Errorf("notifications/initialized: status %d: %.300q", resp.status, resp.body)
	}
	return err
}

func (c *caller) sessionHeaders() string {
	return "MCP-Protocol-Version: 2025-11-25\r\nMcp-Session-Id: " + c.session + "\r\n"
}

// call makes the next call and verifies its answer.
func (c *caller) call() error {
	n := c.next
	c.next++
	for _, i := range c.at {
		number(c.request[i:], n)
	}
	resp, err := c.exchange(c.request)
	if err != nil {
		return fmt.Errorf("call %d: %w", n, err)
	}
	if resp.status != 200 {
		return fmt.Errorf("call %d: status %d: %.300q", n, resp.status, resp.body)
	}
	message, err := resp.message()
	if err != nil {
		return fmt.Errorf("call %d: %w", n, err)
	}
	return c.answers.check(message, n)
}

func (c *caller) decoded() int { return c.answers.decoded }

// close ends the session, so that it does not affect later measurements, and the connection.
func (c *caller) close() {
	if c.session != "" {
		_, _ = c.exchange(c.http("DELETE", c.sessionHeaders(), nil)) // a server need not support it
	}
	c.conn.Close()
}

func (c *caller) exchange(request []byte) (response, error) {
	if err := c.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return response{}, err
	}
	if _, err := c.conn.Write(request); err != nil {
		return response{}, err
	}
	return c.responses.read()
}

// http formats a request.
func (c *caller) http(method, headers string, body []byte) []byte {
	head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nAccept: application/json, text/event-stream\r\n"+
		"Content-Type: application/json\r\n%sContent-Length: %d\r\n\r\n", method, c.path, c.host, headers, len(body))
	return append([]byte(head), body...)
}
