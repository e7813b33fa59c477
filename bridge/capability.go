package bridge

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/internal/rawjson"
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
	return WithTasks(&pb.ServerCapabilities{
		Tools:     &pb.ToolsCapability{ListChanged: yes},
		Resources: &pb.ResourcesCapability{ListChanged: yes, Subscribe: yes},
		Prompts:   &pb.PromptsCapability{ListChanged: yes}, Logging: &pb.Capability{}, Completions: &pb.Capability{},
	})
}

// TasksExtension identifies the tasks extension (2026-07-28). In the contract, a server with tasks declares it to
// clients of every revision.
const TasksExtension = "io.modelcontextprotocol/tasks"

// ServesTasks reports whether a server has tasks.
func ServesTasks(c *pb.ServerCapabilities) bool {
	return hasExtension(c.GetExtensions(), TasksExtension)
}

// WithTasks returns the capabilities of a server with tasks in addition to others.
func WithTasks(c *pb.ServerCapabilities) *pb.ServerCapabilities {
	c = proto.CloneOf(c)
	if c == nil {
		c = &pb.ServerCapabilities{}
	}
	c.Extensions = withTasks(c.GetExtensions())
	return c
}

func withTasks(declared string) string {
	extensions := []byte(`{"` + TasksExtension + `":{}`)
	for id, settings := range rawjson.Members(rawjson.Without(rawjson.AsBytes(declared), TasksExtension)) {
		extensions = append(append(append(extensions, ','), rawjson.AppendString(nil, string(id))...), ':')
		extensions = append(extensions, settings...)
	}
	return rawjson.AsString(append(extensions, '}'))
}

// DeclaresTasks reports whether a client declares the extension for tasks.
func DeclaresTasks(c *pb.ClientCapabilities) bool {
	return hasExtension(c.GetExtensions(), TasksExtension)
}

// DeclareTasks returns the capabilities of a client with the extension for tasks in addition to others.
func DeclareTasks(c *pb.ClientCapabilities) *pb.ClientCapabilities {
	c = ShallowCopy(c)
	c.Extensions = withTasks(c.GetExtensions())
	return c
}

// AcceptsTask reports whether the result of a tools/call may be a task: since 2026-07-28 if the client declares the
// extension, in 2025-11-25 if the request has `task`.
func AcceptsTask(r *pb.CallToolRequest, rev Revision) bool {
	if rev.Modern() {
		return DeclaresTasks(r.GetContext().GetClientCapabilities())
	}
	return r.GetTask() != nil && rev.HasTaskMetadata()
}

func hasExtension(extensions, id string) bool {
	text := rawjson.AsBytes(extensions)
	return len(text) > 0 && rawjson.Check(text) == nil && rawjson.Get(text, id) != nil
}

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
