package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// A response is an HTTP/1.1 response. Its bytes are valid until the next one is read.
type response struct {
	status  int
	sse     bool
	session string // Mcp-Session-Id
	body    []byte
}

// A responseReader reads consecutive responses from a connection. It supports only what the servers of this benchmark
// send: net/http's client would use as much CPU time as some of the servers.
type responseReader struct {
	r    *bufio.Reader
	body []byte
}

func newResponseReader(r io.Reader) *responseReader {
	return &responseReader{r: bufio.NewReaderSize(r, 128<<10)}
}

func (rr *responseReader) read() (response, error) {
	var resp response
	line, err := rr.line()
	if err != nil {
		return resp, err
	}
	if len(line) < 12 || string(line[:9]) != "HTTP/1.1 " {
		return resp, fmt.Errorf("not an HTTP/1.1 status line: %.80q", line)
	}
	if resp.status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return resp, fmt.Errorf("not a status: %.80q", line)
	}
	length, chunked := -1, false
	for {
		line, err := rr.line()
		if err != nil {
			return resp, err
		}
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte{':'})
		value = bytes.TrimSpace(value)
		switch {
		case is(name, "Content-Length"):
			if length, err = strconv.Atoi(string(value)); err != nil || length < 0 {
				return resp, fmt.Errorf("content length %q", value)
			}
		case is(name, "Transfer-Encoding"):
			if chunked = is(value, "chunked"); !chunked {
				return resp, fmt.Errorf("transfer encoding %q", value)
			}
		case is(name, "Content-Type"):
			resp.sse = bytes.HasPrefix(value, []byte("text/event-stream"))
		case is(name, "Mcp-Session-Id"):
			resp.session = string(value)
		case is(name, "Connection") && is(value, "close"):
			return resp, fmt.Errorf("the server closes the connection after status %d", resp.status)
		}
	}
	switch {
	case chunked:
		err = rr.chunks()
	case length >= 0:
		rr.body = sized(rr.body, length)
		_, err = io.ReadFull(rr.r, rr.body)
	case resp.status == 204:
		rr.body = rr.body[:0]
	default:
		return resp, errors.New("a response without a length")
	}
	resp.body = rr.body
	return resp, err
}

func (rr *responseReader) chunks() error {
	rr.body = rr.body[:0]
	for {
		line, err := rr.line()
		if err != nil {
			return err
		}
		digits, _, _ := bytes.Cut(line, []byte{';'})
		size, err := strconv.ParseUint(string(digits), 16, 31)
		if err != nil {
			return fmt.Errorf("chunk size %.40q", line)
		}
		if size > 0 {
			have := len(rr.body)
			rr.body = append(rr.body, make([]byte, size)...)
			if _, err := io.ReadFull(rr.r, rr.body[have:]); err != nil {
				return err
			}
		}
		end, err := rr.line()
		if err != nil {
			return err
		}
		if len(end) > 0 {
			return fmt.Errorf("%.40q after a chunk", end)
		}
		if size == 0 {
			return nil
		}
	}
}

// line returns the next line without its end.
func (rr *responseReader) line() ([]byte, error) {
	line, err := rr.r.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(line[:len(line)-1], []byte{'\r'}), nil
}

// message returns the JSON-RPC message of a response: its body, or the last event with data.
func (resp response) message() ([]byte, error) {
	if !resp.sse {
		return resp.body, nil
	}
	var message []byte
	for rest := resp.body; len(rest) > 0; {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte{'\n'})
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if data = bytes.TrimSpace(data); len(data) > 0 {
				message = data
			}
		}
	}
	if message == nil {
		return nil, fmt.Errorf("an event stream without a message: %.200q", resp.body)
	}
	return message, nil
}

func is(b []byte, s string) bool {
	return len(b) == len(s) && bytes.EqualFold(b, []byte(s))
}

func sized(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n)
	}
	return b[:n]
}
