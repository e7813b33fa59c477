package plugin

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/hashicorp/go-plugin/runner"
	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/internal/child"
)

// maxSocketPath is the maximum length of the path of a unix socket: 103 bytes on macOS, 107 on Linux.
const maxSocketPath = 100

// A process is one process of a plugin. It is a runner.Runner because stock go-plugin passes the bridge's standard
// input and environment to the plugin, takes the first line of its output for the handshake, stops reading at the first
// long line, and does not notice the plugin's exit while a grandchild keeps its output open.
type process struct {
	*child.Process
	o   *Options
	log *zerolog.Logger
	dir *runDir

	handshake       *io.PipeReader // for go-plugin: only the handshake line
	handshakeWriter *io.PipeWriter
	handshakeSeen   bool // the handshake was received; only readStdout uses it

	stdout, stderr child.Tail
	output         *child.Log

	mu           sync.Mutex // guards handshakeErr
	handshakeErr error      // why the handshake is rejected
}

var _ runner.Runner = (*process)(nil)

// newProcess returns a process that is not started.
func newProcess(o *Options, log *zerolog.Logger, dir *runDir) *process {
	r := &process{
		Process: child.New(o.Command, o.Dir, log), o: o, log: log, dir: dir,
		output: child.NewLog(log, o.Limits),
	}
	r.handshake, r.handshakeWriter = io.Pipe()
	r.Limits, r.Panics = o.Machine, o.Panics
	r.Process.Stdout = func(f *os.File) { child.CopyLines(f, r.readStdout) }
	r.Process.Stderr = func(f *os.File) { child.CopyLines(f, r.readStderr) }
	r.Exited = func() { _ = r.handshakeWriter.Close() }
	return r
}

// Start implements runner.Runner.
func (r *process) Start(context.Context) error { return r.Process.Start() }

// readStdout reads the handshake from the plugin's standard output and logs the other lines.
func (r *process) readStdout(line []byte, length int) {
	if !r.handshakeSeen && length == len(line) && isHandshake(line) {
		r.handshakeSeen = true
		if err := checkHandshake(string(line), r.dir.path); err != nil {
			r.mu.Lock()
			r.handshakeErr = fmt.Errorf("it printed a handshake that the bridge cannot accept: %w\n  printed: %s", err,
				shorten(strconv.Quote(string(line))))
			r.mu.Unlock()
			_ = r.handshakeWriter.Close()
			return
		}
		_, _ = r.handshakeWriter.Write([]byte(string(line) + "\n")) // go-plugin reads until its end
		_ = r.handshakeWriter.Close()
		return
	}
	r.stdout.Add(line)
	r.output.Line("stdout", line, length)
}

func (r *process) readStderr(line []byte, length int) {
	r.stderr.Add(line)
	r.output.Line("stderr", line, length)
}

// handshakeError returns why the handshake is rejected.
func (r *process) handshakeError() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.handshakeErr
}

// Wait implements runner.Runner.
func (r *process) Wait(context.Context) error {
	<-r.Context().Done()
	return nil
}

// Kill implements runner.Runner. It does not wait for the exit.
func (r *process) Kill(context.Context) error {
	r.Signal(child.Kill)
	return nil
}

// ID implements runner.Runner.
func (r *process) ID() string {
	if !r.Started() {
		return ""
	}
	return strconv.Itoa(r.Pid())
}

// Name implements runner.Runner.
func (r *process) Name() string { return r.o.Name }

// Stdout implements runner.Runner.
func (r *process) Stdout() io.ReadCloser { return r.handshake }

// Stderr implements runner.Runner. The bridge reads standard error itself.
func (r *process) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

// Diagnose implements runner.Runner. The errors of this package have its content.
func (r *process) Diagnose(context.Context) string { return "" }

// PluginToHost implements runner.Runner.
func (r *process) PluginToHost(network, addr string) (string, string, error) {
	return network, addr, nil
}

// HostToPlugin implements runner.Runner.
func (r *process) HostToPlugin(network, addr string) (string, string, error) {
	return network, addr, nil
}
