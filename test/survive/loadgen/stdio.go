package loadgen

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/mcpbridge/mcpbridge/test/survive/checker"
)

// A Pipe is an MCP client on the stdin and stdout of a server. Calls may be concurrent.
type Pipe struct {
	mu        sync.Mutex // guards the other fields, and writes to stdin
	in        io.WriteCloser
	waiting   map[string]*waiting
	unmatched []string // messages without a call, and duplicates
	err       error    // the error that ended stdout
	done      chan struct{}
}

type waiting struct {
	call     checker.Call
	answered chan struct{}
}

// NewPipe returns a client of a server that has just started, and opens its session.
func NewPipe(in io.WriteCloser, out io.Reader) (*Pipe, error) {
	p := &Pipe{in: in, waiting: map[string]*waiting{}, done: make(chan struct{})}
	r := bufio.NewReader(out)
	if _, err := io.WriteString(in, initialize+"\n"); err != nil {
		return nil, err
	}
	line, err := r.ReadString('\n')
	if err != nil || !strings.Contains(line, `"2025-11-25"`) {
		return nil, fmt.Errorf("initialize: %.300q, %w", line, err)
	}
	if _, err := io.WriteString(in, initialized+"\n"); err != nil {
		return nil, err
	}
	go p.read(r)
	return p, nil
}

// read dispatches messages to their calls.
func (p *Pipe) read(r *bufio.Reader) {
	defer close(p.done)
	for {
		line, err := r.ReadBytes('\n')
		p.mu.Lock()
		if err != nil {
			p.err = err
			for _, w := range p.waiting {
				w.call.Broken = err.Error()
				close(w.answered)
			}
			clear(p.waiting)
			p.mu.Unlock()
			return
		}
		var m message
		_ = json.Unmarshal(line, &m) // an invalid message is unmatched
		id := m.ID
		if m.Method != "" {
			id = m.Params.ProgressToken
		}
		token := strings.Trim(string(id), `"`)
		if w := p.waiting[token]; w == nil {
			if token != "" || m.Method == "" { // notifications of changes belong to no call
				p.unmatched = append(p.unmatched, string(line))
			}
		} else if note(&w.call, line) {
			w.call.End = time.Now().UnixNano()
			delete(p.waiting, token)
			close(w.answered)
		}
		p.mu.Unlock()
	}
}

// Call makes a call and returns its history.
func (p *Pipe) Call(number int, w Work) checker.Call {
	arguments := w.complete()
	c := &waiting{
		call:     checker.Call{Token: w.Token, Caller: number, Era: Stdio, Tool: w.Tool, Sent: w.Events},
		answered: make(chan struct{}),
	}
	line := append(request(Stdio, w.Token, w.Tool, arguments), '\n')
	p.mu.Lock()
	c.call.Begin = time.Now().UnixNano()
	err := p.err
	if err == nil {
		p.waiting[w.Token] = c
		_, err = p.in.Write(line)
	}
	p.mu.Unlock()
	if err != nil {
		c.call.End, c.call.Broken = time.Now().UnixNano(), err.Error()
		return c.call
	}
	t := time.NewTimer(messageTimeout)
	defer t.Stop()
	select {
	case <-c.answered:
		return c.call
	case <-t.C:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiting, w.Token)
	c.call.End, c.call.Broken = time.Now().UnixNano(), "no answer within "+messageTimeout.String()
	return c.call
}

// Close closes the server's stdin, waits for the end of its stdout, and returns messages without a call.
func (p *Pipe) Close() (unmatched []string, err error) {
	p.in.Close()
	<-p.done
	if errors.Is(p.err, io.EOF) {
		return p.unmatched, nil
	}
	return p.unmatched, p.err
}
