package child

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// Stopped reports whether the process, or a descendant with the same standard input, is stopped (SIGSTOP). It is
// false if that is unknown.
func (p *Process) Stopped() bool {
	in, err := p.Stdin().Stat()
	if err != nil {
		return false // it has ended
	}
	first := p.Pid()
	for pids := []int{first}; len(pids) > 0; pids = pids[1:] { // only descendants
		pid := pids[0]
		pids = append(pids, childrenOf(pid)...)
		if !IsStopped(pid) {
			continue
		}
		stdin, err := os.Stat("/proc/" + strconv.Itoa(pid) + "/fd/0")
		if pid == first || err == nil && os.SameFile(in, stdin) {
			return true
		}
	}
	return false
}

// IsStopped reports whether a process is stopped (SIGSTOP). It is false if /proc does not show the process.
func IsStopped(pid int) bool {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat") // it may have ended
	// PID (NAME) STATE, where the name may contain any character.
	return bytes.HasPrefix(text[bytes.LastIndexByte(text, ')')+1:], []byte(" T "))
}

// childrenOf returns the children of a process.
func childrenOf(pid int) (children []int) {
	threads, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children") // the pattern is valid
	for _, file := range threads {
		text, _ := os.ReadFile(file) // it may have ended
		for child := range bytes.FieldsSeq(text) {
			if n, err := strconv.Atoi(string(child)); err == nil {
				children = append(children, n)
			}
		}
	}
	return children
}
