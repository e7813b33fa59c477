package child

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// Stopped reports whether the process has been stopped (SIGSTOP), or one of its group that reads the same standard input: then
// what was to serve does nothing until somebody lets it go on. It is false where that cannot be told.
func (p *Process) Stopped() bool {
	in, err := p.Stdin().Stat()
	if err != nil {
		return false // it has ended
	}
	group := strconv.Itoa(p.Pid())
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is right
	for _, file := range stats {
		text, _ := os.ReadFile(file) // it may have ended
		// PID (NAME) STATE PPID GROUP, and a name may have anything in it.
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if len(fields) < 3 || string(fields[0]) != "T" || string(fields[2]) != group {
			continue
		}
		dir := filepath.Dir(file)
		if filepath.Base(dir) == group {
			return true
		}
		if theirs, err := os.Stat(filepath.Join(dir, "fd", "0")); err == nil && os.SameFile(in, theirs) {
			return true
		}
	}
	return false
}
