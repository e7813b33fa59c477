package limits

import "time"

// The limits that are not configured. Those of connections and calls are upper bounds for hostile peers: Calls and
// Streams set the capacity.
const (
	// Connections is the maximum number of connections of a port. HTTP has more, for streams.
	Connections = 4_096
	// ConnectionCalls is the maximum number of calls in flight of one gRPC connection. Others wait in the client.
	ConnectionCalls = 1_000
	// GRPCCalls is the maximum number of calls in flight of all gRPC clients. Others are refused.
	GRPCCalls = 16_384
	// UpstreamCalls is the maximum number of calls in flight to an MCP server, and of subscriptions. Others are
	// refused.
	UpstreamCalls = 1_024
	// StopTimeout is the time for a program to exit when it is stopped, before it is killed.
	StopTimeout = 5 * time.Second
)
