package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
)

// An endpoint is the server over Streamable HTTP.
type endpoint struct {
	*server

	mu       sync.Mutex // guards what follows
	sessions map[string]bool
	dropped  map[string]bool               // tokens of the calls that dropped their session
	streams  map[string]*stream            // by the token of their call
	running  map[string]context.CancelFunc // legacy calls, by session and id
}

// serveHTTP serves clients until standard input ends, which means that the parent process ended.
func (s *server) serveHTTP(addr string) error {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	e := &endpoint{
		server: s, sessions: map[string]bool{}, dropped: map[string]bool{}, streams: map[string]*stream{},
		running: map[string]context.CancelFunc{},
	}
	srv := &http.Server{Handler: e}
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = srv.Close()
	}()
	fmt.Printf("http://%s/mcp\n", ln.Addr())
	if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

const sessionHeader = "Mcp-Session-Id"

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodGet && r.Header.Get("Last-Event-ID") != "" && !e.modern:
		e.resume(w, r)
	case r.Method == http.MethodPost:
		e.post(w, r)
	default:
		http.Error(w, "", http.StatusMethodNotAllowed)
	}
}

func (e *endpoint) post(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var m message
	if err == nil {
		err = json.Unmarshal(body, &m)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if !e.modern {
		if m.Method == "initialize" {
			id := rand.Text()
			e.mu.Lock()
			e.sessions[id] = true
			e.mu.Unlock()
			w.Header().Set(sessionHeader, id)
		} else if !e.hasSession(r.Header.Get(sessionHeader)) {
			http.Error(w, "unknown session", http.StatusNotFound)
			return
		}
	}
	switch {
	case m.Method == "notifications/cancelled":
		e.mu.Lock()
		if cancel := e.running[r.Header.Get(sessionHeader)+" "+string(m.Params.RequestID)]; cancel != nil {
			cancel()
		}
		e.mu.Unlock()
		w.WriteHeader(http.StatusAccepted)
	case m.ID == nil || m.Method == "":
		w.WriteHeader(http.StatusAccepted)
	case m.Method != "tools/call":
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, e.answer(&m)) // the client may have disconnected
	default:
		e.callTool(w, r, &m)
	}
}

func (e *endpoint) hasSession(session string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sessions[session]
}

// hasDropped reports whether a call already dropped its session.
func (e *endpoint) hasDropped(token string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.dropped[token]
}

// callTool answers a call, with its fault. In the legacy era, the work continues after a disconnect, and the stream can
// be resumed.
func (e *endpoint) callTool(w http.ResponseWriter, r *http.Request, m *message) {
	a := &m.Params.Arguments
	if a.Fault == "forget" && e.hasDropped(a.Token) {
		a.Fault = "" // a retry in another session succeeds
	}
	if a.Fault != "" && a.Before {
		e.fail(w, r, a, nil)
		return
	}
	ctx := r.Context()
	if !e.modern {
		ctx = context.WithoutCancel(ctx) // a disconnect does not cancel (2025-11-25: basic/transports)
	}
	ctx, cancel := context.WithCancel(ctx)
	key := r.Header.Get(sessionHeader) + " " + string(m.ID)
	e.mu.Lock()
	e.running[key] = cancel
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		delete(e.running, key)
		e.mu.Unlock()
		cancel()
	}()
	if a.Events == 0 && m.Params.Name == "work" {
		response := e.call(ctx, m, func(string) {})
		if a.Fault != "" {
			e.fail(w, r, a, jsonResponse(response))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, response) // as above
		return
	}
	log := newStream(a.Token, !e.modern)
	e.mu.Lock()
	e.streams[a.Token] = log
	e.mu.Unlock()
	worked := make(chan struct{})
	go func() { // callTool waits for it
		defer close(worked)
		response := e.call(ctx, m, log.add)
		log.add(response)
		log.end()
	}()
	if a.Fault != "" {
		e.fail(w, r, a, log.all())
	} else {
		log.copy(w, 0)
	}
	<-worked
}

// jsonResponse returns an encoded HTTP response.
func jsonResponse(body string) io.Reader {
	return strings.NewReader(
		fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body),
			body))
}

// fail sends a faulty response: nothing, a part of the response, or a status.
func (e *endpoint) fail(w http.ResponseWriter, r *http.Request, a *Arguments, response io.Reader) {
	switch a.Fault {
	case "forget":
		e.mu.Lock()
		delete(e.sessions, r.Header.Get(sessionHeader))
		e.dropped[a.Token] = true
		e.mu.Unlock()
		http.Error(w, "unknown session", http.StatusNotFound)
		return
	case "reset", "cut":
	default:
		status, _ := strconv.Atoi(a.Fault)
		http.Error(w, "requested by the call", status)
		return
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	if response != nil {
		_, _ = io.CopyN(conn, response, int64(a.Bytes)) // the client may have disconnected, the response may be shorter
	}
	if tcp, ok := conn.(*net.TCPConn); ok && a.Fault == "reset" {
		_ = tcp.SetLinger(0) // Close sends RST
	}
}

// A stream contains the messages of one call. It is kept until the process exits.
type stream struct {
	name string // prefix of event ids; if empty, events have none
	mu   sync.Mutex
	more *sync.Cond
	text []string
	over bool
}

func newStream(token string, ids bool) *stream {
	s := &stream{}
	if ids {
		s.name = token
	}
	s.more = sync.NewCond(&s.mu)
	return s
}

func (s *stream) add(msg string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if msg == "" {
		return
	}
	id := ""
	if s.name != "" {
		id = fmt.Sprintf("id: %s.%d\n", s.name, len(s.text))
	}
	s.text = append(s.text, id+"data: "+msg+"\n\n")
	s.more.Broadcast()
}

func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	s.more.Broadcast()
}

// from waits for events from number n on, and returns none at the end.
func (s *stream) from(n int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.text) <= n && !s.over {
		s.more.Wait()
	}
	return s.text[min(n, len(s.text)):]
}

// copy sends the events from number n on.
func (s *stream) copy(w http.ResponseWriter, n int) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	for {
		events := s.from(n)
		if len(events) == 0 {
			return
		}
		n += len(events)
		if _, err := io.WriteString(w, strings.Join(events, "")); err != nil {
			return
		}
		_ = http.NewResponseController(w).Flush() // the next write reports errors
	}
}

// all waits for the end of the stream, and returns the encoded response.
func (s *stream) all() io.Reader {
	var b bytes.Buffer
	b.WriteString("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
	for n := 0; ; {
		events := s.from(n)
		if len(events) == 0 {
			return &b
		}
		n += len(events)
		b.WriteString(strings.Join(events, ""))
	}
}

// resume continues a stream after an event.
func (e *endpoint) resume(w http.ResponseWriter, r *http.Request) {
	token, number, _ := strings.Cut(r.Header.Get("Last-Event-ID"), ".")
	n, err := strconv.Atoi(number)
	e.mu.Lock()
	s := e.streams[token]
	e.mu.Unlock()
	if err != nil || s == nil || !e.hasSession(r.Header.Get(sessionHeader)) {
		http.Error(w, "unknown stream", http.StatusNotFound)
		return
	}
	s.copy(w, n+1)
}
