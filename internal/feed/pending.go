package feed

import (
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// Pending holds the changes that a subscriber has not received yet, each once. When a subscriber falls too far behind,
// they are replaced by all changes of its filter, which include what it missed and are bounded. A Pending may be used
// concurrently. An empty one allocates nothing more.
type Pending struct {
	want           func() *pb.SubscriptionFilter // the current filter
	most, mostSize int                           // the maximum number of changes, and their size in bytes

	mu         sync.Mutex
	changes    []*pb.ListenResponse
	has        map[key]bool // the keys of changes
	size       int          // of changes
	everything bool         // all changes of the filter are pending; changes has only completed elicitations
	ready      chan struct{}
}

// NewPending returns a Pending for at most the given number and size of changes, for a subscriber with the filter that
// want returns. Take calls want, which must not call the Pending; its result must not be modified.
func NewPending(most, mostSize int, want func() *pb.SubscriptionFilter) *Pending {
	return &Pending{want: want, most: most, mostSize: mostSize, ready: make(chan struct{}, 1)}
}

// Ready returns a channel that has an element when there are changes.
func (p *Pending) Ready() <-chan struct{} { return p.ready }

// Add adds a change, which must not be modified afterwards.
func (p *Pending) Add(change *pb.ListenResponse) {
	k, size := keyOf(change), proto.Size(change)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.has[k] || p.everything && k.kind != elicitations {
		return
	}
	if !p.put(k, change, size) {
		if k.kind == elicitations && p.everything {
			return // too many of these alone, and no other change covers them
		}
		p.overflow()
		if k.kind == elicitations {
			p.put(k, change, size)
		}
	}
	select {
	case p.ready <- struct{}{}:
	default:
	}
}

// put adds a change if there is room for it. The caller holds mu.
func (p *Pending) put(k key, change *pb.ListenResponse, size int) bool {
	if len(p.changes) >= p.most || p.size+size > p.mostSize {
		return false
	}
	if p.has == nil {
		p.has = map[key]bool{}
	}
	p.has[k] = true
	p.changes = append(p.changes, change)
	p.size += size
	return true
}

// overflow replaces all changes but completed elicitations by everything. The caller holds mu.
func (p *Pending) overflow() {
	p.everything = true
	p.changes = slices.DeleteFunc(p.changes, func(c *pb.ListenResponse) bool {
		k := keyOf(c)
		if k.kind == elicitations {
			return false
		}
		delete(p.has, k)
		p.size -= proto.Size(c)
		return true
	})
}

// Take returns and removes the changes.
func (p *Pending) Take() []*pb.ListenResponse {
	p.mu.Lock()
	changes, everything := p.changes, p.everything
	p.changes, p.has, p.size, p.everything = nil, nil, 0, false
	p.mu.Unlock()
	if everything {
		changes = append(changes, All(p.want())...)
	}
	return changes
}
