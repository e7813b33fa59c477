package feed

import (
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// Pending holds the changes that a subscriber has not been sent yet. It holds a change once, however often it is added.
// When a subscriber falls too far behind, everything that it wants has changed: that includes what it missed, and is
// bounded. A Pending may be used concurrently. One that is empty costs no more than itself.
type Pending struct {
	want           func() *pb.SubscriptionFilter // what the subscriber wants now
	most, mostSize int                           // the number of changes, and their bytes

	mu         sync.Mutex
	changes    []*pb.ListenResponse
	has        map[key]bool // those of changes
	size       int          // of changes
	everything bool         // and not only changes; then these are completed elicitations
	ready      chan struct{}
}

// NewPending returns a Pending that holds at most so many changes, of so many bytes together, for a subscriber that
// wants what want returns. Want is called by Take, must not call the Pending, and its result is not changed any more.
func NewPending(most, mostSize int, want func() *pb.SubscriptionFilter) *Pending {
	return &Pending{want: want, most: most, mostSize: mostSize, ready: make(chan struct{}, 1)}
}

// Ready returns a channel that has an element when there are changes.
func (p *Pending) Ready() <-chan struct{} { return p.ready }

// Add adds a change, which must not be modified any more.
func (p *Pending) Add(change *pb.ListenResponse) {
	k, size := keyOf(change), proto.Size(change)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.has[k] || p.everything && k.kind != elicitations {
		return
	}
	if !p.put(k, change, size) {
		if k.kind == elicitations && p.everything {
			return // there are too many of these alone, and nothing else reports them
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

// overflow replaces what everything includes by it: all but the completed elicitations. The caller holds mu.
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

// Take returns the changes, and forgets them.
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
