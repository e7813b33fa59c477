package mcpserver

import (
	"sync/atomic"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A streams counts the streams that are open, of which there may be most. It may be used concurrently.
type streams struct {
	most int64
	n    atomic.Int64
}

// open counts one more, until done. It returns nil if there are as many as may be.
func (s *streams) open() (done func()) {
	if s.n.Add(1) > s.most {
		s.n.Add(-1)
		return nil
	}
	return func() { s.n.Add(-1) }
}

// full is the error of a stream beyond the most.
func (s *streams) full() error {
	return bridge.Failed(codes.ResourceExhausted, pb.CallFailure_OUTCOME_NOT_EXECUTED, bridge.ReasonOverloaded,
		"%d streams are open, which is the most: end one of them, or try again later", s.most)
}
