package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mcpbridge/mcpbridge/test/survive/checker"
)

// A Bridge is a running mcpbridge, by default with a faultplug.
type Bridge struct {
	URL     string
	PID     int
	Dir     string // of its log, its journal, and its temporary files
	Journal string
	Started time.Duration // how long it took until it was ready
	In      io.WriteCloser
	Out     io.Reader
	Lost    chan time.Time // when the bridge logged a lost backend: the first time since the last receive
	cmd     *exec.Cmd
	done    chan struct{}
}

// A setup configures a bridge. The zero value serves HTTP on any port.
type setup struct {
	dir   string   // if empty, a new one
	addr  string   // if empty, any loopback port
	stdio bool     // serve stdin and stdout instead
	args  []string // arguments of mcpbridge run
	env   []string // environment of faultplug
	own   []string // environment of the bridge
	auth  string   // serve.http.auth, as YAML
	bin   string   // the mcpbridge; if empty, the rig's
	// config returns the configuration file of a bridge. If nil, the other fields configure it.
	config func(b *Bridge) string
}

var ready = regexp.MustCompile(`"url":"([^"]+)"`)

// start starts a bridge, and waits until it is ready.
func (r *Rig) start(ctx context.Context, s setup) (*Bridge, error) {
	b := &Bridge{Dir: s.dir, Lost: make(chan time.Time, 1), done: make(chan struct{})}
	if b.Dir == "" {
		var err error
		if b.Dir, err = os.MkdirTemp(r.dir, "b"); err != nil {
			return nil, err
		}
	}
	tmp := filepath.Join(b.Dir, "t")
	if err := os.MkdirAll(tmp, 0o700); err != nil {
		return nil, err
	}
	b.Journal = filepath.Join(b.Dir, "journal")
	args := []string{"run", "--log-format", "json"}
	if s.config == nil {
		args = append(args, "--env", "FAULTPLUG_JOURNAL="+b.Journal)
	}
	if s.stdio {
		args = append(args, "--stdio")
	} else {
		addr := s.addr
		if addr == "" {
			addr = "127.0.0.1:0"
		}
		args = append(args, "--http", addr)
	}
	for _, e := range s.env {
		args = append(args, "--env", e)
	}
	args = append(args, s.args...)
	if s.auth == "" && s.config == nil {
		args = append(args, "--", r.plugin)
	} else {
		file := filepath.Join(b.Dir, "config.yaml")
		config := fmt.Sprintf("version: 1\nserve: {http: {auth: %s}}\nbackends: [{name: faultplug, launch: "+
			"{command: [%q]}}]\n", s.auth, r.plugin)
		if s.config != nil {
			config = s.config(b)
		}
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			return nil, err
		}
		args = append(args, "-c", file)
	}
	b.cmd = exec.CommandContext(ctx, cmp.Or(s.bin, r.bin), args...)
	b.cmd.Env = append(append(os.Environ(), "TMPDIR="+tmp), s.own...)
	stderr, err := b.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if s.stdio {
		if b.In, err = b.cmd.StdinPipe(); err != nil {
			return nil, err
		}
		// Not StdoutPipe, which drops unread output when the process ends.
		out, in, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		defer in.Close()
		b.Out, b.cmd.Stdout = out, in
	}
	log, err := os.OpenFile(filepath.Join(b.Dir, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := b.cmd.Start(); err != nil {
		return nil, err
	}
	b.PID = b.cmd.Process.Pid
	url := make(chan string, 1)
	go func() { // ends with the process, which stop waits for
		defer close(b.done)
		defer log.Close()
		lines := bufio.NewReader(stderr)
		for found := false; ; {
			line, err := lines.ReadString('\n')
			if strings.Contains(line, `"the backend was lost"`) {
				select {
				case b.Lost <- time.Now():
				default:
				}
			}
			_, _ = log.WriteString(line) // an incomplete log is better than none
			if m := ready.FindStringSubmatch(line); m != nil && !found {
				found = true
				url <- m[1]
			}
			if err != nil {
				break
			}
		}
		_ = b.cmd.Wait() // stop checks ProcessState
	}()
	select {
	case b.URL = <-url:
		b.Started = time.Since(began)
		return b, nil
	case <-b.done:
		return nil, fmt.Errorf("mcpbridge exited during startup: %v; its log is in %s", b.cmd.ProcessState, b.Dir)
	case <-time.After(30 * time.Second):
		b.kill()
		return nil, fmt.Errorf("mcpbridge was not ready within 30 s; its log is in %s", b.Dir)
	}
}

// stop stops the bridge with SIGTERM, and returns how long that took.
func (b *Bridge) stop() (time.Duration, error) {
	began := time.Now()
	_ = syscall.Kill(b.PID, syscall.SIGTERM) // may have exited
	select {
	case <-b.done:
	case <-time.After(60 * time.Second):
		b.kill()
		return time.Since(began), errors.New("mcpbridge did not exit within 60 s of SIGTERM")
	}
	took := time.Since(began)
	if code := b.cmd.ProcessState.ExitCode(); code != 0 {
		return took, fmt.Errorf("mcpbridge exited with %v; its log is in %s", b.cmd.ProcessState, b.Dir)
	}
	return took, nil
}

// kill kills the bridge with SIGKILL.
func (b *Bridge) kill() {
	_ = syscall.Kill(b.PID, syscall.SIGKILL) // may have exited
	<-b.done
}

// journal returns the backend's journal after an offset in bytes.
func (b *Bridge) journal(after int64) ([]checker.Entry, error) {
	return checker.ReadJournal(b.Journal, after)
}

// journalSize returns the size of the journal in bytes.
func (b *Bridge) journalSize() int64 {
	info, err := os.Stat(b.Journal)
	if err != nil {
		return 0
	}
	return info.Size()
}

// children returns the child processes, including zombies.
func children(pid int) []int {
	var pids []int
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, name := range lists {
		text, _ := os.ReadFile(name) // the thread may have exited
		for f := range strings.FieldsSeq(string(text)) {
			child, _ := strconv.Atoi(f)
			pids = append(pids, child)
		}
	}
	slices.Sort(pids)
	return pids
}

// alive reports whether a process runs and is not a zombie.
func alive(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	return len(fields) > 0 && fields[0] != "Z" && fields[0] != "X"
}

// A holding contains the resources of a process.
type holding struct {
	FDs, Threads, Children, Sockets, Files int
	RSS                                    int64 // bytes
}

// holds returns the resources of a bridge. Sockets are those with a name, and files those in its temporary directory.
func (b *Bridge) holds() holding {
	var h holding
	fds, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", b.PID))
	h.FDs = len(fds)
	threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", b.PID))
	h.Threads = len(threads)
	h.Children = len(children(b.PID))
	h.RSS = status(b.PID, "VmRSS")
	_ = filepath.WalkDir(filepath.Join(b.Dir, "t"), func(_ string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil //nolint:nilerr // the file was removed meanwhile
		case d.Type()&os.ModeSocket != 0:
			h.Sockets++
		default:
			h.Files++
		}
		return nil
	})
	return h
}

// status returns a value of /proc/PID/status in bytes.
func status(pid int, name string) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return kib << 10
		}
	}
	return 0
}
