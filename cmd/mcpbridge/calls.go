package main

import (
	"context"
	"sync"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A calls knows what is being done, so that a drain can wait for it, and begins no new calls while it drains. Listen calls do
// not count: they only end when somebody ends them.
type calls struct {
	mu       sync.Mutex // guards what follows
	n        int
	idle     chan struct{} // closed when n is 0
	draining bool
}

func newCalls() *calls {
	idle := make(chan struct{})
	close(idle)
	return &calls{idle: idle}
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
	if draining := c.begin(); draining && call.Method != bridge.Discover && !bridge.Continues(call.Request) {
		c.end()
		return nil, bridge.Failed(codes.Unavailable, pb.CallFailure_OUTCOME_NOT_EXECUTED, "SHUTTING_DOWN",
			"mcpbridge is shutting down; call again")
	}
	defer c.end()
	return c.next.Handle(ctx, call, emit)
}

// begin counts one thing more that is being done, until end. It reports whether c drains.
func (c *calls) begin() (draining bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == 0 {
		c.idle = make(chan struct{})
	}
	c.n++
	return c.draining
}

func (c *calls) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n--
	if c.n == 0 {
		close(c.idle)
	}
}

// drain begins no new calls from now on, and returns how many things are being done.
func (c *calls) drain() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.draining = true
	return c.n
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
