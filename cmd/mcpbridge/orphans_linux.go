package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/mcpbridge/mcpbridge/internal/child"
)

// reapOrphans waits for the children that other processes have started, until ctx ends.
func reapOrphans(ctx context.Context) {
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGCHLD)
	defer signal.Stop(died)
	child.ReapOrphans(ctx, died)
}
