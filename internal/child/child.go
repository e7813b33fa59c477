// Package child runs programs for the backs: each in a process group of its own, which ends with it and with us, with pipes
// for its standard files and an environment that holds no secrets of ours.
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

// drainTime is how long we read on after a process has ended, if another one keeps its output open.
const drainTime = 200 * time.Millisecond

// A Process is one run of a program. Its fields are set before Start; its methods may be called concurrently after that.
type Process struct {
	// Command is the program and its arguments. No shell is involved.
	Command []string
	// Dir is the directory it runs in. Empty: ours.
	Dir string
	// Env is its whole environment.
	Env []string
	// Limits are how much of the machine it may take.
	Limits limits.Machine
	// Log is where it is told what could not be done.
	Log *zerolog.Logger
	// Panics counts the panics of the whole process. If nil, those of this one are only logged.
	Panics *contain.Panics
	// Stdout and Stderr read what the process prints, to the end of it. Each runs in a goroutine of its own.
	Stdout, Stderr func(*os.File)
	// Exited is called when the process has ended, and before anything else learns of it. It may be nil.
	Exited func()

	cmd    *exec.Cmd
	trap   trap     // kills the process group if we die
	guard  guard    // kills what has left the group then
	mark   string   // that the guard knows it by, in the environment
	stdin  *os.File // ours of its standard input
	bounds *bounds  // hold it to its limits

	ctx   context.Context // ends when the process does
	ended context.CancelFunc
	wg    sync.WaitGroup // the goroutines that read and wait

	ooms int // how often the system had killed somebody for memory before

	mu     sync.Mutex // guards what follows, and cmd and stdin while they are being set
	state  *os.ProcessState
	killed bool // we have
	oom    bool
}

// New returns a Process that is not started yet.
func New(command []string, dir string, log *zerolog.Logger) *Process {
	p := &Process{Command: command, Dir: dir, Log: log, mark: newMark()}
	p.ctx, p.ended = context.WithCancel(context.Background())
	return p
}

// Start launches the process. The thread that calls it must not end before the process does: Linux takes that thread's end
// for ours.
func (p *Process) Start() error {
	path, err := p.find()
	if err != nil {
		return err
	}
	if p.bounds, err = bound(p.Limits, p.Log); err != nil {
		return err
	}
	ours, theirs, err := pipes()
	if err != nil {
		p.bounds.end(p.Log)
		return err
	}
	if p.guard, err = setGuard(p.mark); err != nil {
		p.Log.Debug().Err(err).Msg("what leaves the backend's process group may survive if the bridge is killed")
	}
	p.mu.Lock() // whoever hears from the process can ask for its number
	cmd, err := p.startAnyhow(path, theirs)
	if err == nil {
		p.cmd, p.stdin = cmd, ours[0]
	}
	p.mu.Unlock()
	closeAll(theirs)
	if err != nil {
		closeAll(ours)
		p.bounds.end(p.Log)
		p.guard.dismiss()
		return err
	}
	if p.trap, err = setTrap(cmd.Process.Pid); err != nil {
		p.Log.Debug().Err(err).Msg("the backend's own children may survive if the bridge is killed")
	}
	out, errs := ours[1], ours[2]
	p.wg.Go(func() { defer out.Close(); p.contain("reading its standard output", func() { p.Stdout(out) }) })
	p.wg.Go(func() { defer errs.Close(); p.contain("reading its standard error", func() { p.Stderr(errs) }) })
	p.wg.Go(func() {
		p.reap()
		// Whoever else has the pipes may keep them.
		for _, f := range []*os.File{out, errs} {
			_ = f.SetReadDeadline(time.Now().Add(drainTime))
		}
	})
	return nil
}

// contain runs what reads what the process prints. A bug in it kills the process, and does not end the bridge.
func (p *Process) contain(doing string, read func()) {
	defer p.Panics.With(*p.Log).Recover(doing, func(*bridge.Error) { p.Signal(Kill) })

	read()
}

// startAnyhow starts the program at path: in its control groups, or without those that can be done without.
func (p *Process) startAnyhow(path string, files []*os.File) (*exec.Cmd, error) {
	cmd, err := p.startHeld(path, files)
	if err != nil && p.bounds.dispense(p.Log, err) {
		cmd, err = p.startHeld(path, files)
	}
	return cmd, err
}

// startHeld starts the program at path, and holds it to the limits.
func (p *Process) startHeld(path string, files []*os.File) (*exec.Cmd, error) {
	cmd := exec.Command(path, p.Command[1:]...) //nolint:noctx // the kill ladder ends it; a context would know only SIGKILL
	cmd.Args[0] = p.Command[0]
	cmd.Dir, cmd.Env = p.Dir, p.Env
	if p.mark != "" {
		cmd.Env = append(slices.Clip(p.Env), p.mark)
	}
	// Files and not mere readers, so that waiting for the process is not waiting for its output.
	cmd.Stdin, cmd.Stdout, cmd.Stderr = files[0], files[1], files[2]
	ownGroup(cmd)
	p.bounds.into(cmd)
	p.ooms = p.bounds.oomKills()
	runtime.LockOSThread() // one thread starts it, and holds it
	defer runtime.UnlockOSThread()
	beginning.RLock()
	err := cmd.Start()
	if err == nil {
		started.Store(cmd.Process.Pid, cmd)
	}
	beginning.RUnlock()
	if err != nil {
		return nil, fmt.Errorf("cannot be run: %w", withoutPath(err))
	}
	if err := p.bounds.hold(cmd.Process.Pid); err != nil {
		signalGroup(cmd.Process, Kill)
		wait(cmd)
		return nil, err
	}
	return cmd, nil
}

// wait waits for a process that has been started. What is wrong with its end, its state says.
func wait(cmd *exec.Cmd) {
	_ = cmd.Wait()
	started.CompareAndDelete(cmd.Process.Pid, cmd) // the number may be another's by now
}

// pipes returns our ends of the pipes for standard files, input first, and those of the process.
func pipes() (ours, theirs []*os.File, err error) {
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
	return ours, theirs, nil
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
			return "", &NotFoundError{fmt.Errorf("there is no program %s: %w", path, withoutPath(err)), "check the command's first word and the directory"}
		}
		return filepath.Abs(path)
	}
	where := Lookup(p.Env, "PATH")
	for _, dir := range filepath.SplitList(where) {
		if !filepath.IsAbs(dir) {
			continue // a program in the current directory is not run by chance
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

// A NotFoundError is the error of a program that is not there.
type NotFoundError struct {
	error
	// Fix says what to do about it.
	Fix string
}

// MoreFiles says what to do about OutOfFiles.
const MoreFiles = "let mcpbridge have more files open (ulimit -n, LimitNOFILE); it tries again meanwhile"

// OutOfFiles reports whether err is that we, or the system, have no descriptors left.
func OutOfFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// A Shortage is a resource that there is nothing left of. That a program does not start then says nothing of the program.
type Shortage struct {
	// Resource names it.
	Resource string
	// Fix says what to do about it.
	Fix string

	errnos []syscall.Errno
}

var shortages = []Shortage{
	{"file descriptors", MoreFiles, []syscall.Errno{syscall.EMFILE, syscall.ENFILE}},
	{"disk space", "free some in the directory for temporary files (TMPDIR); mcpbridge tries again meanwhile", []syscall.Errno{syscall.ENOSPC}},
	{"disk quota", "free some in the directory for temporary files (TMPDIR), or raise the quota; mcpbridge tries again meanwhile", []syscall.Errno{syscall.EDQUOT}},
	{"memory", "let the machine or the container have more memory; mcpbridge tries again meanwhile", []syscall.Errno{syscall.ENOMEM}},
	{
		"processes", "let the user or the container have more processes (ulimit -u, TasksMax, pids.max); mcpbridge tries again meanwhile",
		[]syscall.Errno{syscall.EAGAIN},
	},
}

// ShortageOf returns the resource for whose want a program could not be started with err, or nil if that is not why.
func ShortageOf(err error) *Shortage {
	if _, unheld := errors.AsType[*LimitError](err); unheld {
		return nil // of a limit that was asked for
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

// withoutPath returns err without the path that the message around it has already.
func withoutPath(err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return e.Err
	}
	return err
}

// reap waits for the process and for nobody else, and takes its group with it.
func (p *Process) reap() {
	waitExit(p.cmd)
	p.mu.Lock()
	p.oom = p.oomKilled()
	p.mu.Unlock()
	p.ended()
	if p.Exited != nil {
		p.Exited()
	}
	p.mu.Lock()
	signalGroup(p.cmd.Process, Kill)
	wait(p.cmd)
	p.state = p.cmd.ProcessState
	p.mu.Unlock()
	p.Log.Debug().Int("pid", p.cmd.Process.Pid).Str("ended", p.How()).Msg("the process ended")
	p.bounds.end(p.Log)
	p.trap.disarm()
	p.guard.dismiss()
	_ = p.stdin.Close()
}

// Signal sends s to the process group, if the process has not ended.
func (p *Process) Signal(s Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil && p.cmd.Process != nil && p.state == nil {
		p.killed = p.killed || s == Kill
		signalGroup(p.cmd.Process, s)
	}
}

// How says how the process ended. It is empty while it runs.
func (p *Process) How() string {
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

// oomKilled reports whether the system has killed for memory since the start, and we have not killed. The caller holds mu, and the
// process's groups are there.
func (p *Process) oomKilled() bool { return !p.killed && p.bounds.oomKills() > p.ooms }

// OutOfMemory reports whether the process was killed by the system because there was no memory left: of its limit, or, if it has
// none, of the machine or of our own limit. Without one it may be wrong if another process of our control group was killed at the
// same time.
func (p *Process) OutOfMemory() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil && p.ctx.Err() == nil { // it may be about to end, and what knows of it may learn before us
		return p.oomKilled()
	}
	return p.oom
}

// Started reports whether the process was launched.
func (p *Process) Started() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd != nil
}

// Pid returns the number of a process that was launched. It is also that of its group.
func (p *Process) Pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd.Process.Pid
}

// Stdin returns our end of the standard input of a process that was launched. It is closed when the process ends.
func (p *Process) Stdin() *os.File { return p.stdin }

// Context returns a context that ends when the process does.
func (p *Process) Context() context.Context { return p.ctx }

// Finish waits for what belongs to a process that has ended or never started.
func (p *Process) Finish() {
	p.wg.Wait()
	p.ended()
}

// Quote returns a command as one could type it.
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
