package bridge

import (
	"slices"

	"google.golang.org/protobuf/proto"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// ElicitsForms reports whether a client supports form elicitation. A client that declares no mode does (2025-11-25
// and 2026-07-28: client/elicitation, capabilities).
func ElicitsForms(c *pb.ClientCapabilities) bool {
	e := c.GetElicitation()
	return e != nil && (e.GetForm() != nil || e.GetUrl() == nil)
}

// ElicitsURLs reports whether a client supports URL elicitation.
func ElicitsURLs(c *pb.ClientCapabilities) bool { return c.GetElicitation().GetUrl() != nil }

// MissingCapabilities returns the capabilities that a client needs to answer req and does not have, or nil.
func MissingCapabilities(have *pb.ClientCapabilities, req *pb.InputRequest) *pb.ClientCapabilities {
	switch r := req.GetRequest().(type) {
	case *pb.InputRequest_Elicit:
		if r.Elicit.GetRaw() != "" { // in a mode that the client may have declared under a name that the contract lacks
			if have.GetElicitation() == nil {
				return &pb.ClientCapabilities{Elicitation: &pb.ElicitationCapability{}}
			}
			return nil
		}
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

// samplesTools reports whether the request offers tools to the model, or contains the use of one.
func samplesTools(r *pb.CreateMessageRequest) bool {
	usesTool := func(b *pb.ContentBlock) bool { return b.GetToolUse() != nil || b.GetToolResult() != nil }
	return r.GetTools() != nil || r.GetToolChoice() != nil ||
		slices.ContainsFunc(r.GetMessages(), func(m *pb.SamplingMessage) bool {
			return slices.ContainsFunc(m.GetContent(), usesTool)
		})
}

// AllCapabilities returns every server capability, for a server whose capabilities are not known yet: a client might
// never use one that the server declares later.
func AllCapabilities() *pb.ServerCapabilities {
	yes := proto.Bool(true)
	return &pb.ServerCapabilities{
		Tools:     &pb.ToolsCapability{ListChanged: yes},
		Resources: &pb.ResourcesCapability{ListChanged: yes, Subscribe: yes},
		Prompts:   &pb.PromptsCapability{ListChanged: yes}, Logging: &pb.Capability{}, Completions: &pb.Capability{},
	}
}

// TasksExtension identifies the tasks extension (2026-07-28). It needs a store, which the bridge does not have.
const TasksExtension = "io.modelcontextprotocol/tasks"

// EffectiveCapabilities returns c without the modes of elicitation and sampling that revision r does not define. A
// capability that r does not define at all stays if the client declares it.
func EffectiveCapabilities(c *pb.ClientCapabilities, r Revision) *pb.ClientCapabilities {
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
