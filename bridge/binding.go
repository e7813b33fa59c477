package bridge

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// Binding returns what a state that a call leaves behind is valid together with: who calls what with which arguments, as a
// hash. Two calls with the same one are the same call to the same caller. It is for methods that can ask.
func (c *Call) Binding() []byte {
	p := c.Context().GetPrincipal()
	h := sha256.New()
	for _, part := range [][]byte{
		[]byte(p.GetIssuer()), []byte(p.GetSubject()), []byte(c.Method.Name), []byte(c.Method.Target(c.Request)),
		canonicalArguments(c.Request),
	} {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write(part)
	}
	return h.Sum(nil)
}

// canonicalArguments returns the arguments of a request in a form that does not depend on white space, escapes or the order
// of members. Numbers keep every digit.
func canonicalArguments(r Request) []byte {
	switch r := r.(type) {
	case *pb.CallToolRequest:
		v := jsontext.Value(r.GetArguments()).Clone()
		if len(v) == 0 {
			return nil
		}
		if err := v.Format(jsontext.ReorderRawObjects(true), jsontext.CanonicalizeRawInts(false),
			jsontext.CanonicalizeRawFloats(false), jsontext.SpaceAfterColon(false), jsontext.SpaceAfterComma(false),
			jsontext.Multiline(false)); err != nil {
			return r.GetArguments() // it is not JSON; the edge has refused it before
		}
		return v
	case *pb.GetPromptRequest:
		var out []byte
		for _, name := range slices.Sorted(maps.Keys(r.GetArguments())) {
			for _, s := range []string{name, r.GetArguments()[name]} {
				out = append(binary.BigEndian.AppendUint64(out, uint64(len(s))), s...)
			}
		}
		return out
	}
	return nil
}
