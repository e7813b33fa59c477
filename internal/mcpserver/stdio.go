package mcpserver

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/lifecycle"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// ServeStdio serves one client, which writes lines to r and reads lines from w (every revision: basic/transports,
// stdio). It returns when r or ctx ends, or when w fails, because further requests would be executed without a
// response. At the end of r, pending requests still receive responses, and the bridge drains. Nothing else may write to
// w. The goroutine that reads r may outlive the call, blocked in a write to a client that does not read.
func (s *Server) ServeStdio(ctx context.Context, r io.Reader, w io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out := &lineWriter{w: w, failed: func(err error) {
		if ctx.Err() == nil {
			s.log.Warn().Err(err).Msg("cannot write to the client; exiting")
		}
		cancel()
	}}
	c := s.newConn(out.write, true)
	defer c.closeSoon()
	defer context.AfterFunc(ctx, func() { c.cancel(lifecycle.ErrClosing) })()

	read := make(chan error, 1)
	// Reads and writes cannot be interrupted, and error responses are written here, so nothing waits for this
	// goroutine.
	go func() {
		defer s.panics.Recover("reading lines", func(e *bridge.Error) { read <- e })
		in := lineReader{r: bufio.NewReaderSize(r, 64<<10), max: s.opts.Limits.Line}
		for ctx.Err() == nil {
			line, err := in.next()
			switch {
			case errors.Is(err, errLineTooLong):
				c.rejectMalformed(&jsonrpc.Error{
					RPC: invalidRequest("the line exceeds " + strconv.Itoa(s.opts.Limits.Line) +
						" bytes (limits.line): send less, or raise the limit"),
				})
			case err != nil:
				read <- err
				return
			default:
				c.receive(line, origin{})
			}
		}
	}()
	select {
	case err := <-read:
		c.finish(ctx)
		if !errors.Is(err, io.EOF) && ctx.Err() == nil {
			return err
		}
	case <-ctx.Done():
	}
	return nil
}

// exitGrace is the maximum time for responses after a stdio client has closed its side, and the maximum time to write
// them.
const exitGrace = time.Second

// finish waits for the responses to pending requests, but not for long: a client that closes its side expects the
// server to exit soon (2026-07-28: stdio, shutdown). Calls that wait for the client itself are canceled, because it
// sends nothing any more.
func (c *conn) finish(ctx context.Context) {
	era := bridge.ModernEra
	if ss := c.legacy(); ss != nil {
		era = bridge.LegacyEra
		ss.endInbound()
	}
	if c.s.opts.Started != nil {
		_ = c.s.opts.Started(ctx, era) // requests that wait for a backend get responses, too
	}
	c.s.life.Advance(lifecycle.Draining)
	ctx, cancel := context.WithTimeout(ctx, exitGrace)
	defer cancel()
	answered := make(chan struct{})
	go func() { // ends with the calls, which end at the latest when the connection is closed
		c.calls.Wait()
		close(answered)
	}()
	select {
	case <-answered:
	case <-ctx.Done():
	}
}

// closeSoon closes the connection, but waits only for a short time: a client that does not read blocks a call in a
// write, which ends only with the process.
func (c *conn) closeSoon() {
	closed := make(chan struct{})
	go func() { // ends with the last write
		c.close(lifecycle.ErrClosing)
		close(closed)
	}()
	timer := time.NewTimer(exitGrace)
	defer timer.Stop()
	select {
	case <-closed:
	case <-timer.C:
		c.s.log.Warn().Msg("the client does not read its messages; exiting without waiting")
	}
}

// A lineWriter writes one message per line.
type lineWriter struct {
	mu     sync.Mutex
	w      io.Writer
	failed func(error)
}

func (l *lineWriter) write(msg []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.w.Write(append(msg[:len(msg):len(msg)], '\n'))
	if err != nil {
		l.failed(err)
	}
	return err
}

// A lineReader reads lines, and continues after one that is too long.
type lineReader struct {
	r   *bufio.Reader
	max int
}

var errLineTooLong = errors.New("line too long")

// next returns the next line that is not empty. The caller owns the line. A long one is kept in pieces until its end:
// growing one buffer would take several times the memory.
func (l lineReader) next() ([]byte, error) {
	for {
		var parts [][]byte
		length := 0
		for {
			part, err := l.r.ReadSlice('\n')
			length += len(part)
			if length > l.max+1 { // without the end of the line
				return nil, l.skip(err)
			}
			parts = append(parts, bytes.Clone(part))
			if err == nil {
				break
			}
			if errors.Is(err, bufio.ErrBufferFull) {
				continue
			}
			if line := joinParts(parts); len(line) > 0 && errors.Is(err, io.EOF) {
				return line, nil // a last line without an end
			}
			return nil, err
		}
		if line := joinParts(parts); len(line) > 0 {
			return line, nil
		}
	}
}

// jsonSpace is the whitespace around a JSON text (RFC 8259, 2). Unicode has more.
const jsonSpace = " \t\r\n"

// joinParts joins the pieces of a line, and removes surrounding whitespace.
func joinParts(parts [][]byte) []byte {
	if len(parts) == 1 {
		return bytes.Trim(parts[0], jsonSpace)
	}
	return bytes.Trim(bytes.Join(parts, nil), jsonSpace)
}

// skip reads to the end of a line that is too long.
func (l lineReader) skip(err error) error {
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = l.r.ReadSlice('\n')
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return errLineTooLong
}

func invalidRequest(message string) *pb.JsonRpcError {
	return &pb.JsonRpcError{Code: codeInvalidRequest, Message: message, Data: jsonrpc.NotExecuted}
}
