package plugin_test

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
	"github.com/mcpbridge/mcpbridge/bridge/plugin"
)

// A program written with an SDK, in its own process, is the same handler as ours, whichever way calls of tools take: one row of
// bridgetest.Programs for each SDK.
func TestProgramsKeepTheLaws(t *testing.T) {
	for _, program := range bridgetest.Programs() {
		for way, noFrames := range map[string]bool{"frames": false, "gRPC": true} {
			t.Run(program.Language+"/"+way, func(t *testing.T) {
				log := &lockedLog{}
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
				bridgetest.ProgramLaws(t, p)
			})
		}
	}
}

// A lockedLog keeps what is logged.
type lockedLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lockedLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
