package conns

import (
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
)

// HTTP/2 frames that request nothing cost a client nothing, and a server a core if there is no end to them: SETTINGS,
// PING, PRIORITY, WINDOW_UPDATE, empty DATA and CONTINUATION, frames of unknown types. So does a request that is reset
// before it is answered (CVE-2023-44487), or that is one of too many. HTTP/2 servers limit some of them. So each
// connection has an allowance, which comes back with time, and with what is sent to the client.
const (
	// allowance is how many of them may come at once, and allowanceRate how many in a second.
	allowance, allowanceRate = 10_000, 1_000
	// answerWorth is how many more may come for each frame that a client is sent of an answer: clients open windows again, and may give up
	// a call that has said something.
	answerWorth = 2
	// framesOfCall is how many short frames a call may have: its request, the end of that, and a reset after a while.
	framesOfCall = 3
	// fullFrame is how many bytes a frame of DATA or CONTINUATION has that says enough to be worth it.
	fullFrame = 1 << 10
	// young is how long a stream is there at most whose reset counts. Whoever has waited for an answer in vain does no harm.
	young = 250 * time.Millisecond
	// goodbye is how long the client has to read why its connection ends.
	goodbye = 100 * time.Millisecond
)

// errFlood is the error of a connection whose client has sent too many frames that ask for nothing.
var errFlood = errors.New("too many frames that ask for nothing")

// A Framed is a connection of HTTP/2 whose frames are counted. If their rate is too high, the client receives GOAWAY
// (ENHANCE_YOUR_CALM), and the connection ends.
type Framed struct {
	net.Conn
	of *Conn

	// debt is what the client has sent and not been allowed. It is below allowance while all is well.
	debt atomic.Int64

	// These are of the one who reads.
	in      frames
	young   mark
	due     int // how many frames its calls may still have that cost nothing
	resets  int
	settled time.Time // when time has last reduced the debt

	mu  sync.Mutex // guards what follows, and writing
	out frames
	bye []byte // the frame that ends the connection, until it is written
}

// A mark is how far streams had been opened at a time, and before it.
type mark struct {
	last       uint32 // the stream that was opened last
	at         time.Time
	then, past uint32 // the last at that time, and at the time before
}

// Framed returns conn, which is c or TLS over it, with its HTTP/2 frames counted. Nothing has been read from it or
// written to it, except the TLS handshake.
func (c *Conn) Framed(conn net.Conn) *Framed {
	return &Framed{Conn: conn, of: c, in: frames{skip: len(http2.ClientPreface)}}
}

// NetConn returns the connection whose frames are counted.
func (c *Framed) NetConn() net.Conn { return c.Conn }

// Read implements net.Conn.
func (c *Framed) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	cost := 0
	for rest, ok := c.in.next(b[:n]); ok; rest, ok = c.in.next(rest) {
		cost += c.costs(&c.in)
	}
	if c.debt.Load()+int64(cost) == 0 {
		return n, err
	}
	if c.debt.Add(int64(cost)) > allowance && c.floods() {
		c.end()
		return 0, errFlood
	}
	return n, err
}

// costs returns what a frame costs that the client has sent.
func (c *Framed) costs(f *frames) int {
	switch f.kind() {
	case http2.FrameHeaders:
		c.young.last = max(c.young.last, f.stream())
		c.due = min(c.due+framesOfCall, allowance)
		return 0
	case http2.FrameContinuation:
		if f.length() >= fullFrame {
			return 0
		}
	case http2.FrameData:
		if f.length() >= fullFrame || c.isDue() {
			return 0
		}
	case http2.FrameRSTStream:
		if c.young.old(f.stream()) && c.isDue() {
			return 0
		}
		c.resets++
	default:
	}
	return 1
}

// isDue reports whether a frame belongs to a call that was made, as far as that is counted.
func (c *Framed) isDue() bool {
	if c.due == 0 {
		return false
	}
	c.due--
	return true
}

// old reports whether a stream was opened some time ago.
func (m *mark) old(stream uint32) bool {
	if now := time.Now(); now.Sub(m.at) >= young {
		m.past, m.then, m.at = m.then, m.last, now
	}
	return stream <= m.past
}

// Write implements net.Conn.
func (c *Framed) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := c.Conn.Write(b)
	worth := 0
	for rest, ok := c.out.next(b[:n]); ok; rest, ok = c.out.next(rest) {
		switch c.out.kind() {
		case http2.FrameHeaders, http2.FrameData:
			worth += answerWorth
		case http2.FrameRSTStream:
			worth--
		default:
		}
	}
	if debt := c.debt.Load(); worth < 0 || debt > 0 {
		c.debt.Add(-min(int64(worth), debt))
	}
	c.farewell()
	return n, err
}

// floods reports whether the client has sent too much, also when the time is counted that it has taken.
func (c *Framed) floods() bool {
	now := time.Now()
	if c.settled.IsZero() {
		c.settled = now.Add(-time.Second)
	}
	back := min(int64(now.Sub(c.settled).Seconds()*allowanceRate), c.debt.Load())
	c.settled = now
	return c.debt.Add(-back) > allowance
}

// end tells the client why the connection ends, as far as it listens.
func (c *Framed) end() {
	c.of.port.warnFlood(c.of, c.resets)
	time.AfterFunc(goodbye, func() { _ = c.of.Conn.Close() }) // its serving goroutine notices, and removes it
	c.mu.Lock()                                               // until goodbye, if the client does not read
	c.bye = goAway(c.young.last)
	c.farewell()
	c.mu.Unlock()
	<-time.After(goodbye) // to close at once would take back what was written: not all that has come was read
}

// farewell writes the frame that ends the connection, if there is one, once that before it is whole. The caller holds
// mu.
func (c *Framed) farewell() {
	if c.bye != nil && c.out.whole() {
		_, _ = c.Conn.Write(c.bye) // the client may have gone
		c.bye = nil
	}
}

// goAway returns the frame that says that a client has sent too much, and which of its streams was looked at last.
func goAway(last uint32) []byte {
	const why = "too_many_frames"
	f := []byte{0, 0, 8 + byte(len(why)), byte(http2.FrameGoAway), 0, 0, 0, 0, 0}
	f = binary.BigEndian.AppendUint32(f, last)
	f = binary.BigEndian.AppendUint32(f, uint32(http2.ErrCodeEnhanceYourCalm))
	return append(f, why...)
}

// A frames finds the frames of HTTP/2 in what is read or written, however it is cut.
type frames struct {
	head [9]byte
	have int // bytes of head
	skip int // bytes until the next head
}

// next returns what is left of b after the head of the next frame, and whether that was whole.
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

// whole reports whether the last frame was whole.
func (f *frames) whole() bool { return f.have == 0 && f.skip == 0 }

func (f *frames) length() int { return int(f.head[0])<<16 | int(f.head[1])<<8 | int(f.head[2]) }

func (f *frames) kind() http2.FrameType { return http2.FrameType(f.head[3]) }

func (f *frames) stream() uint32 { return binary.BigEndian.Uint32(f.head[5:]) & (1<<31 - 1) }
