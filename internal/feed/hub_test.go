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
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

func updated(uri string) *pb.ListenResponse {
	return &pb.ListenResponse{Event: &pb.ListenResponse_ResourceUpdated{ResourceUpdated: &pb.ResourceUpdated{Uri: uri}}}
}

// A scripted is a handler whose Listens say what a test has them say, each for itself: that is how a backend's streams arrive.
type scripted struct{ begun chan *heard }

// A heard is one Listen.
type heard struct {
	want   *pb.SubscriptionFilter
	tell   func(*pb.ListenResponse)
	emit   bridge.Emit
	fail   chan struct{} // closed by a test to end the Listen with err, by default as a backend does that ends
	err    error
	closed chan struct{} // closed when the Listen has ended
}

func (s *scripted) Handle(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
	l := &heard{
		want: call.Request.(*pb.ListenRequest).GetNotifications(), emit: emit,
		fail: make(chan struct{}), err: bridge.Errorf(codes.Unavailable, "the backend has ended"), closed: make(chan struct{}),
	}
	defer close(l.closed)
	l.tell = func(c *pb.ListenResponse) {
		if ctx.Err() == nil { // what arrives on a stream that was ended, nobody reads
			_ = emit(ctx, bridge.Event{Change: c})
		}
	}
	s.begun <- l
	select {
	case <-l.fail:
		return nil, l.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *heard) acknowledge() {
	l.tell(l.acknowledgement())
}

func (l *heard) acknowledgement() *pb.ListenResponse {
	return &pb.ListenResponse{Event: &pb.ListenResponse_Acknowledged{Acknowledged: &pb.SubscriptionsAcknowledged{Notifications: l.want}}}
}

// pass lets time pass by the bubble's clock, and what is to happen until then.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (l *heard) over() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
}

// Ears are a hub with clients that remember what they are told.
type ears struct {
	*Hub
	s *scripted
}

func listen(t *testing.T, test func(*ears)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{begun: make(chan *heard, 100)}
		hub := NewHub(s, func(*pb.SubscriptionFilter) bool { return true }, zerolog.Nop())
		defer hub.Close()
		test(&ears{hub, s})
	})
}

// A diary is what a client has been told.
type diary struct {
	mu   sync.Mutex
	uris []string
}

func (d *diary) tell(c *pb.ListenResponse) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.uris = append(d.uris, c.GetResourceUpdated().GetUri())
}

// join adds a client, and returns what it has been told, and the Listen that was made for it.
func (a *ears) join(uris ...string) (*Subscriber, *diary, *heard) {
	told := &diary{}
	sub := &Subscriber{Report: told.tell}
	return sub, told, a.want(sub, uris...)
}

// want has a client want to know of other resources.
func (a *ears) want(sub *Subscriber, uris ...string) *heard {
	a.ask(sub, uris...)
	l := <-a.s.begun
	l.acknowledge()
	synctest.Wait()
	return l
}

// ask has a client want to know of other resources. Once the client need not wait any more, it is said of which it is told.
func (a *ears) ask(sub *Subscriber, uris ...string) <-chan []string {
	goesOn := make(chan []string, 1)
	go func() {
		want := &pb.SubscriptionFilter{ResourceSubscriptions: uris}
		sub.Want = func() *pb.SubscriptionFilter { return want }
		told, _ := a.Subscribe(context.Background(), sub)
		goesOn <- told.GetResourceSubscriptions()
	}()
	synctest.Wait()
	return goesOn
}

func (d *diary) says(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Equal(d.uris, want) {
		t.Errorf("the client is told %q, want %q", d.uris, want)
	}
}

func TestAChangeUnderWayIsToldThoughTheListenIsReplaced(t *testing.T) {
	for name, end := range map[string]func(*heard){
		"which has its time":    func(*heard) { pass(handover) },
		"which ends by itself":  func(one *heard) { close(one.fail) },
		"which was told before": func(one *heard) { one.tell(updated("a")); pass(handover) },
	} {
		t.Run(name, func(t *testing.T) {
			listen(t, func(a *ears) {
				_, told, one := a.join("a")
				_, _, two := a.join("b") // which is acknowledged
				one.tell(updated("a"))   // before this arrives
				end(one)
				told.says(t, "a")
				if !one.over() || two.over() || len(a.s.begun) > 0 {
					t.Error("the Listen that was replaced has not ended, or the one that replaces it has")
				}
				two.tell(updated("a"))
				told.says(t, "a", "a")
			})
		})
	}
}

func TestChangesAreToldOnceAndInTheirOrder(t *testing.T) {
	listen(t, func(a *ears) {
		sub, told, one := a.join("a")
		two := a.want(sub, "a", "b")
		for _, uri := range []string{"a", "b", "a", "a", "b"} {
			two.tell(updated(uri))
		}
		for range 6 { // of which the older one hears three later, and three sooner
			one.tell(updated("a"))
		}
		for _, uri := range []string{"a", "a", "b", "a"} {
			two.tell(updated(uri))
		}
		pass(handover)
		told.says(t, "a", "b", "a", "a", "b", "a", "a", "b", "a")
	})
}

// What two Listens hear while one replaces the other is compared only as long as it takes little memory, and else told twice.
func TestLongChangesAreNotKept(t *testing.T) {
	for over := -1; over <= 1; over++ {
		listen(t, func(a *ears) {
			_, told, one := a.join("a")
			_, _, two := a.join("b", "a")
			change := updated("a/" + strings.Repeat("x", MaxURIs+over-2))
			uri := change.GetResourceUpdated().GetUri()
			uri = uri[:2*len(uri)-proto.Size(change)]
			one.tell(updated(uri))
			two.tell(updated(uri))
			pass(handover)
			if over > 0 {
				told.says(t, uri, uri)
			} else {
				told.says(t, uri)
			}
		})
	}
}

func TestWhatNobodyAskedForIsNotTold(t *testing.T) {
	listen(t, func(a *ears) {
		_, _, one := a.join("a")
		_, told, two := a.join("b")
		one.tell(updated("b"))
		two.tell(updated("b"))
		one.tell(updated("b"))
		pass(handover)
		told.says(t, "b")
	})
}

func TestAtMostTwoAcknowledgedListensAreOpen(t *testing.T) {
	listen(t, func(a *ears) {
		sub, told, one := a.join("0")
		all := []*heard{one}
		for i := range 20 {
			all = append(all, a.want(sub, "0", string(rune('a'+i))))
		}
		open := slices.DeleteFunc(slices.Clone(all), (*heard).over)
		if len(open) != 2 {
			t.Errorf("%d Listens are open", len(open))
		}
		for _, l := range open {
			l.tell(updated("0"))
		}
		told.says(t, "0")
		a.Remove(sub)
		synctest.Wait()
		if open = slices.DeleteFunc(all, (*heard).over); len(open) > 0 {
			t.Errorf("%d Listens are open, and nobody wants to know anything", len(open))
		}
	})
}

func TestABackendThatComesBackWhileAListenIsReplaced(t *testing.T) {
	listen(t, func(a *ears) {
		_, told, one := a.join("a")
		_, other, two := a.join("b")
		close(one.fail)
		close(two.fail)
		again := <-a.s.begun
		again.acknowledge()
		told.says(t, "a") // everything may have changed
		other.says(t, "b")
		again.tell(updated("a"))
		told.says(t, "a", "a")
		if len(a.s.begun) > 0 {
			t.Error("what was replaced is listened to again")
		}
	})
}

// While a Listen waits to be acknowledged no other is made, however often clients want something else. Who comes meanwhile is listened to
// by the next, which is made when that one is acknowledged, has failed, or has had its time.
func TestOneListenAtATimeWaitsToBeAcknowledged(t *testing.T) {
	for name, c := range map[string]struct {
		answers func(*heard)
		after   time.Duration // the next one is made
		told    []string      // to who came meanwhile: all, where something may have changed since it was let go on
	}{
		"which is acknowledged": {(*heard).acknowledge, 0, nil},
		"which fails":           {func(l *heard) { close(l.fail) }, 0, nil},
		"which hangs":           {func(*heard) {}, settledWithin, []string{"a"}},
		"which is acknowledged when who came goes on": {
			func(l *heard) { pass(readyWithin + 1); l.acknowledge() }, readyWithin + 1, []string{"a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			listen(t, func(a *ears) {
				began := time.Now()
				sub, told := &Subscriber{Report: func(*pb.ListenResponse) {}}, &diary{}
				for i := range 50 {
					a.ask(sub, strconv.Itoa(i))
				}
				goesOn := a.ask(&Subscriber{Report: told.tell}, "a")
				first := <-a.s.begun
				if len(a.s.begun) > 0 {
					t.Fatalf("%d further Listens", len(a.s.begun))
				}
				c.answers(first)
				next := <-a.s.begun
				if got := time.Since(began); got != c.after {
					t.Errorf("the next Listen is made after %v", got)
				}
				if uris := next.want.GetResourceSubscriptions(); !slices.Equal(uris, []string{"49", "a"}) {
					t.Errorf("the next Listen is for %q", uris)
				}
				if n := len(goesOn); n > 0 && c.after < readyWithin {
					t.Error("who came meanwhile does not wait until it is listened to")
				}
				next.acknowledge()
				pass(handover)
				<-goesOn
				if !first.over() || next.over() || len(a.s.begun) > 0 {
					t.Errorf("the first has ended: %v, the next: %v; %d further ones", first.over(), next.over(), len(a.s.begun))
				}
				told.says(t, c.told...)
			})
		})
	}
}

// Who went on before the handler knew what it wants is told when the handler does, whatever others want meanwhile.
func TestWhoGoesOnEarlyIsTold(t *testing.T) {
	listen(t, func(a *ears) {
		told, other := &diary{}, &Subscriber{Report: func(*pb.ListenResponse) {}}
		a.ask(&Subscriber{Report: told.tell}, "a", "b")
		first := <-a.s.begun
		a.ask(other, "a", "c")
		pass(readyWithin)
		a.Remove(other)
		first.acknowledge()
		told.says(t, "a", "b")
		if len(a.s.begun) > 0 {
			t.Error("there is another Listen, and nobody wants anything else")
		}
		_, _, _ = a.join("d")
		pass(handover)
		told.says(t, "a", "b")
	})
}

// That a Listen fails which nobody has heard yet is nothing to those who hear another.
func TestAListenThatFailsAtFirstIsTheLossOfWhoWaitedForIt(t *testing.T) {
	listen(t, func(a *ears) {
		_, told, _ := a.join("a")
		late := &diary{}
		a.ask(&Subscriber{Report: late.tell}, "a", "b")
		close((<-a.s.begun).fail)
		(<-a.s.begun).acknowledge()
		pass(handover)
		told.says(t)
		late.says(t, "a", "b")
	})
}

// A Listen that fails is made again, at most every 10 s, for as long as it is wanted: once, however many it has replaced.
func TestAListenThatFailsIsMadeAgainAlone(t *testing.T) {
	listen(t, func(a *ears) {
		var failed atomic.Int64
		go func() {
			for l := range a.s.begun {
				failed.Add(1)
				close(l.fail)
			}
		}()
		sub := &Subscriber{Report: func(*pb.ListenResponse) {}}
		for i := range 50 {
			<-a.ask(sub, strconv.Itoa(i))
		}
		pass(time.Minute)
		failed.Store(0)
		pass(10 * backoffMax)
		if n := failed.Load(); n != 10 {
			t.Errorf("%d Listens in %v", n, 10*backoffMax)
		}
		a.Remove(sub)
		close(a.s.begun)
	})
}

// A Listen that is acknowledged when another has taken its place does not end the one that is heard.
func TestAnAcknowledgementThatComesTooLate(t *testing.T) {
	listen(t, func(a *ears) {
		_, told, one := a.join("a")
		a.ask(&Subscriber{Report: told.tell}, "b")
		two := <-a.s.begun
		pass(settledWithin - 1)
		a.ask(&Subscriber{Report: told.tell}, "c")
		three := <-a.s.begun
		_ = two.emit(t.Context(), bridge.Event{Change: two.acknowledgement()}) // which was under way
		pass(handover)
		if one.over() || !two.over() || three.over() {
			t.Errorf("ended: %v, %v, %v", one.over(), two.over(), three.over())
		}
		one.tell(updated("a"))
		told.says(t, "a")
	})
}

// Who subscribes is told what of it the handler acknowledges; and as long as that does not say, all.
func TestWhatTheHandlerHonours(t *testing.T) {
	acknowledge := func(l *heard, f *pb.SubscriptionFilter) {
		l.tell(&pb.ListenResponse{Event: &pb.ListenResponse_Acknowledged{Acknowledged: &pb.SubscriptionsAcknowledged{Notifications: f}}})
	}
	for name, c := range map[string]struct {
		answers func(*heard)
		after   time.Duration
		told    []string
	}{
		"a part": {func(l *heard) {
			acknowledge(l, &pb.SubscriptionFilter{ResourceSubscriptions: []string{"c", "a", "x"}})
		}, 0, []string{"a", "c"}},
		"nothing":       {func(l *heard) { acknowledge(l, nil) }, 0, nil},
		"never":         {func(l *heard) { l.err = bridge.Errorf(codes.Unimplemented, "no Listen"); close(l.fail) }, 0, nil},
		"it has failed": {func(l *heard) { close(l.fail) }, 0, []string{"a", "b", "c"}},
		"it hangs":      {func(*heard) {}, readyWithin, []string{"a", "b", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			listen(t, func(a *ears) {
				began := time.Now()
				goesOn := a.ask(&Subscriber{Report: func(*pb.ListenResponse) {}}, "a", "b", "c")
				c.answers(<-a.s.begun)
				got := <-goesOn
				if took := time.Since(began); !slices.Equal(got, c.told) || took != c.after {
					t.Errorf("%q after %v, want %q after %v", got, took, c.told, c.after)
				}
				if c.after > 0 {
					return
				}
				if got := <-a.ask(&Subscriber{Report: func(*pb.ListenResponse) {}}, "b", "c"); !slices.Equal(got, c.told[min(1, len(c.told)):]) {
					t.Errorf("who wants what is listened to already is told %q", got)
				}
			})
		})
	}
}
