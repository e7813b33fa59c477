package bridge

import "github.com/mcpbridge/mcpbridge/internal/rawjson"

// The reserved keys of `_meta` (2026-07-28).
const (
	MetaVersion        = "io.modelcontextprotocol/protocolVersion"
	MetaCapabilities   = "io.modelcontextprotocol/clientCapabilities"
	MetaClientInfo     = "io.modelcontextprotocol/clientInfo"
	MetaLogLevel       = "io.modelcontextprotocol/logLevel"
	MetaServerInfo     = "io.modelcontextprotocol/serverInfo"
	MetaSubscriptionID = "io.modelcontextprotocol/subscriptionId"
)

// WithoutForgedMeta removes the reserved keys from the `_meta` of a client's request, because backends trust them.
// If checked, the keys that describe the client have been validated, and stay.
func WithoutForgedMeta(meta string, checked bool) string {
	out := rawjson.AsBytes(meta)
	for name := range rawjson.Members(out) {
		switch string(name) {
		case MetaVersion, MetaCapabilities, MetaClientInfo, MetaLogLevel:
			if checked {
				continue
			}
		case MetaServerInfo, MetaSubscriptionID:
		default:
			continue
		}
		out = rawjson.Without(out, string(name))
	}
	return rawjson.AsString(out)
}
