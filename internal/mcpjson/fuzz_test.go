package mcpjson

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest/fuzzing"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// kinds are the messages of the contract, in an order that stays.
var kinds = func() []protoreflect.MessageDescriptor {
	var all []protoreflect.MessageDescriptor
	for md := range plans() {
		all = append(all, md)
	}
	slices.SortFunc(all, func(a, b protoreflect.MessageDescriptor) int {
		return strings.Compare(string(a.FullName()), string(b.FullName()))
	})
	return all
}()

// noJSON are the messages that are never JSON. Their numbers have no form in JSON, and newField panics for them.
var noJSON = []protoreflect.MessageDescriptor{
	(*pb.BackendLimits)(nil).ProtoReflect().Descriptor(), (*pb.VerifiedCaller)(nil).ProtoReflect().Descriptor(),
	(*pb.JsonRpcError)(nil).ProtoReflect().Descriptor(), (*pb.InputError)(nil).ProtoReflect().Descriptor(),
}

func kindOf(m proto.Message) uint8 {
	return uint8(slices.Index(kinds, m.ProtoReflect().Descriptor()))
}

// FuzzRoundTrip reads JSON as a message of a revision. If that goes well, what is written is JSON in a line; and
// reading and writing that again is the same, also for an older revision.
func FuzzRoundTrip(f *testing.F) {
	paths, _ := filepath.Glob("testdata/examples/*/*.json")
	for _, path := range paths {
		newMessage := definitions[filepath.Base(filepath.Dir(path))]
		if data, err := os.ReadFile(path); err == nil && newMessage != nil {
			f.Add(compact(data), kindOf(newMessage()), uint8(5), uint8(3))
		}
	}
	fuzzing.Run(f, func(t *testing.T, data []byte, kind, rev, older uint8) {
		if rawjson.Check(data) != nil {
			return
		}
		revs := bridge.Revisions()
		md, r, o := kinds[int(kind)%len(kinds)], revs[int(rev)%len(revs)], revs[int(older)%len(revs)]
		if slices.Contains(noJSON, md) {
			return
		}
		typ, err := typeOf(md)
		if err != nil {
			t.Fatal(err)
		}
		m := typ.New().Interface()
		fuzzing.Within(t, len(data), 1<<20, func() { // small JSON may become many messages
			m = typ.New().Interface()
			err = Unmarshal(data, m, r)
		})
		if err != nil {
			return
		}
		stable(t, m, r)
		stable(t, m, o)
	})
}

// FuzzAnswers writes what a backend may send as JSON of every revision: it cannot be written, or it is JSON in a line
// that is read again as the same.
func FuzzAnswers(f *testing.F) {
	for _, path := range must(filepath.Glob("testdata/examples/*/*.json")) {
		newMessage := definitions[filepath.Base(filepath.Dir(path))]
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		if newMessage == nil {
			continue
		}
		m := newMessage()
		if err := Unmarshal(compact(data), m, bridge.Rev20260728); err != nil {
			continue
		}
		f.Add(must(proto.Marshal(m)), kindOf(m))
	}
	fuzzing.Run(f, func(t *testing.T, data []byte, kind uint8) {
		md := kinds[int(kind)%len(kinds)]
		if slices.Contains(noJSON, md) {
			return
		}
		typ, err := typeOf(md)
		if err != nil {
			t.Fatal(err)
		}
		m := typ.New().Interface()
		if proto.Unmarshal(data, m) != nil {
			return
		}
		for _, rev := range bridge.Revisions() {
			stable(t, m, rev)
		}
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// stable fails unless a message that can be written is written as JSON in a line, and what is read from that is written
// in the same way.
func stable(t *testing.T, m proto.Message, rev bridge.Revision) {
	t.Helper()
	before := onWire(m)
	out, err := Append(nil, m, rev)
	if !bytes.Equal(before, onWire(m)) {
		t.Fatalf("Append changed %q to %v", before, m)
	}
	if err != nil {
		return
	}
	if err := rawjson.Check(out); err != nil || bytes.ContainsAny(out, "\r\n") {
		t.Fatalf("%s: not strict JSON in a line: %v: %q", rev, err, out)
	}
	again := m.ProtoReflect().New().Interface()
	if err := Unmarshal(out, again, rev); err != nil {
		t.Fatalf("%s: %q cannot be read again: %v", rev, out, err)
	}
	if twice, err := Append(nil, again, rev); err != nil || !bytes.Equal(out, twice) {
		t.Fatalf("%s: %v\nonce  %s\ntwice %s", rev, err, out, twice)
	}
}

// onWire returns all of a message; proto.Clone would make 0 of -0.
func onWire(m proto.Message) []byte {
	return must(proto.MarshalOptions{Deterministic: true}.Marshal(m))
}

func typeOf(md protoreflect.MessageDescriptor) (protoreflect.MessageType, error) {
	return protoregistry.GlobalTypes.FindMessageByName(md.FullName())
}
