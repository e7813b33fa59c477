package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"text/template"
	"time"
)

// responseTimeout is the time limit for a response.
const responseTimeout = 10 * time.Second

// A request is an HTTP request that is sent without validation, so that it can be invalid.
type request struct {
	method string
	line   string
	header []string
	body   []byte
}

func (r *request) set(name, value string) { r.drop(name); r.header = append(r.header, name+": "+value) }

func (r *request) drop(name string) {
	var kept []string
	for _, h := range r.header {
		if n, _, _ := strings.Cut(h, ":"); !strings.EqualFold(n, name) {
			kept = append(kept, h)
		}
	}
	r.header = kept
}

func (r *request) has(name string) bool {
	for _, h := range r.header {
		if n, _, _ := strings.Cut(h, ":"); strings.EqualFold(n, name) {
			return true
		}
	}
	return false
}

// edit changes the header as Input.Headers describes.
func (r *request) edit(headers []string) {
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ":")
		switch {
		case strings.HasPrefix(h, "!"):
			r.header = append(r.header, h[1:])
		case strings.HasPrefix(h, "-"):
			r.drop(h[1:])
		case strings.HasPrefix(h, "+"):
			r.header = append(r.header, h[1:])
		default:
			r.set(name, strings.TrimPrefix(value, " "))
		}
	}
}

func (r *request) bytes() []byte {
	var b bytes.Buffer
	b.WriteString(r.line + "\r\n")
	for _, h := range r.header {
		b.WriteString(h + "\r\n")
	}
	if r.body != nil && !r.has("Content-Length") && !r.has("Transfer-Encoding") {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(r.body))
	}
	b.WriteString("\r\n")
	b.Write(r.body)
	return b.Bytes()
}

// A link is a connection for consecutive requests.
type link struct {
	net.Conn
	r *bufio.Reader
}

func dial(addr string) (*link, error) {
	c, err := net.DialTimeout("tcp", addr, responseTimeout)
	if err != nil {
		return nil, err
	}
	return &link{c, bufio.NewReader(c)}, nil
}

// An answer is a response. Its body is complete, unless it is an endless stream.
type answer struct {
	*http.Response
	body []byte
	over bool // the connection cannot be reused
}

// errNoAnswer means that the connection ended without a response.
var errNoAnswer = errors.New("connection closed without a response")

// do sends a request and reads the response.
func (l *link) do(r *request) (*answer, error) {
	end := time.Now().Add(responseTimeout)
	if err := l.SetDeadline(end); err != nil {
		return nil, err
	}
	written := make(chan struct{})
	go func() { // ends at the deadline at the latest
		defer close(written)
		_, _ = l.Write(r.bytes()) // the response shows whether the server read the request
	}()
	res, err := http.ReadResponse(l.r, &http.Request{Method: r.method})
	if err != nil {
		l.Close()
		<-written
		if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
			return nil, err
		}
		return nil, errNoAnswer
	}
	a := &answer{Response: res}
	if r.method == http.MethodGet && strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		l.Close()
		<-written
		a.over = true
		return a, nil
	}
	a.body, err = io.ReadAll(res.Body)
	a.over = res.Close || err != nil
	if a.over {
		l.Close()
	}
	<-written
	return a, nil
}

// roundTrip sends a request on a new connection.
func roundTrip(addr string, r *request) (*answer, error) {
	l, err := dial(addr)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	return l.do(r)
}

// A message contains the relevant members of a JSON-RPC message.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// record sets the fields of o that describe a JSON-RPC message or batch.
func record(o *outcome, data []byte) {
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("[")) {
		var all []json.RawMessage
		if json.Unmarshal(data, &all) == nil && len(all) > 0 {
			o.text = strings.TrimSpace(o.text + " batch" + strconv.Itoa(len(all)))
			data = all[0]
		}
	}
	o.message = string(data[:min(len(data), 300)])
	var m message
	if json.Unmarshal(data, &m) != nil {
		return
	}
	o.id = len(m.ID) > 0 && string(m.ID) != "null"
	if m.Error != nil {
		o.code = m.Error.Code
	}
	if m.Result != nil {
		o.result = true
		var r struct {
			IsError bool `json:"isError"`
		}
		o.failed = json.Unmarshal(m.Result, &r) == nil && r.IsError
	}
}

// outcome returns the outcome of a request.
func (a *answer) outcome() outcome {
	o := outcome{status: a.StatusCode}
	var h bytes.Buffer
	_ = a.Header.Write(&h) // a bytes.Buffer returns no errors
	o.header = h.String()
	body := a.body
	if strings.HasPrefix(a.Header.Get("Content-Type"), "text/event-stream") {
		for _, data := range events(body) {
			record(&o, data)
		}
		return o
	}
	record(&o, body)
	return o
}

// events returns the data of the events in a stream.
func events(body []byte) [][]byte {
	var out [][]byte
	for line := range strings.Lines(string(body)) {
		if data, ok := strings.CutPrefix(line, "data:"); ok {
			out = append(out, []byte(strings.TrimSpace(data)))
		}
	}
	return out
}

// An eventStream is the open GET of an HTTP+SSE client.
type eventStream struct {
	conn     net.Conn
	endpoint string
	messages chan []byte
	done     chan struct{}
}

// openEvents opens the stream, and reads the endpoint event.
func openEvents(addr string, r *request) (*eventStream, error) {
	c, err := net.DialTimeout("tcp", addr, responseTimeout)
	if err != nil {
		return nil, err
	}
	if _, err := c.Write(r.bytes()); err != nil {
		c.Close()
		return nil, err
	}
	_ = c.SetReadDeadline(time.Now().Add(responseTimeout)) // no error: the socket is open
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		c.Close()
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		c.Close()
		return nil, fmt.Errorf("event stream: %s", res.Status)
	}
	e := &eventStream{conn: c, messages: make(chan []byte, 4096), done: make(chan struct{})}
	lines := bufio.NewReaderSize(res.Body, 1<<20)
	var event string
	for e.endpoint == "" {
		line, err := lines.ReadString('\n')
		if err != nil {
			c.Close()
			return nil, err
		}
		if name, ok := strings.CutPrefix(line, "event: "); ok {
			event = strings.TrimSpace(name)
		} else if data, ok := strings.CutPrefix(line, "data: "); ok && event == "endpoint" {
			e.endpoint = strings.TrimSpace(data)
		}
	}
	_ = c.SetReadDeadline(time.Time{}) // no error: the socket is open
	go func() {                        // ends with the connection
		defer close(e.done)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				e.messages <- []byte(strings.TrimSpace(data))
			}
		}
	}()
	return e, nil
}

// next returns the next message.
func (e *eventStream) next() ([]byte, error) {
	select {
	case m := <-e.messages:
		return m, nil
	case <-e.done:
		return nil, errors.New("the event stream ended")
	case <-time.After(responseTimeout):
		return nil, errors.New("timeout while reading the event stream")
	}
}

func (e *eventStream) close() {
	e.conn.Close()
	<-e.done
}

// templateData is the data for the templates in attacks.yaml.
type templateData struct {
	M       string // _meta of a modern request, and a comma
	Session string
	Target  string
	Addr    string
}

var templates sync.Map

// fill executes a template in text, if it has one.
func fill(text string, s templateData, funcs template.FuncMap) (string, error) {
	if !strings.Contains(text, "<<") {
		return text, nil
	}
	t, ok := templates.Load(text)
	if !ok {
		parsed, err := template.New("").Delims("<<", ">>").Funcs(funcs).Parse(text)
		if err != nil {
			return "", err
		}
		templates.Store(text, parsed)
		t = parsed
	}
	var b strings.Builder
	err := t.(*template.Template).Execute(&b, s)
	return b.String(), err
}
