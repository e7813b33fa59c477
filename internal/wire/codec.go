// Package wire is how messages of the contract get onto gRPC connections and off them, on both sides of the bridge.
package wire

import (
	"fmt"
	"math/bits"
	"sync"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// A Codec writes and reads messages as gRPC's own one does, but in buffers of about the size that they need. The pool that
// gRPC would use has one size for every message from 32 KiB to 1 MiB, and clears the whole MiB for each.
type Codec struct{}

var _ encoding.CodecV2 = Codec{}

// Name implements encoding.CodecV2. It would become part of the content type, which stays `application/grpc` this way.
func (Codec) Name() string { return "" }

// Marshal implements encoding.CodecV2.
func (Codec) Marshal(v any) (mem.BufferSlice, error) { return Marshal(v, Buffers) }

// Marshal writes a message in a buffer of the pool, which gets it back when it is not needed any more, or at once if there is an error.
func Marshal(v any, from mem.BufferPool) (mem.BufferSlice, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is not a message", v)
	}
	b := from.Get(proto.Size(m))
	data, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend((*b)[:0], m)
	if err != nil {
		from.Put(b)
		return nil, err
	}
	*b = data
	return mem.BufferSlice{mem.NewBuffer(b, from)}, nil
}

// Unmarshal implements encoding.CodecV2.
func (Codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is not a message", v)
	}
	b := data.MaterializeToBuffer(Buffers)
	defer b.Free()
	return proto.Unmarshal(b.ReadOnlyData(), m) // which copies what it keeps
}

// Buffers is what messages are in between memory and the connection. gRPC gives each one back when it is done with it.
var Buffers = new(pool)

// A pool keeps buffers for the next one who needs about as much. It does not clear them: they are written as a whole before
// they are read. What is small, or very large, is left to the garbage collector.
type pool [mostBits + 1]sync.Pool // by the power of two that the capacity is

const (
	leastBits = 11 // of smaller ones gRPC gives none back
	mostBits  = 24
)

// Get implements mem.BufferPool.
func (p *pool) Get(n int) *[]byte {
	power := bits.Len(uint(max(n, 1) - 1))
	if power < leastBits || power > mostBits {
		b := make([]byte, n)
		return &b
	}
	if b, ok := p[power].Get().(*[]byte); ok {
		*b = (*b)[:n]
		return b
	}
	b := make([]byte, n, 1<<power)
	return &b
}

// Put implements mem.BufferPool.
func (p *pool) Put(b *[]byte) {
	if power := bits.Len(uint(cap(*b))) - 1; power >= leastBits && power <= mostBits {
		p[power].Put(b)
	}
}
