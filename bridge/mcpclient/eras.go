package mcpclient

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// eras is the state of a server that was found to be of the modern era and may offer the legacy era as well. Most SDKs offer both, and
// not all of them list both. A tool that sends its client a request in the middle of a call works in the legacy era only, so legacy
// callers are served in that era, by a Client of their own, the twin: a connection is of one era (2026-07-28: basic/versioning), and
// over stdio it is a process. The twin is created for the first legacy caller.
type eras struct {
	mu      sync.Mutex
	twin    *Client
	created chan struct{} // closed when a twin is created, and then replaced
	modern  *life         // the life in which the server refused initialize
	failed  error         // why there is no twin
	retryAt time.Time     // when another twin may be created
}

// legacyTwin returns the Client that serves legacy callers while l lasts, or nil if the server refuses initialize. It waits for the first
// connection as long as a start may take.
func (c *Client) legacyTwin(ctx context.Context, l *life) (*Client, error) {
	t, err := c.getTwin(l)
	if t == nil || err != nil {
		return nil, err
	}
	for {
		s := t.look()
		switch {
		case s.ended:
			if c.dropTwin(t, l, s.err) {
				return nil, nil //nolint:nilnil // the server is of the modern era only
			}
			return nil, c.twinUnavailable(s.err)
		case s.lived:
			return t, nil
		}
		select {
		case <-s.changed:
		case <-ctx.Done():
			return nil, bridge.Interrupted(ctx, false)
		}
	}
}

// getTwin returns the twin, which it creates if there is none. It returns nil if the configuration says which era the server is of, or if the
// server refused initialize in this life.
func (c *Client) getTwin(l *life) (*Client, error) {
	if c.o.Revision != bridge.NoRevision {
		return nil, nil //nolint:nilnil // there is one era
	}
	e := &c.eras
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.twin != nil || e.modern == l:
		return e.twin, nil
	case time.Now().Before(e.retryAt):
		return nil, c.twinUnavailable(e.failed)
	}
	o := c.o
	o.Revision = bridge.LatestLegacy
	t, err := New(o)
	if err != nil {
		return nil, err
	}
	t.http, t.pace, t.launch, t.isTwin = c.http, c.pace, c.launch, true
	c.log.Debug().Msg("connecting to the server in the legacy era as well, for a client of that era")
	c.background(func(ctx context.Context) { _ = t.Run(ctx) }) // the twin's state says why it ended
	e.twin = t
	close(e.created)
	e.created = make(chan struct{})
	return t, nil
}

// dropTwin removes a twin that has ended. It reports whether the server refuses initialize: then no other twin is created while l lasts.
func (c *Client) dropTwin(t *Client, l *life, err error) (refused bool) {
	refused = refusesInitialize(err)
	e := &c.eras
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.twin != t {
		return refused
	}
	e.twin = nil
	if refused {
		e.modern = l
		c.log.Info().Msg("the server refuses initialize: clients of all revisions are served in 2026-07-28")
		return true
	}
	e.failed, e.retryAt = err, time.Now().Add(c.pace.hopeless)
	return false
}

// endTwin ends the twin, if there is one: the server itself is of the legacy era now.
func (c *Client) endTwin() {
	c.eras.mu.Lock()
	defer c.eras.mu.Unlock()
	if c.eras.twin != nil {
		c.eras.twin.cancel()
		c.eras.twin = nil
	}
}

// twinUnavailable is the error of a legacy caller's call for which there is no connection of its era.
func (c *Client) twinUnavailable(cause error) error {
	return c.unavailable("offers 2026-07-28, and is not reached in the era of this client, which is older; "+
		"if it cannot serve both, set mcp.revision to modern or legacy", c.pace.hopeless, cause)
}

// listenToTwin emits what changes on the connection of legacy callers until ctx ends. Programs have lists and resources of their own. The
// sessions of an HTTP server send the same changes as its modern era, except for completed elicitations, which that does not have.
func (c *Client) listenToTwin(ctx context.Context, call *bridge.Call, emit func(*pb.ListenResponse) error) {
	asked := call.Request.(*pb.ListenRequest)
	if c.url != nil {
		asked = &pb.ListenRequest{Context: asked.GetContext(), Notifications: &pb.SubscriptionFilter{
			ElicitationsCompleted: asked.GetNotifications().ElicitationsCompleted,
		}}
	}
	for ctx.Err() == nil {
		t, created := c.currentTwin()
		if t != nil {
			_, err := t.listen(ctx, &bridge.Call{Method: call.Method, Request: asked}, func(_ context.Context, e bridge.Event) error {
				if e.Change.GetAcknowledged() != nil {
					return nil
				}
				return emit(e.Change)
			})
			c.log.Debug().AnErr("why", err).Msg("no longer listening to the connection of the legacy era")
		}
		select {
		case <-created:
		case <-ctx.Done():
		}
	}
}

// currentTwin returns the twin, or nil, and a channel that is closed when another one is created.
func (c *Client) currentTwin() (*Client, <-chan struct{}) {
	c.eras.mu.Lock()
	defer c.eras.mu.Unlock()
	return c.eras.twin, c.eras.created
}

// twinOnly is a subscription to a server that has no subscriptions/listen in the modern era, and is subscribed to in the legacy era: it
// waits until the connection is lost.
func (s *subscription) twinOnly(ctx context.Context, l *life) error {
	asked := &pb.SubscriptionFilter{
		ToolsListChanged: s.asked.ToolsListChanged, PromptsListChanged: s.asked.PromptsListChanged,
		ResourcesListChanged: s.asked.ResourcesListChanged, ResourceSubscriptions: s.asked.GetResourceSubscriptions(),
	}
	if err := s.acknowledge(&pb.SubscriptionsAcknowledged{Notifications: asked}); err != nil {
		return err
	}
	select {
	case <-l.gone:
	case <-l.peer.gone:
	case <-ctx.Done():
		return ctx.Err()
	}
	return &lost{err: errClosed}
}

// isUnimplemented reports whether the server has no such method.
func isUnimplemented(err error) bool {
	return err != nil && bridge.AsError(err).Code == codes.Unimplemented
}
