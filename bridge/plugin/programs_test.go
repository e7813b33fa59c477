package plugin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
	"github.com/mcpbridge/mcpbridge/bridge/plugin"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A program written with an SDK, in its own process, is the same handler as ours, whichever way calls of tools take: one row of
// bridgetest.Programs for each SDK.
func TestProgramsKeepTheLaws(t *testing.T) {
	eachProgram(t, func(t *testing.T, p *running) {
		t.Helper()
		bridgetest.ProgramLaws(t, p)
	})
}

// Who stops a program need not be the bridge: systemd sends SIGTERM to all of a service, and people to what is to start anew. Calls that
// the program has begun end there, and the others are made in its next life, or told not to have been executed.
func TestTerminatedProgramsFailNoCall(t *testing.T) {
	eachProgram(t, func(t *testing.T, p *running) {
		t.Helper()
		do := func(c *bridge.Call) {
			_, err := p.Handle(t.Context(), c, func(context.Context, bridge.Event) error { return nil })
			if err == nil {
				return
			}
			e := bridge.AsError(err)
			if p.language == "python" && p.noFrames {
				return // Its gRPC server cancels what arrives while it stops, in words that change: docs/other-languages.md.
			}
			if e.Failure.GetOutcome() != pb.CallFailure_OUTCOME_NOT_EXECUTED {
				t.Errorf("%s: %v: %v, %v", c.Method.Name, e.Code, err, e.Failure)
			}
		}
		call := func(name, args string) {
			do(&bridge.Call{Method: bridge.CallTool, Request: &pb.CallToolRequest{Name: name, Arguments: []byte(args)}})
		}
		for _, idle := range []bool{false, true} { // but for calls that take no time
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
						do(&bridge.Call{Method: bridge.ListTools, Request: &pb.ListToolsRequest{}})
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
			p.log.pids <- <-p.log.pids // that of the next life, whose turn is next
			over.Store(true)
			flow.Wait()
		}
	})
}

// A running program, and how calls of tools reach it.
type running struct {
	*plugin.Plugin
	language string
	noFrames bool
	log      *programLog
}

// eachProgram runs each program with either way that calls of tools take.
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
						t.Errorf("calls were made by frames: %v", by)
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

// A programLog keeps what is logged.
type programLog struct {
	pids chan int // of the processes that have become ready

	mu   sync.Mutex
	text bytes.Buffer
}

func (l *programLog) Write(line []byte) (int, error) {
	var said struct {
		Message string
		Pid     int
	}
	if err := json.Unmarshal(line, &said); err != nil {
		return 0, fmt.Errorf("%s: %w", line, err)
	}
	if said.Message == "the backend is ready" {
		l.pids <- said.Pid
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
