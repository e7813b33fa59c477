// Package mcphttp is what both sides of MCP's HTTP transports share: the names of headers, how a header carries any value,
// and server-sent events.
package mcphttp

import (
	"encoding/base64"
	"net/http"
	"strings"
	"time"
)

// The headers of Streamable HTTP, as net/http spells them.
const (
	// HeaderVersion says the revision (since 2025-06-18).
	HeaderVersion = "Mcp-Protocol-Version"
	// HeaderSession names the session (2025-03-26 to 2025-11-25).
	HeaderSession = "Mcp-Session-Id"
	// HeaderLastEvent names the last event that was received (2025-03-26 to 2025-11-25).
	HeaderLastEvent = "Last-Event-Id"
	// HeaderMethod says the body's method (since 2026-07-28).
	HeaderMethod = "Mcp-Method"
	// HeaderName says what the body's request is about (since 2026-07-28).
	HeaderName = "Mcp-Name"
	// HeaderParamPrefix begins the headers that repeat a tool's arguments (since 2026-07-28).
	HeaderParamPrefix = "Mcp-Param-"
)

// The media types of Streamable HTTP.
const (
	// JSON is the media type of one message.
	JSON = "application/json"
	// EventStream is the media type of a stream of messages.
	EventStream = "text/event-stream"
)

// A value that a header cannot carry as it is goes in base64 between these marks, in exactly this case (2026-07-28:
// streamable-http, header value encoding).
const (
	sentinelStart = "=?base64?"
	sentinelEnd   = "?="
)

// DecodeValue returns what a header's value stands for. It reports false for base64 that is none; a value that has only one
// of the marks is meant literally.
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

// IsText reports whether a header's value has only characters that it can have: others are encoded (2026-07-28: streamable-http, server
// validation).
func IsText(v string) bool {
	for i := range len(v) {
		if c := v[i]; c != '\t' && (c < 0x20 || c >= 0x7f) {
			return false
		}
	}
	return true
}

// EncodeValue returns the value of a header that stands for v.
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

// AppendEvent appends a server-sent event that holds one message, a JSON text without line breaks. An empty id or name is
// left out.
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

// Comment is a server-sent event that says nothing: it keeps proxies from cutting an idle stream.
const Comment = ": keepalive\n\n"

// Pings returns how a client of HTTP/2 finds out that a connection is dead of which nobody has said so, because a host is off or something
// in between has forgotten it: when nothing has come for a while, it asks. Otherwise calls are sent on it until the system gives it up,
// after a quarter of an hour.
func Pings() *http.HTTP2Config {
	return &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second}
}
