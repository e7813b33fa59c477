package child

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/mcpbridge/mcpbridge/internal/limits"
)

// actionKey is the environment variable with the action of the test binary after a line of input: use so many MiB of
// memory, or open files until that fails.
const actionKey = "CHILD_TEST_ACTION"

func TestMain(m *testing.M) {
	action := os.Getenv(actionKey)
	if action == "" {
		goleak.VerifyTestMain(m)
	}
	_, _ = fmt.Scanln() // until the limit is set
	if action == "open" {
		opened := 0
		fd, err := unix.Open("/dev/null", unix.O_RDONLY, 0)
		for ; err == nil; fd, err = unix.Open("/dev/null", unix.O_RDONLY, 0) {
			opened = fd + 1
		}
		fmt.Println(opened, err)
		return
	}
	mib, _ := strconv.Atoi(action)
	memory := make([]byte, mib<<20)
	for i := 0; i < len(memory); i += 4096 {
		memory[i] = 1
	}
	fmt.Println("used")
}

// self returns the path of the test binary.
func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// A limitedRun is a process that ran with limits.
type limitedRun struct {
	*Process

	groups []string // directories of its control groups, which are removed
	out    string
}

// runLimited runs a program with limits until it ends. The program waits for a line of input. runLimited returns nil if
// the limits cannot be set because control groups are not available, and fails the test if they cannot for another
// reason.
func runLimited(t *testing.T, l limits.Machine, env []string, command ...string) *limitedRun {
	t.Helper()
	log := zerolog.New(zerolog.NewTestWriter(t))
	p := New(command, "", &log)
	p.Limits, p.Env = l, append(env, "PATH="+os.Getenv("PATH"))
	var out bytes.Buffer
	p.Stdout = func(f *os.File) { _, _ = io.Copy(&out, f) }
	p.Stderr = func(f *os.File) { _, _ = io.Copy(io.Discard, f) }
	if err := p.Start(); err != nil {
		p.Finish()
		var e *LimitError
		if _, _, noGroups := groupBase("/", "memory"); !errors.As(err, &e) || e.Fix != limitFix || noGroups == nil &&
			os.Getuid() == 0 {
			t.Fatal(err)
		}
		return nil
	}
	h := &limitedRun{Process: p}
	for _, g := range p.limits.groups {
		h.groups = append(h.groups, g.dir.Name())
	}
	fmt.Fprintln(p.Stdin())
	<-p.Context().Done()
	p.Finish()
	h.out = out.String()
	for _, dir := range h.groups {
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s was not removed: %v", dir, err)
		}
	}
	return h
}

func TestFilesAreLimited(t *testing.T) {
	var ours unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &ours); err != nil {
		t.Fatal(err)
	}
	for files, want := range map[int]uint64{0: min(1024, ours.Max), 100: 100, 101: 101} {
		h := runLimited(t, limits.Machine{Files: files}, []string{actionKey + "=open"}, self(t))
		if want := fmt.Sprintln(want, unix.EMFILE); h == nil || h.out != want {
			t.Errorf("%d files: got %+v", files, h)
		}
	}
	if h := runLimited(t, limits.Machine{Files: int(ours.Max)}, nil, "sh", "-c", "read go"); h == nil ||
		h.ExitReason() != "exit status 0" {
		t.Errorf("as many as this process: got %+v", h)
	}
	log := zerolog.Nop()
	p := New([]string{"sh"}, "", &log)
	p.Limits.Files = int(ours.Max) + 1
	p.Env = []string{"PATH=" + os.Getenv("PATH")}
	err := p.Start()
	p.Finish()
	if e := (*LimitError)(nil); !errors.As(err, &e) || e.Limit != "files" || p.Started() {
		t.Errorf("more than this process: got %v", err)
	}
}

func TestProcessesAreLimited(t *testing.T) {
	const three = "read go; sleep 60 & sleep 60 & echo started" // with the shell
	for limit, want := range map[int]string{4: "started\n", 3: "started\n", 2: ""} {
		if h := runLimited(t, limits.Machine{Processes: limit}, nil, "sh", "-c", three); h != nil && h.out != want {
			t.Errorf("%d processes: got %q, %s", limit, h.out, h.ExitReason())
		}
	}
}

func TestMemoryIsLimited(t *testing.T) {
	for mib, fits := range map[int]bool{16: true, 200: false} {
		h := runLimited(t, limits.Machine{Memory: 100 << 20}, []string{actionKey + "=" + strconv.Itoa(mib)}, self(t))
		if h == nil {
			continue
		}
		if fits != (h.out == "used\n") || fits == h.OutOfMemory() {
			t.Errorf("%d MiB: got %q, %s", mib, h.out, h.ExitReason())
		}
		if !fits && h.ExitReason() != "killed by signal: killed, because there was no memory left" {
			t.Errorf("%d MiB: got %s", mib, h.ExitReason())
		}
	}
}

// A process that leaves the process group is killed with its control group, with limits and without.
func TestControlGroupEndsWithProcess(t *testing.T) {
	for name, l := range map[string]limits.Machine{"limited": {Processes: 10}, "without limits": {}} {
		h := runLimited(t, l, nil, "sh", "-c", "read go; trap '' TERM; setsid sleep 1000 >/dev/null 2>&1 & echo $!")
		if h == nil {
			continue
		}
		pid, err := strconv.Atoi(strings.TrimSpace(h.out))
		if err != nil {
			t.Errorf("%s: got %q", name, h.out)
			continue
		}
		if possible := groupsAvailable(t); possible == isRunning(pid) || possible != (len(h.groups) > 0) {
			t.Errorf("%s: groups available: %v; got the groups %v; process runs: %v", name, possible, h.groups,
				isRunning(pid))
		}
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

// groupsAvailable reports whether control groups without limits can be created.
func groupsAvailable(t *testing.T) bool {
	t.Helper()
	var b resourceLimits
	if b.addUnlimited("/") != nil {
		return false
	}
	log := zerolog.Nop()
	b.end(&log)
	return true
}

// A program that cannot be started in an optional group is started without it, and that is logged.
func TestOptionalControlGroup(t *testing.T) {
	var out bytes.Buffer
	log := zerolog.New(&out)
	b, err := newResourceLimitsIn(limits.Machine{}, t.TempDir(), &log)
	if err != nil || b.dropOptional(&log, errors.New("again")) ||
		strings.Count(out.String(), "there is no control group") != 1 {
		t.Errorf("without a cgroup file system: got %v, %s", err, out.String())
	}
	dir, err := os.Open(t.TempDir()) // not a control group, so that no process can start in it
	if err != nil {
		t.Fatal(err)
	}
	out.Reset()
	p := New([]string{"true"}, "", &log)
	p.limits = &resourceLimits{files: 100, optional: true, groups: []*group{{dir: dir, v2: true}}}
	path, err := exec.LookPath("true")
	if err != nil {
		t.Fatal(err)
	}
	cmd, err := p.startWithFallback(path, []*os.File{nil, nil, nil})
	if err != nil || cmd.Wait() != nil || strings.Count(out.String(), "there is no control group") != 1 {
		t.Errorf("got %v: %s", err, out.String())
	}
}

// isRunning reports whether a process runs and is not a zombie.
func isRunning(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(text), ") Z ")
}

// The next start removes the control groups of a killed bridge, and kills the processes in them.
func TestControlGroupsOfKilledBridge(t *testing.T) {
	base, v2, err := groupBase("/", "pids")
	if err != nil {
		return // not available
	}
	left, err := newGroup(base, v2)
	if err != nil {
		return // not permitted
	}
	kept, err := newGroup(base, v2)
	if err != nil {
		t.Fatal(err)
	}
	log := zerolog.Nop()
	defer func() {
		if err := kept.remove(); err != nil {
			t.Error(err)
		}
	}()
	p := New([]string{"sleep", "1000"}, "", &log)
	p.Env = []string{"PATH=" + os.Getenv("PATH")}
	p.Stdout, p.Stderr = func(*os.File) {}, func(*os.File) {}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	if err := left.set("cgroup.procs", strconv.Itoa(p.Pid())); err != nil {
		t.Fatal(err)
	}
	_ = left.dir.Close() // as when the bridge is killed
	sweepGroups(base, v2, &log)
	<-p.Context().Done()
	p.Finish()
	for dir, want := range map[string]bool{left.dir.Name(): false, kept.dir.Name(): true} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s: got %v", dir, err)
		}
	}
}

// In version 2, a process starts in its group, and all processes in it are killed together.
func TestProcessStartsInControlGroup(t *testing.T) {
	for _, base := range []string{"/sys/fs/cgroup/unified", "/sys/fs/cgroup"} { // with version 1, and without
		if _, err := os.Stat(filepath.Join(base, "cgroup.subtree_control")); err != nil {
			continue
		}
		g, err := newGroup(base, true)
		if err != nil {
			continue // not permitted
		}
		log := zerolog.Nop()
		b := &resourceLimits{groups: []*group{g}}
		cmd := exec.CommandContext(t.Context(), "sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & cat /proc/self/cgroup")
		cmd.SysProcAttr = &unix.SysProcAttr{}
		b.configure(cmd)
		out, err := cmd.Output()
		b.end(&log)
		if err != nil || !strings.Contains(string(out), "0::/"+filepath.Base(g.dir.Name())) {
			t.Errorf("got the group %s, %v", out, err)
		}
		if _, err := os.Stat(g.dir.Name()); !errors.Is(err, os.ErrNotExist) {
			t.Error("its group was not removed")
		}
	}
}

func TestControlGroupBase(t *testing.T) {
	for name, c := range map[string]struct {
		groups string
		dirs   []string // existing ones below sys/fs/cgroup
		base   string   // below sys/fs/cgroup; empty if there is none
		wrote  string   // to its cgroup.subtree_control
	}{
		"version 1":                 {"4:memory:/a\n0::/\n", []string{"memory/a"}, "memory/a", ""},
		"version 1, in a container": {"4:memory:/elsewhere\n0::/\n", []string{"memory"}, "memory", ""},
		"version 2":                 {"0::/a\n", []string{"a"}, "a", "+memory"},
		"version 2, delegated":      {"0::/a/mcpbridge\n", []string{"a/mcpbridge"}, "a", "+memory"},
		"version 2, in a container": {"0::/elsewhere\n", nil, ".", "+memory"},
		"another controller":        {"4:cpu:/\n", []string{"cpu"}, "", ""},
	} {
		root := t.TempDir()
		mount := filepath.Join(root, "sys/fs/cgroup")
		mkdir := func(dir string) {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		mkdir(mount)
		mkdir(filepath.Join(root, "proc/self"))
		for _, dir := range c.dirs {
			mkdir(filepath.Join(mount, dir))
		}
		control := filepath.Join(mount, c.base, "cgroup.subtree_control")
		mounted := filepath.Join(mount, "cgroup.subtree_control")
		for file, text := range map[string]string{
			filepath.Join(root, "proc/self/cgroup"): c.groups, mounted: "",
			control: "cpu\n",
		} {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		base, _, err := groupBase(root, "memory")
		if c.base == "" {
			if err == nil {
				t.Errorf("%s: got %s", name, base)
			}
			continue
		}
		if want := filepath.Join(mount, c.base); err != nil || base != want {
			t.Errorf("%s: got %s, %v", name, base, err)
		}
		if text, _ := os.ReadFile(control); c.wrote != "" && string(text) != c.wrote {
			t.Errorf("%s: got %q", name, text)
		}
	}
}

// The group is a plain directory.
func TestLimitsOfVersion2(t *testing.T) {
	root := t.TempDir()
	mount := filepath.Join(root, "sys/fs/cgroup")
	for _, dir := range []string{mount, filepath.Join(root, "proc/self")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for file, text := range map[string]string{
		"proc/self/cgroup":                     "0::/\n",
		"sys/fs/cgroup/cgroup.subtree_control": "memory pids",
	} {
		if err := os.WriteFile(filepath.Join(root, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	log := zerolog.Nop()
	b, err := newResourceLimitsIn(limits.Machine{Memory: 1 << 20, Processes: 5}, root, &log)
	if err != nil {
		t.Fatal(err)
	}
	defer b.groups[0].dir.Close()
	got := map[string]string{}
	for _, name := range []string{"memory.max", "memory.swap.max", "memory.oom.group", "pids.max"} {
		text, _ := os.ReadFile(b.groups[0].file(name))
		got[name] = string(text)
	}
	want := map[string]string{"memory.max": "1048576", "memory.swap.max": "0", "memory.oom.group": "1", "pids.max": "5"}
	if diff := cmp.Diff(want, got); diff != "" || len(b.groups) != 1 {
		t.Errorf("got %d groups\n%s", len(b.groups), diff)
	}
	if err := b.groups[0].set("memory.events", "oom 3\noom_kill 2\n"); err != nil || b.oomKills() != 2 {
		t.Errorf("got %d OOM kills, %v", b.oomKills(), err)
	}
}
