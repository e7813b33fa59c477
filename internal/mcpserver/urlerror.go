package mcpserver

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/feed"
	"github.com/mcpbridge/mcpbridge/internal/mcpjson"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// urlElicitations returns the URL elicitations of an error, with their ids as keys, or nil if it is another error.
func urlElicitations(err error) []*pb.InputRequest {
	e := bridge.AsError(err)
	if e == nil || e.RPC.GetCode() != bridge.CodeURLElicitation {
		return nil
	}
	data := rawjson.AsBytes(e.RPC.GetData())
	if rawjson.Check(data) != nil {
		return nil
	}
	var pages []*pb.InputRequest
	for raw := range rawjson.Elements(rawjson.Get(data, "elicitations")) {
		r := &pb.ElicitRequest{}
		id := func(p *pb.InputRequest) bool { return p.GetKey() == r.GetUrl().GetElicitationId() }
		if mcpjson.Unmarshal(raw, r, bridge.LatestLegacy) == nil && r.GetUrl().GetElicitationId() != "" &&
			!slices.ContainsFunc(pages, id) {
			pages = append(pages, &pb.InputRequest{
				Key: r.GetUrl().GetElicitationId(), Request: &pb.InputRequest_Elicit{Elicit: r},
			})
		}
	}
	return pages
}

// asInputRequired converts an error that requires URL elicitation to input requests, for clients that do not support
// the error. It returns other errors unchanged.
func asInputRequired(res *bridge.Result, err error) (*bridge.Result, error) {
	if err == nil {
		return res, nil
	}
	if pages := urlElicitations(err); len(pages) > 0 {
		return &bridge.Result{InputRequired: &pb.InputRequired{InputRequests: pages}}, nil
	}
	return nil, err
}

// maxAwaited is the maximum number of URL elicitations that a session waits for.
const maxAwaited = 100

// addElicitations records the URL elicitations of an error, so that the client is notified of their completion.
func (ss *session) addElicitations(err error) {
	pages := urlElicitations(err)
	if len(pages) == 0 {
		return
	}
	ss.mu.Lock()
	for _, p := range pages {
		ss.elicitations = append(ss.elicitations, p.GetKey())
	}
	ss.elicitations = ss.elicitations[max(0, len(ss.elicitations)-maxAwaited):]
	ss.mu.Unlock()
	_, _ = ss.listen()
}

// removeElicitation reports whether the session waits for the completion of a URL elicitation, and stops waiting for
// it.
func (ss *session) removeElicitation(done *pb.ElicitationCompleted) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	i := slices.Index(ss.elicitations, done.GetElicitationId())
	if i < 0 {
		return false
	}
	ss.elicitations = slices.Delete(ss.elicitations, i, i+1)
	return true
}

// notifyCompleted notifies the client that URL elicitations which it accepted are complete: the handler has continued,
// and no longer requires them.
func (x *exchange) notifyCompleted(asked []*pb.InputRequest, answers map[string]*pb.InputResponse,
	required *pb.InputRequired,
) error {
	for _, req := range asked {
		url := req.GetElicit().GetUrl()
		again := func(r *pb.InputRequest) bool { return r.GetKey() == req.GetKey() }
		if url == nil || slices.ContainsFunc(required.GetInputRequests(), again) ||
			answers[req.GetKey()].GetElicit().GetAction() != "accept" {
			continue
		}
		if err := x.notify(feed.NotifyElicitation,
			&pb.ElicitationCompleted{ElicitationId: url.GetElicitationId()}); err != nil {
			return err
		}
	}
	return nil
}

// withIDs returns the input requests, with an id for every URL elicitation.
func withIDs(reqs []*pb.InputRequest, newID func() string) []*pb.InputRequest {
	out := slices.Clone(reqs)
	for i, req := range reqs {
		if url := req.GetElicit().GetUrl(); url != nil && url.ElicitationId == nil {
			out[i] = proto.CloneOf(req)
			out[i].GetElicit().GetUrl().ElicitationId = proto.String(newID())
		}
	}
	return out
}
