package feed

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

func updated(uri string) *pb.ListenResponse {
	return &pb.ListenResponse{Event: &pb.ListenResponse_ResourceUpdated{ResourceUpdated: &pb.ResourceUpdated{Uri: uri}}}
}

// A listenHandler passes its Listen calls to a test, which sends their events.
type listenHandler struct{ calls chan *listenCall }

// A listenCall is one Listen call.
type listenCall struct {
	filter *pb.SubscriptionFilter
	send   func(*pb.ListenResponse)
	emit   bridge.Emit
	fail   chan struct{} // closed by a test to end the Listen with err, by default that of a backend that exited
	err    error
	closed chan struct{} // closed when the Listen has ended
}

func (h *listenHandler) Handle(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
	l := &listenCall{
		filter: call.Request.(*pb.ListenRequest).GetNotifications(), emit: emit,
		fail: make(chan struct{}), err: bridge.Errorf(codes.Unavailable, "the backend has ended"),
		closed: make(chan struct{}),
	}
	defer close(l.closed)
	l.send = func(c *pb.ListenResponse) {
		if ctx.Err() == nil { // events of a closed stream are not read
			_ = emit(ctx, bridge.Event{Change: c})
		}
	}
	h.calls <- l
	select {
	case <-l.fail:
		return nil, l.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *listenCall) acknowledge() {
	l.send(l.acknowledgment())
}

func (l *listenCall) acknowledgment() *pb.ListenResponse {
	return &pb.ListenResponse{
		Event: &pb.ListenResponse_Acknowledged{Acknowledged: &pb.SubscriptionsAcknowledged{Notifications: l.filter}},
	}
}

// pass advances the clock of the bubble, and waits until its goroutines are blocked.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (l *listenCall) ended() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
}

// A hubTest is a Hub of a listenHandler.
type hubTest struct {
	*Hub
	h *listenHandler
}

func listen(t *testing.T, test func(*hubTest)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &listenHandler{calls: make(chan *listenCall, 100)}
		hub := NewHub(h, func(*pb.SubscriptionFilter) bool { return true }, zerolog.Nop())
		defer hub.Close()
		test(&hubTest{hub, h})
	})
}

// A recorder records the changes that a subscriber receives.
type recorder struct {
	mu   sync.Mutex
	uris []string
}

func (r *recorder) record(c *pb.ListenResponse) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.uris = append(r.uris, c.GetResourceUpdated().GetUri())
}

// subscribe adds a subscriber, and returns its changes and the Listen call that was made for it.
func (f *hubTest) subscribe(uris ...string) (*Subscriber, *recorder, *listenCall) {
	changes := &recorder{}
	sub := &Subscriber{Report: changes.record}
	return sub, changes, f.resubscribe(sub, uris...)
}

// resubscribe changes the resources of a subscriber, and returns the Listen call that was made for it.
func (f *hubTest) resubscribe(sub *Subscriber, uris ...string) *listenCall {
	f.start(sub, uris...)
	l := <-f.h.calls
	l.acknowledge()
	synctest.Wait()
	return l
}

// start changes the resources of a subscriber. When Subscribe returns, the channel receives the resources that it
// returned.
func (f *hubTest) start(sub *Subscriber, uris ...string) <-chan []string {
	subscribed := make(chan []string, 1)
	go func() {
		want := &pb.SubscriptionFilter{ResourceSubscriptions: uris}
		sub.Want = func() *pb.SubscriptionFilter { return want }
		honored, _ := f.Subscribe(context.Background(), sub)
		subscribed <- honored.GetResourceSubscriptions()
	}()
	synctest.Wait()
	return subscribed
}

func (r *recorder) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.uris, want) {
		t.Errorf("got changes of %q, want %q", r.uris, want)
	}
}

func TestReplacedListenReportsChangesInFlight(t *testing.T) {
	for name, end := range map[string]func(*listenCall){
		"until the handover": func(*listenCall) { pass(handover) },
		"until it ends":      func(one *listenCall) { close(one.fail) },
		"reported before":    func(one *listenCall) { one.send(updated("a")); pass(handover) },
	} {
		t.Run(name, func(t *testing.T) {
			listen(t, func(f *hubTest) {
				_, changes, one := f.subscribe("a")
				_, _, two := f.subscribe("b") // it is acknowledged
				one.send(updated("a"))        // and then this arrives
				end(one)
				changes.expect(t, "a")
				if !one.ended() || two.ended() || len(f.h.calls) > 0 {
					t.Errorf("got ended %v and %v, and %d further Listen calls, want true, false and 0",
						one.ended(), two.ended(), len(f.h.calls))
				}
				two.send(updated("a"))
				changes.expect(t, "a", "a")
			})
		})
	}
}

func TestChangesOfTwoListensAreReportedOnceAndInOrder(t *testing.T) {
	listen(t, func(f *hubTest) {
		sub, changes, one := f.subscribe("a")
		two := f.resubscribe(sub, "a", "b")
		for _, uri := range []string{"a", "b", "a", "a", "b"} {
			two.send(updated(uri))
		}
		for range 6 { // three of them are late on the older Listen, and three early
			one.send(updated("a"))
		}
		for _, uri := range []string{"a", "a", "b", "a"} {
			two.send(updated(uri))
		}
		pass(handover)
		changes.expect(t, "a", "b", "a", "a", "b", "a", "a", "b", "a")
	})
}

// To compare the changes of two Listen calls, only short ones are kept in memory. Long ones are reported twice.
func TestLongChangesAreReportedTwice(t *testing.T) {
	for over := -1; over <= 1; over++ {
		listen(t, func(f *hubTest) {
			_, changes, one := f.subscribe("a")
			_, _, two := f.subscribe("b", "a")
			change := updated("a/" + strings.Repeat("x", limits.URIs+over-2))
			uri := change.GetResourceUpdated().GetUri()
			uri = uri[:2*len(uri)-proto.Size(change)]
			one.send(updated(uri))
			two.send(updated(uri))
			pass(handover)
			if over > 0 {
				changes.expect(t, uri, uri)
			} else {
				changes.expect(t, uri)
			}
		})
	}
}

func TestChangesWithoutSubscriptionAreDropped(t *testing.T) {
	listen(t, func(f *hubTest) {
		_, _, one := f.subscribe("a")
		_, changes, two := f.subscribe("b")
		one.send(updated("b"))
		two.send(updated("b"))
		one.send(updated("b"))
		pass(handover)
		changes.expect(t, "b")
	})
}

func TestAtMostTwoAcknowledgedListensAreOpen(t *testing.T) {
	listen(t, func(f *hubTest) {
		sub, changes, one := f.subscribe("0")
		all := []*listenCall{one}
		for i := range 20 {
			all = append(all, f.resubscribe(sub, "0", string(rune('a'+i))))
		}
		open := slices.DeleteFunc(slices.Clone(all), (*listenCall).ended)
		if len(open) != 2 {
			t.Errorf("got %d open Listen calls, want 2", len(open))
		}
		for _, l := range open {
			l.send(updated("0"))
		}
		changes.expect(t, "0")
		f.Remove(sub)
		synctest.Wait()
		if open = slices.DeleteFunc(all, (*listenCall).ended); len(open) > 0 {
			t.Errorf("got %d open Listen calls without subscribers, want 0", len(open))
		}
	})
}

func TestRestartWhileAListenIsReplacedReportsAllSubscriptions(t *testing.T) {
	listen(t, func(f *hubTest) {
		_, changes, one := f.subscribe("a")
		_, other, two := f.subscribe("b")
		close(one.fail)
		close(two.fail)
		again := <-f.h.calls
		again.acknowledge()
		changes.expect(t, "a") // everything may have changed
		other.expect(t, "b")
		again.send(updated("a"))
		changes.expect(t, "a", "a")
		if len(f.h.calls) > 0 {
			t.Errorf("got %d Listen calls for the replaced one, want 0", len(f.h.calls))
		}
	})
}

// While a Listen call is not acknowledged, no other is made, however often subscriptions change. The next one, which
// includes the new subscriptions, is made when the first is acknowledged, fails, or times out.
func TestOnlyOneListenIsUnacknowledged(t *testing.T) {
	for name, c := range map[string]struct {
		respond func(*listenCall)
		after   time.Duration // until the next one is made
		want    []string      // to the new subscriber: all, if it may have missed changes after Subscribe returned
	}{
		"acknowledged": {(*listenCall).acknowledge, 0, nil},
		"failed":       {func(l *listenCall) { close(l.fail) }, 0, nil},
		"timed out":    {func(*listenCall) {}, settledWithin, []string{"a"}},
		"acknowledged after Subscribe returned": {
			func(l *listenCall) { pass(readyWithin + 1); l.acknowledge() }, readyWithin + 1, []string{"a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			listen(t, func(f *hubTest) {
				began := time.Now()
				sub, changes := &Subscriber{Report: func(*pb.ListenResponse) {}}, &recorder{}
				for i := range 50 {
					f.start(sub, strconv.Itoa(i))
				}
				subscribed := f.start(&Subscriber{Report: changes.record}, "a")
				first := <-f.h.calls
				if len(f.h.calls) > 0 {
					t.Fatalf("got %d further Listen calls, want 0", len(f.h.calls))
				}
				c.respond(first)
				next := <-f.h.calls
				if got := time.Since(began); got != c.after {
					t.Errorf("got the next Listen call after %v, want %v", got, c.after)
				}
				if uris := next.filter.GetResourceSubscriptions(); !slices.Equal(uris, []string{"49", "a"}) {
					t.Errorf("got the next Listen call for %q, want 49 and a", uris)
				}
				if n := len(subscribed); n > 0 && c.after < readyWithin {
					t.Error("Subscribe returned before the Listen call was acknowledged")
				}
				next.acknowledge()
				pass(handover)
				<-subscribed
				if !first.ended() || next.ended() || len(f.h.calls) > 0 {
					t.Errorf("got ended %v and %v, and %d further Listen calls, want true, false and 0",
						first.ended(), next.ended(), len(f.h.calls))
				}
				changes.expect(t, c.want...)
			})
		})
	}
}

// If Subscribe returns before the handler acknowledges, the acknowledgment reports all of the subscription, even if
// others subscribe meanwhile.
func TestLateAcknowledgmentReportsAllSubscriptions(t *testing.T) {
	listen(t, func(f *hubTest) {
		changes, other := &recorder{}, &Subscriber{Report: func(*pb.ListenResponse) {}}
		f.start(&Subscriber{Report: changes.record}, "a", "b")
		first := <-f.h.calls
		f.start(other, "a", "c")
		pass(readyWithin)
		f.Remove(other)
		first.acknowledge()
		changes.expect(t, "a", "b")
		if len(f.h.calls) > 0 {
			t.Errorf("got %d further Listen calls without further subscriptions, want 0", len(f.h.calls))
		}
		_, _, _ = f.subscribe("d")
		pass(handover)
		changes.expect(t, "a", "b")
	})
}

// The failure of an unacknowledged Listen call does not concern subscribers of the acknowledged one.
func TestFailedListenIsReportedToItsSubscribersOnly(t *testing.T) {
	listen(t, func(f *hubTest) {
		_, changes, _ := f.subscribe("a")
		late := &recorder{}
		f.start(&Subscriber{Report: late.record}, "a", "b")
		close((<-f.h.calls).fail)
		(<-f.h.calls).acknowledge()
		pass(handover)
		changes.expect(t)
		late.expect(t, "a", "b")
	})
}

// A failed Listen call is retried at most every 10 s while there are subscribers, and those that it replaced are not.
func TestReplacedListensAreNotRetried(t *testing.T) {
	listen(t, func(f *hubTest) {
		var failed atomic.Int64
		go func() {
			for l := range f.h.calls {
				failed.Add(1)
				close(l.fail)
			}
		}()
		sub := &Subscriber{Report: func(*pb.ListenResponse) {}}
		for i := range 50 {
			<-f.start(sub, strconv.Itoa(i))
		}
		pass(time.Minute)
		failed.Store(0)
		pass(10 * backoffMax)
		if n := failed.Load(); n != 10 {
			t.Errorf("got %d Listen calls in %v, want 10", n, 10*backoffMax)
		}
		f.Remove(sub)
		close(f.h.calls)
	})
}

// An acknowledgment on a replaced Listen call does not end the current one.
func TestAcknowledgmentOfAReplacedListenIsIgnored(t *testing.T) {
	listen(t, func(f *hubTest) {
		_, changes, one := f.subscribe("a")
		f.start(&Subscriber{Report: changes.record}, "b")
		two := <-f.h.calls
		pass(settledWithin - 1)
		f.start(&Subscriber{Report: changes.record}, "c")
		three := <-f.h.calls
		_ = two.emit(t.Context(), bridge.Event{Change: two.acknowledgment()}) // it was in flight
		pass(handover)
		if one.ended() || !two.ended() || three.ended() {
			t.Errorf("got ended %v, %v, %v, want only the second", one.ended(), two.ended(), three.ended())
		}
		one.send(updated("a"))
		changes.expect(t, "a")
	})
}

// Subscribe returns the part of the subscription that the handler acknowledges, or all of it if that is unknown.
func TestSubscribeReturnsTheAcknowledgedPart(t *testing.T) {
	acknowledge := func(l *listenCall, f *pb.SubscriptionFilter) {
		acknowledged := &pb.SubscriptionsAcknowledged{Notifications: f}
		l.send(&pb.ListenResponse{Event: &pb.ListenResponse_Acknowledged{Acknowledged: acknowledged}})
	}
	for name, c := range map[string]struct {
		respond func(*listenCall)
		after   time.Duration
		want    []string
	}{
		"a part": {func(l *listenCall) {
			acknowledge(l, &pb.SubscriptionFilter{ResourceSubscriptions: []string{"c", "a", "x"}})
		}, 0, []string{"a", "c"}},
		"nothing": {func(l *listenCall) { acknowledge(l, nil) }, 0, nil},
		"unsupported": {
			func(l *listenCall) { l.err = bridge.Errorf(codes.Unimplemented, "no Listen"); close(l.fail) },
			0, nil,
		},
		"failed":    {func(l *listenCall) { close(l.fail) }, 0, []string{"a", "b", "c"}},
		"timed out": {func(*listenCall) {}, readyWithin, []string{"a", "b", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			listen(t, func(f *hubTest) {
				began := time.Now()
				subscribed := f.start(&Subscriber{Report: func(*pb.ListenResponse) {}}, "a", "b", "c")
				c.respond(<-f.h.calls)
				got := <-subscribed
				if took := time.Since(began); !slices.Equal(got, c.want) || took != c.after {
					t.Errorf("got %q after %v, want %q after %v", got, took, c.want, c.after)
				}
				if c.after > 0 {
					return
				}
				want := c.want[min(1, len(c.want)):]
				got = <-f.start(&Subscriber{Report: func(*pb.ListenResponse) {}}, "b", "c")
				if !slices.Equal(got, want) {
					t.Errorf("got %q for fewer resources, want %q", got, want)
				}
			})
		})
	}
}
