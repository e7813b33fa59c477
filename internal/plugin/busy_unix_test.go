//go:build unix

package plugin_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/plugin"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A tool that blocks its process's event loop, the most common mistake of authors, loses no calls: the process is not
// killed, and concurrent calls get their responses later. A warning names the tool and the fix. If the process stays
// blocked, it counts as hung.
func TestBusyProgramsLoseNoCall(t *testing.T) {
	python, node := []string{"../../.venv/bin/python", "testdata/busy/busy.py"},
		[]string{"node", "testdata/busy/busy.mjs"}
	const (
		inPython = " s: use def instead of async def, or await asyncio.to_thread; C code that holds the GIL needs " +
			"a process of its own"
		inNode = " s: move the work to a worker thread (node:worker_threads), or await between its steps"
	)
	for name, c := range map[string]struct {
		command []string
		tool    string
		hang    time.Duration
		want    string // in the log
	}{
		"Python's event loop":           {python, "blocked", 0, inPython},
		"Python's GIL":                  {python, "held", 0, inPython},
		"Node's event loop":             {node, "blocked", 0, inNode},
		"Python's event loop, for good": {python, "blocked", 2 * time.Second, "(hangTimeout)"},
		"Python's GIL, for good":        {python, "held", 2 * time.Second, "(hangTimeout)"},
		"Node's event loop, for good":   {node, "blocked", 2 * time.Second, "(hangTimeout)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := &bridgetest.Log{}
			p, err := plugin.New(plugin.Options{
				Name: "b", Command: c.command, HangTimeout: c.hang,
				StartTimeout: 2 * time.Minute, Log: zerolog.New(log),
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
			ran := make(chan error, 1)
			go func() { ran <- p.Run(ctx) }()
			defer func() {
				cancel()
				if err := <-ran; err != nil {
					t.Error(err)
				}
				if t.Failed() {
					t.Log(log.String())
				}
			}()
			if err := p.Ready(t.Context()); err != nil {
				t.Fatal(err)
			}
			call := func(name, args string) (string, error) {
				r, err := p.Handle(t.Context(),
					&bridge.Call{
						Method:  bridge.CallTool,
						Request: &pb.CallToolRequest{Context: verified, Name: name, Arguments: []byte(args)},
					},
					func(context.Context, bridge.Event) error { return nil })
				if err != nil {
					return "", err
				}
				return r.Complete.(*pb.CallToolResult).GetContent()[0].GetText().GetText(), nil
			}
			var wg sync.WaitGroup
			var got, echo string
			var failed, failedToo error
			fifo := filepath.Join(t.TempDir(), "fifo")
			if err := syscall.Mkfifo(fifo, 0o600); err != nil {
				t.Fatal(err)
			}
			wg.Go(func() { got, failed = call(c.tool, fmt.Sprintf(`{"fifo":%q}`, fifo)) })
			log.Wait(t, 2*time.Minute, c.tool+" begins")
			wg.Go(func() { echo, failedToo = call("echo", `{"text":"meanwhile"}`) })
			if c.hang == 0 {
				log.Wait(t, 2*time.Minute, "tool "+c.tool+" has blocked the event loop for ")
			}
			log.Wait(t, 2*time.Minute, c.want)
			if c.hang == 0 {
				if err := os.WriteFile(fifo, []byte("go on"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			wg.Wait()
			if c.hang == 0 {
				if got != c.tool || failed != nil {
					t.Errorf("busy call: %q, %v", got, failed)
				}
				if echo != "meanwhile" || failedToo != nil {
					t.Errorf("other call: %q, %v", echo, failedToo)
				}
				if text := log.String(); strings.Count(text, "the backend is ready") != 1 {
					t.Error("the program was restarted")
				}
				return
			}
			lost := []error{failed}
			if failedToo != nil { // It succeeds if it arrives just before the tool blocks the process.
				lost = append(lost, failedToo)
			} else if echo != "meanwhile" {
				t.Errorf("other call: %q", echo)
			}
			for _, err := range lost {
				var e *bridge.Error
				if !errors.As(err, &e) || e.Outcome != bridge.OutcomeUnknown ||
					!strings.Contains(e.Error(), fmt.Sprintf("did not answer for %v (hangTimeout)", c.hang)) {
					t.Errorf("call of a hung backend: %v", err)
				}
			}
			if echo, err := call("echo", `{"text":"after"}`); echo != "after" || err != nil {
				t.Errorf("next call: %q, %v", echo, err)
			}
		})
	}
}
