package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A process is a running subject with its descendants.
type process struct {
	url  string
	dial dialer // nil: dialRaw
	pid  int
	tail *tail
	done chan struct{} // closed when the server has ended and been waited for
}

var endpoint = regexp.MustCompile(`https?://[0-9A-Za-z.:\[\]-]+/mcp\b|unix:\S+`)

// start starts cmd, and waits until it prints its endpoint to stderr.
func start(cmd *exec.Cmd, within time.Duration) (*process, error) {
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	// A process group, so that stop reaches the plugin, too.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{pid: cmd.Process.Pid, tail: &tail{}, done: make(chan struct{})}
	ready := make(chan string, 1)
	go func() {
		defer close(p.done)
		p.tail.follow(stderr, ready)
		_ = cmd.Wait() // cmd.ProcessState has the result
	}()
	select {
	case p.url = <-ready:
		return p, nil
	case <-p.done:
		return nil, fmt.Errorf("%s ended before it was ready: %v\n%s", filepath.Base(cmd.Path), cmd.ProcessState,
			p.tail)
	case <-time.After(within):
		p.stop()
		return nil, fmt.Errorf("%s named no endpoint within %v\n%s", filepath.Base(cmd.Path), within, p.tail)
	}
}

// stop stops the server gracefully, and then kills the rest of its group.
func (p *process) stop() {
	_ = syscall.Kill(p.pid, syscall.SIGTERM) // it may have ended
	select {
	case <-p.done:
	case <-time.After(5 * time.Second):
	}
	_ = syscall.Kill(-p.pid, syscall.SIGKILL)
	<-p.done
}

// A usage is the CPU time of a server and its descendants.
type usage struct {
	total  time.Duration
	server time.Duration // of the server alone
	pids   []int         // all of them
}

// cpu reads the CPU clock of each process, which is more precise than /proc/PID/stat and includes ended threads.
func (p *process) cpu() (usage, error) {
	u := usage{pids: descendants(p.pid)}
	for _, pid := range u.pids {
		var t unix.Timespec
		if err := unix.ClockGettime(int32(^pid<<3|2), &t); err != nil {
			return usage{}, fmt.Errorf("read the CPU clock of process %d: %w", pid, err)
		}
		if pid == p.pid {
			u.server = time.Duration(t.Nano())
		}
		u.total += time.Duration(t.Nano())
	}
	return u, nil
}

// descendants returns pid and all processes below it, sorted.
func descendants(pid int) []int {
	parents := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // ended meanwhile
		}
		child, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		// PID (NAME) STATE PARENT …, where the name may contain any character.
		fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
		if len(fields) < 2 {
			continue
		}
		parent, _ := strconv.Atoi(string(fields[1]))
		parents[parent] = append(parents[parent], child)
	}
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		all = append(all, parents[all[i]]...)
	}
	slices.Sort(all)
	return all
}

// A tail keeps the last lines of a process, for errors.
type tail struct {
	mu    sync.Mutex
	lines [][]byte
}

// follow reads until the end, and sends the first endpoint.
func (t *tail) follow(r io.Reader, ready chan<- string) {
	br := bufio.NewReader(r)
	found := false
	for {
		line, err := br.ReadBytes('\n')
		if url := endpoint.Find(line); url != nil && !found {
			found = true
			ready <- string(url)
		}
		t.add(line)
		if err != nil {
			return
		}
	}
}

func (t *tail) add(line []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(bytes.TrimSpace(line)) == 0 {
		return
	}
	t.lines = append(t.lines, line)
	if len(t.lines) > 10 {
		t.lines = t.lines[1:]
	}
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.Join(t.lines, nil))
}

var errChanged = errors.New("the server's processes changed while it was measured")
