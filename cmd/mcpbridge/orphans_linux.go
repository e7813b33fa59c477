package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/mcpbridge/mcpbridge/internal/child"
)

// reapOrphans reaps orphans, which become children of this process, until ctx ends.
func reapOrphans(ctx context.Context) {
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGCHLD)
	defer signal.Stop(died)
	child.ReapOrphans(ctx, died)
}
