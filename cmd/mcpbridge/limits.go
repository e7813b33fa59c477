package main

import (
	"strconv"
	"time"

	"github.com/mcpbridge/mcpbridge/internal/catalog"
	"github.com/mcpbridge/mcpbridge/internal/child"
	"github.com/mcpbridge/mcpbridge/internal/grpcserver"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/mcpserver"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	"github.com/mcpbridge/mcpbridge/internal/seal"
)

// A bound is what a limit can be set to. What it is if it is not set is a constant of who keeps it.
type bound struct {
	least, most int64  // 0: there is none
	why, orElse string // it cannot be less, or more
}

// maxMessage is how many bytes a message can have: whoever sends it decides how much memory it takes.
const maxMessage = grpcserver.HardMaxMessage

// headerExtra is what net/http adds to the header that it is told to read.
const headerExtra = 4 << 10

// bounds are those of limits, by their keys. The least is what a client or a backend that is well needs; the most is what the bridge can
// still bear of one that is not, and there is none where only the operator's machine is the limit.
var bounds = map[string]bound{
	"limits.header":         {8 << 10, 1 << 20, "browsers and proxies send more", "it is in memory before anybody knows who sends it"},
	"limits.headerFields":   {16, 10_000, "browsers and proxies send more", "they are in memory before anybody knows who sends them"},
	"limits.headerTime":     {int64(100 * time.Millisecond), int64(5 * time.Minute), "networks take longer", "whoever sends nothing would keep a connection for as long"},
	"limits.connectionIdle": {int64(100 * time.Millisecond), int64(24 * time.Hour), "every request would need a connection", "connections would never be closed"},
	"limits.bodyTime":       {int64(100 * time.Millisecond), int64(time.Hour), "networks take longer", "whoever sends little would keep its memory for as long"},
	"limits.bodyRate":       {1, 1 << 30, "", "no network is so fast"},
	"limits.writeTime":      {int64(10 * time.Millisecond), int64(time.Hour), "networks take longer", "whoever reads nothing would keep its memory for as long"},
	"limits.line":           {0, maxMessage, "", "64 MiB is the most"},
	"limits.message":        {0, maxMessage, "", "64 MiB is the most"},
	"limits.memory":         {leastMemory, 0, "the bridge itself needs more", ""},
	"limits.jsonDepth":      {16, 1_000, "messages of MCP are deeper", "whoever reads JSON needs stack for it"},
	"limits.jsonMembers":    {64, 1_000_000, "objects of MCP have more", "their names are remembered, to find one that is there twice"},
	"limits.jsonElements":   {64, 10_000_000, "lists of MCP have more", "they are in memory, each by itself"},
	"limits.id":             {16, 4 << 10, "ids of clients are longer", "it is remembered for as long as the call lasts"},
	"limits.batch":          {1, 10_000, "", "all of it is answered at once"},
	"limits.tools":          {1, 65_536, "", "more are not remembered"},
	"limits.toolName":       {16, 1 << 10, "tools have longer names", "it is in headers, logs and tables"},
	"limits.schema":         {64, 4 << 20, "schemas are longer", "all of them are in memory"},
	"limits.schemaValues":   {16, 1_000_000, "schemas have more", "each is looked at for every caller"},
	"limits.subschemas":     {16, 4_000, "schemas have more", "compiling them takes time, and cannot be interrupted"},
	"limits.sessionStreams": {1, 1_000, "", "limits.streams is for more"},
	"limits.changes":        {1, 1_000_000, "", "they are in memory, for every client"},
	"limits.changesBytes":   {1 << 10, 64 << 20, "a single change can have more", "they are in memory, for every client"},
	"limits.sessionReplay":  {1 << 10, 1 << 30, "a single event has more", "it is in memory"},
	"limits.replay":         {1 << 10, 0, "a single event has more", ""},
	"limits.state":          {1 << 10, seal.MaxState, "backends keep more in it", "the contract lets a backend have half of it, 32 KiB"},
	"limits.logLine":        {64, child.MaxLine, "nobody could read what is wrong", "no more is kept of a line"},
	"limits.logRate":        {1 << 10, 1 << 30, "nobody could read what is wrong", "no log is so fast"},
}

// text says what a limit with a value like this one can be.
func (b bound) text(like any) string {
	what, number := "how many", func(n int64) string { return strconv.FormatInt(n, 10) }
	if _, ok := like.(time.Duration); ok {
		what, number = "how long", func(n int64) string { return time.Duration(n).String() }
	}
	switch {
	case b.most == 0:
		return what + ", at least " + number(b.least)
	case b.least <= 1:
		return what + ", at most " + number(b.most)
	}
	return what + ", from " + number(b.least) + " to " + number(b.most)
}

// setLimits sets the limits that are of the process. Call it before anything is served.
func (l *LimitsConfig) setLimits() {
	rawjson.SetLimits(rawjson.Limits{Depth: l.JSONDepth, Members: l.JSONMembers, Elements: l.JSONElements})
	jsonrpc.SetLimits(jsonrpc.Limits{ID: l.ID, Batch: l.Batch})
}

// logs returns how much of programs' output is logged.
func (l *LimitsConfig) logs() child.LogLimits {
	return child.LogLimits{Line: l.LogLine, Rate: l.LogRate}
}

// catalog returns what the tools of a backend may be, for its catalog.
func (l *LimitsConfig) catalog() catalog.Options {
	return catalog.Options{MaxTools: l.Tools, MaxName: l.ToolName, MaxSchema: l.Schema, MaxSchemaValues: l.SchemaValues, MaxSubschemas: l.Subschemas}
}

// sessions returns what the legacy sessions of all endpoints may be together.
func (l *LimitsConfig) sessions() mcpserver.SessionLimits {
	return mcpserver.SessionLimits{Most: l.Sessions, PerPrincipal: l.SessionsPerCaller, Replay: l.Replay}
}

// server returns what clients may do, for what serves them.
func (l *LimitsConfig) server() mcpserver.Options {
	return mcpserver.Options{
		SessionTTL: l.SessionIdle, MaxCalls: l.SessionCalls,
		MaxSessionStreams: l.SessionStreams, MaxBody: int64(l.Body), BodyTime: l.BodyTime, BodyRate: l.BodyRate, WriteTimeout: l.WriteTime,
		MaxLine: l.Line, MaxChanges: l.Changes, MaxChangesSize: l.ChangesBytes, MaxReplay: l.SessionReplay,
		MaxState: l.State, StateTTL: l.StateLife, AskTimeout: l.AnswerTime,
	}
}
