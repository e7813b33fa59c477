// Package mcpjson converts between the JSON of MCP's revisions and the messages of the contract. A table defines the
// mapping, from which each message gets a plan. Besides the table, only down.go depends on particular messages: it
// converts what an older revision expresses differently.
package mcpjson

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/limits"
)

// A Member is a member of a JSON object.
type Member struct {
	Name string
	// Value is valid JSON text. If nil, there is no such member.
	Value []byte
}

// Append appends m as JSON of a revision, in a single line. The members of meta replace those of the same names in
// the `_meta` of m. What the revision lacks is omitted or converted; what it cannot express is an error, with which
// dst is returned unchanged.
//
// JSON text in m is validated, because it comes from backends.
func Append(dst []byte, m proto.Message, rev bridge.Revision, meta ...Member) ([]byte, error) {
	return AppendWithin(dst, m, rev, nil, meta...)
}

// AppendWithin is Append with limits for the JSON text in m: see rawjson.CheckWithin.
func AppendWithin(dst []byte, m proto.Message, rev bridge.Revision, l *limits.Limits, meta ...Member) ([]byte, error) {
	p := planOf(m)
	if p == nil {
		return dst, fmt.Errorf("%s is not a message of the contract", m.ProtoReflect().Descriptor().FullName())
	}

	e := encoder{dst: dst, rev: rev, limits: l}
	if err := e.message(m.ProtoReflect(), p, object{meta: meta}); err != nil {
		return dst, err
	}
	return e.dst, nil
}

// Unmarshal sets fields of m from JSON of a revision that has passed rawjson.Check. Fields may refer to data,
// which must not be modified afterwards: see Clone.
//
// A member that the revision does not define yet is read if it is valid, and kept as an unknown one otherwise. The
// error contains the path of the invalid member.
func Unmarshal(data []byte, m proto.Message, rev bridge.Revision) error {
	p := planOf(m)
	if p == nil {
		return fmt.Errorf("%s is not a message of the contract", m.ProtoReflect().Descriptor().FullName())
	}

	d := decoder{rev: rev}
	return d.message(data, m.ProtoReflect(), p, "")
}

// Clone returns a deep copy of a message, which does not refer to the text that the message was read from. A copy by
// proto.Clone shares the message's strings.
func Clone[M proto.Message](m M) M {
	if !m.ProtoReflect().IsValid() {
		return m // nil
	}
	out := m.ProtoReflect().New().Interface()
	data, err := proto.Marshal(m)
	if err == nil {
		err = proto.Unmarshal(data, out)
	}
	if err != nil {
		panic(err) // Unmarshal and gRPC set no text that is not UTF-8
	}
	return out.(M)
}

// A pathError is an error with the path of its JSON value.
type pathError struct {
	path string
	err  error
}

func (e *pathError) Error() string { return e.path + ": " + e.err.Error() }
func (e *pathError) Unwrap() error { return e.err }

// at adds a member, an element ("[3]") or an entry (`["key"]`) to the path of an error.
func at(err error, step string) error {
	l, ok := err.(*pathError) //nolint:errorlint // only an unwrapped one can be extended
	if !ok {
		return &pathError{step, err}
	}
	if l.path[0] != '[' {
		step += "."
	}
	return &pathError{step + l.path, l.err}
}
