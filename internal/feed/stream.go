package feed

import (
	"cmp"
	"context"
	"sync"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A Stream answers one Listen call with the changes of several sources, which may be lost and come back. Its methods
// may be called concurrently; only Answer emits anything.
type Stream struct {
	*Pending

	mu      sync.Mutex // before that of Pending
	sources []*Source
	begun   bool
	wake    chan struct{} // has an element when a source has acknowledged
}

// A Source is one of those that report changes to a Stream.
type Source struct {
	s *Stream
	// The Stream's lock guards what follows.
	assumed *pb.SubscriptionFilter // what it is assumed to acknowledge until it does; nil if the Stream waits for it
	last    *pb.SubscriptionFilter // what it has acknowledged last; nil if it has not
	all     *pb.SubscriptionFilter // all that it ever has
	omitted bool
}

// NewStream returns a Stream for a subscriber that wants what want returns, which is not changed any more.
func NewStream(want func() *pb.SubscriptionFilter) *Stream {
	pending := NewPending(limits.PendingChanges, limits.PendingChangesBytes, want)
	return &Stream{Pending: pending, wake: make(chan struct{}, 1)}
}

// Source adds a source, before the Stream begins.
func (s *Stream) Source() *Source {
	src := &Source{s: s}
	s.sources = append(s.sources, src)
	return src
}

// Acknowledge notes what the source reports from now on. If it has come late, or has come back, everything that it
// reports, or reported before, may have changed meanwhile.
func (src *Source) Acknowledge(f *pb.SubscriptionFilter) {
	s := src.s
	s.mu.Lock()
	defer s.mu.Unlock()
	missed := src.last != nil || s.begun && !src.omitted
	src.last, src.all = Either(f), Either(src.all, f)
	if missed {
		for _, change := range All(src.all) {
			s.Add(change)
		}
	}
	s.signal()
}

// Report adds a change that the source reports.
func (src *Source) Report(change *pb.ListenResponse) { src.s.Add(change) }

// Assume lets the Stream begin as if the source acknowledged f. If it does so later, that is late.
func (src *Source) Assume(f *pb.SubscriptionFilter) {
	src.s.mu.Lock()
	defer src.s.mu.Unlock()
	src.assumed = Either(f)
	src.s.signal()
}

// Omit notes that the source is not there, and that the Stream need not wait for it: when it comes, nothing has been
// missed.
func (src *Source) Omit() {
	src.s.mu.Lock()
	defer src.s.mu.Unlock()
	src.omitted = true
	src.s.signal()
}

// Acknowledged returns what the source has acknowledged last, or nil if it has not.
func (src *Source) Acknowledged() *pb.SubscriptionFilter {
	src.s.mu.Lock()
	defer src.s.mu.Unlock()
	return src.last
}

// signal wakes begin. The caller holds mu.
func (s *Stream) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// begin waits until every source has acknowledged, is assumed to, or is omitted, and returns what they have
// acknowledged together. It returns nil if ctx ends before.
func (s *Stream) begin(ctx context.Context) *pb.SubscriptionFilter {
	for {
		acked := s.acknowledged()
		if acked != nil {
			return acked
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return s.acknowledged()
		}
	}
}

func (s *Stream) acknowledged() *pb.SubscriptionFilter {
	s.mu.Lock()
	defer s.mu.Unlock()
	acked := &pb.SubscriptionFilter{}
	for _, src := range s.sources {
		if f := cmp.Or(src.last, src.assumed); f != nil {
			acked = Either(acked, f)
		} else if !src.omitted {
			return nil
		}
	}
	s.begun = true
	return acked
}

// run emits changes until ctx ends, or emit fails, and returns that error.
func (s *Stream) run(ctx context.Context, emit func(*pb.ListenResponse) error) error {
	for {
		select {
		case <-s.Ready():
		case <-ctx.Done():
			return ctx.Err()
		}
		for _, change := range s.Take() {
			if err := emit(change); err != nil {
				return err
			}
		}
	}
}

// Answer answers a Listen call while listen, from which the sources report, runs. When every source has acknowledged,
// is assumed to, or is omitted, it emits what acknowledgment returns for that, and then the changes. It returns the
// result of listen after the last change. Emit is not called concurrently.
func (s *Stream) Answer(ctx context.Context, emit bridge.Emit,
	acknowledgment func(*pb.SubscriptionFilter) *pb.ListenResponse,
	listen func(context.Context) (*bridge.Result, error),
) (res *bridge.Result, err error) {
	inner, cancel := context.WithCancel(ctx)
	var listening sync.WaitGroup
	defer listening.Wait()
	defer cancel()
	listening.Go(func() {
		defer cancel()
		res, err = listen(inner)
	})
	report := func(change *pb.ListenResponse) error { return emit(ctx, bridge.Event{Change: change}) }
	var failed error
	if acked := s.begin(inner); acked != nil {
		if failed = report(acknowledgment(acked)); failed == nil {
			failed = s.run(inner, report)
		}
	}
	ended := inner.Err() != nil
	cancel()
	listening.Wait()
	if failed != nil && !ended {
		return nil, failed
	}
	for _, change := range s.Take() { // a Listen that ended normally reported these before
		if err == nil {
			err = report(change)
		}
	}
	if err != nil {
		return nil, err
	}
	return res, nil
}
