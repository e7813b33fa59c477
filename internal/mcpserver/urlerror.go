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

// visits returns the web pages that an error names, each with the id of its visit as the key, or nothing if it is another error.
func visits(err error) []*pb.InputRequest {
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
		if mcpjson.Unmarshal(raw, r, bridge.LatestLegacy) == nil && r.GetUrl().GetElicitationId() != "" && !slices.ContainsFunc(pages, id) {
			pages = append(pages, &pb.InputRequest{
				Key: r.GetUrl().GetElicitationId(), Request: &pb.InputRequest_Elicit{Elicit: r},
			})
		}
	}
	return pages
}

// asNeeds returns what a call needs whose error names web pages, for a client that does not know such errors: the same visits,
// asked for in the way that every revision with web pages has. Other errors stay what they are.
func asNeeds(res *bridge.Result, err error) (*bridge.Result, error) {
	if err == nil {
		return res, nil
	}
	if pages := visits(err); len(pages) > 0 {
		return &bridge.Result{InputRequired: &pb.InputRequired{InputRequests: pages}}, nil
	}
	return nil, err
}

// maxAwaited bounds how many visits a session waits for.
const maxAwaited = 100

// await notes the visits that an error tells the client to make, so that it is told when one is completed.
func (ss *session) await(err error) {
	pages := visits(err)
	if len(pages) == 0 {
		return
	}
	ss.mu.Lock()
	for _, p := range pages {
		ss.awaited = append(ss.awaited, p.GetKey())
	}
	ss.awaited = ss.awaited[max(0, len(ss.awaited)-maxAwaited):]
	ss.mu.Unlock()
	_, _ = ss.listen()
}

// awaits reports whether the session waits for the visit that a change tells the completion of, and notes that it no longer does.
func (ss *session) awaits(done *pb.ElicitationCompleted) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	i := slices.Index(ss.awaited, done.GetElicitationId())
	if i < 0 {
		return false
	}
	ss.awaited = slices.Delete(ss.awaited, i, i+1)
	return true
}

// completed tells the client that it need not wait for the visits any more that it agreed to: the call goes on, and does not
// need them again.
func (x *exchange) completed(asked []*pb.InputRequest, answers map[string]*pb.InputResponse, needs *pb.InputRequired) error {
	for _, req := range asked {
		url := req.GetElicit().GetUrl()
		again := func(r *pb.InputRequest) bool { return r.GetKey() == req.GetKey() }
		if url == nil || slices.ContainsFunc(needs.GetInputRequests(), again) || answers[req.GetKey()].GetElicit().GetAction() != "accept" {
			continue
		}
		if err := x.notify(feed.NotifyElicitation, &pb.ElicitationCompleted{ElicitationId: url.GetElicitationId()}); err != nil {
			return err
		}
	}
	return nil
}

// withIDs returns the questions, in which every visit of a web page has an id.
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
