package router

import (
	"context"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// The maximum sizes in the merged declaration, in bytes.
const (
	maxInstructions    = 8 << 10 // of one route
	maxAllInstructions = 64 << 10
	maxVersion         = 256
)

// discover merges the declarations of all routes. For a route that does not respond, its last declaration is used.
func (r *Router) discover(ctx context.Context, call *bridge.Call) (*bridge.Result, error) {
	answers := r.callRoutes(ctx, r.routes, func(*route) *bridge.Call { return call })
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	out := &pb.DiscoverResponse{Capabilities: &pb.ServerCapabilities{}}
	var instructions, versions []string
	all, none, first := true, true, true
	for _, a := range answers {
		d, answered := a.result.(*pb.DiscoverResponse)
		a.route.mu.Lock()
		known := &a.route.lastDeclared[call.Era()]
		if answered {
			*known = d
		}
		d = *known
		a.route.mu.Unlock()
		all = all && answered
		if d == nil {
			merge(out.GetCapabilities(), bridge.AllCapabilities())
			continue
		}
		none = false
		merge(out.GetCapabilities(), d.GetCapabilities())
		if text := d.GetInstructions(); text != "" {
			instructions = append(instructions, "# "+a.route.Name+"\n\nWhat begins with "+a.route.prefix+
				" is of this server.\n\n"+rawjson.ShortenTo(text, maxInstructions))
		}
		versions = append(versions, strings.TrimSpace(a.route.Name+" "+d.GetServerInfo().GetVersion()))
		if first {
			out.TtlMs, out.CacheScope = d.TtlMs, d.CacheScope
		} else {
			out.TtlMs, out.CacheScope = shorterTTL(out.TtlMs, d.TtlMs), mergeScope(out.CacheScope, d.CacheScope)
		}
		out.Meta, out.Extra = union(out.GetMeta(), d.GetMeta()), union(out.GetExtra(), d.GetExtra())
		first = false
	}
	if none {
		return nil, answers[0].err
	}
	setListChanged(out.GetCapabilities())
	if !all {
		out.TtlMs = proto.Int64(0)
	}
	if len(instructions) > 0 {
		out.Instructions = proto.String(rawjson.ShortenTo(strings.Join(instructions, "\n\n"), maxAllInstructions))
	}
	out.ServerInfo = r.o.Info
	if out.GetServerInfo() == nil {
		out.ServerInfo = &pb.Implementation{
			Name:    "mcpbridge",
			Version: rawjson.ShortenTo(strings.Join(versions, ", "), maxVersion),
		}
	}
	return &bridge.Result{Complete: out}, nil
}

// mergeScope returns the cache scope of a merge of two results.
func mergeScope(a, b string) string {
	if a == b {
		return a
	}
	return "private"
}

// setListChanged sets listChanged of every list: the Router reports changes when a missing server is back.
func setListChanged(c *pb.ServerCapabilities) {
	if c.Tools != nil {
		c.Tools.ListChanged = proto.Bool(true)
	}
	if c.Resources != nil {
		c.Resources.ListChanged = proto.Bool(true)
	}
	if c.Prompts != nil {
		c.Prompts.ListChanged = proto.Bool(true)
	}
}

// merge adds c to all. Tasks are not added: they exist in 2025-11-25 only, and belong to one server.
func merge(all, c *pb.ServerCapabilities) {
	if t := c.GetTools(); t != nil {
		if all.Tools == nil {
			all.Tools = &pb.ToolsCapability{}
		}
		mergeHint(&all.Tools.ListChanged, t.ListChanged)
		all.Tools.Extra = union(all.Tools.GetExtra(), t.GetExtra())
	}
	if t := c.GetResources(); t != nil {
		if all.Resources == nil {
			all.Resources = &pb.ResourcesCapability{}
		}
		mergeHint(&all.Resources.ListChanged, t.ListChanged)
		mergeHint(&all.Resources.Subscribe, t.Subscribe)
		all.Resources.Extra = union(all.Resources.GetExtra(), t.GetExtra())
	}
	if t := c.GetPrompts(); t != nil {
		if all.Prompts == nil {
			all.Prompts = &pb.PromptsCapability{}
		}
		mergeHint(&all.Prompts.ListChanged, t.ListChanged)
		all.Prompts.Extra = union(all.Prompts.GetExtra(), t.GetExtra())
	}
	if c.GetCompletions() != nil && all.Completions == nil {
		all.Completions = &pb.Capability{}
	}
	if c.GetLogging() != nil && all.Logging == nil {
		all.Logging = &pb.Capability{}
	}
	all.Extensions = union(all.GetExtensions(), c.GetExtensions())
	all.Experimental = union(all.GetExperimental(), c.GetExperimental())
	all.Extra = union(all.GetExtra(), c.GetExtra())
}

// mergeHint sets a hint that is true in another declaration, or copies it if it is unset.
func mergeHint(a **bool, b *bool) {
	if b != nil && (*a == nil || *b) {
		*a = proto.Bool(*b)
	}
}
