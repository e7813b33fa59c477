package main

import (
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
)

// setProcessLimits sets the limits that are of the process. Call it before anything is served.
func setProcessLimits(l limits.Limits) {
	l = l.OrDefaults()
	rawjson.SetLimits(rawjson.Limits{Depth: l.JSONDepth, Members: l.JSONMembers, Elements: l.JSONElements})
	jsonrpc.SetLimits(jsonrpc.Limits{ID: l.ID, Batch: l.Batch})
}
