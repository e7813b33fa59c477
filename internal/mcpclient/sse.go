package mcpclient

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// An event is a server-sent event.
type event struct {
	name, id string
	hasID    bool
	data     []byte
	hasData  bool
}

// An eventReader reads server-sent events (HTML, 9.2), of which MCP uses the data, the id, the name and the time to wait
// before one comes back.
type eventReader struct {
	r    *bufio.Reader
	most int
	// retry is how long the server wants us to wait, or negative if it did not say.
	retry time.Duration
	begun bool   // the first line was read
	last  string // the id of the last event, as message returned it or passed it over
	came  bool   // there was an event
}

func newEventReader(r io.Reader, most int) *eventReader {
	return &eventReader{r: bufio.NewReaderSize(&lineReader{r: r}, 4<<10), most: most, retry: -1}
}

// A lineReader reads lines that end in LF, CRLF or CR (HTML, 9.2.5) as lines that end in LF.
type lineReader struct {
	r io.Reader
	// cr says that what was read last was a CR, which was passed on as an LF: the LF that may follow belongs to it.
	cr bool
}

func (l *lineReader) Read(p []byte) (int, error) {
	for {
		n, err := l.r.Read(p)
		text := p[:n]
		if l.cr && n > 0 {
			l.cr = false
			if text[0] == '\n' {
				copy(text, text[1:])
				text = text[:n-1]
			}
		}
		if i := bytes.IndexByte(text, '\r'); i >= 0 {
			out := text[:i]
			for ; i < len(text); i++ {
				switch c := text[i]; {
				case c != '\r':
					out = append(out, c)
				default:
					out = append(out, '\n')
					if i+1 == len(text) {
						l.cr = true
					} else if text[i+1] == '\n' {
						i++
					}
				}
			}
			text = out
		}
		if len(text) > 0 || err != nil || n == 0 {
			return len(text), err
		}
	}
}

// message returns the data of the next event that is a message of MCP. It is the caller's.
func (r *eventReader) message() ([]byte, error) {
	for {
		e, err := r.next()
		if err != nil {
			return nil, err
		}
		r.came = true
		if e.hasID {
			r.last = e.id
		}
		if len(e.data) > 0 && (e.name == "" || e.name == "message") {
			return e.data, nil
		}
	}
}

// maxEventID is how long the id of an event may be. It is kept for as long as its stream lives, and a header has to carry it; a longer one
// is the same as none, so that the stream cannot be resumed there.
const maxEventID = 8 << 10

// maxRetry is the longest that a server can have us wait before we come back.
const maxRetry = time.Minute

// next returns the next event that has anything in it. The data is the caller's.
func (r *eventReader) next() (event, error) {
	var e event
	size := 0
	var long []byte // the beginning of a line that does not fit the reader's buffer
	for {
		part, err := r.r.ReadSlice('\n')
		if size += len(part); size > r.most+256 {
			return event{}, fmt.Errorf("%w: an event has more than %d bytes", errTooLarge, r.most)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			long = append(long, part...)
			continue
		}
		if err != nil {
			return event{}, err // an event without its end is none
		}
		line := part
		owned := long != nil
		if owned {
			long = append(long, part...)
			line, long = long, nil
		}
		line = bytes.TrimSuffix(line, []byte{'\n'})
		if !r.begun {
			r.begun = true
			line = bytes.TrimPrefix(line, []byte("\uFEFF")) // HTML, 9.2.6
		}
		if len(line) == 0 {
			if len(e.data) > r.most {
				return event{}, fmt.Errorf("%w: an event has more than %d bytes", errTooLarge, r.most)
			}
			if e.hasData || e.hasID || e.name != "" {
				return e, nil
			}
			size = 0
			continue
		}
		if line[0] == ':' { // a comment
			size -= len(part)
			continue
		}
		field, value, _ := bytes.Cut(line, []byte{':'})
		value = bytes.TrimPrefix(value, []byte{' '})
		switch string(field) {
		case "data":
			switch {
			case e.hasData:
				e.data = append(append(e.data, '\n'), value...)
			case owned:
				e.data = value
			default:
				e.data = bytes.Clone(value)
			}
			e.hasData = true
		case "id":
			switch {
			case bytes.IndexByte(value, 0) >= 0:
			case len(value) > maxEventID:
				e.id, e.hasID = "", true
			default:
				e.id, e.hasID = string(value), true
			}
		case "event":
			e.name = string(value)
		case "retry":
			if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
				r.retry = min(time.Duration(ms)*time.Millisecond, maxRetry)
			}
		}
	}
}
