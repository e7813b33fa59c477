package feed

import (
	"context"
	"sync"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A Stream responds to one Listen call with the changes of several sources, which may be lost and come back. Its
// methods may be called concurrently; only Begin and Run, which the goroutine of the call runs, emit events.
type Stream struct {
	*Pending

	mu      sync.Mutex // before that of Pending
	sources []*Source
	begun   bool
	wake    chan struct{} // has an element when a source has acknowledged
}

// A Source is one of the sources of a Stream.
type Source struct {
	s *Stream
	// The Stream's lock guards the fields below.
	assumed *pb.SubscriptionFilter // the acknowledgment that is assumed until there is one
	last    *pb.SubscriptionFilter // the last acknowledgment, or nil
	all     *pb.SubscriptionFilter // the union of all acknowledgments
	omitted bool
}

// NewStream returns a Stream for a subscriber with the filter that want returns, which must not be modified.
func NewStream(want func() *pb.SubscriptionFilter) *Stream {
	pending := NewPending(limits.PendingChanges, limits.PendingChangesBytes, want)
	return &Stream{Pending: pending, wake: make(chan struct{}, 1)}
}

// Source adds a source before the Stream begins, with the acknowledgment to assume if the source's own is late.
func (s *Stream) Source(assumed *pb.SubscriptionFilter) *Source {
	src := &Source{s: s, assumed: assumed}
	s.sources = append(s.sources, src)
	return src
}

// Acknowledge sets the filter that the source reports from now on. If the source was late or has come back, all changes
// of this filter and the one before are reported.
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

// Report adds a change from the source.
func (src *Source) Report(change *pb.ListenResponse) { src.s.Add(change) }

// Omit marks the source as absent: the Stream does not wait for it, and its first acknowledgment reports no changes.
func (src *Source) Omit() {
	src.s.mu.Lock()
	defer src.s.mu.Unlock()
	src.omitted = true
	src.s.signal()
}

// Acknowledged returns the last acknowledgment of the source, or nil.
func (src *Source) Acknowledged() *pb.SubscriptionFilter {
	src.s.mu.Lock()
	defer src.s.mu.Unlock()
	return src.last
}

// signal wakes Begin. The caller holds mu.
func (s *Stream) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Begin waits until every source has acknowledged or is omitted, or late has an element, and returns the union of the
// acknowledgments, with the assumed ones of the others. It returns nil if ctx ends first.
func (s *Stream) Begin(ctx context.Context, late <-chan time.Time) *pb.SubscriptionFilter {
	for {
		if acked := s.begin(false); acked != nil {
			return acked
		}
		select {
		case <-s.wake:
		case <-late:
			return s.begin(true)
		case <-ctx.Done():
			return s.begin(false)
		}
	}
}

func (s *Stream) begin(now bool) *pb.SubscriptionFilter {
	s.mu.Lock()
	defer s.mu.Unlock()
	acked := &pb.SubscriptionFilter{}
	for _, src := range s.sources {
		switch {
		case src.last != nil:
			acked = Either(acked, src.last)
		case now:
			acked = Either(acked, src.assumed)
		case !src.omitted:
			return nil
		}
	}
	s.begun = true
	return acked
}

// Run emits changes until ctx ends, or emit fails, and returns that error.
func (s *Stream) Run(ctx context.Context, emit func(*pb.ListenResponse) error) error {
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

// Answer handles a Listen call while listen runs, from which the sources report. It calls acknowledgment with the
// result of Begin, and emits what it returns, and then the changes. It returns the result of listen after all reported
// changes. emit is not called concurrently.
func (s *Stream) Answer(ctx context.Context, late <-chan time.Time, emit bridge.Emit,
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
	if acked := s.Begin(inner, late); acked != nil {
		if failed = report(acknowledgment(acked)); failed == nil {
			failed = s.Run(inner, report)
		}
	}
	ended := inner.Err() != nil
	cancel()
	listening.Wait()
	if failed != nil && !ended {
		return nil, failed
	}
	for _, change := range s.Take() { // listen reported these before it returned
		if err == nil {
			err = report(change)
		}
	}
	if err != nil {
		return nil, err
	}
	return res, nil
}
