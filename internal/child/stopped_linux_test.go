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

// Who reads the standard input is what serves, whoever has started it; what else is stopped is nobody's business.
func TestWhatIsStopped(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		first  bool // the process itself is stopped, and not the one that it has started
		want   bool
	}{
		"the program":             {"echo; exec sleep 1000", true, true},
		"what a wrapper runs":     {"sleep 1000; :", false, true},
		"what a wrapper's runs":   {"sh -c 'sleep 1000; :'; :", false, true},
		"one with another input":  {"sleep 1000 </dev/null; :", false, false},
		"a wrapper that is alone": {"sleep 1000; :", true, true},
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
				t.Error("it is stopped before anything was done")
			}
			if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			await(t, func() bool { // the signal has come
				text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
				return strings.Contains(string(text), ") T ")
			})
			if got := p.Stopped(); got != c.want {
				t.Errorf("stopped: %v", got)
			}
			if err := unix.Kill(pid, unix.SIGCONT); err != nil {
				t.Fatal(err)
			}
			await(t, func() bool { return !p.Stopped() })
		})
	}
}

// sleeperOf returns the process that sleeps among those that another one has started.
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

// await waits for what nobody tells.
func await(t *testing.T, done func() bool) {
	t.Helper()
	for range 1000 {
		if done() {
			return
		}
		time.Sleep(5 * time.Millisecond) //nolint:forbidigo // another process does it
	}
	t.Fatal("it does not happen")
}
