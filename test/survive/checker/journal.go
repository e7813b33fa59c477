package checker

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// The kinds of entries.
const (
	Start  = "start"  // a process started
	Begin  = "begin"  // the work of a call began
	End    = "end"    // the work was done
	Cancel = "cancel" // the work was canceled
	Die    = "die"    // the process is about to kill itself

	// Detached means that the process started another one in a new session, whose PID is in place of the token.
	Detached = "detached"
)

// An Entry is one line of a journal.
type Entry struct {
	What  string
	Token string
	PID   int
	At    int64 // nanoseconds since 1970
}

// mark ends complete lines.
const mark = "."

// A Journal is the log of a backend. It may be used concurrently.
type Journal struct{ f *os.File }

// OpenJournal opens or creates the journal in a file.
func OpenJournal(name string) (*Journal, error) {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	return &Journal{f}, nil
}

// Write adds an entry.
func (j *Journal) Write(what, token string) error {
	// Fprintf makes one write.
	_, err := fmt.Fprintf(j.f, "%s %s %d %d %s\n", what, token, os.Getpid(), time.Now().UnixNano(), mark)
	return err
}

// Starts returns the number of started processes.
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

// ReadJournal returns the entries of a file after the first bytes. A missing file is empty. An incomplete line, whose
// writer was killed, is ignored.
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
		// An incomplete line of a killed writer may precede the kind, without a space.
		for _, known := range []string{Start, Begin, End, Cancel, Die, Detached} {
			if bytes.HasSuffix(fields[0], []byte(known)) {
				what = known
			}
		}
		pid, err1 := strconv.Atoi(string(fields[2]))
		at, err2 := strconv.ParseInt(string(fields[3]), 10, 64)
		if err1 != nil || err2 != nil {
			return nil, fmt.Errorf("journal %s: invalid entry %.200q", name, line)
		}
		entries = append(entries, Entry{what, string(fields[1]), pid, at})
	}
	return entries, nil
}
