// Package mcpjson converts between the JSON of a revision of MCP and the messages of the contract. How a message looks in
// JSON is said in the .proto files, by the options of json.proto; they are read once, and made a plan per message. Nothing
// here is about a particular message, except in down.go: what an older revision cannot say is said there in its words.
package mcpjson

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/limits"
)

// A Member is a member of a JSON object.
type Member struct {
	// Name is the member's name.
	Name string
	// Value is JSON text, which was checked. Nil means that there is to be no such member.
	Value []byte
}

// Append appends m as JSON of a revision, in a single line. The members of meta are set in the `_meta` of m, where they
// replace those of the same names. What the revision does not have is left out or said in its words; if it cannot be said
// at all, that is an error. When there is an error, what is returned is dst as it was.
//
// All JSON text in m is checked: it comes from backends.
func Append(dst []byte, m proto.Message, rev bridge.Revision, meta ...Member) ([]byte, error) {
	return AppendWithin(dst, m, rev, nil, meta...)
}

// AppendWithin is Append with limits of the JSON text in m: see rawjson.CheckWithin.
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

// Unmarshal fills m from JSON of a revision that has passed rawjson.Check. Fields of m that the JSON does not set stay as
// they are. Fields of bytes may be slices of data.
//
// A member that the revision does not have yet is read all the same if it looks right, and else is kept as an unknown one.
// The error says which member is wrong, and how.
func Unmarshal(data []byte, m proto.Message, rev bridge.Revision) error {
	p := planOf(m)
	if p == nil {
		return fmt.Errorf("%s is not a message of the contract", m.ProtoReflect().Descriptor().FullName())
	}

	d := decoder{rev: rev}
	return d.message(data, m.ProtoReflect(), p, "")
}

// A located error says where in the JSON it is.
type located struct {
	path string
	err  error
}

func (e *located) Error() string { return e.path + ": " + e.err.Error() }
func (e *located) Unwrap() error { return e.err }

// at returns err as an error of a member, an element ("[3]") or an entry (`["key"]`) of what is around it.
func at(err error, step string) error {
	l, ok := err.(*located) //nolint:errorlint // only one that nothing is around can be made longer
	if !ok {
		return &located{step, err}
	}
	if l.path[0] != '[' {
		step += "."
	}
	return &located{step + l.path, l.err}
}
