//go:build unix

package plugin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/plugin"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// verified is the context of a call of a front.
var verified = &pb.CallContext{Verified: bridge.Verified(bridge.Rev20260728, nil, nil)}

// Programs of every SDK, as processes, keep the laws of a Handler, with either transport of tool calls: one row of
// bridgetest.Programs for each SDK.
func TestProgramsKeepTheLaws(t *testing.T) {
	bridgetest.SkipIfShort(t)
	eachProgram(t, func(t *testing.T, p *running) {
		t.Helper()
		bridgetest.ProgramLaws(t, p)
	})
}

// Others than the bridge may stop a program: systemd sends SIGTERM to all processes of a service, and so do operators.
// Calls in flight complete, and other calls are sent to the next instance or fail with not_executed.
func TestTerminatedProgramsFailNoCall(t *testing.T) {
	bridgetest.SkipIfShort(t)
	eachProgram(t, func(t *testing.T, p *running) {
		t.Helper()
		do := func(c *bridge.Call) {
			_, err := p.Handle(t.Context(), c, func(context.Context, bridge.Event) error { return nil })
			if err == nil {
				return
			}
			e := bridge.AsError(err)
			if p.language == "python" && p.noFrames {
				// Its gRPC server cancels calls that arrive during its stop, with changing texts:
				// docs/other-languages.md.
				return
			}
			if e.Outcome != bridge.OutcomeNotExecuted {
				t.Errorf("%s: %v: %v, %v", c.Method.Name, e.Code, err, e.Outcome)
			}
		}
		call := func(name, args string) {
			do(&bridge.Call{Method: bridge.CallTool, Request: &pb.CallToolRequest{
				Context: verified, Name: name, Arguments: []byte(args),
			}})
		}
		for _, idle := range []bool{false, true} { // except for calls without duration
			pid := <-p.log.pids
			var slow, flow sync.WaitGroup
			var over atomic.Bool
			flows := make(chan struct{}, 8)
			for range cap(flows) {
				if !idle {
					slow.Go(func() { call("sleep", `{"ms":300}`) })
				}
				flow.Go(func() {
					call("echo", `{}`)
					flows <- struct{}{}
					for !over.Load() {
						call("echo", `{}`)
						do(&bridge.Call{Method: bridge.ListTools, Request: &pb.ListToolsRequest{Context: verified}})
					}
				})
			}
			for range cap(flows) {
				<-flows
			}
			if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
				t.Error(err)
			}
			slow.Wait()
			p.log.pids <- <-p.log.pids // that of the next instance
			over.Store(true)
			flow.Wait()
		}
	})
}

// A dialed program stops while a call is on its way to it, for some time. It sends a response, or reports that the call
// has not started (GOAWAY).
func TestTerminatedDialedProgramsFailNoCall(t *testing.T) {
	bridgetest.SkipIfShort(t)
	for _, program := range bridgetest.Programs() {
		if program.Language == "python" {
			// Its gRPC server cancels calls that arrive during its stop, with changing texts: docs/other-languages.md.
			continue
		}
		t.Run(program.Language, func(t *testing.T) {
			dir := t.TempDir()
			near, far := filepath.Join(dir, "near"), filepath.Join(dir, "far")
			command := program.Command(t)
			cmd := exec.CommandContext(t.Context(), command[0], append(command[1:], "--listen", "unix:"+far)...)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			w := &wire{sleeps: make(chan struct{})}
			w.relay(t, near, far)
			log := &programLog{pids: make(chan int, 10)}
			p, err := plugin.New(plugin.Options{Name: program.Language, Address: "unix:" + near, Log: zerolog.New(log)})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var ran sync.WaitGroup
			defer ran.Wait()
			defer cancel()
			ran.Go(func() {
				if err := p.Run(ctx); err != nil {
					t.Error(err)
				}
			})
			<-log.pids

			discover := &bridge.Call{Method: bridge.Discover, Request: &pb.DiscoverRequest{Context: verified}}
			if _, err := p.Handle(t.Context(), discover, nil); err != nil {
				t.Fatal(err) // otherwise the first call would wait for its Discover
			}
			w.held.Lock()
			var call sync.WaitGroup
			call.Go(func() {
				c := &bridge.Call{
					Method:  bridge.CallTool,
					Request: &pb.CallToolRequest{Context: verified, Name: "sleep", Arguments: []byte(`{"ms":300}`)},
				}
				_, err := p.Handle(t.Context(), c, func(context.Context, bridge.Event) error { return nil })
				if err == nil {
					return
				}
				if e := bridge.AsError(err); e.Outcome != bridge.OutcomeNotExecuted {
					t.Errorf("%v: %v, %v", e.Code, err, e.Outcome)
				}
			})
			<-w.sleeps
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Error(err)
			}
			for { // until it accepts no connections
				conn, err := new(net.Dialer).DialContext(t.Context(), "unix", far)
				if err != nil {
					break
				}
				conn.Close()
			}
			<-time.After(500 * time.Millisecond) // the latency of the wire
			w.held.Unlock()
			call.Wait()
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
			if t.Failed() {
				t.Log(log.String())
			}
		})
	}
}

// A wire forwards connections between a bridge and a program. It delays the bridge's direction only.
type wire struct {
	held   sync.Mutex
	sleeps chan struct{} // closed when the bridge has called the tool sleep
	once   sync.Once     // closes sleeps
}

// relay forwards connections from near to far until the end of the test.
func (w *wire) relay(t *testing.T, near, far string) {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "unix", near)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(all.Wait)
	t.Cleanup(func() { ln.Close() })
	all.Go(func() {
		for {
			from, err := ln.Accept()
			if err != nil {
				return
			}
			to, err := new(net.Dialer).DialContext(t.Context(), "unix", far)
			if err != nil {
				from.Close()
				continue
			}
			all.Go(func() {
				_, _ = io.Copy(from, to)
				from.Close()
			})
			// Writes wait for w.held and reads do not: "sleep" may follow a delayed message.
			chunks := make(chan []byte, 1024)
			all.Go(func() {
				defer close(chunks)
				for {
					b := make([]byte, 64<<10)
					n, err := from.Read(b)
					if err != nil {
						return
					}
					if bytes.Contains(b[:n], []byte("sleep")) {
						w.once.Do(func() { close(w.sleeps) })
					}
					chunks <- b[:n]
				}
			})
			all.Go(func() {
				defer to.Close()
				for b := range chunks {
					w.held.Lock()
					_, _ = to.Write(b)
					w.held.Unlock()
				}
			})
		}
	})
}

// A running is a program with the transport of its tool calls.
type running struct {
	*plugin.Plugin
	language string
	noFrames bool
	log      *programLog
}

// eachProgram runs each program with both transports of tool calls.
func eachProgram(t *testing.T, test func(*testing.T, *running)) {
	t.Helper()
	for _, program := range bridgetest.Programs() {
		for way, noFrames := range map[string]bool{"frames": false, "gRPC": true} {
			t.Run(program.Language+"/"+way, func(t *testing.T) {
				log := &programLog{pids: make(chan int, 10)}
				p, err := plugin.New(plugin.Options{
					Name: program.Language, Command: program.Command(t), Log: zerolog.New(log), NoFrames: noFrames,
				})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
				ran := make(chan error, 1)
				go func() { ran <- p.Run(ctx) }()
				t.Cleanup(func() {
					cancel()
					if err := <-ran; err != nil {
						t.Error(err)
					}
					if t.Failed() {
						t.Log(log.String())
					}
					if by := strings.Contains(log.String(), "made by frames"); by == noFrames {
						t.Errorf("calls used frames: %v", by)
					}
				})
				if err := p.Ready(t.Context()); err != nil {
					t.Fatal(err)
				}
				test(t, &running{p, program.Language, noFrames, log})
			})
		}
	}
}

// A programLog records a program's log.
type programLog struct {
	pids chan int // of processes that have become ready

	mu   sync.Mutex
	text bytes.Buffer
}

func (l *programLog) Write(line []byte) (int, error) {
	var record struct {
		Message string
		Pid     int
	}
	if err := json.Unmarshal(line, &record); err != nil {
		return 0, fmt.Errorf("%s: %w", line, err)
	}
	if record.Message == "the backend is ready" {
		l.pids <- record.Pid
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *programLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
