package plugin

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/child"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// inFlight are the calls that one backend has to answer, without Listen.
type inFlight struct {
	// first gets a value when a call begins while there is none. It has room for one.
	first chan struct{}

	mu    sync.Mutex // guards calls
	calls []*bridge.Call
}

func (f *inFlight) begin(call *bridge.Call) {
	f.mu.Lock()
	f.calls = append(f.calls, call)
	n := len(f.calls)
	f.mu.Unlock()
	if n == 1 {
		f.wake()
	}
}

func (f *inFlight) end(call *bridge.Call) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := slices.Index(f.calls, call); i >= 0 {
		f.calls = slices.Delete(f.calls, i, i+1)
	}
}

// wake has the next health check made soon.
func (f *inFlight) wake() {
	select {
	case f.first <- struct{}{}:
	default:
	}
}

func (f *inFlight) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.calls)
}

// idle reports whether no call is in flight. If so, the next that begins sends to first.
func (f *inFlight) idle() bool {
	select {
	case <-f.first:
	default:
	}
	return f.count() == 0
}

// oldest returns the call that has run the longest, or nil.
func (f *inFlight) oldest() *bridge.Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.calls) == 0 {
		return nil
	}
	return f.calls[0]
}

// A loss is why a backend gets no more calls.
type loss struct {
	why string
	// silent reports that the network may be down: the backend may still answer the calls that it has.
	silent bool
	// hung is how long the backend had not answered when it was taken for hung. Zero: it was not.
	hung time.Duration
	// drains is since when a process of ours has taken no new calls, which is how one ends that somebody else has told
	// to: it finishes those that it has. Zero: there is no sign of that.
	drains time.Time
}

// stopped reports whether the process of the backend is stopped (SIGSTOP), as far as that can be known.
func (l *life) stopped() bool {
	return child.IsStopped(l.servingPid()) || l.managed != nil && l.managed.Stopped()
}

// program returns the name of the program that serves, as far as that is known.
func (l *life) program() string {
	pid := l.servingPid()
	if pid == 0 && l.managed != nil {
		pid = l.managed.Pid()
	}
	exe, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe")
	if err != nil && l.managed != nil {
		exe = l.managed.Command[0]
	}
	return filepath.Base(exe)
}

// servingPid returns the process that listens at the socket of the backend, or 0 if that is not known. It need not be
// the one that was launched, which may be a wrapper.
func (l *life) servingPid() int {
	if c := l.current.Load(); c != nil {
		return peerPid(c.Conn)
	}
	return 0
}

// reach makes a connection to a backend that was dialled, or returns why that is not possible. The kernel of a busy
// backend's machine accepts it; where the network is down nothing does.
func (l *life) reach(ctx context.Context) error {
	c := l.current.Load()
	if c == nil || l.managed != nil { // there is no network in between
		return nil
	}
	to := c.RemoteAddr()
	probe, err := new(net.Dialer).DialContext(ctx, to.Network(), to.String())
	if err != nil {
		return err
	}
	return probe.Close()
}

// watch returns when the backend is lost, or when ctx ends. The backend's own context ends with its process; that of an
// attached one ends with its connection.
//
// While calls run there is a health check every second. While none does there is one every 30 s: the end of a process,
// of a connection, and of frames are noticed without.
func (p *Plugin) watch(ctx, backend context.Context, l *life, service string) (lost loss) {
	defer p.panics.Recover("watching the backend", func(*bridge.Error) { lost = loss{why: "the bridge has a bug"} })
	both, cancel := context.WithCancel(backend)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	wg.Go(func() {
		if l.conn.WaitForStateChange(both, connectivity.Ready) {
			l.calls.wake()
		}
	})
	next := time.NewTimer(p.pace.idle)
	defer next.Stop()
	first := l.calls.first // nil while the next check is soon
	var missed time.Time   // the first miss in the row
	for misses := 0; ; {
		select {
		case <-both.Done():
			return loss{why: "its process ended"}
		case <-l.frames.drains():
			return loss{why: "it takes no more calls: somebody has told it to stop", drains: time.Now()}
		case <-first:
			first = nil
			next.Reset(p.pace.health)
			continue
		case <-next.C:
		}

		given, err := p.ask(both, l, service)
		switch {
		case both.Err() != nil:
			return loss{why: "its process ended"}
		case given != nil:
			return *given
		case err == nil:
			misses = 0
			if first = nil; l.calls.idle() {
				first = l.calls.first
			}
		}
		if first != nil {
			next.Reset(p.pace.idle)
		} else {
			next.Reset(p.pace.health)
		}
		if err == nil {
			continue
		}
		if misses++; misses == 1 {
			missed = time.Now()
		}
		p.log.Warn().Err(err).Int("misses", misses).Msg("the backend failed a health check")
		if misses >= p.pace.misses {
			lost.why = fmt.Sprintf("it failed %d health checks in a row: %v", misses, err)
			// nobody listens there, though the process lives
			if p.o.Address == "" && status.Code(err) == codes.Unavailable {
				lost.drains = missed
			}
			return lost
		}
	}
}

// ask makes a health check. A backend that is busy may take until the hang timeout to answer it. Ask returns a loss if
// it is stopped or unreachable instead, or if that time is over.
func (p *Plugin) ask(ctx context.Context, l *life, service string) (*loss, error) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	answer := make(chan error, 1)
	wg.Go(func() {
		defer p.panics.Recover("checking the health of the backend", func(e *bridge.Error) { answer <- e })
		answer <- l.check(ctx, service)
	})
	reached := make(chan error, 1)
	reach := func() {
		limited, cancel := context.WithTimeout(ctx, p.pace.silence-p.pace.look)
		defer cancel()
		reached <- l.reach(limited)
	}
	tick := time.NewTicker(p.pace.look)
	defer tick.Stop()
	var unanswered, nextReach time.Duration
	stopped, reported := 0, false
	for at := time.Now(); ; {
		select {
		case err := <-answer:
			if reported {
				p.log.Info().Dur("after", unanswered).Msg("the backend answers again")
			}
			return nil, err
		case err := <-reached:
			if err != nil {
				return &loss{why: fmt.Sprintf("it did not answer a health check within %v, nor a new connection: %v",
					p.pace.silence, err), silent: true}, nil
			}
			continue
		case <-l.frames.drains():
			return nil, nil
		case now := <-tick.C:
			unanswered += min(now.Sub(at), 2*p.pace.look) // time in which we were stopped ourselves does not count
			at = now
		}
		if stopped++; !l.stopped() {
			stopped = 0
		}
		if unanswered >= nextReach {
			nextReach = unanswered + p.pace.busy
			wg.Go(reach)
		}
		switch {
		case stopped >= p.pace.stopped:
			return &loss{why: "its process is stopped (SIGSTOP)"}, nil
		case unanswered >= p.o.HangTimeout:
			return &loss{
				why:  fmt.Sprintf("it did not answer a health check within %v (hangTimeout)", p.o.HangTimeout),
				hung: p.o.HangTimeout,
			}, nil
		case unanswered >= p.pace.busy && !reported:
			reported = true
			p.reportBusy(l, unanswered)
		}
	}
}

// reportBusy warns that the backend does not answer, and of what it may be busy with.
func (p *Plugin) reportBusy(l *life, unanswered time.Duration) {
	seconds := int(unanswered.Round(time.Second) / time.Second)
	line := p.log.Warn().Int("calls", l.calls.count()).Dur("hangTimeout", p.o.HangTimeout)
	call := l.calls.oldest()
	if call == nil {
		line.Msgf("the backend has not answered a health check for %d s", seconds)
		return
	}
	lang := languageOf(l.program())
	line.Msgf("%s has blocked %s for %d s: %s", target(call), lang.blocked, seconds, lang.fix)
}

// A language is how a program is written, which decides what a tool that blocks it does wrong.
type language struct {
	program      *regexp.Regexp
	blocked, fix string
}

var languages = []language{
	{
		regexp.MustCompile(`(?i)^(python|pypy)[\d.]*(\.exe)?$`), "the event loop",
		"use def instead of async def, or await asyncio.to_thread; C code that holds the GIL needs a process of " +
			"its own",
	},
	{
		regexp.MustCompile(`(?i)^(node|deno|bun)(\.exe)?$`), "the event loop",
		"move the work to a worker thread (node:worker_threads), or await between its steps",
	},
	{
		regexp.MustCompile(``), "the backend",
		"it must answer while its tools work; a tool must not block an event loop, nor take all processors",
	},
}

// languageOf returns the language of a program.
func languageOf(program string) *language {
	return &languages[slices.IndexFunc(languages, func(l language) bool { return l.program.MatchString(program) })]
}

// target names what a call is of.
func target(call *bridge.Call) string {
	switch r := call.Request.(type) {
	case *pb.CallToolRequest:
		return "tool " + shorten(r.GetName())
	case *pb.GetPromptRequest:
		return "prompt " + shorten(r.GetName())
	case *pb.ReadResourceRequest:
		return "resource " + shorten(r.GetUri())
	}
	return call.Method.Name
}
