package wire

import (
	"bytes"
	"strings"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// The codec and protobuf read what the other one has written: every message of the contract, small and large.
func TestCodecMatchesProtobuf(t *testing.T) {
	n := 0
	for _, text := range []string{"x", strings.Repeat("long ", 1000)} {
		protoregistry.GlobalTypes.RangeMessages(func(mt protoreflect.MessageType) bool {
			if mt.Descriptor().ParentFile().Package() != "mcpbridge.v1" {
				return true
			}
			n++
			want := mt.New()
			fill(want, text, 2)
			data, err := Codec{}.Marshal(want.Interface())
			if err != nil {
				t.Fatal(err)
			}
			got := mt.New().Interface()
			if err := proto.Unmarshal(data.Materialize(), got); err != nil || !proto.Equal(want.Interface(), got) {
				t.Errorf("%s: %v", mt.Descriptor().FullName(), err)
			}
			wire, err := proto.Marshal(want.Interface())
			if err != nil || data.Len() != len(wire) {
				t.Errorf("%s: %d bytes, not %d, %v", mt.Descriptor().FullName(), data.Len(), len(wire), err)
			}
			// It comes from the connection in pieces.
			var pieces mem.BufferSlice
			for _, piece := range bytes.SplitAfter(wire, []byte("g")) {
				pieces = append(pieces, mem.Copy(piece, Buffers))
			}
			got = mt.New().Interface()
			if err := (Codec{}).Unmarshal(pieces, got); err != nil || !proto.Equal(want.Interface(), got) {
				t.Errorf("%s: %v", mt.Descriptor().FullName(), err)
			}
			data.Free()
			pieces.Free()
			return true
		})
	}
	if n < 100 {
		t.Errorf("%d messages", n)
	}
	if _, err := (Codec{}).Marshal("no message"); err == nil {
		t.Error("no error")
	}
	if _, err := (Codec{}).Marshal(&pb.TextContent{Text: "\xff"}); err == nil {
		t.Error("no error")
	}
	if err := (Codec{}).Unmarshal(mem.BufferSlice{mem.SliceBuffer{0xff}}, &pb.TextContent{}); err == nil {
		t.Error("no error")
	}
}

// fill sets every field of m, and of the messages in it, up to a depth.
func fill(m protoreflect.Message, text string, depth int) {
	some := func(fd protoreflect.FieldDescriptor, empty func() protoreflect.Value) protoreflect.Value {
		switch fd.Kind() {
		case protoreflect.StringKind:
			return protoreflect.ValueOfString(text)
		case protoreflect.BytesKind:
			return protoreflect.ValueOfBytes([]byte(text))
		case protoreflect.MessageKind:
			v := empty()
			if depth > 0 {
				fill(v.Message(), text, depth-1)
			}
			return v
		}
		return empty()
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		switch {
		case fd.IsMap():
			to := m.Mutable(fd).Map()
			to.Set(protoreflect.ValueOfString(text).MapKey(), some(fd.MapValue(), to.NewValue))
		case fd.IsList():
			to := m.Mutable(fd).List()
			to.Append(some(fd, to.NewElement))
		default:
			m.Set(fd, some(fd, func() protoreflect.Value { return m.NewField(fd) }))
		}
	}
}

func TestPool(t *testing.T) {
	p := new(pool)
	for _, n := range []int{0, 1, 1024, 1025, 2048, 2049, 65_535, 65_536, 65_537, 1 << 24, 1<<24 + 1} {
		for range 3 { // new, and used
			b := p.Get(n)
			if len(*b) != n || cap(*b) >= 2*max(n, 1<<minBits) {
				t.Errorf("%d: %d of %d bytes", n, len(*b), cap(*b))
			}
			*b = (*b)[:n/2]
			p.Put(b)
		}
	}
	odd := make([]byte, 5000) // no such buffer is returned to the pool, where it would serve 4096 bytes
	p.Put(&odd)
	if b := p.Get(4097); cap(*b) < 4097 {
		t.Errorf("%d bytes", cap(*b))
	}
}
