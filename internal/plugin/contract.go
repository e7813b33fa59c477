package plugin

import (
	"cmp"
	"context"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// checkContract returns an error if the backend was built with another version of the contract. The first call on a
// connection calls Discover to learn the version, and concurrent calls wait for that. A backend whose Discover fails is
// not refused: its calls fail by themselves.
func (p *Plugin) checkContract(ctx context.Context, l *instance, call *bridge.Call) error {
	c := &l.discover
	if call.Method == bridge.Discover || c.isChecked() {
		return c.refusal()
	}
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return nil // the call ends with its context
	}
	if c.isChecked() {
		return c.refusal()
	}
	d := &pb.DiscoverResponse{}
	if err := l.conn.Invoke(ctx, bridge.Discover.GRPC, &pb.DiscoverRequest{Context: call.Context()}, d); err != nil {
		c.checked.Store(ctx.Err() == nil) // if this call was canceled, the next one calls Discover
		return nil
	}
	err := p.checkVersion(l, d)
	c.checked.Store(true)
	return err
}

func (c *discoverCache) isChecked() bool {
	return c.checked.Load() || c.refused.Load() != nil || c.Load() != nil
}

func (c *discoverCache) refusal() error {
	if e := c.refused.Load(); e != nil {
		return e
	}
	return nil
}

// checkVersion refuses a backend that was built with another version of the contract.
func (p *Plugin) checkVersion(l *instance, d *pb.DiscoverResponse) error {
	v := cmp.Or(d.GetContractVersion(), 1)
	if v == bridge.ContractVersion {
		return nil
	}
	e := bridge.Failed(codes.FailedPrecondition, bridge.OutcomeNotExecuted, "CONTRACT_VERSION",
		"backend %q was built with version %d of the contract, and this mcpbridge has version %d: "+
			"update its SDK, or its stubs with mcpbridge proto DIR", p.o.Name, v, bridge.ContractVersion)
	if l.discover.refused.CompareAndSwap(nil, e) {
		p.log.Error().Msg(e.Message)
	}
	return e
}
