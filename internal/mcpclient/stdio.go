package mcpclient

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/internal/child"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
)

// spawner starts programs while the client runs, and then waits for end. On Linux, the end of the thread that started a
// child counts as the end of its parent, so that thread must live as long as the children.
func (c *Client) spawner(end <-chan struct{}) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for {
		select {
		case start := <-c.spawn:
			start()
		case <-end:
			return
		}
	}
}

// A stdio is a wire to a program over its standard streams, with one message per line (every revision:
// basic/transports, stdio).
type stdio struct {
	p  *peer
	wg sync.WaitGroup
	// end ends the program. When it returns, nothing is left of it.
	end func()
	// exitReport describes how the program ended, with its last output.
	exitReport func() string
	// stopped reports whether the process is stopped by a signal, and kill kills it, without waiting.
	stopped func() bool
	kill    func()

	received atomic.Int64 // number of lines from the program

	lastInvalid child.Tail // the last lines that are not MCP

	mu           sync.Mutex // guards invalidLines
	invalidLines invalidLines
}

// newStdio returns the wire of a program that is about to start. in returns its standard input.
func (c *Client) newStdio(p *peer, in func() io.WriteCloser) *stdio {
	s := &stdio{p: p, invalidLines: invalidLines{log: &c.log}, stopped: func() bool { return false }, kill: func() {}}
	p.out = newOutbox(func(m outgoing) error {
		_, err := in().Write(append(m.msg, '\n')) // the buffer of msg is not shared
		return err
	}, func(err error) { p.lose(fmt.Errorf("the program does not read its standard input: %w", err)) }, c.warnUnread)
	p.wire = s
	return s
}

// read reads the program's standard output.
func (s *stdio) read(r io.Reader) {
	s.p.keep(func() { readLines(r, s.p.c.o.Limits.Message, s.line, s.tooLong) })
	s.p.lose(errors.New("the program closed its standard output"))
}

// write writes messages to the program until the wire is closed, then closes its standard input. Meanwhile it watches
// the program.
func (s *stdio) write(in func() io.WriteCloser) {
	s.wg.Go(func() {
		s.p.keep(s.p.out.run)
		_ = in().Close()
	})
	s.wg.Go(func() { s.p.keep(s.watch) })
}

// launchChild starts the program.
func (c *Client) launchChild(p *peer) error {
	proc := child.New(c.o.Command, c.o.Dir, &c.log)
	proc.Limits, proc.Panics = c.o.Machine, c.panics
	in := func() io.WriteCloser { return proc.Stdin() }
	s := c.newStdio(p, in)
	var stderr child.Tail
	output := child.NewLog(&c.log, c.o.Limits)
	proc.Env = child.Env(os.Environ(), c.o.PassEnv, c.o.Env)
	proc.Stdout = func(f *os.File) { s.read(f) }
	proc.Stderr = func(f *os.File) {
		child.CopyLines(f, func(line []byte, n int) {
			s.received.Add(1)
			stderr.Add(line)
			output.Line("stderr", line, n)
		})
	}
	s.end = func() { c.endChild(proc) }
	s.stopped, s.kill = proc.Stopped, func() { proc.Signal(child.Kill) }
	s.exitReport = func() string { return exitReport(proc, &stderr, &s.lastInvalid) }
	started := make(chan error, 1)
	select {
	case c.spawn <- func() { started <- proc.Start() }:
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
	if err := <-started; err != nil {
		proc.Finish()
		return c.notStarted(err)
	}
	s.write(in)
	return nil
}

// notStarted returns the error of a program that could not be started, with a fix.
func (c *Client) notStarted(err error) error {
	fix := "check that the program may be executed, and its #! line if it is a script"
	if missing, ok := errors.AsType[*child.NotFoundError](err); ok {
		fix = missing.Fix
	}
	if short := child.ShortageOf(err); short != nil {
		fix = short.Fix
	}
	if limited, ok := errors.AsType[*child.LimitError](err); ok {
		fix = limited.Fix
	}
	return fmt.Errorf("server %q did not start: %w\n  command: %s\n  what to do: %s", c.o.Name, err,
		child.Quote(c.o.Command), fix)
}

// exitReport describes how a program ended, with its last output.
func exitReport(proc *child.Process, stderr, invalid *child.Tail) string {
	var b strings.Builder
	if how := proc.ExitReason(); how != "" {
		fmt.Fprintf(&b, "\n  it ended: %s", how)
	}
	for _, output := range []struct {
		where string
		tail  *child.Tail
	}{{"stdout, where only MCP belongs", invalid}, {"stderr", stderr}} {
		words, _ := output.tail.Read()
		if len(words) > 0 {
			b.WriteString("\n  " + output.where + ":")
		}
		for _, w := range words {
			b.WriteString("\n    " + rawjson.ShortenTo(w, 300))
		}
	}
	return b.String()
}

// line handles a line from the program.
func (s *stdio) line(line []byte) {
	s.received.Add(1)
	if err := s.p.receive(line, nil); err != nil {
		s.addInvalidLine(line, err)
	}
}

func (s *stdio) tooLong(n int) {
	s.p.lose(fmt.Errorf("%w: a line has more than %d bytes", errTooLarge, n))
}

// addInvalidLine counts an invalid line: some programs print to standard output what belongs on standard error.
func (s *stdio) addInvalidLine(line []byte, err error) {
	if expected := s.p.c.o.InvalidLine; expected != nil && expected(line) {
		return
	}
	s.lastInvalid.Add(line)
	s.mu.Lock()
	full := s.invalidLines.add(line, err)
	s.mu.Unlock()
	if full && !s.p.isLost() {
		s.p.c.log.Warn().Str("line", rawjson.ShortenTo(line, 200)).Int("lines", limits.InvalidLines).
			Dur("within", limits.InvalidLinesWindow).
			Msg("the server prints too many lines that are not MCP; restarting it; let it log to standard error")
		s.p.lose(errInvalidLines)
	}
}

// invalidLines counts invalid lines, and logs them at a limited rate.
type invalidLines struct {
	log   *zerolog.Logger
	count int
	since int // since the last log line
	at    time.Time
	// last has the times of the last lines, as a ring of at most limits.InvalidLines.
	last []time.Time
}

const (
	// invalidLinesEvery is the minimum interval between logged lines.
	invalidLinesEvery = 10 * time.Second
)

var errInvalidLines = fmt.Errorf("the program printed more than %d lines that are not MCP within %s",
	limits.InvalidLines, limits.InvalidLinesWindow)

// add counts a line. It returns whether there are too many.
func (t *invalidLines) add(line []byte, err error) (full bool) {
	now := time.Now()
	if len(t.last) < limits.InvalidLines {
		t.last = append(t.last, now)
	} else {
		oldest := &t.last[t.count%limits.InvalidLines]
		full = now.Sub(*oldest) < limits.InvalidLinesWindow
		*oldest = now
	}
	t.count++
	t.since++
	if !full && now.Sub(t.at) >= invalidLinesEvery {
		t.at = now
		t.log.Warn().Str("line", rawjson.ShortenTo(line, 200)).AnErr("why", err).Int("lines", t.since).
			Int("total", t.count).
			Msg("ignored lines of the server that are not MCP")
		t.since = 0
	}
	return full
}

func (s *stdio) start(x *exchange) { s.p.out.add(outgoing{msg: x.body, x: x}) }

func (s *stdio) stop(x *exchange) {
	if !x.sent.Load() {
		s.p.out.remove(x)
		return
	}
	s.p.out.post(cancelled(x), nil)
}

// cancelled returns the notification that cancels x (every revision: basic/utilities/cancellation). Initialize must not
// be canceled.
func cancelled(x *exchange) []byte {
	if x.method == methodInitialize {
		return nil
	}
	return jsonrpc.AppendNotification(nil, notifyCancelled,
		[]byte(`{"requestId":`+x.id+`,"reason":"the caller canceled or disconnected"}`))
}

func (s *stdio) notify(_ context.Context, msg []byte) error {
	s.p.out.post(msg, nil)
	return nil
}

func (s *stdio) open(context.Context) {}

func (s *stdio) close() {
	s.p.out.close() // pending messages are written before standard input is closed
	s.end()
	s.wg.Wait()
}

// endChild ends the program: first by closing its standard input, then by SIGTERM, then by SIGKILL (2025-11-25 and
// 2026-07-28: basic/transports, stdio, shutdown).
func (c *Client) endChild(proc *child.Process) {
	half := c.o.StopTimeout / 2
	unread := time.AfterFunc(half, func() { _ = proc.Stdin().SetWriteDeadline(time.Now()) })
	defer unread.Stop()
	done := proc.Context().Done()
	if !within(done, half) {
		proc.Signal(child.Terminate)
		if !within(done, half) {
			c.log.Warn().Dur("after", 2*half).Msg("the program does not stop and is killed")
		}
	}
	proc.Signal(child.Kill)
	proc.Finish()
}

// within reports whether done is closed within d.
func within(done <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}

// readLines reads lines until the end, an error, or a line that is longer than most. The receiver owns each line.
func readLines(r io.Reader, most int, each func([]byte), tooLong func(int)) {
	in := bufio.NewReaderSize(r, 64<<10)
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) > most+1 { // without the end of the line
			tooLong(most)
			return
		}
		line = append(line, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if text := bytes.TrimSpace(line); len(text) > 0 {
			each(text)
		}
		line = nil
		if err != nil {
			return
		}
	}
}
