// Package child runs programs for the backs: each in its own process group, which ends with the program and with the
// bridge, with pipes as standard files and an environment without the bridge's secrets.
package child

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/contain"
	"github.com/mcpbridge/mcpbridge/internal/limits"
)

// drainTimeout is how long output is read after the process has ended, if another process keeps it open.
const drainTimeout = 200 * time.Millisecond

// A Process is one run of a program. Its fields are set before Start; then its methods may be called concurrently.
type Process struct {
	// Command is the program and its arguments, without a shell.
	Command []string
	// Dir is the working directory. If empty, the bridge's is used.
	Dir string
	// Env is the complete environment.
	Env    []string
	Limits limits.Machine
	// Log receives warnings.
	Log *zerolog.Logger
	// Panics counts panics. If nil, they are only logged.
	Panics *contain.Panics
	// Stdout and Stderr read the output until its end, each in its own goroutine.
	Stdout, Stderr func(*os.File)
	// Exited is called after the process has ended and Context is done. It may be nil.
	Exited func()

	cmd    *exec.Cmd
	trap   trap     // kills the process group if the bridge is killed
	guard  guard    // then kills processes that have left the group
	mark   string   // environment entry that identifies the run to the guard
	stdin  *os.File // write end
	limits *resourceLimits

	ctx    context.Context // ends when the process does
	cancel context.CancelFunc
	wg     sync.WaitGroup // the goroutines that read and wait

	ooms int // OOM kills before the start

	mu     sync.Mutex // guards what follows, and cmd and stdin while they are being set
	state  *os.ProcessState
	killed bool // by the bridge
	oom    bool
}

// New returns a Process that is not started.
func New(command []string, dir string, log *zerolog.Logger) *Process {
	p := &Process{Command: command, Dir: dir, Log: log, mark: newMark()}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Start starts the process. The calling thread must not exit before the process does: Linux signals the parent's
// death when that thread exits.
func (p *Process) Start() error {
	path, err := p.find()
	if err != nil {
		return err
	}
	if p.limits, err = newResourceLimits(p.Limits, p.Log); err != nil {
		return err
	}
	bridgeEnds, childEnds, err := pipes()
	if err != nil {
		p.limits.end(p.Log)
		return err
	}
	if p.guard, err = setGuard(p.mark); err != nil {
		p.Log.Debug().Err(err).Msg("processes that leave the backend's process group may survive a killed bridge")
	}
	p.mu.Lock() // Pid must work as soon as the process runs
	cmd, err := p.startWithFallback(path, childEnds)
	if err == nil {
		p.cmd, p.stdin = cmd, bridgeEnds[0]
	}
	p.mu.Unlock()
	closeAll(childEnds)
	if err != nil {
		closeAll(bridgeEnds)
		p.limits.end(p.Log)
		p.guard.dismiss()
		return err
	}
	if p.trap, err = setTrap(cmd.Process.Pid); err != nil {
		p.Log.Debug().Err(err).Msg("the backend's own children may survive if the bridge is killed")
	}
	out, errs := bridgeEnds[1], bridgeEnds[2]
	p.wg.Go(func() { defer out.Close(); p.contain("reading its standard output", func() { p.Stdout(out) }) })
	p.wg.Go(func() { defer errs.Close(); p.contain("reading its standard error", func() { p.Stderr(errs) }) })
	p.wg.Go(func() {
		p.reap()
		// Other processes may keep the pipes open.
		for _, f := range []*os.File{out, errs} {
			_ = f.SetReadDeadline(time.Now().Add(drainTimeout))
		}
	})
	return nil
}

// contain runs the code that reads the output. If it panics, the process is killed.
func (p *Process) contain(operation string, read func()) {
	defer p.Panics.With(*p.Log).Recover(operation, func(*bridge.Error) { p.Signal(Kill) })

	read()
}

// startWithFallback starts the program in its control groups, or without those that are optional.
func (p *Process) startWithFallback(path string, files []*os.File) (*exec.Cmd, error) {
	cmd, err := p.startLimited(path, files)
	if err != nil && p.limits.dropOptional(p.Log, err) {
		cmd, err = p.startLimited(path, files)
	}
	return cmd, err
}

// startLimited starts the program and applies its limits.
func (p *Process) startLimited(path string, files []*os.File) (*exec.Cmd, error) {
	cmd := exec.Command(path, p.Command[1:]...) //nolint:noctx // a context would only send SIGKILL
	cmd.Args[0] = p.Command[0]
	cmd.Dir, cmd.Env = p.Dir, p.Env
	if p.mark != "" {
		cmd.Env = append(slices.Clip(p.Env), p.mark)
	}
	// *os.File, because with other types Wait waits for the output.
	cmd.Stdin, cmd.Stdout, cmd.Stderr = files[0], files[1], files[2]
	ownGroup(cmd)
	p.limits.configure(cmd)
	p.ooms = p.limits.oomKills()
	runtime.LockOSThread() // apply needs the thread that started the process
	defer runtime.UnlockOSThread()
	startMu.RLock()
	err := cmd.Start()
	if err == nil {
		children.Store(cmd.Process.Pid, cmd)
	}
	startMu.RUnlock()
	if err != nil {
		return nil, fmt.Errorf("cannot be run: %w", withoutPath(err))
	}
	if err := p.limits.apply(cmd.Process.Pid); err != nil {
		signalGroup(cmd.Process, Kill)
		wait(cmd)
		return nil, err
	}
	return cmd, nil
}

// wait waits for a started process. ProcessState has the error.
func wait(cmd *exec.Cmd) {
	_ = cmd.Wait()
	children.CompareAndDelete(cmd.Process.Pid, cmd) // the pid may be reused
}

// pipes returns the bridge's ends of three pipes, standard input first, and those of the process.
func pipes() (bridgeEnds, childEnds []*os.File, err error) {
	for i := range 3 {
		read, write, err := os.Pipe()
		if err != nil {
			closeAll(bridgeEnds)
			closeAll(childEnds)
			return nil, nil, err
		}
		if i == 0 {
			bridgeEnds, childEnds = append(bridgeEnds, write), append(childEnds, read)
		} else {
			bridgeEnds, childEnds = append(bridgeEnds, read), append(childEnds, write)
		}
	}
	return bridgeEnds, childEnds, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// find returns the path of the program.
func (p *Process) find() (string, error) {
	name := p.Command[0]
	if filepath.Base(name) != name {
		path := name
		if !filepath.IsAbs(path) && p.Dir != "" {
			path = filepath.Join(p.Dir, path)
		}
		if _, err := os.Stat(path); err != nil {
			return "", &NotFoundError{
				fmt.Errorf("there is no program %s: %w", path, withoutPath(err)),
				"check the command's first word and the directory",
			}
		}
		return filepath.Abs(path)
	}
	where := Lookup(p.Env, "PATH")
	for _, dir := range filepath.SplitList(where) {
		if !filepath.IsAbs(dir) {
			continue // never run a program in the current directory by accident
		}
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", &NotFoundError{
		fmt.Errorf("there is no program %q in PATH=%s", name, where),
		"install it, name it by its full path, or set PATH in the backend's env",
	}
}

// A NotFoundError means that the program does not exist.
type NotFoundError struct {
	error
	Fix string
}

// MoreFilesFix is the fix for OutOfFiles.
const MoreFilesFix = "raise the limit of open files of mcpbridge (ulimit -n, LimitNOFILE); it retries"

// OutOfFiles reports whether the process or the system has no file descriptors left.
func OutOfFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// A Shortage is an exhausted resource, because of which a program did not start.
type Shortage struct {
	Resource string
	Fix      string

	errnos []syscall.Errno
}

var shortages = []Shortage{
	{"file descriptors", MoreFilesFix, []syscall.Errno{syscall.EMFILE, syscall.ENFILE}},
	{
		"disk space", "free space or inodes for temporary files (TMPDIR); mcpbridge retries",
		[]syscall.Errno{syscall.ENOSPC},
	},
	{
		"disk quota",
		"free space or inodes for temporary files (TMPDIR), or raise the quota; mcpbridge retries",
		[]syscall.Errno{syscall.EDQUOT},
	},
	{
		"memory", "give the machine or the container more memory; mcpbridge retries",
		[]syscall.Errno{syscall.ENOMEM},
	},
	{
		"processes",
		"allow the user or container more processes (ulimit -u, TasksMax, pids.max); mcpbridge retries",
		[]syscall.Errno{syscall.EAGAIN},
	},
}

// ShortageOf returns the exhausted resource that caused err, or nil.
func ShortageOf(err error) *Shortage {
	if _, ok := errors.AsType[*LimitError](err); ok {
		return nil // the cause is a configured limit
	}
	for i := range shortages {
		for _, errno := range shortages[i].errnos {
			if errors.Is(err, errno) {
				return &shortages[i]
			}
		}
	}
	return nil
}

// withoutPath removes the path from err, for messages that contain it already.
func withoutPath(err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return e.Err
	}
	return err
}

// reap waits for the process, and kills its group.
func (p *Process) reap() {
	waitExit(p.cmd)
	p.mu.Lock()
	p.oom = p.oomKilled()
	p.mu.Unlock()
	p.cancel()
	if p.Exited != nil {
		p.Exited()
	}
	p.mu.Lock()
	signalGroup(p.cmd.Process, Kill)
	wait(p.cmd)
	p.state = p.cmd.ProcessState
	p.mu.Unlock()
	p.Log.Debug().Int("pid", p.cmd.Process.Pid).Str("ended", p.ExitReason()).Msg("the process ended")
	p.limits.end(p.Log)
	p.trap.disarm()
	p.guard.dismiss()
	_ = p.stdin.Close()
}

// Signal sends s to the process group, unless the process has ended.
func (p *Process) Signal(s Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil && p.cmd.Process != nil && p.state == nil {
		p.killed = p.killed || s == Kill
		signalGroup(p.cmd.Process, s)
	}
}

// ExitReason describes how the process ended. It is empty while the process runs.
func (p *Process) ExitReason() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == nil {
		return ""
	}
	how := strings.Replace(p.state.String(), "signal: ", "killed by signal: ", 1)
	if p.oom {
		how += ", because there was no memory left"
	}
	return how
}

// oomKilled reports whether the system, and not the bridge, has killed a process since the start. The caller holds
// mu, and the control groups must exist.
func (p *Process) oomKilled() bool { return !p.killed && p.limits.oomKills() > p.ooms }

// OutOfMemory reports whether the system killed the process because it reached its memory limit, or without one that
// of the machine or the bridge. Without a limit, it may be wrong if another process of the bridge's control group was
// killed at the same time.
func (p *Process) OutOfMemory() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil && p.ctx.Err() == nil { // the caller may notice its end before reap does
		return p.oomKilled()
	}
	return p.oom
}

// Started reports whether the process was started.
func (p *Process) Started() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd != nil
}

// Pid returns the ID of a started process and of its group.
func (p *Process) Pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd.Process.Pid
}

// Stdin returns the write end of a started process's standard input. It is closed when the process ends.
func (p *Process) Stdin() *os.File { return p.stdin }

// Context returns a context that ends when the process does.
func (p *Process) Context() context.Context { return p.ctx }

// Finish waits for the goroutines of a process that has ended or was never started.
func (p *Process) Finish() {
	p.wg.Wait()
	p.cancel()
}

// Quote returns a command as typed in a shell.
func Quote(command []string) string {
	words := make([]string, len(command))
	for i, w := range command {
		words[i] = w
		if w == "" || strings.ContainsAny(w, " \t\n\"'\\$*;&|<>()") {
			words[i] = strconv.Quote(w)
		}
	}
	return strings.Join(words, " ")
}
