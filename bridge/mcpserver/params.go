package mcpserver

import (
	"context"
	"net/http"
	"sync"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/bridge/mcphttp"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A paramTable knows which arguments of which tools HTTP clients repeat in headers (2026-07-28: streamable-http, custom
// headers). It knows them by the first page of a list of tools: as long as the handler answers with the same message, the
// list is the same.
type paramTable struct {
	mu    sync.Mutex
	lists map[*pb.ListToolsResponse]map[string][]mcphttp.Param
}

const (
	// maxParamLists bounds how many lists are known: one for each group of callers that see the same tools.
	maxParamLists = 64
	// maxToolPages bounds how many pages of a list are read.
	maxToolPages = 1000
)

// checkParams returns an error if the headers do not say what the arguments of a tool say. What the tools are is asked of the
// handler; when it does not tell, nothing is known to be wrong, and the call itself will show why.
func (s *Server) checkParams(ctx context.Context, call *bridge.Call, header http.Header) error {
	r, ok := call.Request.(*pb.CallToolRequest)
	if !ok || header == nil {
		return nil
	}
	params, err := s.toolParams(ctx, r.GetContext())
	if err != nil {
		s.log.Debug().Err(err).Msg("the tools are not known, so that the headers of a call cannot be checked")
		return nil
	}
	args := r.GetArguments()
	for _, p := range params[r.GetName()] {
		if err := p.Check(args, header.Values(p.Header)); err != nil {
			return mismatch("%w", err)
		}
	}
	return nil
}

// toolParams returns the parameters of the tools that a caller sees, by the tools' names.
func (s *Server) toolParams(ctx context.Context, caller *pb.CallContext) (map[string][]mcphttp.Param, error) {
	page, err := s.listTools(ctx, caller, nil)
	if err != nil {
		return nil, err
	}
	first := page
	s.params.mu.Lock()
	known, ok := s.params.lists[first]
	s.params.mu.Unlock()
	if ok {
		return known, nil
	}
	known = map[string][]mcphttp.Param{}
	for range maxToolPages {
		for _, t := range page.GetTools() {
			// An annotation that is invalid is none; clients must not offer such a tool.
			if params, _ := mcphttp.Params(t.GetInputSchema()); len(params) > 0 {
				known[t.GetName()] = params
			}
		}
		if page.NextCursor == nil {
			break
		}
		if page, err = s.listTools(ctx, caller, page.NextCursor); err != nil {
			return nil, err
		}
	}
	s.params.mu.Lock()
	defer s.params.mu.Unlock()
	if s.params.lists == nil || len(s.params.lists) >= maxParamLists {
		s.params.lists = map[*pb.ListToolsResponse]map[string][]mcphttp.Param{}
	}
	s.params.lists[first] = known
	return known, nil
}

// listTools returns a page of the tools that a caller sees.
func (s *Server) listTools(ctx context.Context, caller *pb.CallContext, cursor *string) (*pb.ListToolsResponse, error) {
	res, err := s.handle(ctx, &bridge.Call{Method: bridge.ListTools, Request: &pb.ListToolsRequest{
		Context: &pb.CallContext{ProtocolVersion: caller.GetProtocolVersion(), Principal: caller.GetPrincipal()}, Cursor: cursor,
	}}, nil)
	if err != nil {
		return nil, err
	}
	return res.Complete.(*pb.ListToolsResponse), nil
}
