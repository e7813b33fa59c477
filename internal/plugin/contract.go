package plugin

import (
	"cmp"
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/mcpbridge/mcpbridge/bridge"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// withVersion returns call with the version of the contract in its context, which only the fronts set.
func withVersion(call *bridge.Call) *bridge.Call {
	if call.Context().GetVerified() != nil {
		return call
	}
	cc := bridge.ShallowCopy(call.Context())
	cc.Verified = bridge.Verified()
	r := proto.Clone(call.Request).(bridge.Request)
	r.ProtoReflect().Set(r.ProtoReflect().Descriptor().Fields().ByName("context"), protoreflect.ValueOfMessage(cc.ProtoReflect()))
	return call.With(call.Method, r)
}

// checkContract returns an error if the backend was built with another version of the contract. A backend whose Discover
// fails is not refused: its calls fail by themselves.
func (p *Plugin) checkContract(ctx context.Context, l *life, call *bridge.Call) error {
	if e := l.discover.refused.Load(); e != nil {
		return e
	}
	if call.Method == bridge.Discover || l.discover.Load() != nil || l.discover.asked.Swap(true) {
		return nil
	}
	d := &pb.DiscoverResponse{}
	if err := l.conn.Invoke(ctx, bridge.Discover.GRPC, &pb.DiscoverRequest{Context: call.Context()}, d); err == nil {
		return p.checkVersion(l, d)
	}
	return nil
}

// checkVersion refuses a backend that was built with another version of the contract.
func (p *Plugin) checkVersion(l *life, d *pb.DiscoverResponse) error {
	v := cmp.Or(d.GetContractVersion(), 1)
	if v == bridge.ContractVersion {
		return nil
	}
	e := bridge.Failed(codes.FailedPrecondition, pb.CallFailure_OUTCOME_NOT_EXECUTED, "CONTRACT_VERSION",
		"backend %q was built with version %d of the contract, and this mcpbridge has version %d: "+
			"update its SDK, or its stubs with mcpbridge proto DIR", p.o.Name, v, bridge.ContractVersion)
	if l.discover.refused.CompareAndSwap(nil, e) {
		p.log.Error().Msg(e.Message)
	}
	return e
}
