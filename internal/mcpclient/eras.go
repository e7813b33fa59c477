package mcpclient

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/feed"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// eras is the state of a modern server that may also support the legacy era. Most SDKs support both eras, but some of
// them declare only one. A tool that sends a request to its client during a call works in the legacy era only, so
// legacy callers are served in that era. A connection has one era (2026-07-28: basic/versioning), and over stdio it is
// a process. So legacy callers have a Client of their own, the legacy Client, which is created for the first of them.
type eras struct {
	mu           sync.Mutex
	legacyClient *Client
	created      chan struct{} // closed when a legacy Client is created, and then replaced
	modern       *connection   // the connection on which the server rejected initialize
	failed       error         // why there is no legacy Client
	retryAt      time.Time     // when another legacy Client may be created
}

// awaitLegacyClient returns the Client for legacy callers of the connection l, or nil if the server rejects initialize.
// It waits at most the start timeout for the first connection.
func (c *Client) awaitLegacyClient(ctx context.Context, l *connection) (*Client, error) {
	t, err := c.getLegacyClient(l)
	if t == nil || err != nil {
		return nil, err
	}
	for {
		s := t.super.State()
		switch {
		case s.Ended:
			if c.dropLegacyClient(t, l, s.Err) {
				return nil, nil //nolint:nilnil // the server is of the modern era only
			}
			return nil, c.legacyUnavailable(s.Err)
		case s.Connected:
			return t, nil
		}
		select {
		case <-s.Changed:
		case <-ctx.Done():
			return nil, bridge.Canceled(ctx, false)
		}
	}
}

// getLegacyClient returns the legacy Client, which it creates if necessary. It returns nil if the configuration sets
// the era, or if the server rejected initialize on this connection.
func (c *Client) getLegacyClient(l *connection) (*Client, error) {
	if c.o.Revision != bridge.NoRevision {
		return nil, nil //nolint:nilnil // there is one era
	}
	e := &c.eras
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.legacyClient != nil || e.modern == l:
		return e.legacyClient, nil
	case time.Now().Before(e.retryAt):
		return nil, c.legacyUnavailable(e.failed)
	}
	o := c.o
	o.Revision = bridge.LatestLegacy
	t, err := New(o)
	if err != nil {
		return nil, err
	}
	t.http, t.intervals, t.launch, t.isLegacyClient = c.http, c.intervals, c.launch, true
	c.log.Debug().Msg("connecting to the server in the legacy era as well, for a client of that era")
	c.background(func(ctx context.Context) { _ = t.Run(ctx) }) // the legacy Client's state has the reason for its end
	e.legacyClient = t
	close(e.created)
	e.created = make(chan struct{})
	return t, nil
}

// dropLegacyClient removes an ended legacy Client. It reports whether the server rejects initialize: then no other is
// created for l.
func (c *Client) dropLegacyClient(t *Client, l *connection, err error) (refused bool) {
	refused = rejectsInitialize(err)
	e := &c.eras
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.legacyClient != t {
		return refused
	}
	e.legacyClient = nil
	if refused {
		e.modern = l
		c.log.Info().Msg("the server refuses initialize: clients of all revisions are served in 2026-07-28")
		return true
	}
	e.failed, e.retryAt = err, time.Now().Add(c.intervals.FailFast)
	return false
}

// endLegacyClient ends the legacy Client, if there is one, because the Client itself has connected in the legacy era.
func (c *Client) endLegacyClient() {
	c.eras.mu.Lock()
	defer c.eras.mu.Unlock()
	if c.eras.legacyClient != nil {
		c.eras.legacyClient.cancel()
		c.eras.legacyClient = nil
	}
}

// legacyUnavailable returns the error of a legacy call without a connection of its era.
func (c *Client) legacyUnavailable(cause error) error {
	return c.super.Unavailable("supports 2026-07-28, and has no connection for clients of older revisions; "+
		"if it cannot serve both, set mcp.revision to modern or legacy", c.intervals.FailFast, cause)
}

// listenToLegacyClient reports the changes of the legacy Client, and of later ones, until ctx ends.
func (s *subscription) listenToLegacyClient(ctx context.Context) {
	// If the legacy Client acknowledges late, the subscriber receives its acknowledgment without those changes.
	defer time.AfterFunc(refreshTimeout, s.legacy.Omit).Stop()
	for ctx.Err() == nil {
		t, created := s.c.currentLegacyClient()
		if t != nil {
			_, err := t.listen(ctx, s.call, func(_ context.Context, e bridge.Event) error {
				s.handleLegacyEvent(e.Change)
				return nil
			})
			s.c.log.Debug().AnErr("why", err).Msg("no longer listening to the connection of the legacy era")
		}
		s.legacy.Omit()
		select {
		case <-created:
		case <-ctx.Done():
		}
	}
}

// handleLegacyEvent handles an event of the legacy Client. A program runs once for each era, and each process has lists
// and resources of its own, so every change is reported. An HTTP server sends the same change in both eras: if the
// modern subscription includes it, the one of the legacy Client is dropped.
func (s *subscription) handleLegacyEvent(event *pb.ListenResponse) {
	if ack := event.GetAcknowledged(); ack != nil {
		s.legacy.Acknowledge(ack.GetNotifications())
		return
	}
	own := s.own.Acknowledged()
	if own == nil || s.c.url != nil && feed.Matches(own, event) {
		return
	}
	s.legacy.Report(event)
}

// currentLegacyClient returns the legacy Client, or nil, and a channel that is closed when another one is created.
func (c *Client) currentLegacyClient() (*Client, <-chan struct{}) {
	c.eras.mu.Lock()
	defer c.eras.mu.Unlock()
	return c.eras.legacyClient, c.eras.created
}

// listenToLegacyClientOnly subscribes to a server that does not implement subscriptions/listen, so that only the legacy
// Client reports changes. It waits until the connection is lost.
func (s *subscription) listenToLegacyClientOnly(ctx context.Context, l *connection) error {
	s.acknowledge(&pb.SubscriptionsAcknowledged{Notifications: &pb.SubscriptionFilter{}})
	return l.awaitLoss(ctx)
}

// isUnimplemented reports whether err means that the server does not implement the method.
func isUnimplemented(err error) bool {
	return err != nil && bridge.AsError(err).Code == codes.Unimplemented
}
