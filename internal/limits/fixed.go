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
	// UpstreamIdleConns is the maximum number of idle connections to an MCP server with a URL.
	UpstreamIdleConns = 256
	// Rounds is the maximum number of rounds of input requests of a call.
	Rounds = 10
	// Metadata is the maximum size of a gRPC call's metadata in bytes, where each entry has 32 in addition to its name
	// and value (RFC 9113, 6.5.2). A larger call receives an error, and one above four times the size is reset unread.
	Metadata = 64 << 10
	// ControlFrames is how many frames without work of one HTTP/2 connection are allowed at once.
	ControlFrames = 10_000
	// ControlFrameRate is how many are allowed per second after that.
	ControlFrameRate = 1_000
	// AuthRequests is the maximum number of concurrent introspection requests.
	AuthRequests = 32
)

// The limits of a client's subscriptions, over any protocol.
const (
	// Subscriptions is the maximum number of resources that a client can be subscribed to.
	Subscriptions = 1_000
	// URI is the maximum length of a URI in bytes, and URIs that of all URIs of a client together.
	URI  = 8 << 10
	URIs = 64 << 10
	// ListenRequest is the maximum size of a Listen request in bytes. The request stays in memory as long as its
	// stream.
	ListenRequest = 128 << 10
	// AllClientsFactor is the maximum for all clients of a server together, as a multiple of that for one client.
	AllClientsFactor = 10
	// PendingChanges is the maximum number of changes that wait within the bridge for one subscriber, and
	// PendingChangesBytes that of their bytes. They are the defaults of Changes and ChangesBytes. The changes of all
	// that a client can subscribe to are fewer.
	PendingChanges      = 1_024
	PendingChangesBytes = 1 << 20
)

// The limits of what backends and MCP servers send.
const (
	// ListPages is the maximum number of pages of a list that are requested.
	ListPages = 1_024
	// SearchPages is the maximum number of pages that a search for one name requests.
	SearchPages = 64
	// ServerRequests is the maximum number of pending requests of an MCP server. Together, they may have as many bytes
	// as one message.
	ServerRequests = 32
	// ServerRefusals is the maximum number of error responses per second to an MCP server. Further requests get no
	// response.
	ServerRefusals = 10
	// QueuedMessages is the maximum number of messages without a response that wait for an MCP server, most of which
	// are responses to its requests.
	QueuedMessages = 256
	// InvalidLines is the maximum number of invalid lines of a program within InvalidLinesWindow. A program that prints
	// more is restarted, which costs less than reading them.
	InvalidLines       = 1_000
	InvalidLinesWindow = time.Minute
)

// The minimum intervals between messages to a client, each after a burst.
const (
	// ProgressInterval is that of the progress notifications of a call: more are useless for people (every revision:
	// basic/utilities/progress, rate limiting).
	ProgressInterval = 100 * time.Millisecond
	ProgressBurst    = 64
	// LogInterval is that of the log messages of a call (every revision: server/utilities/logging, implementation
	// considerations).
	LogInterval = 10 * time.Millisecond
	LogBurst    = 1_024
	// ErrorInterval is that of error responses to invalid messages. No request waits for such a response.
	ErrorInterval = 10 * time.Millisecond
	ErrorBurst    = 100
)

const (
	// HandshakeTimeout is the time for the TLS handshake and the HTTP/2 preface of a gRPC client.
	HandshakeTimeout = 5 * time.Second
	// PingInterval is the minimum interval between pings of a gRPC client. gRPC's default of 5 minutes disconnects
	// clients with keepalive.
	PingInterval = 10 * time.Second
	// BodyGrace is the minimum time for an HTTP client to send a body. After it, it must have sent BodyRate bytes per
	// second.
	BodyGrace = 5 * time.Second
	// RefusalTimeout is the time for an HTTP client to read an error response.
	RefusalTimeout = 10 * time.Second
	// AuthTimeout is the time for a response of an authorization server.
	AuthTimeout = 10 * time.Second
	// LoginTimeout is the time for a user to log in.
	LoginTimeout = 5 * time.Minute
	// ConnectTimeout is the time for one attempt to connect to a dialed backend, its handshakes included.
	ConnectTimeout = 5 * time.Second
	// HTTPConnectTimeout is the time for each of TCP and TLS to an MCP server.
	HTTPConnectTimeout = 10 * time.Second
	// AbsentTimeout is the time for a dialed backend to answer before clients are served without it.
	AbsentTimeout = 2 * time.Second
	// ReachTimeout is the time for a backend that is not launched to answer before a client command fails.
	ReachTimeout = 10 * time.Second
	// FindTimeout is the time that a call waits for the list with its tool.
	FindTimeout = 10 * time.Second
	// NotifyTimeout is the time for an MCP server to accept a message without a response.
	NotifyTimeout = 10 * time.Second
	// StopTimeout is the time for a program to exit when it is stopped, before it is killed.
	StopTimeout = 5 * time.Second
)

// The fixed bounds of tasks.
const (
	// TaskPoll is the interval at which clients should request a task.
	TaskPoll = time.Second
	// TaskMinPoll and TaskMaxPoll bound the interval at which a backend wants its tasks to be requested.
	TaskMinPoll = 50 * time.Millisecond
	TaskMaxPoll = time.Minute
	// TaskWait is the maximum time that a request waits for a task.
	TaskWait = time.Minute
	// TaskMinTTL is the minimum time that a task is kept.
	TaskMinTTL = time.Second
	// TaskCancel is the time for a backend to cancel its task.
	TaskCancel = 5 * time.Second
	// TaskMessage is the maximum length of a status message in bytes.
	TaskMessage = 1 << 10
	// TasksPage is the maximum number of tasks on a page of tasks/list.
	TasksPage = 100
	// TaskWatchers is the maximum number of subscriptions to a task.
	TaskWatchers = 64
)

// TaskInterval returns the interval at which a backend wants its task to be requested, within bounds. ms is nil if it
// has no wish.
func TaskInterval(ms *int64) time.Duration {
	if ms == nil {
		return TaskPoll
	}
	return min(max(time.Duration(*ms)*time.Millisecond, TaskMinPoll), TaskMaxPoll)
}
