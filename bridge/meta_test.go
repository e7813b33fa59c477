package bridge_test

import (
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge"
)

// Reserved keys that a client must not send are removed, and everything else stays as it is.
func TestForgedMetaIsDropped(t *testing.T) {
	const (
		own    = `{"a":1,"progressToken":2}`
		modern = `{"a":1,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{}}`
		server = `{"io.modelcontextprotocol/serverInfo":{"name":"bank"},"a":1,"io.modelcontextprotocol/subscriptionId":1}`
	)
	for _, c := range []struct {
		checked    bool
		meta, want string
	}{
		{false, own, own},
		{true, own, own},
		{false, modern, `{"a":1}`},
		{true, modern, modern},
		{false, server, `{"a":1}`},
		{true, server, `{"a":1}`},
		{false, "", ""},
	} {
		if got := bridge.WithoutForgedMeta(c.meta, c.checked); got != c.want {
			t.Errorf("checked %t: %s became %s, want %s", c.checked, c.meta, got, c.want)
		}
	}
}
