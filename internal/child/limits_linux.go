package child

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/mcpbridge/mcpbridge/internal/limits"
)

// A bounds holds one process, and those that it starts, to limits.Machine. Memory and processes are those of control
// groups that the process alone is in: in version 2 one, and in version 1 one for each. Whoever is in them when the
// process ends is killed. So that nobody survives who has left the process group, there is one without limits, too,
// wherever one can be made.
//
// It is ours because the libraries for it (containerd, opencontainers) come with the ways to manage whole containers, by D-Bus and
// eBPF, and do not have what is needed here: a group below our own, that goes when we do.
type bounds struct {
	files  uint64
	asked  bool // somebody has said how many files
	groups []*group
	spare  bool // the groups limit nothing, and can be done without
}

// A group is a control group that we have made. Its directory is locked for as long as we live: one that is not was left by a
// bridge that was killed.
type group struct {
	dir *os.File
	v2  bool
}

const (
	// groupNames are how our groups are named, and selfGroup is how the one is that we are in ourselves.
	groupNames = "mcpb-"
	selfGroup  = "mcpbridge"
	// clearTime is how long it may take until nobody is left in a group.
	clearTime = time.Second
)

// limitFix says what to do if there can be no control groups.
const limitFix = "have mcpbridge run where it may make control groups (a systemd unit with `Delegate=memory pids` and `DelegateSubgroup=mcpbridge`), " +
	"limit the container that both run in instead, or leave the limit out"

// bound makes what holds a process to the limits. Call hold when the process runs, and end when it does not or never will.
func bound(l limits.Machine, log *zerolog.Logger) (*bounds, error) { return boundIn(l, "/", log) }

// boundIn is bound with the file system at root.
func boundIn(l limits.Machine, root string, log *zerolog.Logger) (*bounds, error) {
	b := &bounds{}
	sweepAll(root, log)
	var ours unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &ours); err != nil {
		return nil, &LimitError{"files", "report this", err}
	}
	b.files, b.asked = uint64(l.Files), l.Files != 0
	switch {
	case !b.asked:
		b.files = min(uint64(limits.Machine{}.OrDefaults().Files), ours.Max)
	case b.files > ours.Max:
		return nil, &LimitError{"files", "raise that of mcpbridge (ulimit -n, LimitNOFILE), or lower the backend's", fmt.Errorf("mcpbridge itself may have %d", ours.Max)}
	}
	for _, c := range []struct {
		controller, limit string
		n                 int
	}{{"memory", "memory", l.Memory}, {"pids", "processes", l.Processes}} {
		if c.n == 0 {
			continue
		}
		if err := b.limit(root, c.controller, c.n); err != nil {
			b.end(log)
			return nil, &LimitError{c.limit, limitFix, err}
		}
	}
	if len(b.groups) == 0 {
		b.spare = true
		if err := b.gather(root); err != nil {
			loose(log, err)
		}
	}
	return b, nil
}

// gather makes a group that limits nothing. In version 2 that takes no controller; in version 1 there are some everywhere.
func (b *bounds) gather(root string) error {
	base, v2, err := hierarchy(root, "")
	if err != nil {
		base, v2, err = hierarchy(root, "pids")
	}
	if err != nil {
		return err
	}
	g, err := newGroup(base, v2)
	if err == nil {
		b.groups = []*group{g}
	}
	return err
}

// dispense removes groups that can be done without, because the process did not start in them. It reports whether there were any.
func (b *bounds) dispense(log *zerolog.Logger, err error) bool {
	if !b.spare || len(b.groups) == 0 {
		return false
	}
	loose(log, err)
	b.end(log)
	return true
}

// loose says that a process has no control group.
func loose(log *zerolog.Logger, err error) {
	log.Debug().Err(err).Msg("there is no control group for the backend: what leaves its process group may outlive it")
}

// limit sets the limit of a controller, in a group for it.
func (b *bounds) limit(root, controller string, n int) error {
	base, v2, err := groupBase(root, controller)
	if err != nil {
		return err
	}
	var g *group
	if i := slices.IndexFunc(b.groups, func(g *group) bool { return g.v2 }); v2 && i >= 0 {
		g = b.groups[i]
	} else {
		if g, err = newGroup(base, v2); err != nil {
			return err
		}
		b.groups = append(b.groups, g)
	}
	value := strconv.Itoa(n)
	switch {
	case controller == "pids":
		return g.set("pids.max", value)
	case v2:
		_ = g.set("memory.swap.max", "0")  // there may be no swap
		_ = g.set("memory.oom.group", "1") // a process without its helpers is of no use; old systems do not know it
		return g.set("memory.max", value)
	}
	if err := g.set("memory.limit_in_bytes", value); err != nil {
		return err
	}
	_ = g.set("memory.memsw.limit_in_bytes", value) // swap may not be counted
	return nil
}

// groupBase returns the directory in which groups with a controller can be made, below the group that we are in.
func groupBase(root, controller string) (base string, v2 bool, err error) {
	base, v2, err = hierarchy(root, controller)
	if err == nil && v2 {
		err = enable(base, controller)
	}
	return base, v2, err
}

// hierarchy returns the directory below which groups that may have a controller are. Empty: any group of version 2.
func hierarchy(root, controller string) (base string, v2 bool, err error) {
	text, err := os.ReadFile(filepath.Join(root, "proc", "self", "cgroup"))
	if err != nil {
		return "", false, err
	}
	for line := range strings.Lines(string(text)) {
		// ID:controllers:path. Version 2 has no controllers, and comes last.
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, own, _ := strings.Cut(rest, ":")
		if v2 = controllers == ""; !v2 && !slices.Contains(strings.Split(controllers, ","), controller) {
			continue
		}
		mount := filepath.Join(root, "sys", "fs", "cgroup", controllers)
		if v2 {
			if mount, err = unified(mount); err != nil {
				return "", false, err
			}
		}
		base = filepath.Join(mount, own)
		if _, err := os.Stat(base); err != nil {
			base = mount // a container may see its group as the root
		}
		if v2 && filepath.Base(base) == selfGroup {
			base = filepath.Dir(base)
		}
		return base, v2, nil
	}
	return "", false, fmt.Errorf("the system has no control groups for %s", cmp.Or(controller, "everything"))
}

// unified returns where version 2 is mounted: where all is, or beside version 1.
func unified(mount string) (string, error) {
	var err error
	for _, dir := range []string{mount, filepath.Join(mount, "unified")} {
		if _, err = os.Stat(filepath.Join(dir, "cgroup.subtree_control")); err == nil {
			return dir, nil
		}
	}
	return "", err
}

// enable lets groups below base have a controller. In version 2 there must be no process in base itself then, so we go to one of
// those below if we must.
func enable(base, controller string) error {
	file := filepath.Join(base, "cgroup.subtree_control")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if slices.Contains(strings.Fields(string(text)), controller) {
		return nil
	}
	err = write(file, "+"+controller)
	if !errors.Is(err, unix.EBUSY) {
		return err
	}
	self := filepath.Join(base, selfGroup)
	if err := os.Mkdir(self, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := write(filepath.Join(self, "cgroup.procs"), strconv.Itoa(os.Getpid())); err != nil {
		return err
	}
	return write(file, "+"+controller)
}

// newGroup makes a group in base.
func newGroup(base string, v2 bool) (*group, error) {
	for {
		name, err := os.MkdirTemp(base, groupNames)
		if err != nil {
			return nil, err
		}
		g, err := lockGroup(name, v2)
		if err == nil {
			if _, err = os.Stat(name); err == nil {
				return g, nil
			}
			_ = g.dir.Close()
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.EWOULDBLOCK) {
			_ = os.Remove(name)
			return nil, err
		}
		// Somebody has taken it for left in the moment before it was locked.
	}
}

// lockGroup takes a group that nobody else has.
func lockGroup(name string, v2 bool) (*group, error) {
	dir, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = dir.Close()
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return &group{dir, v2}, nil
}

// sweepAll removes the groups that bridges have left which were killed, with whatever limits.
func sweepAll(root string, log *zerolog.Logger) {
	for _, controller := range []string{"", "memory", "pids"} {
		if base, v2, err := hierarchy(root, controller); err == nil {
			sweepGroups(base, v2, log)
		}
	}
}

// sweepGroups removes the groups that bridges have left which were killed, with whoever is still in them.
func sweepGroups(base string, v2 bool, log *zerolog.Logger) {
	names, _ := filepath.Glob(filepath.Join(base, groupNames+"*")) // an error says that the name of the base has brackets in it
	for _, name := range names {
		g, err := lockGroup(name, v2)
		if err != nil {
			continue // its bridge lives, or another one is faster
		}
		if err := g.remove(); err != nil {
			log.Debug().Err(err).Str("dir", name).Msg("a control group that a bridge has left cannot be removed")
			continue
		}
		log.Info().Str("dir", name).Msg("removed a control group that a bridge has left that was killed")
	}
}

func (g *group) file(name string) string { return filepath.Join(g.dir.Name(), name) }

func (g *group) set(name, value string) error { return write(g.file(name), value) }

// write writes to a file of a control group.
func write(name, text string) error { return os.WriteFile(name, []byte(text), 0o600) }

// into has cmd start in its group. In version 1 that is not possible: it stops before it does anything, and hold moves it.
func (b *bounds) into(cmd *exec.Cmd) {
	for _, g := range b.groups {
		if g.v2 {
			cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(g.dir.Fd())
		} else {
			cmd.SysProcAttr.Ptrace = true
		}
	}
}

// hold holds a process to the limits that the calling thread has just started.
func (b *bounds) hold(pid int) error {
	if slices.ContainsFunc(b.groups, func(g *group) bool { return !g.v2 }) {
		if err := b.move(pid); err != nil {
			return &LimitError{"memory and processes", limitFix, err}
		}
	}
	err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: b.files, Max: b.files}, nil)
	if err != nil && b.asked && !errors.Is(err, unix.ESRCH) { // nobody has to know that it cannot be, of one that runs as another user
		return &LimitError{"files", "raise it, or leave it out", err}
	}
	return nil
}

// move moves a process that has stopped into its groups of version 1, and lets it go.
func (b *bounds) move(pid int) error {
	for err := error(unix.EINTR); err != nil; {
		if err = unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil); err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait until it has stopped: %w", err)
		}
	}
	for _, g := range b.groups {
		if g.v2 {
			continue
		}
		if err := g.set("cgroup.procs", strconv.Itoa(pid)); err != nil {
			return err
		}
	}
	if err := unix.PtraceDetach(pid); err != nil && !errors.Is(err, unix.ESRCH) { // somebody has killed it already
		return fmt.Errorf("let it go: %w", err)
	}
	return nil
}

// oomKills returns how often the system has killed one of those whose memory is limited together, as far as it tells: in the
// process's own group, or, if it has none, in ours.
func (b *bounds) oomKills() int {
	for _, g := range b.groups {
		for _, name := range []string{"memory.events", "memory.oom_control"} { // version 2 and 1
			if text, err := os.ReadFile(g.file(name)); err == nil {
				return oomKillsIn(string(text))
			}
		}
	}
	return oomKills(cgroups)
}

// end kills whoever is left in the groups, and removes them.
func (b *bounds) end(log *zerolog.Logger) {
	for _, g := range b.groups {
		if err := g.remove(); err != nil {
			log.Warn().Err(err).Msg("a control group stays; the next start removes it")
		}
	}
	b.groups = nil
}

// remove kills whoever is in the group, and removes it.
func (g *group) remove() error {
	defer g.dir.Close()
	last := time.Now().Add(clearTime)
	for pause := time.Millisecond; ; pause *= 2 {
		g.kill()
		err := unix.Rmdir(g.dir.Name())
		if !errors.Is(err, unix.EBUSY) || time.Now().After(last) {
			return err
		}
		time.Sleep(pause) //nolint:forbidigo // nobody tells when the last one is gone
	}
}

// kill kills whoever is in the group.
func (g *group) kill() {
	if g.v2 && g.set("cgroup.kill", "1") == nil {
		return
	}
	text, _ := os.ReadFile(g.file("cgroup.procs")) // an error says that there is no such group
	for f := range strings.FieldsSeq(string(text)) {
		if pid, err := strconv.Atoi(f); err == nil && pid > 0 {
			_ = unix.Kill(pid, unix.SIGKILL) // it may have ended
		}
	}
}
