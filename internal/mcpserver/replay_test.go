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

// usual are the default limits.
var usual = limits.Limits{}.OrDefaults()

// Dropped events of a log are not sent, and a reader that needs them is disconnected.
func TestEventLogDropsTheOldest(t *testing.T) {
	session, process := &replayLimit{max: 100}, &replayLimit{max: 1000}
	l := newEventLog("1", session, process)
	for range 4 {
		l.push(make([]byte, 25))
	}
	if !l.resumableAfter(-1) || !l.resumableAfter(3) {
		t.Error("events were dropped below the limit")
	}
	l.push(make([]byte, 1))
	if l.resumableAfter(2) || !l.resumableAfter(3) || !l.resumableAfter(4) || l.resumableAfter(5) {
		t.Errorf("has 2: %v, 3: %v, 4: %v, 5: %v", l.resumableAfter(2), l.resumableAfter(3), l.resumableAfter(4),
			l.resumableAfter(5))
	}
	if events, more := l.wait(t.Context(), l.claim(), 0); more {
		t.Errorf("got %d events", len(events))
	}
	if events, _ := l.wait(t.Context(), l.claim(), 4); len(events) != 1 {
		t.Errorf("got %d events", len(events))
	}
	if session.size.Load() != 1 || process.size.Load() != 1 {
		t.Errorf("counted %d and %d bytes", session.size.Load(), process.size.Load())
	}
}

// Logs of completed calls are dropped before those with a possible reader, in the order of their ends, whichever
// session they belong to.
func TestEndedEventLogsAreDroppedFirst(t *testing.T) {
	process := &replayLimit{max: 300}
	sessions := []*replayLimit{{max: 200}, {max: 200}, {max: 200}}
	var logs []*eventLog
	for i, s := range sessions {
		l := newEventLog(strconv.Itoa(i), s, process)
		l.append(make([]byte, 100), i < 2)
		logs = append(logs, l)
	}
	logs[2].push(make([]byte, 100))
	if logs[0].resumableAfter(-1) || !logs[1].resumableAfter(-1) || !logs[2].resumableAfter(-1) ||
		process.size.Load() != 300 ||
		sessions[0].size.Load() != 0 {
		t.Errorf("kept: %v %v %v, %d bytes", logs[0].resumableAfter(-1), logs[1].resumableAfter(-1),
			logs[2].resumableAfter(-1), process.size.Load())
	}
	for _, l := range logs {
		l.drop()
		l.drop()
	}
	if process.size.Load() != 0 || process.ended.Len() != 0 || sessions[1].ended.Len() != 0 {
		t.Errorf("counted %d bytes and %d logs when there were none", process.size.Load(), process.ended.Len())
	}
}

// All sessions together stay within the limit.
func TestEventLogMemoryOfAllSessionsIsBounded(t *testing.T) {
	process := &replayLimit{max: 1 << 20}
	for range 100 {
		session := &replayLimit{max: 64 << 10}
		for j := range 10 {
			l := newEventLog("", session, process)
			for k := range 20 {
				l.append(make([]byte, 1<<10), j%2 == 0 && k == 19)
			}
			if session.size.Load() > int64(session.max) || process.size.Load() > int64(process.max) {
				t.Fatalf("%d of %d, %d of %d", session.size.Load(), session.max, process.size.Load(), process.max)
			}
		}
	}
}

// Above either limit, the log that ended first is dropped, and not at the limit.
func TestEventLogLimit(t *testing.T) {
	for over := -1; over <= 1; over++ {
		for name, most := range map[string]struct{ session, process int }{
			"of a session": {usual.SessionReplay, usual.Replay}, "of all": {usual.Replay, usual.SessionReplay},
		} {
			session, process := &replayLimit{max: most.session}, &replayLimit{max: most.process}
			ended, running := newEventLog("1", session, process), newEventLog("2", session, process)
			ended.append(make([]byte, usual.SessionReplay/2), true)
			running.push(make([]byte, usual.SessionReplay/2+over))
			if kept := ended.resumableAfter(-1); kept != (over <= 0) {
				t.Errorf("%s, %+d: ended log kept: %t", name, over, kept)
			}
			if !running.resumableAfter(-1) {
				t.Errorf("%s, %+d: the log of a running call was dropped", name, over)
			}
		}
	}
}

// The configured limits apply to a session and to all: one below, at, and one above.
func TestEventLogLimitIsConfigurable(t *testing.T) {
	const one, all = 1000, 1500
	s := New(bridge.HandlerFunc(func(context.Context, *bridge.Call, bridge.Emit) (*bridge.Result, error) {
		return &bridge.Result{Complete: &pb.DiscoverResponse{}}, nil
	}), Options{Limits: limits.Limits{SessionReplay: one}, Sessions: NewSessions(limits.Limits{Replay: all})})
	defer s.Close()
	// ended returns the log of a completed call in a session of its own, with a response of the given size.
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
		if kept := l.resumableAfter(-1); kept != (over <= 0) {
			t.Errorf("session, %+d: first ended log kept: %t", over, kept)
		}
		ss.end(errEnded)

		first, l := ended(all / 2)
		second, _ := ended(all/2 + over)
		if kept := l.resumableAfter(-1); kept != (over <= 0) {
			t.Errorf("all, %+d: first ended log kept: %t", over, kept)
		}
		first.end(errEnded)
		second.end(errEnded)
	}
}

// A waiting reader gets the response, whatever its size, and the message before it. After that, or without a reader,
// the response is kept unless it is above the limit.
func TestResponseReachesAWaitingReader(t *testing.T) {
	for over := -1; over <= 1; over++ {
		for _, waits := range []bool{true, false} {
			session, process := &replayLimit{max: usual.SessionReplay}, &replayLimit{max: usual.Replay}
			l := newEventLog("1", session, process)
			l.push(nil)
			reader, leave := l.claimFrom(1)
			if !waits {
				leave()
			}
			l.push([]byte("p"))
			l.append(make([]byte, usual.SessionReplay-1-primingSize+over), true)
			if waits {
				if events, _ := l.wait(t.Context(), reader, 1); len(events) != 2 ||
					len(events[1]) != usual.SessionReplay-1-primingSize+over {
					t.Errorf("%+d: the reader got %d events", over, len(events))
				}
				leave()
			}
			if kept := l.resumableAfter(-1); kept != (over <= 0) || int(session.size.Load()) > usual.SessionReplay ||
				process.size.Load() != session.size.Load() {
				t.Errorf("%+d, with a reader %t: kept %t, counted %d and %d bytes", over, waits, kept,
					session.size.Load(), process.size.Load())
			}
		}
	}
}

// The limit also applies to events without data.
func TestPrimingEventsAreBounded(t *testing.T) {
	session, process := &replayLimit{max: 1000 * primingSize}, &replayLimit{max: usual.Replay}
	l := newEventLog(standaloneID, session, process)
	for n := 1; n <= 1001; n++ {
		l.push(nil)
		if kept := l.resumableAfter(-1); kept != (n <= 1000) || process.size.Load() != session.size.Load() {
			t.Errorf("%d: all kept %t, counted %d and %d bytes", n, kept, session.size.Load(),
				process.size.Load())
		}
	}
	l.drop()
	if session.size.Load() != 0 || process.size.Load() != 0 {
		t.Errorf("later: counted %d and %d bytes", session.size.Load(), process.size.Load())
	}
}

// The log of a completed call is not dropped for others before its waiting reader has received it.
func TestResponseIsKeptUntilItIsSent(t *testing.T) {
	session, process := &replayLimit{max: 100}, &replayLimit{max: 1000}
	l, other := newEventLog("1", session, process), newEventLog("2", session, process)
	reader, leave := l.claimFrom(0)
	defer leave()
	l.append(make([]byte, 60), true)
	other.push(make([]byte, 60))
	if events, _ := l.wait(t.Context(), reader, 0); len(events) != 1 {
		t.Errorf("the reader got %d events", len(events))
	}
	other.push(make([]byte, 60))
	if l.resumableAfter(-1) || session.size.Load() != 60 || process.size.Load() != 60 || session.ended.Len() != 0 {
		t.Errorf("later: kept %t, counted %d and %d bytes", l.resumableAfter(-1), session.size.Load(),
			process.size.Load())
	}
}

// A slow reader is disconnected: it does not determine how much is buffered for it.
func TestPendingOutputOfSlowReadersIsBounded(t *testing.T) {
	session, process := &replayLimit{max: usual.SessionReplay}, &replayLimit{max: usual.Replay}
	l := newEventLog("1", session, process)
	reader, leave := l.claimFrom(0)
	for range 100 {
		l.push(make([]byte, usual.SessionReplay/10))
	}
	if int(session.size.Load()) > usual.SessionReplay+2*usual.SessionReplay/10 {
		t.Errorf("%d bytes are buffered", session.size.Load())
	}
	if _, more := l.wait(t.Context(), reader, 0); more {
		t.Error("events are missing")
	}
	leave()
	if int(session.size.Load()) > usual.SessionReplay {
		t.Errorf("%d bytes are buffered without a reader", session.size.Load())
	}
	l.drop()
	if session.size.Load() != 0 || process.size.Load() != 0 {
		t.Errorf("counted %d and %d bytes", session.size.Load(), process.size.Load())
	}
}

// Messages on a stream whose session has ended are dropped and not counted.
func TestMessagesAfterASessionAreDropped(t *testing.T) {
	s := New(&discoverHandler{}, Options{})
	defer s.Close()
	id := beginSession(t, s)
	ss := s.sessions[id]
	l := ss.standaloneLog()
	number := l.append([]byte("a"), false)
	s.endSession(id)
	for _, last := range []bool{false, true} {
		if n := l.append(make([]byte, 1000), last); n != number+1 {
			t.Errorf("after event %d, got event %d", number, n)
		} else {
			number = n
		}
		if l.resumableAfter(number-1) || s.opts.Sessions.replay.size.Load() != 0 ||
			s.opts.Sessions.replay.ended.Len() != 0 {
			t.Errorf("kept %t, counted %d bytes and %d logs", l.resumableAfter(number-1),
				s.opts.Sessions.replay.size.Load(), s.opts.Sessions.replay.ended.Len())
		}
	}
}

// Every concurrent call of a session gets its response, and the standalone stream continues. Of the completed calls,
// the last ones can be resumed.
func TestEveryCallOfABusySessionIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newWorker()
		h.notes = make(chan string, 1000)
		s := New(h, Options{})
		defer s.Close()
		id := beginSession(t, s)
		post(t, s, id, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		ss := s.sessions[id]
		changes := ss.standaloneLog()
		var wg sync.WaitGroup
		for n := range s.opts.Limits.SessionCalls {
			wg.Go(func() {
				body := strings.Replace(workBody, `"id":2`, `"id":`+strconv.Itoa(n), 1)
				res := post(t, s, id, strings.Replace(body, `"progressToken":"t"`, `"progressToken":`+strconv.Itoa(n),
					1))
				if body, _ := io.ReadAll(res.Body); !strings.Contains(string(body), "it went well") {
					t.Errorf("call %d: got %s %q", n, res.Status, body)
				}
			})
		}
		pass(primeAfter) // all responses are streams now
		close(h.letGo)
		wg.Wait()
		if changes.ended() || ss.standaloneLog() != changes || len(ss.logs) != len(ss.order) {
			t.Errorf("standalone stream ended: %t; %d streams, %d in order", changes.ended(), len(ss.logs),
				len(ss.order))
		}
		ss.newLog()
		if len(ss.logs) != maxLogs {
			t.Errorf("%d streams are kept", len(ss.logs))
		}
	})
}
