package plugin_test

import (
	"context"
	"testing"

	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
	"github.com/mcpbridge/mcpbridge/bridge/plugin"
)

// A program written with an SDK, in its own process, is the same handler as ours: one row of bridgetest.Programs for each SDK.
func TestProgramsKeepTheLaws(t *testing.T) {
	for _, program := range bridgetest.Programs() {
		t.Run(program.Language, func(t *testing.T) {
			p, err := plugin.New(plugin.Options{
				Name: program.Language, Command: program.Command(t), Log: zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel),
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
			})
			if err := p.Ready(t.Context()); err != nil {
				t.Fatal(err)
			}
			bridgetest.ProgramLaws(t, p)
		})
	}
}
