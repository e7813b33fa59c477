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

// maxSocketPath is how long the path of a unix socket may be: macOS has room for 103 bytes, Linux for 107.
const maxSocketPath = 100

// A process is one run of a plugin. It is go-plugin's runner.Runner, because stock go-plugin gives our standard input
// and environment to the plugin, takes the first line it prints for the handshake whatever it is, stops reading at the
// first long line, and does not notice the plugin's end while a grandchild keeps its output open.
type process struct {
	*child.Process
	o   *Options
	log *zerolog.Logger
	dir *runDir

	handshake *io.PipeReader // for go-plugin: the handshake line and nothing else
	shaking   *io.PipeWriter
	shaken    bool // there was a handshake; for the goroutine that reads it

	stdout, stderr child.Tail
	output         *child.Log

	mu  sync.Mutex // guards bad
	bad error      // why the handshake is refused
}

var _ runner.Runner = (*process)(nil)

// newProcess returns a process that is not started yet.
func newProcess(o *Options, log *zerolog.Logger, dir *runDir) *process {
	r := &process{
		Process: child.New(o.Command, o.Dir, log), o: o, log: log, dir: dir,
		output: child.NewLog(log, o.Limits),
	}
	r.handshake, r.shaking = io.Pipe()
	r.Limits, r.Panics = o.Machine, o.Panics
	r.Process.Stdout = func(f *os.File) { child.CopyLines(f, r.readStdout) }
	r.Process.Stderr = func(f *os.File) { child.CopyLines(f, r.readStderr) }
	r.Exited = func() { _ = r.shaking.Close() }
	return r
}

// Start implements runner.Runner.
func (r *process) Start(context.Context) error { return r.Process.Start() }

// readStdout takes the handshake from the plugin's standard output and logs the rest.
func (r *process) readStdout(line []byte, length int) {
	if !r.shaken && length == len(line) && isHandshake(line) {
		r.shaken = true
		if err := checkHandshake(string(line), r.dir.path); err != nil {
			r.mu.Lock()
			r.bad = fmt.Errorf("it printed a handshake that the bridge cannot accept: %w\n  printed: %s", err,
				shorten(strconv.Quote(string(line))))
			r.mu.Unlock()
			_ = r.shaking.Close()
			return
		}
		_, _ = r.shaking.Write([]byte(string(line) + "\n")) // go-plugin reads until its end
		_ = r.shaking.Close()
		return
	}
	r.stdout.Add(line)
	r.output.Line("stdout", line, length)
}

func (r *process) readStderr(line []byte, length int) {
	r.stderr.Add(line)
	r.output.Line("stderr", line, length)
}

// refused says why its handshake is not acceptable.
func (r *process) refused() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bad
}

// Wait implements runner.Runner.
func (r *process) Wait(context.Context) error {
	<-r.Context().Done()
	return nil
}

// Kill implements runner.Runner. It does not wait.
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

// Stderr implements runner.Runner. We read it ourselves.
func (r *process) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

// Diagnose implements runner.Runner. What it could say is in our own errors.
func (r *process) Diagnose(context.Context) string { return "" }

// PluginToHost implements runner.Runner.
func (r *process) PluginToHost(network, addr string) (string, string, error) {
	return network, addr, nil
}

// HostToPlugin implements runner.Runner.
func (r *process) HostToPlugin(network, addr string) (string, string, error) {
	return network, addr, nil
}
