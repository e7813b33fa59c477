// Package mcpjson converts between the JSON of a revision of MCP and the messages of the contract.
package mcpjson

import (
	"errors"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
)

// A Member is a member of a JSON object. Value is JSON text.
type Member struct {
	Name  string
	Value []byte
}

// Append appends m as MCP JSON of a revision.
func Append(dst []byte, m proto.Message, rev bridge.Revision, meta ...Member) ([]byte, error) {
	return dst, errors.New("not yet")
}

// Unmarshal fills m from MCP JSON of a revision.
func Unmarshal(data []byte, m proto.Message, rev bridge.Revision) error { return errors.New("not yet") }
