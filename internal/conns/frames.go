package conns

import (
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"

	"github.com/mcpbridge/mcpbridge/internal/limits"
)

// HTTP/2 control frames are cheap for a client, and can keep a server busy: SETTINGS, PING, PRIORITY, WINDOW_UPDATE,
// empty DATA and CONTINUATION, frames of unknown types, and requests that are reset at once (CVE-2023-44487). HTTP/2
// servers limit only some of them. So each connection has a rate limiter, which refills with time and with responses.
const (
	// framesPerResponseFrame is the refill per frame of a response, for window updates and canceled calls.
	framesPerResponseFrame = 2
	// framesOfCall is the number of free short frames per call: its request, the end of that, and a late reset.
	framesOfCall = 3
	// fullFrame is the size in bytes from which a DATA or CONTINUATION frame is free.
	fullFrame = 1 << 10
	// resetGrace is the age from which the reset of a stream is free.
	resetGrace = 250 * time.Millisecond
	// goAwayTimeout is how long the client has to read GOAWAY.
	goAwayTimeout = time.Second
)

var errFlood = errors.New("too many frames that ask for nothing")

// A FramedConn is a connection of HTTP/2 whose frames are counted. If their rate is too high, the client receives
// GOAWAY (ENHANCE_YOUR_CALM), and the connection ends.
type FramedConn struct {
	net.Conn
	of *Conn

	// debt is the number of counted frames, less the refills.
	debt atomic.Int64

	// The reading goroutine owns these fields.
	in         frames
	streams    streamAges
	framesLeft int // free frames of its calls
	resets     int
	refilled   time.Time // last refill by time

	mu     sync.Mutex // guards what follows, and writing
	out    frames
	goAway []byte // pending GOAWAY frame
}

// streamAges distinguishes old streams from new ones by the last opened stream at two times.
type streamAges struct {
	last       uint32 // last opened stream
	at         time.Time
	then, past uint32 // last opened stream at that time, and at the time before
}

// Framed returns a FramedConn for conn, which is c or TLS over it. Only the TLS handshake may have used conn.
func (c *Conn) Framed(conn net.Conn) *FramedConn {
	return &FramedConn{Conn: conn, of: c, in: frames{skip: len(http2.ClientPreface)}}
}

// NetConn returns the underlying connection.
func (c *FramedConn) NetConn() net.Conn { return c.Conn }

// Read implements net.Conn.
func (c *FramedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	cost := 0
	for rest, ok := c.in.next(b[:n]); ok; rest, ok = c.in.next(rest) {
		cost += c.cost(&c.in)
	}
	if c.debt.Load()+int64(cost) == 0 {
		return n, err
	}
	if c.debt.Add(int64(cost)) > limits.ControlFrames && c.overLimit() {
		c.end()
		return 0, errFlood
	}
	return n, err
}

// cost returns the cost of a frame of the client.
func (c *FramedConn) cost(f *frames) int {
	switch f.kind() {
	case http2.FrameHeaders:
		c.streams.last = max(c.streams.last, f.stream())
		c.framesLeft = min(c.framesLeft+framesOfCall, limits.ControlFrames)
		return 0
	case http2.FrameContinuation:
		if f.length() >= fullFrame {
			return 0
		}
	case http2.FrameData:
		if f.length() >= fullFrame || c.spendFrame() {
			return 0
		}
	case http2.FrameRSTStream:
		if c.streams.old(f.stream()) && c.spendFrame() {
			return 0
		}
		c.resets++
	default:
	}
	return 1
}

// spendFrame reports whether a frame is free because of a call, and counts it.
func (c *FramedConn) spendFrame() bool {
	if c.framesLeft == 0 {
		return false
	}
	c.framesLeft--
	return true
}

// old reports whether a stream is older than resetGrace.
func (m *streamAges) old(stream uint32) bool {
	if now := time.Now(); now.Sub(m.at) >= resetGrace {
		m.past, m.then, m.at = m.then, m.last, now
	}
	return stream <= m.past
}

// Write implements net.Conn.
func (c *FramedConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := c.Conn.Write(b)
	worth := 0
	for rest, ok := c.out.next(b[:n]); ok; rest, ok = c.out.next(rest) {
		switch c.out.kind() {
		case http2.FrameHeaders, http2.FrameData:
			worth += framesPerResponseFrame
		case http2.FrameRSTStream:
			worth--
		default:
		}
	}
	if debt := c.debt.Load(); worth < 0 || debt > 0 {
		c.debt.Add(-min(int64(worth), debt))
	}
	c.writeGoAway()
	return n, err
}

// overLimit refills by time, and reports whether the debt is still above the limit.
func (c *FramedConn) overLimit() bool {
	now := time.Now()
	if c.refilled.IsZero() {
		c.refilled = now.Add(-time.Second)
	}
	back := min(int64(now.Sub(c.refilled).Seconds()*limits.ControlFrameRate), c.debt.Load())
	c.refilled = now
	return c.debt.Add(-back) > limits.ControlFrames
}

// end sends GOAWAY and closes the connection.
func (c *FramedConn) end() {
	c.of.port.warnFlood(c.of, c.resets)
	time.AfterFunc(goAwayTimeout, func() { _ = c.of.Conn.Close() }) // ends the serving goroutine, which removes it
	// If the client does not read, Write holds mu, but at most for goAwayTimeout.
	c.mu.Lock()
	c.goAway = goAway(c.streams.last)
	c.writeGoAway()
	c.mu.Unlock()
	<-time.After(goAwayTimeout) // closing with unread data would reset the connection and discard GOAWAY
}

// writeGoAway writes the pending GOAWAY after the frame that is being written. The caller holds mu.
func (c *FramedConn) writeGoAway() {
	if c.goAway != nil && c.out.whole() {
		_, _ = c.Conn.Write(c.goAway) // the client may have disconnected
		c.goAway = nil
	}
}

// goAway returns a GOAWAY frame (ENHANCE_YOUR_CALM) with the last processed stream.
func goAway(last uint32) []byte {
	const why = "too_many_frames"
	f := []byte{0, 0, 8 + byte(len(why)), byte(http2.FrameGoAway), 0, 0, 0, 0, 0}
	f = binary.BigEndian.AppendUint32(f, last)
	f = binary.BigEndian.AppendUint32(f, uint32(http2.ErrCodeEnhanceYourCalm))
	return append(f, why...)
}

// frames finds HTTP/2 frame headers in a byte stream.
type frames struct {
	head [9]byte
	have int // bytes of head
	skip int // bytes until the next head
}

// next returns the rest of b after the next complete frame header, and whether there is one.
func (f *frames) next(b []byte) (rest []byte, ok bool) {
	n := min(f.skip, len(b))
	f.skip -= n
	b = b[n:]
	n = copy(f.head[f.have:], b)
	f.have += n
	if f.have < len(f.head) {
		return nil, false
	}
	f.have, f.skip = 0, f.length()
	return b[n:], true
}

// whole reports whether the last frame is complete.
func (f *frames) whole() bool { return f.have == 0 && f.skip == 0 }

func (f *frames) length() int { return int(f.head[0])<<16 | int(f.head[1])<<8 | int(f.head[2]) }

func (f *frames) kind() http2.FrameType { return http2.FrameType(f.head[3]) }

func (f *frames) stream() uint32 { return binary.BigEndian.Uint32(f.head[5:]) & (1<<31 - 1) }
