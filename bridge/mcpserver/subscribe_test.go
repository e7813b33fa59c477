package mcpserver

import (
	"strconv"
	"testing"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

func updated(uri string) *pb.ListenResponse {
	return &pb.ListenResponse{Event: &pb.ListenResponse_ResourceUpdated{ResourceUpdated: &pb.ResourceUpdated{Uri: uri}}}
}

func TestPendingChangesAreKeptOnceAndBounded(t *testing.T) {
	p := newPending()
	for range 3 {
		p.add(updated("a"))
	}
	<-p.ready
	if got := p.take(); len(got) != 1 {
		t.Errorf("the same change is kept %d times", len(got))
	}
	for n := 1; n <= maxPending+1; n++ {
		p.add(updated(strconv.Itoa(n)))
		if got := len(p.changes); got != min(n, maxPending) {
			t.Fatalf("%d of %d changes are kept", got, n)
		}
	}
}
