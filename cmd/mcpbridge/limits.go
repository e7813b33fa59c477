package main

import (
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
)

// setProcessLimits sets the limits of JSON, which are of the process. Call it before anything is served.
func setProcessLimits(l limits.Limits) {
	l = l.OrDefaults()
	rawjson.SetLimits(rawjson.Limits{Depth: l.JSONDepth, Members: l.JSONMembers, Elements: l.JSONElements})
}
