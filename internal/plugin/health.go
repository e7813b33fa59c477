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

// inFlight are the calls in flight at one backend, without Listen.
type inFlight struct {
	// first receives a value when a call begins while there is none. Its buffer holds one.
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

// wake makes the next health check begin soon.
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

// idle reports whether no call is in flight. If so, the next call sends to first.
func (f *inFlight) idle() bool {
	select {
	case <-f.first:
	default:
	}
	return f.count() == 0
}

// oldest returns the call that has been in flight for the longest time, or nil.
func (f *inFlight) oldest() *bridge.Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.calls) == 0 {
		return nil
	}
	return f.calls[0]
}

// A loss is the reason why a backend receives no more calls.
type loss struct {
	why string
	// unreachable reports that the network may be down: the backend may still answer its calls.
	unreachable bool
	// hung is the time for which the backend did not respond to health checks, or zero if it did.
	hung time.Duration
	// drains is the time since which a launched process accepts no new calls, because something else sent it a SIGTERM:
	// it completes its calls. It is zero otherwise.
	drains time.Time
}

// stopped reports whether the backend's process is stopped (SIGSTOP), as far as the system reports it.
func (l *instance) stopped() bool {
	return child.IsStopped(l.servingPid()) || l.managed != nil && l.managed.Stopped()
}

// program returns the name of the backend's program, or an empty string if it is unknown.
func (l *instance) program() string {
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

// servingPid returns the process that listens on the backend's socket, or 0 if it is unknown. It may differ from the
// launched process, which may be a wrapper.
func (l *instance) servingPid() int {
	if c := l.current.Load(); c != nil {
		return peerPid(c.Conn)
	}
	return 0
}

// probeNetwork connects to a dialed backend, and returns an error if the network is down: the kernel of a busy
// backend's machine still accepts connections.
func (l *instance) probeNetwork(ctx context.Context) error {
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

// watch returns when the backend is lost or ctx ends. The context of a launched backend ends with its process, that of
// a dialed one with its connection.
//
// While calls are in flight, it performs a health check each second, and otherwise every 30 s: the end of a process, a
// connection or frames is noticed without one.
func (p *Plugin) watch(ctx, backend context.Context, l *instance, service string) (lost loss) {
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
	next := time.NewTimer(p.intervals.idle)
	defer next.Stop()
	first := l.calls.first // nil while the next check is soon
	var missed time.Time   // the first failure in a row
	for misses := 0; ; {
		select {
		case <-both.Done():
			return loss{why: "its process ended"}
		case <-l.frames.drains():
			return loss{why: "it accepts no more calls: another process sent it SIGTERM", drains: time.Now()}
		case <-first:
			first = nil
			next.Reset(p.intervals.health)
			continue
		case <-next.C:
		}

		found, err := p.checkHealth(both, l, service)
		switch {
		case both.Err() != nil:
			return loss{why: "its process ended"}
		case found != nil:
			return *found
		case err == nil:
			misses = 0
			if first = nil; l.calls.idle() {
				first = l.calls.first
			}
		}
		if first != nil {
			next.Reset(p.intervals.idle)
		} else {
			next.Reset(p.intervals.health)
		}
		if err == nil {
			continue
		}
		if misses++; misses == 1 {
			missed = time.Now()
		}
		p.log.Warn().Err(err).Int("misses", misses).Msg("the backend failed a health check")
		if misses >= p.intervals.misses {
			lost.why = fmt.Sprintf("it failed %d health checks in a row: %v", misses, err)
			// the process runs, but does not listen on its socket
			if p.o.Address == "" && status.Code(err) == codes.Unavailable {
				lost.drains = missed
			}
			return lost
		}
	}
}

// checkHealth performs a health check. A busy backend has the hang timeout to respond. It returns a loss if the
// backend is stopped or unreachable, or has exceeded the hang timeout.
func (p *Plugin) checkHealth(ctx context.Context, l *instance, service string) (*loss, error) {
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
		limited, cancel := context.WithTimeout(ctx, p.intervals.silence-p.intervals.poll)
		defer cancel()
		reached <- l.probeNetwork(limited)
	}
	tick := time.NewTicker(p.intervals.poll)
	defer tick.Stop()
	var unanswered, nextReach time.Duration
	stopped, reported := 0, false
	for at := time.Now(); ; {
		select {
		case err := <-answer:
			if reported {
				p.log.Info().Dur("after", unanswered).Msg("the backend responds again")
			}
			return nil, err
		case err := <-reached:
			if err != nil {
				return &loss{why: fmt.Sprintf("it did not answer a health check within %v, nor a new connection: %v",
					p.intervals.silence, err), unreachable: true}, nil
			}
			continue
		case <-l.frames.drains():
			return nil, nil
		case now := <-tick.C:
			// time for which the bridge itself was stopped does not count
			unanswered += min(now.Sub(at), 2*p.intervals.poll)
			at = now
		}
		if stopped++; !l.stopped() {
			stopped = 0
		}
		if unanswered >= nextReach {
			nextReach = unanswered + p.intervals.busy
			wg.Go(reach)
		}
		switch {
		case stopped >= p.intervals.stopped:
			return &loss{why: "its process is stopped (SIGSTOP)"}, nil
		case unanswered >= p.o.HangTimeout:
			return &loss{
				why:  fmt.Sprintf("it did not answer a health check within %v (hangTimeout)", p.o.HangTimeout),
				hung: p.o.HangTimeout,
			}, nil
		case unanswered >= p.intervals.busy && !reported:
			reported = true
			p.reportBusy(l, unanswered)
		}
	}
}

// reportBusy warns that the backend does not respond, with the call that may block it.
func (p *Plugin) reportBusy(l *instance, unanswered time.Duration) {
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

// A language is what a program is written in, which determines why a tool blocks it.
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

// target returns the tool, prompt or resource of a call.
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
