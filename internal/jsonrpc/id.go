package jsonrpc

import (
	"bytes"

	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
)

// IsID reports whether a JSON token is a valid message ID or progress token: a string or an integer.
func IsID(token []byte, l *limits.Limits) bool { return len(token) <= l.ID && isStringOrInteger(token) }

// Key returns the canonical form of an ID: equal IDs can be written in different ways, such as `"\u0061"` and "a". It
// returns id itself if that is canonical.
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
