package bridge

import (
	"crypto/sha256"
	"sync"

	"google.golang.org/protobuf/proto"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// Pending are changes that a client has not been told yet. The same change twice is the same as once. When they are too many for a client
// that does not read, all that it wants to know has changed: that is more than it missed, and always little. What one more change costs
// does not depend on how many there are. A Pending may be used concurrently.
type Pending struct {
	want           func() *pb.SubscriptionFilter // what the client wants to know
	most, mostSize int                           // of changes: how many, and how many bytes

	mu         sync.Mutex
	changes    []*pb.ListenResponse
	has        map[[sha256.Size]byte]bool // what is in changes, by its digests
	kept, size int                        // how many of changes were kept for themselves, and their bytes
	parts      int                        // how many of those what is listened to could stand for
	told       *pb.SubscriptionFilter     // all that it names is told to have changed; nil if nothing is
	ready      chan struct{}              // holds a token while there are changes
}

// How many different changes are kept, and how many bytes they have, if nothing else is said. What a client can subscribe to is less.
const (
	MaxPending     = 1024
	MaxPendingSize = 1 << 20
)

// NewPending returns a Pending of at most so many changes with so many bytes, for a client that wants to know what want returns,
// which is not changed any more.
func NewPending(most, mostSize int, want func() *pb.SubscriptionFilter) *Pending {
	return &Pending{want: want, most: most, mostSize: mostSize, ready: make(chan struct{}, 1)}
}

// Ready returns a channel that has something while there are changes.
func (p *Pending) Ready() <-chan struct{} { return p.ready }

// Add adds a change, which must not be changed any more.
func (p *Pending) Add(change *pb.ListenResponse) {
	d := digestOf(change)
	p.mu.Lock()
	defer p.mu.Unlock()
	completed := change.GetElicitationCompleted() != nil // nothing else says it
	switch {
	case p.has[d.sum]:
		return
	case p.told != nil && !completed && Wants(p.told, change):
		return
	case p.keep(change, d):
	case p.told != nil && completed && p.parts == 0:
		return // there are too many of its kind alone
	default:
		p.tellAll(change)
	}
	select {
	case p.ready <- struct{}{}:
	default:
	}
}

// tellAll makes place: all that the client wants to know has changed. The caller holds mu.
func (p *Pending) tellAll(change *pb.ListenResponse) {
	before := p.changes
	p.forget()
	for _, c := range append(before, change) {
		if c.GetElicitationCompleted() != nil {
			p.keep(c, digestOf(c))
		}
	}
	p.told = p.want()
	for _, c := range ChangesOf(p.told) {
		p.put(c, digestOf(c)) // it is what a client can subscribe to, which is bounded as well
	}
}

// Take returns the changes, and forgets them.
func (p *Pending) Take() []*pb.ListenResponse {
	p.mu.Lock()
	defer p.mu.Unlock()
	changes := p.changes
	p.forget()
	return changes
}

// keep keeps a change, if there is room for it. The caller holds mu.
func (p *Pending) keep(change *pb.ListenResponse, d digest) bool {
	if p.kept >= p.most || p.size+d.size > p.mostSize {
		return false
	}
	p.put(change, d)
	p.kept++
	p.size += d.size
	if change.GetElicitationCompleted() == nil {
		p.parts++
	}
	return true
}

// put keeps a change, room or not. The caller holds mu.
func (p *Pending) put(change *pb.ListenResponse, d digest) {
	if p.has == nil {
		p.has = map[[sha256.Size]byte]bool{}
	}
	p.has[d.sum] = true
	p.changes = append(p.changes, change)
}

// forget keeps nothing any more. The caller holds mu.
func (p *Pending) forget() {
	p.changes, p.has, p.kept, p.size, p.parts, p.told = nil, nil, 0, 0, 0, nil
}

// A digest stands for a change: two that have the same are the same, in all that they say.
type digest struct {
	sum  [sha256.Size]byte
	size int // of the change, in bytes
}

func digestOf(change *pb.ListenResponse) digest {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(change)
	if err != nil { // its text is none, and it cannot be told either
		return digest{size: proto.Size(change)}
	}
	return digest{sha256.Sum256(data), len(data)}
}
