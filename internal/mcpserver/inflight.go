package mcpserver

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
)

// An inFlight has the requests in flight of one client. Its owner's lock guards it.
type inFlight struct {
	cancel map[string]context.CancelCauseFunc // by the key of the request's id
	tokens map[string]struct{}                // the keys of their progress tokens
	// asking ends the input requests that a tasks/result has sent, by the id of the task.
	asking map[string]*context.CancelCauseFunc
	// reports are those of tasks. It is nil before the first task.
	reports *taskReports
}

// errDuplicateID is the cause of the error for a request with the id of another one.
var errDuplicateID = errors.New("duplicate id")

// add records a request in flight, which cancel cancels, until remove is called. It returns an error if another request
// has the same id or progress token: the client could not distinguish their messages.
func (r *inFlight) add(msg *jsonrpc.Message, l *limits.Limits,
	cancel context.CancelCauseFunc,
) (remove func(), err error) {
	id, token := string(jsonrpc.Key(msg.ID)), ""
	if _, duplicate := r.cancel[id]; duplicate {
		e := bridge.Errorf(codes.InvalidArgument,
			"id %s is already used by a request in flight: every request needs its own id", msg.ID)
		e.RPC, e.Cause = invalidRequest(e.Message), errDuplicateID
		return nil, e
	}
	if raw := rawjson.Get(msg.Meta, metaProgressToken); jsonrpc.IsID(raw, l) {
		token = string(jsonrpc.Key(raw))
		if _, duplicate := r.tokens[token]; duplicate {
			e := bridge.Errorf(codes.InvalidArgument,
				"_meta.progressToken %s is already used by a request in flight: every request needs its own "+
					"token", rawjson.Shorten(raw))
			e.RPC = invalidRequest(e.Message)
			e.RPC.Code = codeInvalidParams
			return nil, e
		}
		if r.tokens == nil {
			r.tokens = map[string]struct{}{}
		}
		r.tokens[token] = struct{}{}
	}
	if r.cancel == nil {
		r.cancel = map[string]context.CancelCauseFunc{}
	}
	r.cancel[id] = cancel
	return func() {
		delete(r.cancel, id)
		delete(r.tokens, token)
	}, nil
}

// refuse rejects a request that cannot start. The error for a duplicate id is sent without the id: the client would
// treat it as the response to the other request.
func (s *Server) refuse(rev bridge.Revision, msg *jsonrpc.Message, out sink, err error) {
	x := &exchange{s: s, rev: rev, id: msg.ID, out: out}
	if errors.Is(err, errDuplicateID) {
		x.id = nil
	}
	x.refuse(nil, err)
}
