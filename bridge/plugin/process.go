package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-plugin/runner"
	"github.com/rs/zerolog"
)

// maxSocketPath is how long the path of a unix socket may be: macOS has room for 103 bytes, Linux for 107.
const maxSocketPath = 100

// drainTime is how long we read on after a process has ended, if another one keeps its output open.
const drainTime = 200 * time.Millisecond

// A process is one run of a plugin. It is go-plugin's runner.Runner, because stock go-plugin gives our standard input and
// environment to the plugin, takes the first line it prints for the handshake whatever it is, stops reading at the first
// long line, and does not notice the plugin's end while a grandchild keeps its output open.
type process struct {
	o       *Options
	log     *zerolog.Logger
	command []string
	env     []string
	dir     string // private: sockets and the key pair

	cmd      *exec.Cmd
	trap     trap     // kills the process group if we die
	lifeline *os.File // ours of the plugin's standard input: it ends when this is closed

	ctx       context.Context // ends when the process does
	ended     context.CancelFunc
	wg        sync.WaitGroup // the goroutines that read and wait
	handshake *io.PipeReader // for go-plugin: the handshake line and nothing else
	shaking   *io.PipeWriter
	shaken    bool // there was a handshake; for the goroutine that reads it

	stdout, stderr tail

	mu    sync.Mutex // guards the rest
	bad   error      // why the handshake is refused
	state *os.ProcessState
}

var _ runner.Runner = (*process)(nil)

// newProcess returns a process that is not started yet.
func newProcess(o *Options, log *zerolog.Logger, dir string) *process {
	r := &process{o: o, log: log, command: o.Command, dir: dir}
	r.ctx, r.ended = context.WithCancel(context.Background())
	r.handshake, r.shaking = io.Pipe()
	return r
}

// privateDir makes a directory that only we can enter, with a name short enough for sockets.
func privateDir() (string, error) {
	var tooLong string
	for _, base := range []string{os.TempDir(), "/tmp"} {
		dir, err := os.MkdirTemp(base, "mcpb")
		if err != nil {
			return "", err
		}
		if len(filepath.Join(dir, "plugin4294967295.sock")) < maxSocketPath || runtime.GOOS == "windows" {
			return dir, nil
		}
		_ = os.Remove(dir)
		tooLong = dir
	}
	return "", fmt.Errorf("directory %s: its name is too long for a socket in it; set TMPDIR to a shorter one", tooLong)
}

// Start implements runner.Runner. The thread that calls it must not end before the process does: Linux takes that thread's
// end for ours.
func (r *process) Start(context.Context) error {
	path, err := r.find()
	if err != nil {
		return err
	}
	cmd := exec.Command(path, r.command[1:]...) //nolint:noctx // the kill ladder ends it; a context would know only SIGKILL
	cmd.Args[0] = r.command[0]
	cmd.Dir, cmd.Env = r.o.Dir, r.env
	ours, theirs, err := r.pipes(cmd)
	if err != nil {
		return err
	}
	ownGroup(cmd)
	err = cmd.Start()
	closeAll(theirs)
	if err != nil {
		closeAll(ours)
		return fmt.Errorf("cannot be run: %w", withoutPath(err))
	}
	r.mu.Lock()
	r.cmd, r.lifeline = cmd, ours[0]
	r.mu.Unlock()
	if r.trap, err = setTrap(cmd.Process.Pid); err != nil {
		r.log.Debug().Err(err).Msg("the backend's own children may survive if the bridge is killed")
	}
	out, errs := ours[1], ours[2]
	r.wg.Go(func() { defer out.Close(); copyLines(out, r.readStdout) })
	r.wg.Go(func() { defer errs.Close(); copyLines(errs, r.readStderr) })
	r.wg.Go(func() {
		r.reap()
		// Whoever else has the pipes may keep them.
		for _, f := range []*os.File{out, errs} {
			_ = f.SetReadDeadline(time.Now().Add(drainTime))
		}
	})
	return nil
}

// pipes gives cmd pipes for its standard files, and returns our ends of them, input first, and its.
func (r *process) pipes(cmd *exec.Cmd) (ours, theirs []*os.File, err error) {
	for i := range 3 {
		read, write, err := os.Pipe()
		if err != nil {
			closeAll(ours)
			closeAll(theirs)
			return nil, nil, err
		}
		if i == 0 {
			ours, theirs = append(ours, write), append(theirs, read)
		} else {
			ours, theirs = append(ours, read), append(theirs, write)
		}
	}
	// Files and not mere readers, so that waiting for the process is not waiting for its output.
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs[0], theirs[1], theirs[2]
	return ours, theirs, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// find returns the path of the program.
func (r *process) find() (string, error) {
	name := r.command[0]
	if filepath.Base(name) != name {
		path := name
		if !filepath.IsAbs(path) && r.o.Dir != "" {
			path = filepath.Join(r.o.Dir, path)
		}
		if _, err := os.Stat(path); err != nil {
			return "", &notFoundError{fmt.Errorf("there is no program %s: %w", path, withoutPath(err)), "check the command's first word and the directory"}
		}
		return filepath.Abs(path)
	}
	where := lookup(r.env, "PATH")
	for _, dir := range filepath.SplitList(where) {
		if !filepath.IsAbs(dir) {
			continue // a program in the current directory is not run by chance
		}
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", &notFoundError{
		fmt.Errorf("there is no program %q in PATH=%s", name, where),
		"install it, name it by its full path, or set PATH in the backend's env",
	}
}

// A notFoundError is the error of a program that is not there.
type notFoundError struct {
	error
	fix string
}

// withoutPath returns err without the path that the message around it has already.
func withoutPath(err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return e.Err
	}
	return err
}

// readStdout takes the handshake from the plugin's standard output and logs the rest.
func (r *process) readStdout(line []byte, length int) {
	if !r.shaken && length == len(line) && isHandshake(line) {
		r.shaken = true
		if err := checkHandshake(string(line), r.dir); err != nil {
			r.mu.Lock()
			r.bad = fmt.Errorf("it printed a handshake that the bridge cannot accept: %w\n  printed: %s", err, shorten(strconv.Quote(string(line)), 300))
			r.mu.Unlock()
			_ = r.shaking.Close()
			return
		}
		_, _ = r.shaking.Write([]byte(string(line) + "\n")) // go-plugin reads until its end
		_ = r.shaking.Close()
		return
	}
	r.stdout.add(line)
	logLine(r.log, "stdout", line, length)
}

func (r *process) readStderr(line []byte, length int) {
	r.stderr.add(line)
	logLine(r.log, "stderr", line, length)
}

// reap waits for the process and for nobody else, and takes its group with it.
func (r *process) reap() {
	waitExit(r.cmd)
	r.ended()
	_ = r.shaking.Close()
	r.mu.Lock()
	signalGroup(r.cmd.Process, kill)
	_ = r.cmd.Wait()
	r.state = r.cmd.ProcessState
	r.mu.Unlock()
	r.trap.disarm()
	_ = r.lifeline.Close()
}

// signal sends s to the process group, if the process has not ended.
func (r *process) signal(s groupSignal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cmd != nil && r.cmd.Process != nil && r.state == nil {
		signalGroup(r.cmd.Process, s)
	}
}

// how says how the process ended. It is empty while it runs.
func (r *process) how() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == nil {
		return ""
	}
	return strings.Replace(r.state.String(), "signal: ", "killed by signal: ", 1)
}

// refused says why its handshake is not acceptable.
func (r *process) refused() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bad
}

// Wait implements runner.Runner.
func (r *process) Wait(context.Context) error {
	<-r.ctx.Done()
	return nil
}

// Kill implements runner.Runner. It does not wait.
func (r *process) Kill(context.Context) error {
	r.signal(kill)
	return nil
}

// ID implements runner.Runner.
func (r *process) ID() string {
	if r.cmd == nil {
		return ""
	}
	return strconv.Itoa(r.cmd.Process.Pid)
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
