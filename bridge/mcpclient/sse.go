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
	begun bool // the first line was read
}

func newEventReader(r io.Reader, most int) *eventReader {
	return &eventReader{r: bufio.NewReaderSize(r, 4<<10), most: most, retry: -1}
}

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
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte{'\n'}), []byte{'\r'})
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
			if bytes.IndexByte(value, 0) < 0 {
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
