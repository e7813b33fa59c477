// Package wire encodes and decodes gRPC messages for fronts and backs.
package wire

import (
	"fmt"
	"math/bits"
	"sync"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// A Codec is gRPC's protobuf codec with buffers of about the needed size. gRPC's own pool has one size for every
// message from 32 KiB to 1 MiB, and clears the whole MiB for each.
type Codec struct{}

var _ encoding.CodecV2 = Codec{}

// Name implements encoding.CodecV2. It returns "" so that the content type stays `application/grpc`.
func (Codec) Name() string { return "" }

// Marshal implements encoding.CodecV2.
func (Codec) Marshal(v any) (mem.BufferSlice, error) { return Marshal(v, Buffers) }

// Marshal encodes a message in a buffer of the pool. The buffer returns to the pool when it is freed, or on error.
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
	return proto.Unmarshal(b.ReadOnlyData(), m) // copies bytes fields
}

// Buffers is the pool of buffers for encoded messages.
var Buffers = new(pool)

// A pool contains buffers by size class. It does not clear them, because they are overwritten before they are read.
// Small and very large buffers are not pooled.
type pool [maxBits + 1]sync.Pool // by the logarithm of the capacity

const (
	minBits = 11 // gRPC does not return smaller ones
	maxBits = 24
)

// Get implements mem.BufferPool.
func (p *pool) Get(n int) *[]byte {
	power := bits.Len(uint(max(n, 1) - 1))
	if power < minBits || power > maxBits {
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
	if power := bits.Len(uint(cap(*b))) - 1; power >= minBits && power <= maxBits {
		p[power].Put(b)
	}
}
