package bridge

import (
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
		tools := r.CreateMessage.GetTools() != nil || r.CreateMessage.GetToolChoice() != nil
		if tools && have.GetSampling().GetTools() == nil {
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

// Effective returns what of c a client can do in revision r. A capability that the revision does not know has no words to be
// used by.
func Effective(c *pb.ClientCapabilities, r Revision) *pb.ClientCapabilities {
	elicits := c.GetElicitation() == nil || r.HasElicitation() && (c.GetElicitation().GetUrl() == nil || r.HasURLElicitation())
	tools := c.GetSampling().GetTools() == nil || r.HasSamplingTools()
	if elicits && tools {
		return c
	}
	c = proto.CloneOf(c)
	switch {
	case !r.HasElicitation():
		c.Elicitation = nil
	case !r.HasURLElicitation():
		c.Elicitation = &pb.ElicitationCapability{Extra: c.GetElicitation().GetExtra()}
	}
	if !tools {
		c.Sampling.Tools = nil
	}
	return c
}
