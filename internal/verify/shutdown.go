package verify

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/mcpbridge/mcpbridge/internal/child"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

const drainTimeout = 6 * time.Second // for the exit after Shutdown; calls have 5s

var shutdownRows = []row{
	{
		name: "interrupt", does: "continues after the terminal's Ctrl-C", clause: inStart, launch: true,
		why: "a terminal sends SIGINT to the bridge and to its backends; the bridge then stops them after their calls",
		fix: "ignore SIGINT if " + cookie + " is set",
		run: func(t *trial) {
			p, err := os.FindProcess(t.proc.Pid())
			if err != nil || p.Signal(os.Interrupt) != nil {
				return // the system has no such signal
			}
			if reason, exited := t.proc.awaitExit(500 * time.Millisecond); exited {
				t.failf("it exited: %s", reason)
				return
			}
			if _, err := t.mcp.Discover(t.ctx, &pb.DiscoverRequest{Context: testContext()}); err != nil {
				t.failf("it no longer responds: %s", errorText(err))
			}
		},
	},
	{
		name: "shutdown", does: "completes its calls after Shutdown, and exits with 0", clause: inStart, launch: true,
		why: "a process that does not is killed, and its calls are lost",
		fix: "implement plugin.GRPCController: answer Shutdown, end Listen streams, accept no new calls," +
			" let the others complete within 5 s, exit with 0",
		run: func(t *trial) {
			t.checkDrain(func(b *backend) {
				err := b.conn.Invoke(t.ctx, "/plugin.GRPCController/Shutdown", &emptypb.Empty{}, &emptypb.Empty{})
				if err != nil {
					t.failf("Shutdown: %s", errorText(err))
				}
			})
		},
	},
	{
		name: "terminate", does: "does the same at SIGTERM", clause: inStart, launch: true,
		why: "other programs stop processes with SIGTERM",
		fix: "handle SIGTERM like Shutdown",
		run: func(t *trial) { t.checkDrain(func(b *backend) { b.proc.Signal(child.Terminate) }) },
	},
	{
		name: "orphan", does: "exits when the bridge dies", clause: inStart, launch: true,
		why: "nothing is left to call or to stop it",
		fix: "if " + lifeline + " is stdin, read standard input to its end and then exit;" +
			" otherwise watch the parent process",
		run: func(t *trial) {
			t.launch(nil, func(b *backend) {
				_ = b.proc.Stdin().Close()
				switch reason, exited := b.proc.awaitExit(drainTimeout); {
				case !exited:
					t.failf("it keeps running after its standard input ended")
				case b.proc.crashed():
					t.failf("it crashes after its standard input ended: %s", reason)
				}
			})
		},
	},
	{
		name: "killed", does: "starts again after it was killed during a call", clause: inStart, launch: true,
		why: "the remains of a killed process must not prevent the next start",
		fix: "give each process a socket of its own, or remove one without a listener",
		run: checkRestart,
	},
}

// checkDrain checks that a process completes a call after stop, and exits.
func (t *trial) checkDrain(stop func(*backend)) {
	for _, ms := range []int{1000, 2000, 4000} {
		early := false
		t.launch(nil, func(b *backend) {
			l := b.listen(t.ctx, &pb.SubscriptionFilter{})
			defer l.stop()
			l.next() // the acknowledgement
			running := &sleepCall{done: make(chan struct{})}
			if t.d.kit {
				running.start(t, b, ms)
				defer running.wait()
			}
			select {
			case <-running.done:
				early = running.err == nil // the call was complete before stop: the machine is slow
			default:
			}
			if early {
				return
			}
			stop(b)
			t.checkExit(b)
			if !t.d.kit {
				return
			}
			if running.wait(); running.err != nil {
				t.failf("a call in flight did not complete: %s", errorText(running.err))
			} else if got := running.response.text(); got != "slept" {
				t.failf("a call in flight returned %s", clip(got))
			}
		})
		if !early {
			return
		}
	}
	t.failf("all calls were complete before the shutdown, because this machine is slow")
}

// checkExit checks that a process exits with 0 and removes its socket.
func (t *trial) checkExit(b *backend) {
	reason, exited := b.proc.awaitExit(drainTimeout)
	if !exited {
		t.failf("it keeps running")
		b.proc.Signal(child.Kill)
		return
	}
	if reason != "exit status 0" {
		t.failf("got %s, want exit status 0", reason)
	}
	if f := b.proc.fields(); f[2] == "unix" {
		if _, err := os.Lstat(f[3]); !errors.Is(err, os.ErrNotExist) {
			t.defect(Defect{What: "its socket still exists after its exit", Fix: "remove the socket before you exit"})
		}
	}
}

// A sleepCall is a call of the tool "sleep".
type sleepCall struct {
	response *response
	err      error
	done     chan struct{} // closed when one of them is set
}

// start sends the call, and waits until the backend has received it.
func (s *sleepCall) start(t *trial, b *backend, ms int) {
	sent := make(chan struct{})
	go func() {
		defer close(s.done)
		req := &pb.CallToolRequest{Context: testContext(), Name: "sleep", Arguments: fmt.Appendf(nil, `{"ms":%d}`, ms)}
		stream, err := b.mcp.CallTool(t.ctx, req)
		close(sent)
		if s.err = err; err == nil {
			s.response, s.err = collect(stream)
		}
	}()
	<-sent
	// The backend has received the call when it responds to a later one.
	if _, err := b.call(t.ctx, "echo", `{}`); err != nil {
		t.failf("echo: %s", errorText(err))
	}
}

func (s *sleepCall) wait() { <-s.done }

func checkRestart(t *trial) {
	p, err := t.d.start(t.ctx)
	if err != nil {
		t.startDefect(nil, err)
		return
	}
	defer p.stop()
	b, err := p.connect(t.ctx)
	if err != nil {
		t.startDefect(nil, err)
		return
	}
	defer b.conn.Close()
	var wg sync.WaitGroup
	if t.d.kit {
		wg.Go(func() { _, _ = b.call(t.ctx, "sleep", `{"ms":60000}`) })
	}
	_, _ = b.mcp.Discover(t.ctx, &pb.DiscoverRequest{Context: testContext()})
	p.Signal(child.Kill)
	wg.Wait()
	// The next one gets the same directory, with the remains of the first.
	t.launch([]string{socketDir + "=" + p.dir}, func(again *backend) {
		if _, err := again.mcp.Discover(t.ctx, &pb.DiscoverRequest{Context: testContext()}); err != nil {
			t.failf("the next process does not respond: %s", errorText(err))
		}
	})
}
