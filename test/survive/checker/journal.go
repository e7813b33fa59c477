package checker

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// What happens, as a journal has it.
const (
	Start  = "start"  // a process began
	Begin  = "begin"  // the work of a call began
	End    = "end"    // it was done
	Cancel = "cancel" // it was given up, because the caller did
	Die    = "die"    // the process is about to kill itself

	// Detached: the process started one in a session of its own, whose PID is in place of a token.
	Detached = "detached"
)

// An Entry is one line of a journal.
type Entry struct {
	What  string
	Token string
	PID   int
	At    int64 // nanoseconds since 1970
}

// mark is how whole lines end.
const mark = "."

// A Journal is what a backend writes its entries to. It may be used concurrently.
type Journal struct{ f *os.File }

// OpenJournal opens the journal in a file, which need not exist.
func OpenJournal(name string) (*Journal, error) {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	return &Journal{f}, nil
}

// Write adds an entry.
func (j *Journal) Write(what, token string) error {
	_, err := fmt.Fprintf(j.f, "%s %s %d %d %s\n", what, token, os.Getpid(), time.Now().UnixNano(), mark) // it is one write
	return err
}

// Starts returns how many processes have begun.
func (j *Journal) Starts() int {
	entries, _ := ReadJournal(j.f.Name(), 0)
	n := 0
	for _, e := range entries {
		if e.What == Start {
			n++
		}
	}
	return n
}

// ReadJournal returns the entries of a file after the first so many bytes. A journal that is not there is empty. Of a line that is not
// whole only what follows another line's beginning counts: its writer was killed within it.
func ReadJournal(name string, after int64) ([]Entry, error) {
	text, err := os.ReadFile(name)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var entries []Entry
	for line := range bytes.Lines(text[min(after, int64(len(text))):]) {
		fields := bytes.Fields(line)
		if n := len(fields); n > 5 {
			fields = fields[n-5:]
		}
		if len(fields) < 5 || string(fields[4]) != mark || line[len(line)-1] != '\n' {
			continue
		}
		what := string(fields[0])
		for _, known := range []string{Start, Begin, End, Cancel, Die, Detached} { // after what a killed writer has left without a space
			if bytes.HasSuffix(fields[0], []byte(known)) {
				what = known
			}
		}
		pid, err1 := strconv.Atoi(string(fields[2]))
		at, err2 := strconv.ParseInt(string(fields[3]), 10, 64)
		if err1 != nil || err2 != nil {
			return nil, fmt.Errorf("journal %s: %.200q is no entry", name, line)
		}
		entries = append(entries, Entry{what, string(fields[1]), pid, at})
	}
	return entries, nil
}
