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

// An eventReader reads server-sent events (HTML, 9.2), of which MCP uses data, id, event and retry.
type eventReader struct {
	r   *bufio.Reader
	max int
	// retry is the server's reconnection time, or negative if there is none.
	retry    time.Duration
	started  bool   // the first line was read
	last     string // the id of the last event, returned or skipped
	hasEvent bool   // there was an event
}

func newEventReader(r io.Reader, most int) *eventReader {
	return &eventReader{r: bufio.NewReaderSize(&lineReader{r: r}, 4<<10), max: most, retry: -1}
}

// A lineReader converts line ends CR and CRLF (HTML, 9.2.5) to LF.
type lineReader struct {
	r io.Reader
	// cr means that the last byte was a CR, which was returned as LF: an LF that follows belongs to it.
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

// message returns the data of the next event with an MCP message. The caller owns it.
func (r *eventReader) message() ([]byte, error) {
	for {
		e, err := r.next()
		if err != nil {
			return nil, err
		}
		r.hasEvent = true
		if e.hasID {
			r.last = e.id
		}
		if len(e.data) > 0 && (e.name == "" || e.name == "message") {
			return e.data, nil
		}
	}
}

// maxEventID is the maximum length of an event id, which is stored with its stream and sent in a header. A longer one
// is ignored, so that the stream cannot be resumed there.
const maxEventID = 8 << 10

// maxRetry is the maximum reconnection time that a server can set.
const maxRetry = time.Minute

// next returns the next event that is not empty. The caller owns the data.
func (r *eventReader) next() (event, error) {
	var e event
	size := 0
	var long []byte // the beginning of a line that is longer than the reader's buffer
	for {
		part, err := r.r.ReadSlice('\n')
		if size += len(part); size > r.max+256 {
			return event{}, fmt.Errorf("%w: an event has more than %d bytes", errTooLarge, r.max)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			long = append(long, part...)
			continue
		}
		if err != nil {
			return event{}, err // an incomplete event is ignored
		}
		line := part
		owned := long != nil
		if owned {
			long = append(long, part...)
			line, long = long, nil
		}
		line = bytes.TrimSuffix(line, []byte{'\n'})
		if !r.started {
			r.started = true
			line = bytes.TrimPrefix(line, []byte("\uFEFF")) // HTML, 9.2.6
		}
		if len(line) == 0 {
			if len(e.data) > r.max {
				return event{}, fmt.Errorf("%w: an event has more than %d bytes", errTooLarge, r.max)
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
