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
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
)

// spawner starts programs for as long as the client runs, and then waits for end. Linux takes the end of the thread that
// started a child for the end of its parent, so that thread must live as long as the children do.
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

// A stdio is a program that is talked to by its standard files, a line each message (every revision: basic/transports,
// stdio).
type stdio struct {
	p  *peer
	wg sync.WaitGroup
	// end ends the program, and returns when nothing is left of it.
	end func()
	// words says how the program ended and what it said last.
	words func() string
	// stopped reports whether somebody has stopped the program, and kill ends it, without waiting.
	stopped func() bool
	kill    func()

	heard atomic.Int64 // how many lines the program has printed

	stray child.Tail // what was printed last that is not MCP

	mu    sync.Mutex // guards trash
	trash trash
}

// newStdio returns the wire of a program, which is yet to be started: in gets its standard input.
func (c *Client) newStdio(p *peer, in func() io.WriteCloser) *stdio {
	s := &stdio{p: p, trash: trash{log: &c.log}, stopped: func() bool { return false }, kill: func() {}}
	p.out = newOutbox(func(m outgoing) error {
		_, err := in().Write(append(m.msg, '\n')) // a message is ours, and so is what is behind it
		return err
	}, func(err error) { p.lose(fmt.Errorf("the program does not read its standard input: %w", err)) }, c.warnUnread)
	p.wire = s
	return s
}

// read takes what the program prints to its standard output.
func (s *stdio) read(r io.Reader) {
	s.p.keep(func() { readLines(r, s.p.c.o.Limits.Message, s.line, s.tooLong) })
	s.p.lose(errors.New("the program closed its standard output"))
}

// write writes to the program until the wire is closed, and then closes its standard input. It is watched meanwhile.
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
			s.heard.Add(1)
			stderr.Add(line)
			output.Line("stderr", line, n)
		})
	}
	s.end = func() { c.endChild(proc) }
	s.stopped, s.kill = proc.Stopped, func() { proc.Signal(child.Kill) }
	s.words = func() string { return lastWords(proc, &stderr, &s.stray) }
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

// notStarted says why the program could not be launched, and what to do.
func (c *Client) notStarted(err error) error {
	fix := "check that the program may be executed, and its #! line if it is a script"
	if missing, ok := errors.AsType[*child.NotFoundError](err); ok {
		fix = missing.Fix
	}
	if short := child.ShortageOf(err); short != nil {
		fix = short.Fix
	}
	if unheld, ok := errors.AsType[*child.LimitError](err); ok {
		fix = unheld.Fix
	}
	return fmt.Errorf("server %q did not start: %w\n  command: %s\n  what to do: %s", c.o.Name, err, child.Quote(c.o.Command), fix)
}

// lastWords says how a program ended and what it said last, for an error about it.
func lastWords(proc *child.Process, stderr, stray *child.Tail) string {
	var b strings.Builder
	if how := proc.ExitReason(); how != "" {
		fmt.Fprintf(&b, "\n  it ended: %s", how)
	}
	for _, said := range []struct {
		where string
		tail  *child.Tail
	}{{"stdout, where only MCP belongs", stray}, {"stderr", stderr}} {
		words, _ := said.tail.Read()
		if len(words) > 0 {
			b.WriteString("\n  " + said.where + ":")
		}
		for _, w := range words {
			b.WriteString("\n    " + rawjson.ShortenTo(w, 300))
		}
	}
	return b.String()
}

// line takes a line that the program printed.
func (s *stdio) line(line []byte) {
	s.heard.Add(1)
	if err := s.p.receive(line, nil); err != nil {
		s.garbage(line, err)
	}
}

func (s *stdio) tooLong(n int) {
	s.p.lose(fmt.Errorf("%w: a line has more than %d bytes", errTooLarge, n))
}

// garbage counts a line that is no message: some programs print to their standard output what belongs on standard error.
func (s *stdio) garbage(line []byte, err error) {
	if stray := s.p.c.o.Stray; stray != nil && stray(line) {
		return
	}
	s.stray.Add(line)
	s.mu.Lock()
	full := s.trash.add(line, err)
	s.mu.Unlock()
	if full && !s.p.isGone() {
		s.p.c.log.Warn().Str("line", rawjson.ShortenTo(line, 200)).Int("lines", mostTrash).Dur("within", trashWithin).
			Msg("the server prints too much that is not MCP and is started again: have it log to standard error")
		s.p.lose(errTrash)
	}
}

// A trash counts what is not MCP and logs the first of it, and then only now and then.
type trash struct {
	log   *zerolog.Logger
	count int
	since int // of the last log
	at    time.Time
	// last are when the last lines came: a ring that grows to mostTrash.
	last []time.Time
}

const (
	// trashEvery is how often what is not MCP is logged at most.
	trashEvery = 10 * time.Second
	// mostTrash is how many lines that are not MCP a program may print within trashWithin. One that prints more is not well, and to
	// read it costs more than to start it again.
	mostTrash   = 1000
	trashWithin = time.Minute
)

var errTrash = fmt.Errorf("the program printed more than %d lines that are not MCP within %s", mostTrash, trashWithin)

// add counts a line. It reports whether it is one too many.
func (t *trash) add(line []byte, err error) (full bool) {
	now := time.Now()
	if len(t.last) < mostTrash {
		t.last = append(t.last, now)
	} else {
		oldest := &t.last[t.count%mostTrash]
		full = now.Sub(*oldest) < trashWithin
		*oldest = now
	}
	t.count++
	t.since++
	if !full && now.Sub(t.at) >= trashEvery {
		t.at = now
		t.log.Warn().Str("line", rawjson.ShortenTo(line, 200)).AnErr("why", err).Int("lines", t.since).Int("total", t.count).
			Msg("the server prints what is not MCP; it is ignored")
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

// cancelled is the notification that nobody wants the answer of x any more (every revision: basic/utilities/cancellation).
// Only initialize must not be cancelled.
func cancelled(x *exchange) []byte {
	if x.method == methodInitialize {
		return nil
	}
	return jsonrpc.AppendNotification(nil, notifyCancelled, []byte(`{"requestId":`+x.id+`,"reason":"the caller does not want the answer any more"}`))
}

func (s *stdio) notify(_ context.Context, msg []byte) error {
	s.p.out.post(msg, nil)
	return nil
}

func (s *stdio) open(context.Context) {}

func (s *stdio) close() {
	s.p.out.close() // what is still to be said is said, and then standard input ends
	s.end()
	s.wg.Wait()
}

// endChild ends the program, whose standard input is about to end: it is told by that, then by SIGTERM, then killed (2025-11-25
// and 2026-07-28: basic/transports, stdio, shutdown).
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

// readLines reads lines until the end. A line is its receiver's. One that is longer than most ends the reading, and so does
// an error.
func readLines(r io.Reader, most int, each func([]byte), tooLong func(int)) {
	in := bufio.NewReaderSize(r, 64<<10)
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) > most+1 { // the end of the line does not count
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
