package bridge

import "github.com/mcpbridge/mcpbridge/internal/rawjson"

// The keys of `_meta` that MCP reserves for what requests, responses and notifications carry since 2026-07-28.
const (
	MetaVersion        = "io.modelcontextprotocol/protocolVersion"
	MetaCapabilities   = "io.modelcontextprotocol/clientCapabilities"
	MetaClientInfo     = "io.modelcontextprotocol/clientInfo"
	MetaLogLevel       = "io.modelcontextprotocol/logLevel"
	MetaServerInfo     = "io.modelcontextprotocol/serverInfo"
	MetaSubscriptionID = "io.modelcontextprotocol/subscriptionId"
)

// WithoutForgedMeta returns the `_meta` of a request without the reserved keys that its client must not send: backends
// would trust them. If checked, the keys by which a modern request describes its client have been validated, and stay.
func WithoutForgedMeta(meta []byte, checked bool) []byte {
	for name := range rawjson.Members(meta) {
		switch string(name) {
		case MetaVersion, MetaCapabilities, MetaClientInfo, MetaLogLevel:
			if checked {
				continue
			}
		case MetaServerInfo, MetaSubscriptionID:
		default:
			continue
		}
		meta = rawjson.Without(meta, string(name))
	}
	return meta
}
