//go:build unix

package plugin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rs/zerolog"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/contain"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A framer is the backend's end of a frame connection, controlled by a test.
type framer struct {
	*testing.T
	p    *Plugin
	f    *frames
	conn net.Conn
	in   *bufio.Reader
}

// newFramer connects with a maximum payload of most and sends HELLO.
func newFramer(t *testing.T, most int) *framer {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	dir, err := newRunDir()
	if err != nil {
		t.Fatal(err)
	}
	log := zerolog.Nop()
	b := &framer{
		T: t, p: &Plugin{o: Options{Name: "b", Limits: limits.Limits{Message: most}}},
		f: newFrames(dir, most, &log),
	}
	b.f.serve(syscall.Getpgrp, contain.New(zerolog.Nop()), func() {})
	b.conn, err = new(net.Dialer).DialContext(t.Context(), "unix", filepath.Join(dir.path, framesFile))
	if err != nil {
		t.Fatal(err)
	}
	b.in = bufio.NewReader(b.conn)
	t.Cleanup(func() {
		b.conn.Close()
		b.f.close()
		if err := dir.remove(); err != nil {
			t.Error(err)
		}
	})
	b.send(frameHello, 0, []byte{framesVersion})
	for !b.f.open.Load() {
		b.send(99, 7, []byte("a kind of a later version, for a call that does not exist"))
	}
	return b
}

func (b *framer) send(kind byte, id uint32, payload []byte) {
	frame := make([]byte, frameHeader, frameHeader+len(payload))
	putHeader(frame, len(payload), id, kind)
	if _, err := b.conn.Write(append(frame, payload...)); err != nil && !errors.Is(err, net.ErrClosed) {
		b.Log(err) // the bridge may have closed the connection
	}
}

func (b *framer) answer(kind byte, id uint32, m proto.Message) {
	b.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		b.Fatal(err)
	}
	b.send(kind, id, data)
}

// next returns the next frame from the bridge, or kind 0 at the end.
func (b *framer) next() (kind byte, id uint32, payload []byte) {
	header := make([]byte, frameHeader)
	if _, err := io.ReadFull(b.in, header); err != nil {
		return 0, 0, nil
	}
	payload = make([]byte, binary.BigEndian.Uint32(header))
	if _, err := io.ReadFull(b.in, payload); err != nil {
		return 0, 0, nil
	}
	return header[8], binary.BigEndian.Uint32(header[4:]), payload
}

// called returns the next CALL.
func (b *framer) called() (uint32, *pb.CallToolRequest) {
	b.Helper()
	kind, id, payload := b.next()
	r := &pb.CallToolRequest{}
	if err := proto.Unmarshal(payload, r); kind != frameCall || err != nil {
		b.Fatalf("kind %d, %v", kind, err)
	}
	return id, r
}

// call makes a call in the background and sends its outcome on the channel.
func (b *framer) call(ctx context.Context, args string, emit bridge.Emit) <-chan attempt {
	out := make(chan attempt, 1)
	go func() {
		a, made := b.p.attemptFrames(ctx, b.f, tool("x", args), emit)
		if !made {
			a.err = errors.New("not made by frames")
		}
		out <- a
	}()
	return out
}

func TestFramedCallsDoNotMix(t *testing.T) {
	bridgetest.SkipIfShort(t)
	b := newFramer(t, 1<<20)
	const callers, each = 32, 50
	go func() { // responds in any order
		var held []func()
		for range callers * each {
			kind, id, payload := b.next()
			r := &pb.CallToolRequest{}
			if kind != frameCall || proto.Unmarshal(payload, r) != nil {
				return
			}
			answer := func() { b.answer(frameResult, id, text(string(r.GetArguments()))) }
			if held = append(held, answer); len(held) == 7 || id%3 == 0 || len(held) > 0 && id > callers*each-callers {
				for i := len(held) - 1; i >= 0; i-- {
					held[i]()
				}
				held = nil
			}
		}
	}()
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for j := range each {
				// Sizes below and above the reader's buffer.
				args := fmt.Sprintf(`{"n":%d,"x":%q}`, i*each+j, strings.Repeat("x", (i%5)*(j%3)*20_000))
				a := <-b.call(t.Context(), args, ignore)
				if a.err != nil || textOf(a.result) != args || !a.sent {
					t.Errorf("call %d of %d: %v", j, i, a.err)
					return
				}
			}
		})
	}
	wg.Wait()
	if n := len(b.f.calls); n != 0 {
		t.Errorf("%d calls are still registered", n)
	}
}

func TestFramedEventsAreOrderedAndAcknowledged(t *testing.T) {
	b := newFramer(t, 1<<20)
	const events = 1000
	got := make(chan float64, events)
	done := b.call(t.Context(), "{}",
		func(_ context.Context, e bridge.Event) error { got <- e.Progress.GetProgress(); return nil })
	id, _ := b.called()
	ahead := 0
	for i := range events {
		for ; ahead == maxUnread; ahead-- {
			if kind, of, _ := b.next(); kind != frameTaken || of != id {
				t.Fatalf("kind %d of %d", kind, of)
			}
		}
		b.answer(frameEvent, id, progress(i))
		ahead++
	}
	b.answer(frameResult, id, text("done"))
	if a := <-done; a.err != nil || !a.emitted || textOf(a.result) != "done" {
		t.Errorf("%v", a.err)
	}
	for i := range events {
		if n := <-got; int(n) != i {
			t.Fatalf("event %d is %v", i, n)
		}
	}
}

func TestFramedCallsCanBeCanceled(t *testing.T) {
	b := newFramer(t, 1<<20)
	ctx, cancel := context.WithCancel(t.Context())
	done := b.call(ctx, "{}", ignore)
	id, _ := b.called()
	cancel()
	if a := <-done; !errors.Is(a.err, context.Canceled) || !a.sent {
		t.Errorf("%v", a.err)
	}
	if kind, of, _ := b.next(); kind != frameCancel || of != id {
		t.Errorf("kind %d of %d", kind, of)
	}
	b.answer(frameResult, id, text("too late"))
	done = b.call(t.Context(), "{}", ignore)
	next, _ := b.called()
	b.answer(frameResult, next, text("mine"))
	if a := <-done; textOf(a.result) != "mine" {
		t.Errorf("%v", a.result)
	}
}

// A call that waits for a backend that does not read, and is reported as not_executed, is not sent later and is removed
// from the queue. Other calls are unaffected.
func TestFramedCallsReportedAsNotSentAreNotSent(t *testing.T) {
	const long = 2 << 20 // exceeds the socket's buffer
	b := newFramer(t, 2*long)
	large, cancelLarge := context.WithCancel(t.Context())
	first := b.call(large, `"`+strings.Repeat("x", long)+`"`, ignore)
	if _, err := b.in.Peek(frameHeader); err != nil { // now the bridge blocks in the write
		t.Fatal(err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	var want []<-chan attempt
	for i := range 3 {
		want = append(want, b.call(t.Context(), strconv.Itoa(i), ignore))
		a, made := b.p.attemptFrames(canceled, b.f, tool("x", "gone"), ignore)
		if !made || bridge.Canceled(canceled, a.sent).Outcome != bridge.OutcomeNotExecuted {
			t.Errorf("made %v, sent %v, %v", made, a.sent, a.err)
		}
	}
	cancelLarge()
	if a := <-first; !a.sent {
		t.Error("the call that is being written was reported as not sent")
	}
	b.f.mu.Lock()
	for _, q := range b.f.queue {
		if q.frame != nil && bytes.Contains(*q.frame, []byte("gone")) {
			t.Error("a call that will not be sent is still registered")
		}
	}
	b.f.mu.Unlock()
	id, _ := b.called()
	for left := len(want) + 1; left > 0; left-- { // the calls, and the cancellation of the first
		kind, of, payload := b.next()
		r := &pb.CallToolRequest{}
		switch err := proto.Unmarshal(payload, r); {
		case kind == frameCancel && of == id:
		case kind == frameCall && err == nil && string(r.GetArguments()) != "gone":
			b.answer(frameResult, of, text(string(r.GetArguments())))
		default:
			t.Fatalf("kind %d of %d: %s", kind, of, payload)
		}
	}
	for i, done := range want {
		if a := <-done; textOf(a.result) != strconv.Itoa(i) {
			t.Errorf("%d: %v %v", i, a.result, a.err)
		}
	}
}

// A call is either sent or reported as not sent, even if it is canceled while it is being sent.
func TestFramedCallsAreSentOrReportedAsNotSent(t *testing.T) {
	b := newFramer(t, 1<<20)
	const callers, each = 4, 500
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	var notSent [callers * each]bool // reported as not sent
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for n := i; n < len(notSent); n += callers {
				a, made := b.p.attemptFrames(canceled, b.f, tool("x", strconv.Itoa(n)), ignore)
				if !made {
					t.Error("not sent as frames")
				}
				notSent[n] = !a.sent
			}
		})
	}
	read := make(chan map[string]uint32, 1) // the calls received, up to the last
	go func() {
		calls := map[string]uint32{}
		defer func() { read <- calls }()
		for {
			kind, id, payload := b.next()
			r := &pb.CallToolRequest{}
			switch err := proto.Unmarshal(payload, r); {
			case kind == 0 || err != nil:
				return
			case kind == frameCall && string(r.GetArguments()) == "last":
				b.answer(frameResult, id, text("last"))
				return
			case kind == frameCall:
				calls[string(r.GetArguments())] = id
			}
		}
	}()
	wg.Wait()
	if a := <-b.call(t.Context(), "last", ignore); textOf(a.result) != "last" {
		t.Fatal(a.err)
	}
	calls := <-read
	for n, unsent := range notSent {
		if _, came := calls[strconv.Itoa(n)]; came == unsent {
			t.Fatalf("call %d: received %v, reported as not sent %v", n, came, unsent)
		}
	}
}

func TestFramedErrors(t *testing.T) {
	b := newFramer(t, 1000)
	s, err := status.New(codes.NotFound, "there is no tool").WithDetails(&pb.JsonRpcError{Code: -32099})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		answer func(id uint32)
		code   codes.Code
		want   string
	}{
		"a status": {
			func(id uint32) { b.answer(frameError, id, s.Proto()) }, codes.NotFound,
			"-32099",
		},
		"a status OK": {func(id uint32) { b.send(frameError, id, nil) }, codes.Internal, "status OK"},
		"no message": {
			func(id uint32) { b.send(frameResult, id, []byte{0xff}) }, codes.Internal,
			"an unreadable message",
		},
		"invalid UTF-8": {
			func(id uint32) { b.send(frameResult, id, notUTF8) }, codes.Internal,
			"invalid UTF-8",
		},
		"nothing": {
			func(id uint32) { b.send(frameResult, id, nil) }, codes.Internal,
			"an empty event",
		},
		"a result too soon": {
			func(id uint32) { b.answer(frameEvent, id, text("x")) }, codes.Internal,
			"a result as an event",
		},
		"an event that is no message": {
			func(id uint32) { b.send(frameEvent, id, []byte{0xff}) }, codes.Internal,
			"an unreadable message",
		},
		"an event of nothing": {
			func(id uint32) { b.send(frameEvent, id, nil) }, codes.Internal,
			"an empty event",
		},
		"an event that is too long": {
			func(id uint32) { b.answer(frameEvent, id, text(strings.Repeat("x", 1000))) }, codes.ResourceExhausted,
			"outcome unknown",
		},
		"an event at last": {
			func(id uint32) { b.answer(frameResult, id, progress(1)) }, codes.Internal,
			"an event as a result",
		},
		"too long": {
			func(id uint32) { b.answer(frameResult, id, text(strings.Repeat("x", 1000))) },
			codes.ResourceExhausted, "outcome executed",
		},
		"just not too long": {
			func(id uint32) { b.answer(frameResult, id, text(strings.Repeat("x", 980))) }, codes.OK,
			"",
		},
	} {
		done := b.call(t.Context(), "{}", ignore)
		id, _ := b.called()
		c.answer(id)
		a := <-done
		if c.code == codes.OK {
			if a.err != nil {
				t.Errorf("%s: %v", name, a.err)
			}
			continue
		}
		e := bridge.AsError(a.err)
		all := fmt.Sprint(e.Message, e.RPC, " outcome ", e.Outcome)
		if e.Code != c.code || !strings.Contains(all, c.want) || a.lost {
			t.Errorf("%s: %v %s", name, e.Code, all)
		}
		// The backend continues.
		if strings.HasPrefix(name, "an event of") || strings.HasPrefix(name, "an event that") ||
			name == "a result too soon" {
			if kind, of, _ := b.next(); kind != frameCancel || of != id {
				t.Errorf("%s: got a frame of kind %d of call %d, want its cancellation", name, kind, of)
			}
		}
	}
	if a := <-b.call(t.Context(), `"`+strings.Repeat("x", 1000)+`"`, ignore); a.err == nil ||
		a.err.Error() != "not made by frames" {
		t.Errorf("request above the limit: %v", a.err)
	}
}

// A draining backend sends the last call that it has started. Later calls are not sent, and it completes the others.
func TestFramedCallsSkippedByADrainingBackend(t *testing.T) {
	b := newFramer(t, 1<<20)
	b.f.id = math.MaxUint32 - 2
	begun := b.call(t.Context(), "{}", ignore)
	last, _ := b.called()
	late := b.call(t.Context(), "{}", ignore)
	b.called()
	notified := make(chan struct{}, 1)
	odd := b.call(t.Context(), "{}", func(context.Context, bridge.Event) error { notified <- struct{}{}; return nil })
	id, _ := b.called()
	if id >= last {
		t.Errorf("got the IDs %d and %d, want them to start again in between", last, id)
	}
	b.answer(frameEvent, id, progress(1)) // a protocol violation for a call that it has not started
	<-notified
	b.send(frameGoAway, last, nil)
	if a := <-late; !a.lost || a.sent || a.err == nil {
		t.Errorf("call after the last: lost %v, sent %v, %v", a.lost, a.sent, a.err)
	}
	if a := <-odd; a.lost || !a.sent || bridge.AsError(a.err).Reason != "BACKEND_MISBEHAVED" {
		t.Errorf("call with an event: lost %v, sent %v, %v", a.lost, a.sent, a.err)
	}
	b.send(frameGoAway, id, nil)
	b.send(frameHello, 0, []byte{framesVersion})
	b.answer(frameEvent, last, progress(1))
	for { // TAKEN, of both
		if kind, of, _ := b.next(); kind == frameTaken && of == last {
			break
		}
	}
	if a := <-b.call(t.Context(), "{}", ignore); a.err == nil || a.err.Error() != "not made by frames" {
		t.Errorf("afterwards: %v", a.err)
	}
	b.answer(frameResult, last, text("done"))
	if a := <-begun; a.err != nil || textOf(a.result) != "done" {
		t.Errorf("last call: %v", a.err)
	}
	b.f.stopSending()
	if kind, _, _ := b.next(); kind != 0 {
		t.Errorf("got a frame of kind %d, want the end of the connection", kind)
	}
}

// Cancellations are sent, however much is queued before them.
func TestCancelsWaitBehindLongCalls(t *testing.T) {
	b := newFramer(t, 32<<20)
	ctx, cancel := context.WithCancel(t.Context())
	done := b.call(ctx, "{}", ignore)
	id, _ := b.called()
	long := `"` + strings.Repeat("x", 3*maxQueued) + `"`
	for range 2 { // the first is being written, and the second waits
		before := b.f.lastID()
		b.call(t.Context(), long, ignore)
		for b.f.lastID() == before || b.f.waiting() > 1 {
			runtime.Gosched()
		}
	}
	cancel()
	if a := <-done; !a.sent || !errors.Is(a.err, context.Canceled) {
		t.Errorf("sent %v, %v", a.sent, a.err)
	}
	for range 2 {
		b.called()
	}
	if kind, of, _ := b.next(); kind != frameCancel || of != id {
		t.Errorf("got a frame of kind %d of call %d, want the cancellation of %d", kind, of, id)
	}
}

// The connection of a backend that does not read is closed.
func TestABackendThatDoesNotRead(t *testing.T) {
	b := newFramer(t, 32<<20)
	done := b.call(t.Context(), `"`+strings.Repeat("x", 3*maxQueued)+`"`, ignore)
	for b.f.lastID() == 0 || b.f.waiting() > 0 { // until it is being written
		runtime.Gosched()
	}
	for n := range maxControls + 1 {
		select {
		case <-b.f.connEnded:
			t.Fatalf("the connection ended after %d", n)
		default:
		}
		b.f.putControl(frameTaken, 77)
	}
	if a := <-done; !a.lost || !a.sent {
		t.Errorf("lost %v, sent %v: %v", a.lost, a.sent, a.err)
	}
}

// lastID returns the ID of the last call.
func (f *frames) lastID() uint32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.id
}

// waiting returns the number of queued frames.
func (f *frames) waiting() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.queue)
}

// A protocol violation closes the frame connection, and calls use gRPC.
func TestFrameProtocolViolationsEndTheConnection(t *testing.T) {
	for name, breach := range map[string]func(b *framer, id uint32){
		"much too long": func(b *framer, id uint32) {
			frame := make([]byte, frameHeader)
			putHeader(frame, limits.MaxMessage+1, id, frameResult)
			if _, err := b.conn.Write(frame); err != nil {
				t.Error(err)
			}
		},
		"events beyond the acknowledged ones": func(b *framer, id uint32) {
			for i := range maxUnread + 10 {
				b.answer(frameEvent, id, progress(i))
			}
		},
		"the end": func(b *framer, _ uint32) { b.conn.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			b := newFramer(t, 1<<20)
			stay := make(chan struct{})
			done := b.call(t.Context(), "{}", func(context.Context, bridge.Event) error { <-stay; return nil })
			id, _ := b.called()
			breach(b, id)
			<-b.f.connEnded
			close(stay)
			if a := <-done; !a.lost || !a.sent {
				t.Errorf("%v, lost %v, sent %v", a.err, a.lost, a.sent)
			}
			if a := <-b.call(t.Context(), "{}", ignore); a.err == nil || a.err.Error() != "not made by frames" {
				t.Errorf("afterwards: %v", a.err)
			}
		})
	}
}
