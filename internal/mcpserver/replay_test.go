package mcpserver

import (
	"context"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// usual are the limits that are not configured.
var usual = limits.Limits{}.OrDefaults()

// What a log has forgotten it does not give out, and a reader that needs it is cut off.
func TestEventLogDropsTheOldest(t *testing.T) {
	session, process := &replay{most: 100}, &replay{most: 1000}
	l := newEventLog("1", session, process)
	for range 4 {
		l.push(make([]byte, 25))
	}
	if !l.has(-1) || !l.has(3) {
		t.Error("something is forgotten although it is not too much")
	}
	l.push(make([]byte, 1))
	if l.has(2) || !l.has(3) || !l.has(4) || l.has(5) {
		t.Errorf("has 2: %v, 3: %v, 4: %v, 5: %v", l.has(2), l.has(3), l.has(4), l.has(5))
	}
	if events, more := l.wait(t.Context(), l.take(), 0); more {
		t.Errorf("got %d events", len(events))
	}
	if events, _ := l.wait(t.Context(), l.take(), 4); len(events) != 1 {
		t.Errorf("got %d events", len(events))
	}
	if session.size.Load() != 1 || process.size.Load() != 1 {
		t.Errorf("%d and %d bytes are counted", session.size.Load(), process.size.Load())
	}
}

// Logs that have ended go before one that somebody may still read, the first that ended first, whichever session they
// are of.
func TestEndedEventLogsAreDroppedFirst(t *testing.T) {
	process := &replay{most: 300}
	sessions := []*replay{{most: 200}, {most: 200}, {most: 200}}
	var logs []*eventLog
	for i, s := range sessions {
		l := newEventLog(strconv.Itoa(i), s, process)
		l.append(make([]byte, 100), i < 2)
		logs = append(logs, l)
	}
	logs[2].push(make([]byte, 100))
	if logs[0].has(-1) || !logs[1].has(-1) || !logs[2].has(-1) || process.size.Load() != 300 ||
		sessions[0].size.Load() != 0 {
		t.Errorf("kept: %v %v %v, %d bytes", logs[0].has(-1), logs[1].has(-1), logs[2].has(-1), process.size.Load())
	}
	for _, l := range logs {
		l.drop()
		l.drop()
	}
	if process.size.Load() != 0 || process.ended.Len() != 0 || sessions[1].ended.Len() != 0 {
		t.Errorf("%d bytes and %d logs are counted when there are none", process.size.Load(), process.ended.Len())
	}
}

// Whatever sessions keep, it is not more than may be.
func TestEventLogMemoryOfAllSessionsIsBounded(t *testing.T) {
	process := &replay{most: 1 << 20}
	for range 100 {
		session := &replay{most: 64 << 10}
		for j := range 10 {
			l := newEventLog("", session, process)
			for k := range 20 {
				l.append(make([]byte, 1<<10), j%2 == 0 && k == 19)
			}
			if session.size.Load() > int64(session.most) || process.size.Load() > int64(process.most) {
				t.Fatalf("%d of %d, %d of %d", session.size.Load(), session.most, process.size.Load(), process.most)
			}
		}
	}
}

// At either limit, the log that ended first is forgotten with the byte that is too much, and not before.
func TestEventLogLimit(t *testing.T) {
	for over := -1; over <= 1; over++ {
		for name, most := range map[string]struct{ session, process int }{
			"of a session": {usual.SessionReplay, usual.Replay}, "of all": {usual.Replay, usual.SessionReplay},
		} {
			session, process := &replay{most: most.session}, &replay{most: most.process}
			ended, running := newEventLog("1", session, process), newEventLog("2", session, process)
			ended.append(make([]byte, usual.SessionReplay/2), true)
			running.push(make([]byte, usual.SessionReplay/2+over))
			if kept := ended.has(-1); kept != (over <= 0) {
				t.Errorf("%s, %+d: what ended is kept: %t", name, over, kept)
			}
			if !running.has(-1) {
				t.Errorf("%s, %+d: what runs is forgotten", name, over)
			}
		}
	}
}

// What a server is told is what its sessions keep, and all of them: one below, at, and one above.
func TestEventLogLimitIsConfigurable(t *testing.T) {
	const one, all = 1000, 1500
	s := New(bridge.HandlerFunc(func(context.Context, *bridge.Call, bridge.Emit) (*bridge.Result, error) {
		return &bridge.Result{Complete: &pb.DiscoverResponse{}}, nil
	}), Options{Limits: limits.Limits{SessionReplay: one}, Sessions: NewSessions(limits.Limits{Replay: all})})
	defer s.Close()
	// ended returns what a call left that ended, in a session of its own, with an answer of so many bytes.
	ended := func(size int) (*session, *eventLog) {
		ss, _, err := s.initialize(t.Context(),
			&jsonrpc.Message{Params: []byte(
				`{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}`)},
			origin{})
		if err != nil {
			t.Fatal(err)
		}
		l := ss.newLog()
		l.append(make([]byte, size), true)
		return ss, l
	}
	for over := -1; over <= 1; over++ {
		ss, l := ended(one / 2)
		ss.newLog().append(make([]byte, one/2+over), true)
		if kept := l.has(-1); kept != (over <= 0) {
			t.Errorf("of a session, %+d: what ended first is kept: %t", over, kept)
		}
		ss.end(errEnded)

		first, l := ended(all / 2)
		second, _ := ended(all/2 + over)
		if kept := l.has(-1); kept != (over <= 0) {
			t.Errorf("of all, %+d: what ended first is kept: %t", over, kept)
		}
		first.end(errEnded)
		second.end(errEnded)
	}
}

// Whoever waits for an answer is given it, however long it is, with what was said just before. Then, or if nobody
// waits, it is kept unless it is too long.
func TestResponseReachesAWaitingReader(t *testing.T) {
	for over := -1; over <= 1; over++ {
		for _, waits := range []bool{true, false} {
			session, process := &replay{most: usual.SessionReplay}, &replay{most: usual.Replay}
			l := newEventLog("1", session, process)
			l.push(nil)
			reader, leave := l.follow(1)
			if !waits {
				leave()
			}
			l.push([]byte("p"))
			l.append(make([]byte, usual.SessionReplay-1-primingSize+over), true)
			if waits {
				if events, _ := l.wait(t.Context(), reader, 1); len(events) != 2 ||
					len(events[1]) != usual.SessionReplay-1-primingSize+over {
					t.Errorf("%+d: %d events are given", over, len(events))
				}
				leave()
			}
			if kept := l.has(-1); kept != (over <= 0) || int(session.size.Load()) > usual.SessionReplay ||
				process.size.Load() != session.size.Load() {
				t.Errorf("%+d, somebody waits: %t: kept: %t, %d bytes are counted, and %d", over, waits, kept,
					session.size.Load(), process.size.Load())
			}
		}
	}
}

// Events that say nothing are kept up to the same limit.
func TestPrimingEventsAreBounded(t *testing.T) {
	session, process := &replay{most: 1000 * primingSize}, &replay{most: usual.Replay}
	l := newEventLog(unrelated, session, process)
	for n := 1; n <= 1001; n++ {
		l.push(nil)
		if kept := l.has(-1); kept != (n <= 1000) || process.size.Load() != session.size.Load() {
			t.Errorf("%d: all are kept: %t, %d bytes are counted, and %d", n, kept, session.size.Load(),
				process.size.Load())
		}
	}
	l.drop()
	if session.size.Load() != 0 || process.size.Load() != 0 {
		t.Errorf("afterwards %d bytes are counted, and %d", session.size.Load(), process.size.Load())
	}
}

// What has ended is not forgotten for the sake of others before who waits for it has it.
func TestResponseIsKeptUntilItIsSent(t *testing.T) {
	session, process := &replay{most: 100}, &replay{most: 1000}
	l, other := newEventLog("1", session, process), newEventLog("2", session, process)
	reader, leave := l.follow(0)
	defer leave()
	l.append(make([]byte, 60), true)
	other.push(make([]byte, 60))
	if events, _ := l.wait(t.Context(), reader, 0); len(events) != 1 {
		t.Errorf("%d events are given", len(events))
	}
	other.push(make([]byte, 60))
	if l.has(-1) || session.size.Load() != 60 || process.size.Load() != 60 || session.ended.Len() != 0 {
		t.Errorf("then it is kept: %t, %d bytes are counted, and %d", l.has(-1), session.size.Load(),
			process.size.Load())
	}
}

// A client that reads slowly is cut, and does not decide how much is kept for it.
func TestPendingOutputOfSlowReadersIsBounded(t *testing.T) {
	session, process := &replay{most: usual.SessionReplay}, &replay{most: usual.Replay}
	l := newEventLog("1", session, process)
	reader, leave := l.follow(0)
	for range 100 {
		l.push(make([]byte, usual.SessionReplay/10))
	}
	if int(session.size.Load()) > usual.SessionReplay+2*usual.SessionReplay/10 {
		t.Errorf("%d bytes are kept", session.size.Load())
	}
	if _, more := l.wait(t.Context(), reader, 0); more {
		t.Error("there is a hole in what is given")
	}
	leave()
	if int(session.size.Load()) > usual.SessionReplay {
		t.Errorf("%d bytes are kept for nobody", session.size.Load())
	}
	l.drop()
	if session.size.Load() != 0 || process.size.Load() != 0 {
		t.Errorf("%d bytes are counted, and %d", session.size.Load(), process.size.Load())
	}
}

// What is still said on a stream whose session has ended is not kept, and counts for nothing.
func TestMessagesAfterASessionAreDropped(t *testing.T) {
	s := New(&moody{}, Options{})
	defer s.Close()
	id := beginSession(t, s)
	ss := s.sessions[id]
	l := ss.unrelatedLog()
	number := l.append([]byte("a"), false)
	s.endSession(id)
	for _, last := range []bool{false, true} {
		if n := l.append(make([]byte, 1000), last); n != number+1 {
			t.Errorf("what comes after %d is number %d", number, n)
		} else {
			number = n
		}
		if l.has(number-1) || s.opts.Sessions.replay.size.Load() != 0 || s.opts.Sessions.replay.ended.Len() != 0 {
			t.Errorf("it is kept: %t, %d bytes are counted, %d logs are listed", l.has(number-1),
				s.opts.Sessions.replay.size.Load(), s.opts.Sessions.replay.ended.Len())
		}
	}
}

// However many calls a session has at a time, each is answered, and the stream of what belongs to none of them goes on.
// Of those that have ended, the last can be come back to.
func TestEveryCallOfABusySessionIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newWorker()
		h.notes = make(chan string, 1000)
		s := New(h, Options{})
		defer s.Close()
		id := beginSession(t, s)
		sent(t, s, id, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		ss := s.sessions[id]
		changes := ss.unrelatedLog()
		var wg sync.WaitGroup
		for n := range s.opts.Limits.SessionCalls {
			wg.Go(func() {
				body := strings.Replace(workBody, `"id":2`, `"id":`+strconv.Itoa(n), 1)
				res := sent(t, s, id, strings.Replace(body, `"progressToken":"t"`, `"progressToken":`+strconv.Itoa(n),
					1))
				if body, _ := io.ReadAll(res.Body); !strings.Contains(string(body), "it went well") {
					t.Errorf("call %d is answered %s %q", n, res.Status, body)
				}
			})
		}
		pass(primeAfter) // all are streams now
		close(h.letGo)
		wg.Wait()
		if changes.ended() || ss.unrelatedLog() != changes || len(ss.logs) != len(ss.order) {
			t.Errorf("the stream of changes has ended: %t; %d streams, %d in order", changes.ended(), len(ss.logs),
				len(ss.order))
		}
		ss.newLog()
		if len(ss.logs) != maxLogs {
			t.Errorf("%d streams are kept", len(ss.logs))
		}
	})
}
