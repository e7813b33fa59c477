package child

import (
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

// Only processes that read the standard input count, also if a wrapper started them.
func TestStopped(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		first  bool // stop the process itself, not its child
		want   bool
	}{
		"the program":                  {"echo; exec sleep 1000", true, true},
		"a wrapped program":            {"sleep 1000; :", false, true},
		"a program wrapped twice":      {"sh -c 'sleep 1000; :'; :", false, true},
		"a program with another input": {"sleep 1000 </dev/null; :", false, false},
		"the wrapper alone":            {"sleep 1000; :", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			log := zerolog.Nop()
			p := New([]string{"sh", "-c", c.script}, "", &log)
			p.Env = []string{"PATH=" + os.Getenv("PATH")}
			p.Stdout = func(f *os.File) { _, _ = io.Copy(io.Discard, f) }
			p.Stderr = p.Stdout
			if err := p.Start(); err != nil {
				t.Fatal(err)
			}
			defer p.Finish()
			defer p.Signal(Kill)
			pid := p.Pid()
			if !c.first {
				pid = sleeperOf(t, pid)
			}
			if p.Stopped() {
				t.Error("got stopped before SIGSTOP")
			}
			if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			await(t, func() bool { // until the signal arrives
				text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
				return strings.Contains(string(text), ") T ")
			})
			if got := p.Stopped(); got != c.want {
				t.Errorf("stopped: got %v, want %v", got, c.want)
			}
			if err := unix.Kill(pid, unix.SIGCONT); err != nil {
				t.Fatal(err)
			}
			await(t, func() bool { return !p.Stopped() })
		})
	}
}

// sleeperOf returns the descendant of a process that runs sleep.
func sleeperOf(t *testing.T, pid int) int {
	t.Helper()
	await(t, func() bool {
		dir := "/proc/" + strconv.Itoa(pid)
		text, _ := os.ReadFile(dir + "/task/" + strconv.Itoa(pid) + "/children")
		if child, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			pid = child
			return false
		}
		name, _ := os.ReadFile(dir + "/comm")
		return string(name) == "sleep\n"
	})
	return pid
}

// await polls until done returns true.
func await(t *testing.T, done func() bool) {
	t.Helper()
	for range 1000 {
		if done() {
			return
		}
		time.Sleep(5 * time.Millisecond) //nolint:forbidigo // there is no notification
	}
	t.Fatal("condition not met within 5s")
}
