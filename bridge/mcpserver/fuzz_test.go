package mcpserver

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"testing"
)

// FuzzLines reads lines of any bytes, which come in any pieces: what is no longer than may be is read whole, and nothing else is.
func FuzzLines(f *testing.F) {
	for _, s := range []string{"", "a\nb\n", "\r\n \r\na\r\n", "no end", "\n\n\n", "0123456789012345678901234567890123456789\nshort\n", "0123456789012345\n01234567890123456\n"} {
		f.Add([]byte(s))
	}
	const most = 32
	f.Fuzz(func(t *testing.T, data []byte) {
		var want [][]byte
		for i, line := range bytes.Split(data, []byte("\n")) {
			whole := i < bytes.Count(data, []byte("\n"))
			if trimmed := bytes.TrimSpace(line); len(line) <= most && len(trimmed) > 0 {
				want = append(want, trimmed)
			} else if !whole && len(line) == most+1 && len(trimmed) > 0 {
				want = append(want, trimmed) // where the end of the line would be
			}
		}
		in := lineReader{r: bufio.NewReaderSize(bytes.NewReader(data), 16), most: most}
		for {
			line, err := in.next()
			if errors.Is(err, errLineTooLong) {
				continue
			}
			if err != nil {
				if !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
				break
			}
			if len(want) == 0 || !bytes.Equal(line, want[0]) {
				t.Fatalf("read %q, want the first of %q", line, want)
			}
			want = want[1:]
		}
		if len(want) > 0 {
			t.Fatalf("did not read %q", want)
		}
	})
}

// FuzzLastEventID looks for streams by what clients say: only the exact id of an event that is there finds one.
func FuzzLastEventID(f *testing.F) {
	for _, s := range []string{"", "1-0", "1-00", "1-+0", "1--1", "1-99999999999999999999", "2-0", "-", "1-0-0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ss := &session{logs: map[string]*eventLog{}}
		if l, n := ss.resumable(s); l != nil || n != 0 {
			t.Fatalf("%q found event %d of a session that has none", s, n)
		}
	})
}
