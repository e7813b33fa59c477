// Package mcphttp contains what clients and servers of MCP's HTTP transports share: header names, the encoding of
// header values, and server-sent events.
package mcphttp

import (
	"encoding/base64"
	"net/http"
	"strings"
	"time"
)

// The headers of Streamable HTTP, as net/http spells them.
const (
	// HeaderVersion is the revision (since 2025-06-18).
	HeaderVersion = "Mcp-Protocol-Version"
	// HeaderSession is the session ID (2025-03-26 to 2025-11-25).
	HeaderSession = "Mcp-Session-Id"
	// HeaderLastEvent is the ID of the last event that the client received (2025-03-26 to 2025-11-25).
	HeaderLastEvent = "Last-Event-Id"
	// HeaderMethod is the body's method (since 2026-07-28).
	HeaderMethod = "Mcp-Method"
	// HeaderName is the target of the body's request (since 2026-07-28).
	HeaderName = "Mcp-Name"
	// HeaderParamPrefix is the prefix of headers that repeat a tool's arguments (since 2026-07-28).
	HeaderParamPrefix = "Mcp-Param-"
)

// The media types of Streamable HTTP.
const (
	// JSON is the media type of one message.
	JSON = "application/json"
	// EventStream is the media type of a stream of messages.
	EventStream = "text/event-stream"
)

// The markers of a base64 value, which are case-sensitive (2026-07-28: streamable-http, header value encoding).
const (
	sentinelStart = "=?base64?"
	sentinelEnd   = "?="
)

// DecodeValue returns the decoded value of a header, and false for invalid base64. A value with only one of the
// markers is literal.
func DecodeValue(v string) (string, bool) {
	inner, ok := strings.CutPrefix(v, sentinelStart)
	if !ok {
		return v, true
	}
	inner, ok = strings.CutSuffix(inner, sentinelEnd)
	if !ok {
		return v, true
	}
	data, err := base64.StdEncoding.Strict().DecodeString(inner)
	return string(data), err == nil
}

// IsText reports whether a header value has only characters that need no encoding (2026-07-28: streamable-http,
// server validation).
func IsText(v string) bool {
	for i := range len(v) {
		if c := v[i]; c != '\t' && (c < 0x20 || c >= 0x7f) {
			return false
		}
	}
	return true
}

// EncodeValue returns the header value for v.
func EncodeValue(v string) string {
	plain := v == strings.Trim(v, " \t") && !strings.HasPrefix(v, sentinelStart)
	for i := 0; plain && i < len(v); i++ {
		plain = v[i] >= 0x20 && v[i] < 0x7f
	}
	if plain {
		return v
	}
	return sentinelStart + base64.StdEncoding.EncodeToString([]byte(v)) + sentinelEnd
}

// AppendEvent appends a server-sent event with one message, which has no line breaks. An empty id or name is omitted.
func AppendEvent(dst []byte, id, name string, message []byte) []byte {
	if name != "" {
		dst = append(append(append(dst, "event: "...), name...), '\n')
	}
	if id != "" {
		dst = append(append(append(dst, "id: "...), id...), '\n')
	}
	dst = append(append(dst, "data: "...), message...)
	return append(dst, "\n\n"...)
}

// Comment is a server-sent event without a message. It prevents proxies from closing an idle stream.
const Comment = ": keepalive\n\n"

// HTTP2Config returns the keep-alive settings of an HTTP/2 client. It pings idle connections, because without pings
// it takes up to 15 minutes to detect that a host is unreachable.
func HTTP2Config() *http.HTTP2Config {
	return &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second}
}
