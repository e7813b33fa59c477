package jsonrpc

import (
	"bytes"

	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
)

// IsID reports whether a JSON token can be the id of a message, or a progress token: a string or an integer.
func IsID(token []byte, l *limits.Limits) bool { return checkID(token, l) == nil }

// Key returns what an id is known by: ids are the same if their values are, and `"\u0061"` is "a", and -0 is 0. It is id itself wherever
// the value is written in one way only.
func Key(id []byte) []byte {
	if string(id) == "-0" {
		return id[1:]
	}
	if bytes.IndexByte(id, '\\') >= 0 {
		if s, ok := rawjson.String(id); ok {
			return rawjson.AppendString(nil, s)
		}
	}
	return id
}
