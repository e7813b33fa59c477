package mcpserver

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/mcphttp"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A paramTable knows which arguments of which tools HTTP clients repeat in headers (2026-07-28: streamable-http, custom
// headers), for each group of callers that see the same tools.
type paramTable struct {
	mu    sync.Mutex
	lists map[bridge.Audience]*toolParams
}

// A toolParams is what a list of tools says. It is not changed.
type toolParams struct {
	at time.Time
	// first is the first page of the list: as long as the handler answers with the same message, the list is the same.
	first  *pb.ListToolsResponse
	byName map[string][]mcphttp.Param
}

const (
	// maxAudiences bounds how many lists are known.
	maxAudiences = 64
	// maxToolPages bounds how many pages of a list are read.
	maxToolPages = 1000
)

// checkParams returns an error if the headers do not say what the arguments of a tool say (2026-07-28: streamable-http, server validation):
// who routes or admits requests by them relies on that. What the tools are is asked of the handler. When it does not tell, what it told
// last is enough for a call that is right by that; others are not made. Where it has never told anything, no call is made that has such
// headers. One that has none goes on: a list that fails must not take with it the tools that have no use for them, which are nearly all.
func (s *Server) checkParams(ctx context.Context, call *bridge.Call, header http.Header) error {
	r, ok := call.Request.(*pb.CallToolRequest)
	if !ok || header == nil {
		return nil
	}
	begin := time.Now()
	params, err := s.toolParams(ctx, r.GetContext(), begin.Add(-knownFor))
	wrong := params.check(r, header)
	if wrong != nil && err == nil && params.at.Before(begin) {
		// The tool may have changed since: only what it says now can refuse a call.
		if params, err = s.toolParams(ctx, r.GetContext(), begin); err == nil {
			wrong = params.check(r, header)
		}
	}
	switch {
	case err == nil:
		return wrong
	case wrong != nil:
		return unlisted(err)
	}
	s.log.Debug().Err(err).Msg("the tools are not listed: the headers of a call are compared with what was known of them, if anything was")
	return nil
}

// unlisted returns the error of a call whose headers cannot be checked, since the handler answers tools/list with err.
func unlisted(err error) error {
	e := bridge.AsError(err).Redacted()
	n := bridge.Failed(codes.Unavailable, pb.CallFailure_OUTCOME_NOT_EXECUTED, "BACKEND_FAILED",
		"tools/call: what the headers %s* must say is in the list of tools, and the backend does not list them (%s); the call was not executed",
		mcphttp.HeaderParamPrefix, e.Message)
	if f := e.Failure; f != nil && e.RPC == nil {
		n.Code, n.Failure.Reason, n.Failure.RetryAfterMs = e.Code, f.GetReason(), f.RetryAfterMs
	}
	n.Cause = err
	return n
}

// check returns an error if the headers do not say what the arguments say. If the tools are not known, p is nil.
func (p *toolParams) check(r *pb.CallToolRequest, header http.Header) error {
	if p == nil {
		for name := range header {
			if strings.HasPrefix(name, mcphttp.HeaderParamPrefix) {
				return mismatch("the tools are not known, and there is %s", name)
			}
		}
		return nil
	}
	for _, param := range p.byName[r.GetName()] {
		if err := param.Check(r.GetArguments(), header.Values(param.Header)); err != nil {
			return mismatch("%w", err)
		}
	}
	return nil
}

// toolParams returns what the list of tools says that a caller sees, or saw at some time not before since. With an error it returns what it
// said last, or nil.
func (s *Server) toolParams(ctx context.Context, caller *pb.CallContext, since time.Time) (*toolParams, error) {
	who := bridge.AudienceOf(caller)
	s.params.mu.Lock()
	known := s.params.lists[who]
	s.params.mu.Unlock()
	if known != nil && !known.at.Before(since) {
		return known, nil
	}
	now := time.Now()
	page, err := s.listTools(ctx, caller, nil)
	if err != nil {
		return known, err
	}
	fresh := &toolParams{at: now, first: page}
	if known != nil && samePage(known.first, page) {
		fresh.byName = known.byName
	} else if fresh.byName, err = s.readParams(ctx, caller, page); err != nil {
		return known, err
	}
	s.params.mu.Lock()
	defer s.params.mu.Unlock()
	if s.params.lists == nil || len(s.params.lists) >= maxAudiences && s.params.lists[who] == nil {
		s.params.lists = map[bridge.Audience]*toolParams{}
	}
	s.params.lists[who] = fresh
	return fresh, nil
}

// samePage reports whether two answers are the same page of the list of tools. A page that is kept somewhere ages, so that it is another
// message each time, and its tools are the same.
func samePage(a, b *pb.ListToolsResponse) bool {
	return slices.Equal(a.GetTools(), b.GetTools()) && a.GetNextCursor() == b.GetNextCursor()
}

// readParams returns the parameters of the tools on a page and those after it, by the tools' names.
func (s *Server) readParams(ctx context.Context, caller *pb.CallContext, page *pb.ListToolsResponse) (map[string][]mcphttp.Param, error) {
	byName := map[string][]mcphttp.Param{}
	for range maxToolPages {
		for _, t := range page.GetTools() {
			// An annotation that is invalid is none; clients must not offer such a tool.
			if params, _ := mcphttp.Params(t.GetInputSchema()); len(params) > 0 {
				byName[t.GetName()] = params
			}
		}
		if page.NextCursor == nil {
			break
		}
		var err error
		if page, err = s.listTools(ctx, caller, page.NextCursor); err != nil {
			return nil, err
		}
	}
	return byName, nil
}

// listTools returns a page of the tools that a caller sees.
func (s *Server) listTools(ctx context.Context, caller *pb.CallContext, cursor *string) (*pb.ListToolsResponse, error) {
	res, err := s.handle(ctx, &bridge.Call{Method: bridge.ListTools, Request: &pb.ListToolsRequest{
		Context: &pb.CallContext{
			ProtocolVersion: caller.GetProtocolVersion(), ClientCapabilities: caller.GetClientCapabilities(), Principal: caller.GetPrincipal(),
		},
		Cursor: cursor,
	}}, nil)
	switch {
	case err != nil && cursor == nil && bridge.AsError(err).Code == codes.Unimplemented:
		return &pb.ListToolsResponse{}, nil // it has no list, in which something could be annotated
	case err != nil:
		return nil, err
	}
	return res.Complete.(*pb.ListToolsResponse), nil
}
