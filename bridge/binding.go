package bridge

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// Binding returns a hash of the principal, method, target and arguments of the call. A request state is valid only
// together with the Binding of the call that it was made for.
func (c *Call) Binding() []byte {
	p := c.Context().GetVerified().GetPrincipal()
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

// canonicalArguments returns the arguments of a request in a form that does not depend on white space, escapes or
// the order of members. Numbers keep every digit.
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
			return r.GetArguments() // not JSON, which fronts reject
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
