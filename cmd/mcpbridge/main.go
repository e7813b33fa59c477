// Command mcpbridge serves tools that are written in any language to every MCP client. It serves clients over the Model
// Context Protocol, and calls backends over one gRPC contract, mcpbridge.v1.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/internal/app"
	"github.com/mcpbridge/mcpbridge/internal/clientcmd"
	"github.com/mcpbridge/mcpbridge/internal/problem"
)

// version is set by the build: -ldflags "-X main.version=1.2.3". If it is empty, the version of the module is used,
// which "go install" records.
var version string

// abortTime is how long the process runs after a second signal: clients receive the outcomes of their calls, then the
// backend is killed.
const abortTime = 1500 * time.Millisecond

func main() {
	os.Exit(runMain())
}

// runMain runs the command of this process and returns its exit code. The first SIGINT, SIGTERM or SIGHUP (the terminal
// was closed) drains, the second one ends everything at once.
func runMain() int {
	defer runtime.KeepAlive(app.Ballast())
	zerolog.DurationFieldFormat = zerolog.DurationFormatString // with its unit, for people

	abort, abortNow := context.WithCancel(context.Background())
	defer abortNow()
	drain, stop := context.WithCancel(abort)
	defer stop()

	go app.TuneProcessors(abort)

	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		signal.Notify(signals, syscall.SIGHUP)
	}
	defer signal.Stop(signals)

	p := &Program{
		Env: clientcmd.Env{
			Version: buildVersion(), Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
			Environ: os.Environ(), Abort: abort,
		},
	}
	done := make(chan int, 1) // buffered: the goroutine also ends if runMain has returned
	go func() { done <- p.Run(drain) }()

	for interrupted := false; ; {
		select {
		case code := <-done:
			return code
		case <-signals:
			if interrupted {
				abortNow()
				select {
				case <-done:
				case <-time.After(abortTime):
				}
				return problem.ExitInterrupted
			}
			interrupted = true
			stop()
		}
	}
}

// buildVersion returns the version of this build: "devel" if neither the build nor the module has one.
func buildVersion() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return strings.TrimPrefix(info.Main.Version, "v")
}
