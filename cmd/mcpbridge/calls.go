package main

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A calls knows what is being done, so that a drain can wait for it, and begins no new calls when it refuses. Listen calls do
// not count: they only end when somebody ends them.
type calls struct {
	mu       sync.Mutex // guards what follows
	n        int
	idle     chan struct{} // closed when n is 0
	begun    chan struct{} // closed when n is not
	draining bool          // this is the end, and whoever asks is told
	refusing bool          // no new calls are begun
}

func newCalls() *calls {
	idle := make(chan struct{})
	close(idle)
	return &calls{idle: idle, begun: make(chan struct{})}
}

// A counted is a Handler whose calls are counted.
type counted struct {
	*calls

	next bridge.Handler
}

var _ bridge.Handler = (*counted)(nil)

// Handle implements bridge.Handler.
func (c *counted) Handle(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
	if call.Method == bridge.Listen {
		return c.next.Handle(ctx, call, emit)
	}
	if refusing := c.begin(); refusing && call.Method != bridge.Discover && !bridge.IsRetry(call.Request) {
		c.end()
		return nil, bridge.Failed(codes.Unavailable, pb.CallFailure_OUTCOME_NOT_EXECUTED, "SHUTTING_DOWN",
			"mcpbridge is shutting down; call again")
	}
	defer c.end()
	return c.next.Handle(ctx, call, emit)
}

// begin counts one thing more that is being done, until end. It reports whether c refuses.
func (c *calls) begin() (refusing bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == 0 {
		c.idle = make(chan struct{})
		close(c.begun)
	}
	c.n++
	return c.refusing
}

func (c *calls) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n--
	if c.n == 0 {
		close(c.idle)
		c.begun = make(chan struct{})
	}
}

// drain says from now on that this is the end, and returns how many things are being done.
func (c *calls) drain() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.draining = true
	return c.n
}

// refuse begins no new calls from now on.
func (c *calls) refuse() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refusing = true
}

// quiet waits until nothing has been done for d, or ctx ends.
func (c *calls) quiet(ctx context.Context, d time.Duration) {
	for c.wait(ctx) == 0 {
		pause, cancel := context.WithTimeout(ctx, d)
		begun := c.busy(pause)
		cancel()
		if !begun {
			return
		}
	}
}

// busy waits until something is being done, which it reports, or ctx ends.
func (c *calls) busy(ctx context.Context) bool {
	c.mu.Lock()
	n, begun := c.n, c.begun
	c.mu.Unlock()
	if n > 0 {
		return true
	}
	select {
	case <-begun:
		return true
	case <-ctx.Done():
		return false
	}
}

// isDraining reports whether drain was called.
func (c *calls) isDraining() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.draining
}

// wait waits until nothing is being done or ctx ends, and reports how many things are being done then.
func (c *calls) wait(ctx context.Context) int {
	for {
		c.mu.Lock()
		n, idle := c.n, c.idle
		c.mu.Unlock()
		if n == 0 || ctx.Err() != nil {
			return n
		}
		select {
		case <-idle:
		case <-ctx.Done():
		}
	}
}
