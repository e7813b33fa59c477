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

// resourceLimits applies limits.Machine to one process and its descendants. Memory and processes are limited by control
// groups of the process alone: one in version 2, and one for each in version 1. When the process ends, all processes in
// them are killed. A process without these limits gets a control group where possible, because its children may leave
// its process group.
//
// The libraries for it (containerd, opencontainers) manage whole containers, by D-Bus and eBPF, and do not support a
// group below the bridge's own that ends with the bridge.
type resourceLimits struct {
	files    uint64
	explicit bool // the number of files is configured
	groups   []*group
	optional bool // the groups have no limits
}

// A group is a control group that the bridge has made. Its directory is locked while the bridge runs: an unlocked one
// belongs to a bridge that was killed.
type group struct {
	dir *os.File
	v2  bool
}

const (
	// groupNames is the prefix of the groups, and selfGroup the name of the bridge's own.
	groupNames = "mcpb-"
	selfGroup  = "mcpbridge"
	// removeTimeout is the time limit until a group is empty.
	removeTimeout = time.Second
)

const limitFix = "run mcpbridge where it may create control groups " +
	"(a systemd unit with `Delegate=memory pids` and `DelegateSubgroup=mcpbridge`), " +
	"limit the container that both run in instead, or leave the limit out"

// newResourceLimits prepares the limits. Call apply when the process runs, and end when it has ended or did not start.
func newResourceLimits(l limits.Machine, log *zerolog.Logger) (*resourceLimits, error) {
	return newResourceLimitsIn(l, "/", log)
}

// newResourceLimitsIn is newResourceLimits with another root of the file system.
func newResourceLimitsIn(l limits.Machine, root string, log *zerolog.Logger) (*resourceLimits, error) {
	b := &resourceLimits{}
	sweepAll(root, log)
	var ours unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &ours); err != nil {
		return nil, &LimitError{"files", "report this", err}
	}
	b.files, b.explicit = uint64(l.Files), l.Files != 0
	switch {
	case !b.explicit:
		b.files = min(uint64(limits.Machine{}.OrDefaults().Files), ours.Max)
	case b.files > ours.Max:
		return nil, &LimitError{
			"files", "raise that of mcpbridge (ulimit -n, LimitNOFILE), or lower the backend's",
			fmt.Errorf("the limit of mcpbridge itself is %d", ours.Max),
		}
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
		b.optional = true
		if err := b.addUnlimited(root); err != nil {
			logNoGroup(log, err)
		}
	}
	return b, nil
}

// addUnlimited adds a group without limits, which needs no controller in version 2, and any in version 1.
func (b *resourceLimits) addUnlimited(root string) error {
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

// dropOptional removes optional groups after the process did not start in them, and reports whether there were any.
func (b *resourceLimits) dropOptional(log *zerolog.Logger, err error) bool {
	if !b.optional || len(b.groups) == 0 {
		return false
	}
	logNoGroup(log, err)
	b.end(log)
	return true
}

func logNoGroup(log *zerolog.Logger, err error) {
	log.Debug().Err(err).
		Msg("there is no control group for the backend: processes outside its process group may outlive it")
}

// limit sets the limit of a controller in its group.
func (b *resourceLimits) limit(root, controller string, n int) error {
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
		_ = g.set("memory.swap.max", "0")  // fails without swap
		_ = g.set("memory.oom.group", "1") // fails on old systems
		return g.set("memory.max", value)
	}
	if err := g.set("memory.limit_in_bytes", value); err != nil {
		return err
	}
	_ = g.set("memory.memsw.limit_in_bytes", value) // fails without swap accounting
	return nil
}

// groupBase returns the directory below the bridge's group in which groups with a controller can be made.
func groupBase(root, controller string) (base string, v2 bool, err error) {
	base, v2, err = hierarchy(root, controller)
	if err == nil && v2 {
		err = enable(base, controller)
	}
	return base, v2, err
}

// hierarchy returns the directory of the bridge's group in the hierarchy of a controller. If controller is empty, it is
// that of version 2.
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
			if mount, err = v2Mount(mount); err != nil {
				return "", false, err
			}
		}
		base = filepath.Join(mount, own)
		if _, err := os.Stat(base); err != nil {
			base = mount // in a container, its group may be the root
		}
		if v2 && filepath.Base(base) == selfGroup {
			base = filepath.Dir(base)
		}
		return base, v2, nil
	}
	return "", false, fmt.Errorf("the system has no control groups for %s", cmp.Or(controller, "everything"))
}

// v2Mount returns the mount point of version 2.
func v2Mount(mount string) (string, error) {
	var err error
	for _, dir := range []string{mount, filepath.Join(mount, "unified")} {
		if _, err = os.Stat(filepath.Join(dir, "cgroup.subtree_control")); err == nil {
			return dir, nil
		}
	}
	return "", err
}

// enable enables a controller for the groups below base. In version 2, base must contain no process, so the bridge
// moves itself to a group below if necessary.
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
		// Another bridge removed it before it was locked.
	}
}

// lockGroup locks a group that is not locked.
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

// sweepAll removes the groups of bridges that were killed.
func sweepAll(root string, log *zerolog.Logger) {
	for _, controller := range []string{"", "memory", "pids"} {
		if base, v2, err := hierarchy(root, controller); err == nil {
			sweepGroups(base, v2, log)
		}
	}
}

// sweepGroups removes the groups in base of bridges that were killed, and kills the processes in them.
func sweepGroups(base string, v2 bool, log *zerolog.Logger) {
	names, _ := filepath.Glob(filepath.Join(base, groupNames+"*")) // fails only if base contains brackets
	for _, name := range names {
		g, err := lockGroup(name, v2)
		if err != nil {
			continue // its bridge is running, or another one removes it
		}
		if err := g.remove(); err != nil {
			log.Debug().Err(err).Str("dir", name).Msg("cannot remove a control group of a killed bridge")
			continue
		}
		log.Info().Str("dir", name).Msg("removed a control group of a killed bridge")
	}
}

func (g *group) file(name string) string { return filepath.Join(g.dir.Name(), name) }

func (g *group) set(name, value string) error { return write(g.file(name), value) }

// write writes to a file of a control group.
func write(name, text string) error { return os.WriteFile(name, []byte(text), 0o600) }

// configure makes cmd start in its control groups. In version 1, cmd stops before its first instruction, and apply
// moves it.
func (b *resourceLimits) configure(cmd *exec.Cmd) {
	for _, g := range b.groups {
		if g.v2 {
			cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(g.dir.Fd())
		} else {
			cmd.SysProcAttr.Ptrace = true
		}
	}
}

// apply applies the limits to a process that the calling thread has just started.
func (b *resourceLimits) apply(pid int) error {
	if slices.ContainsFunc(b.groups, func(g *group) bool { return !g.v2 }) {
		if err := b.move(pid); err != nil {
			return &LimitError{"memory and processes", limitFix, err}
		}
	}
	err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: b.files, Max: b.files}, nil)
	// The default cannot be set on a process of another user.
	if err != nil && b.explicit && !errors.Is(err, unix.ESRCH) {
		return &LimitError{"files", "raise it, or leave it out", err}
	}
	return nil
}

// move moves a stopped process to its groups of version 1, and continues it.
func (b *resourceLimits) move(pid int) error {
	for err := error(unix.EINTR); err != nil; {
		err = unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait until it stops: %w", err)
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
	if err := unix.PtraceDetach(pid); err != nil && !errors.Is(err, unix.ESRCH) { // it was killed
		return fmt.Errorf("detach from it: %w", err)
	}
	return nil
}

// oomKills returns the number of OOM kills in the process's memory group, or else in the bridge's.
func (b *resourceLimits) oomKills() int {
	for _, g := range b.groups {
		for _, name := range []string{"memory.events", "memory.oom_control"} { // version 2 and 1
			if text, err := os.ReadFile(g.file(name)); err == nil {
				return oomKillsIn(string(text))
			}
		}
	}
	return oomKills(cgroups)
}

// end kills the processes in the groups, and removes the groups.
func (b *resourceLimits) end(log *zerolog.Logger) {
	for _, g := range b.groups {
		if err := g.remove(); err != nil {
			log.Warn().Err(err).Msg("cannot remove a control group; the next start removes it")
		}
	}
	b.groups = nil
}

// remove kills the processes in the group, and removes it.
func (g *group) remove() error {
	defer g.dir.Close()
	last := time.Now().Add(removeTimeout)
	for pause := time.Millisecond; ; pause *= 2 {
		g.kill()
		err := unix.Rmdir(g.dir.Name())
		if !errors.Is(err, unix.EBUSY) || time.Now().After(last) {
			return err
		}
		time.Sleep(pause) //nolint:forbidigo // there is no notification
	}
}

// kill kills the processes in the group.
func (g *group) kill() {
	if g.v2 && g.set("cgroup.kill", "1") == nil {
		return
	}
	text, _ := os.ReadFile(g.file("cgroup.procs")) // fails if the group does not exist
	for f := range strings.FieldsSeq(string(text)) {
		if pid, err := strconv.Atoi(f); err == nil && pid > 0 {
			_ = unix.Kill(pid, unix.SIGKILL) // it may have ended
		}
	}
}
