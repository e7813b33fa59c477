package limits

import (
	"fmt"
	"reflect"
	"time"
)

// A Row is one limit.
type Row struct {
	// Field is the field of the struct that has the value.
	Field string
	// Default is the value if none is configured.
	Default int64
	// Computed describes the default if it is not a number. Default is 0 then, and the package that enforces the limit
	// computes it.
	Computed string
	// Bounds are those of a configured value.
	Bounds
	// Doc describes what is limited. It is a comment of docs/configuration.md.
	Doc string

	// Key is the last part of the key in the configuration: the tag of Field.
	Key string
	typ reflect.Type
}

// Bounds are the minimum and the maximum of a configured limit.
type Bounds struct {
	// Min is what a well-behaved client or backend needs; 0 is no bound. Max is what the bridge tolerates from a
	// hostile one; 0 is no bound: only the operator's machine is the limit.
	Min, Max int64
	// TooLow and TooHigh complete "cannot be 5: ...".
	TooLow, TooHigh string
}

func atMost(n int64, tooHigh string) Bounds { return Bounds{Max: n, TooHigh: tooHigh} }

func atLeast(n int64, tooLow string) Bounds { return Bounds{Min: n, TooLow: tooLow} }

func between(least, most int64, tooLow, tooHigh string) Bounds {
	return Bounds{least, most, tooLow, tooHigh}
}

const (
	kib    = int64(1 << 10)
	mib    = int64(1 << 20)
	gib    = int64(1 << 30)
	ms     = int64(time.Millisecond)
	second = int64(time.Second)
	minute = int64(time.Minute)
	hour   = int64(time.Hour)
)

// MaxMessage is the maximum of Line, Message and ClientMessage in bytes: the sender decides how much memory a message
// takes.
const MaxMessage = 64 << 20

// The maxima of JSONDepth, JSONMembers and JSONElements.
const (
	MaxJSONDepth    = 1_000
	MaxJSONMembers  = 1_000_000
	MaxJSONElements = 10_000_000
)

// MaxState is the maximum of State in bytes.
const MaxState = 64 << 10

// MaxLogLine is the maximum of LogLine in bytes.
const MaxLogLine = 64 << 10

// MinMemory is the minimum of Memory in bytes: with less, the bridge would refuse everything.
const MinMemory = 32 << 20

var tables = complete(map[reflect.Type][]Row{
	reflect.TypeFor[Limits](): {
		{Field: "Calls", Doc: "at a time, of one backend", Default: 256},
		{Field: "CallsPerCaller", Doc: "of them, of one verified caller", Default: 64},
		{
			Field: "CallQueue", Doc: "how long a burst of calls waits for its turn; in an overload it is a twentieth",
			Default: 100 * ms,
		},
		{Field: "CallIdle", Doc: "how long a call may send nothing", Default: minute},
		{Field: "CallTotal", Doc: "how long a call may last", Default: 15 * minute},
		{Field: "Sessions", Doc: "legacy sessions, at all addresses", Default: 100_000},
		{Field: "SessionsPerCaller", Doc: "of them, of one verified caller", Default: 1_000},
		{Field: "SessionIdle", Doc: "how long one may be idle", Default: 30 * minute},
		{Field: "SessionCalls", Doc: "at a time, of one legacy session or stdio client", Default: 256},
		{Field: "Streams", Doc: "that only carry change notifications, at all addresses", Default: 15_000},
		{Field: "StreamsPerCaller", Doc: "of them, of one verified caller", Default: 2_000},
		{Field: "SessionStreams", Doc: "of one legacy session, opened by GET", Default: 16, Bounds: atMost(1_000,
			"limits.streams limits the streams of all sessions")},
		{Field: "Header", Doc: "bytes of the header of an HTTP request", Default: 64 * kib, Bounds: between(8*kib, mib,
			"browsers and proxies send larger headers", "headers are in memory before the sender is authenticated")},
		{Field: "HeaderFields", Doc: "fields of it", Default: 256, Bounds: between(16, 10_000,
			"browsers and proxies send more fields", "fields are in memory before the sender is authenticated")},
		{Field: "HeaderTime", Doc: "in which it has to arrive", Default: 5 * second, Bounds: between(100*ms, 5*minute,
			"slow networks need more time", "clients that send nothing would keep connections that long")},
		{
			Field: "ConnectionIdle", Doc: "how long an unused connection of HTTP or gRPC is kept",
			Default: 2 * minute, Bounds: between(100*ms, 24*hour,
				"every request would need a new connection", "unused connections would stay open"),
		},
		{Field: "Body", Doc: "bytes of the body of an HTTP request", Default: 4 * mib},
		{Field: "BodyTime", Doc: "in which it has to arrive", Default: 30 * second, Bounds: between(100*ms, hour,
			"slow networks need more time", "slow senders would keep memory that long")},
		{Field: "BodyRate", Doc: "bytes of it in a second, after the first 5 s", Default: kib, Bounds: atMost(gib,
			"no network is that fast")},
		{
			Field:   "WriteTime",
			Doc:     "in which a client has to read each 256 KiB; for gRPC clients only while memory is short",
			Default: 10 * second, Bounds: between(10*ms, hour,
				"slow networks need more time", "clients that read nothing would keep memory that long"),
		},
		{Field: "Line", Doc: "bytes of a line on stdin", Default: 16 * mib, Bounds: atMost(MaxMessage,
			"the maximum is 64 MiB")},
		{Field: "Message", Doc: "bytes of a message", Default: 16 * mib, Bounds: atMost(MaxMessage,
			"the maximum is 64 MiB")},
		{Field: "ClientMessage", Doc: "of a gRPC client", Default: 4 * mib, Bounds: atMost(MaxMessage,
			"the maximum is 64 MiB")},
		{
			Field: "JSONDepth", Doc: "how deep values are nested, in any JSON", Default: 256,
			Bounds: between(16, MaxJSONDepth,
				"messages of MCP are nested deeper", "parsers need stack for each level"),
		},
		{Field: "JSONMembers", Doc: "of an object", Default: 20_000, Bounds: between(64, MaxJSONMembers,
			"objects of MCP have more members", "names are kept in memory to detect duplicates")},
		{Field: "JSONElements", Doc: "of an array", Default: 100_000, Bounds: between(64, MaxJSONElements,
			"lists of MCP have more elements", "each element takes memory of its own")},
		{Field: "ID", Doc: "bytes of the id of a message, with its quotes", Default: 256, Bounds: between(16, 4*kib,
			"clients use longer ids", "ids are kept in memory until the call ends")},
		{Field: "Batch", Doc: "messages of a batch", Default: 100, Bounds: atMost(10_000,
			"a batch is answered as a whole")},
		{Field: "Tools", Doc: "of a backend", Default: 4_096, Bounds: atMost(65_536,
			"the catalog keeps no more tools")},
		{Field: "ToolName", Doc: "bytes of the name of a tool", Default: 128, Bounds: between(16, kib,
			"tools have longer names", "names are in headers, logs and tables")},
		{Field: "Schema", Doc: "bytes of a schema of a tool", Default: 256 * kib, Bounds: between(64, 4*mib,
			"schemas are larger", "all schemas are in memory")},
		{Field: "SchemaValues", Doc: "in it", Default: 10_000, Bounds: between(16, 1_000_000,
			"schemas have more values", "each value is checked for every caller")},
		{
			Field: "Subschemas", Doc: "in it, so that calls are checked against it",
			Default: 2_000, Bounds: between(16, 4_000,
				"schemas have more subschemas", "compiling them takes time and cannot be interrupted"),
		},
		{
			Field: "Changes", Doc: "that a client has yet to be notified of", Default: PendingChanges,
			Bounds: atMost(1_000_000, "the changes of every client are in memory"),
		},
		{Field: "ChangesBytes", Doc: "bytes of them", Default: PendingChangesBytes, Bounds: between(kib, 64*mib,
			"a single change can be larger", "the changes of every client are in memory")},
		{
			Field: "Replay", Doc: "bytes of events kept to resume streams, at all addresses",
			Default: 256 * mib, Bounds: atLeast(kib,
				"a single event can be larger"),
		},
		{Field: "SessionReplay", Doc: "of them, of one session", Default: 4 * mib, Bounds: between(kib, gib,
			"a single event can be larger", "events are in memory")},
		{Field: "State", Doc: "bytes of a requestState", Default: MaxState, Bounds: between(kib, MaxState,
			"backends store more in it", "the contract allows a backend half of it, 32 KiB")},
		{
			Field: "LogLine", Doc: "bytes that are logged of a line of a program's output",
			Default: 8 * kib, Bounds: between(64, MaxLogLine,
				"errors would be unreadable", "longer lines are cut before they are logged"),
		},
		{Field: "LogRate", Doc: "bytes of it that are logged in a second", Default: mib, Bounds: between(kib, gib,
			"errors would be unreadable", "no log is that fast")},
		{
			Field: "Memory", Doc: "bytes of the bridge itself",
			Computed: "GOMEMLIMIT, or 85 % of the container's", Bounds: atLeast(MinMemory,
				"the bridge itself needs more"),
		},
		{
			Field: "StateTTL", Doc: "in which a client of 2026-07-28 or gRPC has to come back with answers",
			Default: 10 * minute,
		},
		{Field: "LegacyStateTTL", Doc: "to older MCP servers", Default: 5 * minute},
		{Field: "AnswerTime", Doc: "in which an older client has to answer a question", Default: 5 * minute},
	},
	reflect.TypeFor[Tasks](): {
		{Field: "Most", Doc: "of all callers, ended ones included", Default: 20_000, Bounds: atMost(1_000_000,
			"tasks are in memory")},
		{Field: "PerCaller", Doc: "of them, of one verified caller", Default: 20_000},
		{
			Field: "Bytes", Doc: "of their requests, input and results", Default: 256 * mib,
			Bounds: atLeast(mib, "a single result can be larger"),
		},
		{Field: "Calls", Doc: "calls of tasks at a time, of one backend; further ones wait", Default: 256},
		{
			Field: "TTL", Doc: "how long a task and its result are kept", Default: hour,
			Bounds: atLeast(second, "clients could not fetch a result"),
		},
	},
	reflect.TypeFor[Machine](): {
		{Field: "Memory", Doc: "bytes", Computed: "unlimited"},
		{Field: "Processes", Doc: "at a time, threads included", Computed: "as many as the system allows"},
		{Field: "Files", Doc: "open at a time, in each process", Default: 1_024},
	},
	reflect.TypeFor[Timeouts](): {
		{Field: "Start", Doc: "until the first response", Default: 30 * second},
		{Field: "Probe", Doc: "until initialize is sent as well", Computed: "half of startTimeout"},
		{Field: "Hang", Doc: "how long a backend may be unresponsive", Default: minute},
	},
	reflect.TypeFor[Pool](): {
		{Field: "Processes", Doc: "at a time", Default: 32},
		{Field: "Remote", Doc: "with a url, where they are sessions of HTTP", Default: 64},
		{Field: "Idle", Doc: "time for which an unused one is kept", Default: 5 * minute},
	},
})

// Table returns the rows of a struct, in the order of its documentation.
func Table[T Any]() []Row { return tables[reflect.TypeFor[T]()] }

// complete sets Key and typ of each row from the tag and type of its field.
func complete(tables map[reflect.Type][]Row) map[reflect.Type][]Row {
	for t, rows := range tables {
		for i := range rows {
			f, ok := t.FieldByName(rows[i].Field)
			if !ok {
				panic(fmt.Sprintf("limits: %v has no field %q", t, rows[i].Field))
			}
			rows[i].Key, rows[i].typ = f.Tag.Get("koanf"), f.Type
		}
	}
	return tables
}
