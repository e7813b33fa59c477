package bridge

import (
	"slices"

	"google.golang.org/protobuf/proto"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// ElicitsForms reports whether a client shows forms to its user. A client that names no mode does (2025-11-25 and
// 2026-07-28: client/elicitation, capabilities).
func ElicitsForms(c *pb.ClientCapabilities) bool {
	e := c.GetElicitation()
	return e != nil && (e.GetForm() != nil || e.GetUrl() == nil)
}

// ElicitsURLs reports whether a client has its user visit web pages.
func ElicitsURLs(c *pb.ClientCapabilities) bool { return c.GetElicitation().GetUrl() != nil }

// Missing returns the capabilities that a client must have to answer req and does not have, or nil if it has them all.
func Missing(have *pb.ClientCapabilities, req *pb.InputRequest) *pb.ClientCapabilities {
	switch r := req.GetRequest().(type) {
	case *pb.InputRequest_Elicit:
		if r.Elicit.GetUrl() != nil {
			if !ElicitsURLs(have) {
				return &pb.ClientCapabilities{Elicitation: &pb.ElicitationCapability{Url: &pb.Capability{}}}
			}
			return nil
		}
		if !ElicitsForms(have) {
			return &pb.ClientCapabilities{Elicitation: &pb.ElicitationCapability{Form: &pb.Capability{}}}
		}
	case *pb.InputRequest_CreateMessage:
		if samplesTools(r.CreateMessage) && have.GetSampling().GetTools() == nil {
			return &pb.ClientCapabilities{Sampling: &pb.SamplingCapability{Tools: &pb.Capability{}}}
		}
		if have.GetSampling() == nil {
			return &pb.ClientCapabilities{Sampling: &pb.SamplingCapability{}}
		}
	case *pb.InputRequest_ListRoots:
		if have.GetRoots() == nil {
			return &pb.ClientCapabilities{Roots: &pb.RootsCapability{}}
		}
	}
	return nil
}

// samplesTools reports whether a model is asked that is to know tools: it is told of some, or of what was done with them before.
func samplesTools(r *pb.CreateMessageRequest) bool {
	return r.GetTools() != nil || r.GetToolChoice() != nil || slices.ContainsFunc(r.GetMessages(), func(m *pb.SamplingMessage) bool {
		return slices.ContainsFunc(m.GetContent(), func(b *pb.ContentBlock) bool { return b.GetToolUse() != nil || b.GetToolResult() != nil })
	})
}

// Superset returns the capabilities of a server of which nothing is known yet: all that it may have. A client that is sent fewer may never
// ask for the rest.
func Superset() *pb.ServerCapabilities {
	yes := proto.Bool(true)
	return &pb.ServerCapabilities{
		Tools: &pb.ToolsCapability{ListChanged: yes}, Resources: &pb.ResourcesCapability{ListChanged: yes, Subscribe: yes},
		Prompts: &pb.PromptsCapability{ListChanged: yes}, Logging: &pb.Capability{}, Completions: &pb.Capability{},
	}
}

// TasksExtension is the extension of tasks (2026-07-28). Serving them needs a store, which the bridge does not have.
const TasksExtension = "io.modelcontextprotocol/tasks"

// Effective returns what of c a client can do in revision r: a way to use a capability that the revision has no words for, it
// cannot be used by. A client of a revision without elicitation that declares it all the same has it, as 2025-06-18 does.
func Effective(c *pb.ClientCapabilities, r Revision) *pb.ClientCapabilities {
	urls := c.GetElicitation().GetUrl() == nil || r.HasURLElicitation()
	tools := c.GetSampling().GetTools() == nil || r.HasSamplingTools()
	if urls && tools {
		return c
	}
	c = proto.CloneOf(c)
	if !urls {
		c.Elicitation.Url = nil
	}
	if !tools {
		c.Sampling.Tools = nil
	}
	return c
}
