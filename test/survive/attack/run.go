package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"text/template"
	"time"
)

const (
	modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}`
	echoCall   = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{<<.M>>"name":"echo","arguments":{}}}`
)

var revisions = map[string]string{
	"24": "2024-11-05", "03": "2025-03-26", "06": "2025-06-18", "11": "2025-11-25",
	"07": "2026-07-28",
}

// revision returns the name of an endpoint's revision.
func revision(endpoint string) string {
	name, _, _ := strings.Cut(endpoint, "-")
	return revisions[name[max(len(name)-2, 0):]]
}

func initialize(rev string) string {
	return `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + rev +
		`","capabilities":{"elicitation":{}},"clientInfo":{"name":"attack","version":"1"}}}`
}

// base returns a valid request of an endpoint, with the session or stream that it needs.
func (b *bridge) base(endpoint string) (*request, templateData, error) {
	s := templateData{Addr: b.addr, Target: "/mcp"}
	r := &request{method: http.MethodPost, header: []string{"Host: " + b.addr}}
	if b.token != "" {
		r.set("Authorization", "Bearer "+b.token)
	}
	kind := endpoint
	if i := strings.LastIndex(endpoint, "-"); i >= 0 {
		kind = endpoint[i+1:]
	}
	switch {
	case endpoint == "well-known":
		r.method, s.Target = http.MethodGet, "/.well-known/oauth-protected-resource"
	case strings.HasSuffix(endpoint, "z"):
		r.method, s.Target = http.MethodGet, "/"+endpoint
		r.set("Host", b.ops)
	case kind == "get":
		r.method = http.MethodGet
		r.set("Accept", "text/event-stream")
	case kind == "delete":
		r.method = http.MethodDelete
	case kind == "post":
		r.set("Content-Type", "application/json")
		r.set("Accept", "application/json, text/event-stream")
		r.body = []byte{}
	}
	rev := revision(endpoint)
	switch {
	case strings.HasPrefix(endpoint, "sh"):
		id, err := b.session(endpoint)
		if err != nil {
			return nil, s, err
		}
		s.Session = id
		r.set("Mcp-Session-Id", id)
		r.set("Mcp-Protocol-Version", rev)
	case endpoint == "sse24-post":
		if err := b.openSSE(); err != nil {
			return nil, s, err
		}
		s.Target = b.sse.endpoint
	case endpoint == "m07-post":
		s.M = modernMeta + ","
		r.set("Mcp-Protocol-Version", rev)
		r.set("Mcp-Method", "tools/call")
		r.set("Mcp-Name", "echo")
	}
	r.line = r.method + " " + s.Target + " HTTP/1.1"
	return r, s, nil
}

// plain returns a POST without a session.
func (b *bridge) plain(body string) *request {
	r := &request{method: http.MethodPost, line: "POST /mcp HTTP/1.1", body: []byte(body), header: []string{
		"Host: " + b.addr, "Content-Type: application/json", "Accept: application/json, text/event-stream",
	}}
	if b.token != "" {
		r.set("Authorization", "Bearer "+b.token)
	}
	return r
}

// session returns the session of an endpoint, and starts it if there is none.
func (b *bridge) session(endpoint string) (string, error) {
	if id := b.sessions[endpoint]; id != "" {
		return id, nil
	}
	id, err := b.newSession(revision(endpoint))
	if err == nil {
		b.sessions[endpoint] = id
	}
	return id, err
}

func (b *bridge) newSession(rev string) (string, error) {
	a, err := roundTrip(b.addr, b.plain(initialize(rev)))
	if err != nil {
		return "", err
	}
	id := a.Header.Get("Mcp-Session-Id")
	if a.StatusCode != http.StatusOK || id == "" {
		return "", fmt.Errorf("initialize: %s %s", a.Status, a.body)
	}
	ready := b.plain(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	ready.set("Mcp-Session-Id", id)
	if a, err = roundTrip(b.addr, ready); err != nil {
		return "", err
	}
	if a.StatusCode != http.StatusAccepted {
		return "", fmt.Errorf("notifications/initialized: %s %s", a.Status, a.body)
	}
	return id, nil
}

func (b *bridge) openSSE() error {
	if b.sse != nil {
		select {
		case <-b.sse.done:
		default:
			return nil
		}
	}
	get := b.plain("")
	get.method, get.line, get.body = http.MethodGet, "GET /mcp HTTP/1.1", nil
	get.set("Accept", "text/event-stream")
	e, err := openEvents(b.addr, get)
	if err != nil {
		return err
	}
	b.sse = e
	for _, body := range []string{initialize("2024-11-05"), `{"jsonrpc":"2.0","method":"notifications/initialized"}`} {
		post := b.plain(body)
		post.line = "POST " + e.endpoint + " HTTP/1.1"
		if a, err := roundTrip(b.addr, post); err != nil || a.StatusCode != http.StatusAccepted {
			return fmt.Errorf("HTTP+SSE: %w %v", err, a)
		}
	}
	_, err = e.next()
	return err
}

func (b *bridge) host(endpoint string) string {
	if strings.HasSuffix(endpoint, "z") {
		return b.ops
	}
	return b.addr
}

// attack sends one input to an endpoint, and then a valid request on the same connection.
func (b *bridge) attack(endpoint string, in *Input, funcs template.FuncMap) (outcome, error) {
	if strings.HasPrefix(endpoint, "stdio") {
		return b.attackStdio(in, funcs)
	}
	r, s, err := b.base(endpoint)
	if err != nil {
		return outcome{}, err
	}
	if r.body != nil {
		body := in.Body
		if body == "" {
			body = echoCall
		}
		if body, err = fill(body, s, funcs); err != nil {
			return outcome{}, err
		}
		r.body = []byte(body)
	}
	if in.Line != "" {
		if r.line, err = fill(in.Line, s, funcs); err != nil {
			return outcome{}, err
		}
		r.line = strings.Replace(r.line, "METHOD", r.method, 1)
		r.method, _, _ = strings.Cut(r.line, " ")
	}
	headers := make([]string, len(in.Headers))
	for i, h := range in.Headers {
		if headers[i], err = fill(h, s, funcs); err != nil {
			return outcome{}, err
		}
	}
	r.edit(headers)
	l, err := dial(b.host(endpoint))
	if err != nil {
		return outcome{}, err
	}
	defer l.Close()
	a, err := l.do(r)
	var o outcome
	switch {
	case errors.Is(err, errNoAnswer):
		o.closed = true
	case err != nil:
		return o, err
	default:
		o = a.outcome()
		if a.Header.Get("Access-Control-Allow-Origin") == "*" && endpoint != "well-known" {
			return o, errors.New("the response allows every origin: Access-Control-Allow-Origin is *")
		}
	}
	if a != nil && (bytes.Contains(a.body, []byte(aliceToken)) || strings.Contains(o.header, aliceToken)) {
		return o, errors.New("the response contains the caller's token")
	}
	if endpoint == "sse24-post" && o.status == http.StatusAccepted {
		if err := b.addEvents(&o, of(in.Expect, endpoint)); err != nil {
			return o, err
		}
	}
	if a == nil || a.over {
		l.Close()
		l = nil
	}
	err = b.again(endpoint, l, &o)
	return o, err
}

// addEvents adds the response on the event stream to the outcome. It waits for it if the row expects one.
func (b *bridge) addEvents(o *outcome, want string) error {
	if !strings.ContainsAny(want, "-") && !strings.Contains(want, "result") && !strings.Contains(want, "failure") {
		return nil
	}
	for {
		data, err := b.sse.next()
		if err != nil {
			return err
		}
		var m message
		if json.Unmarshal(data, &m) == nil && m.Method != "" {
			continue
		}
		record(o, data)
		return nil
	}
}

const pong = `{"jsonrpc":"2.0","id":"pong","method":"ping"}`

// again sends a valid request, on the same connection if it is open, and in the same session.
func (b *bridge) again(endpoint string, l *link, o *outcome) error {
	if o.status/100 == 2 && !strings.HasSuffix(endpoint, "-post") {
		delete(b.sessions, endpoint) // it was deleted, or its stream may still be open
	}
	r, s, err := b.base(endpoint)
	if err != nil {
		return fmt.Errorf("next request: %w", err)
	}
	want := outcomeOfPing
	switch {
	case strings.HasPrefix(endpoint, "sh"):
		sid := s.Session
		r = b.plain(pong)
		r.set("Mcp-Session-Id", sid)
	case strings.HasPrefix(endpoint, "sse24"):
		if err := b.openSSE(); err != nil {
			return fmt.Errorf("next request: %w", err)
		}
		r = b.plain(pong)
		r.line = "POST " + b.sse.endpoint + " HTTP/1.1"
		want = "202"
	case endpoint == "m07-post":
		r.body = []byte(`{"jsonrpc":"2.0","id":"pong","method":"server/discover","params":{` + modernMeta + `}}`)
		r.set("Mcp-Method", "server/discover")
		r.drop("Mcp-Name")
	default:
		want = "200"
	}
	if l == nil {
		if l, err = dial(b.host(endpoint)); err != nil {
			return fmt.Errorf("next request: %w", err)
		}
		defer l.Close()
	}
	a, err := l.do(r)
	if err != nil {
		return fmt.Errorf("next request: %w", err)
	}
	if got := a.outcome(); !got.is(want) {
		return fmt.Errorf("next request: got %s, want %s: %.200s", got, want, a.body)
	}
	if strings.HasPrefix(endpoint, "sse24") {
		for {
			data, err := b.sse.next()
			if err != nil {
				return err
			}
			var m message
			if err := json.Unmarshal(data, &m); err != nil {
				return err
			}
			switch {
			case string(m.ID) == `"pong"` && m.Result != nil:
				return nil
			case m.Method == "":
				o.text = strings.TrimSpace(o.text + " more-than-one-answer")
			}
		}
	}
	return nil
}

const outcomeOfPing = "200 result"

// attackStdio writes a line, and then a valid request.
func (b *bridge) attackStdio(in *Input, funcs template.FuncMap) (outcome, error) {
	var o outcome
	s := templateData{}
	ping := pong
	if b.name == "stdio07" {
		s.M = modernMeta + ","
		ping = `{"jsonrpc":"2.0","id":"pong","method":"server/discover","params":{` + modernMeta + `}}`
	}
	body := in.Body
	if body == "" {
		body = echoCall
	}
	body, err := fill(body, s, funcs)
	if err != nil {
		return o, err
	}
	// A line may have no response. A message before the response to the ping is its response.
	want := of(in.Expect, b.name)
	written := make(chan error, 1)
	go func() { // ends when the bridge has read the line, or exited
		_, err := b.in.Write([]byte(body + "\n"))
		written <- err
	}()
	if !strings.Contains(want, "silent") {
		data, err := b.line()
		if err != nil {
			return o, err
		}
		record(&o, data)
	}
	if err := <-written; err != nil {
		return o, err
	}
	if _, err := b.in.Write([]byte(ping + "\n")); err != nil {
		return o, err
	}
	for {
		data, err := b.line()
		if err != nil {
			return o, fmt.Errorf("next request: %w", err)
		}
		var m message
		if err := json.Unmarshal(data, &m); err == nil && string(m.ID) == `"pong"` {
			if m.Result == nil {
				return o, fmt.Errorf("next request: %.200s", data)
			}
			return o, nil
		}
		if o.code != 0 || o.result {
			o.text = strings.TrimSpace(o.text + " more-than-one-answer")
		}
		record(&o, data)
	}
}

// line returns the next line of a stdio bridge that is not a notification.
func (b *bridge) line() ([]byte, error) {
	type read struct {
		data []byte
		err  error
	}
	for {
		got := make(chan read, 1)
		go func() { // ends with the line, or when the bridge exits
			data, err := b.out.ReadBytes('\n')
			got <- read{data, err}
		}()
		select {
		case r := <-got:
			if r.err != nil {
				return nil, fmt.Errorf("stdout was closed: %w", r.err)
			}
			var m message
			if json.Unmarshal(r.data, &m) == nil && m.Method != "" {
				continue
			}
			return r.data, nil
		case <-time.After(responseTimeout):
			return nil, errors.New("timeout while reading stdout")
		}
	}
}

// begin initializes a stdio bridge.
func (b *bridge) begin() error {
	if b.name == "stdio07" {
		return nil
	}
	if _, err := b.in.Write([]byte(initialize(revision(b.name)) + "\n" +
		`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n")); err != nil {
		return err
	}
	data, err := b.line()
	if err == nil && !strings.Contains(string(data), `"protocolVersion":"`+revision(b.name)) {
		err = fmt.Errorf("initialize: %.200s", data)
	}
	return err
}
