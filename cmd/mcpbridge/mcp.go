package main

import (
	"context"

	"github.com/rs/zerolog"
)

// openMCP returns an MCP server.
func openMCP(l *loaded, b *BackendConfig, at string, _ zerolog.Logger) (back, error) {
	return nil, usage(l.where(at), "wait for it", "backend %q is an MCP server, which cannot be a backend yet", b.Name)
}

func (p *Program) browser() func(ctx context.Context, address string) error { return nil }

func canLogin(string) bool { return false }
