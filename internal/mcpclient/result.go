package mcpclient

import (
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/mcpjson"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// read returns the result or error in the response to a call.
func (c *Client) read(call *bridge.Call, msg *jsonrpc.Message, p *peer) (*bridge.Result, error) {
	m := call.Method
	rev, tasks := p.rev(), p.tasks.Load()
	if msg.Error != nil {
		return nil, bridge.FromJSONRPC(msg.Error, rev, m)
	}
	if rev.HasResultType() {
		if kind := rawjson.Get(msg.Result, "resultType"); kind != nil && string(kind) != `"complete"` {
			return c.readOther(m, kind, msg.Result, rev, tasks)
		}
	}
	out := m.NewResult()
	err := mcpjson.Unmarshal(msg.Result, out, rev)
	if err != nil && lists[m] != "" && rawjson.IsObject(msg.Result) {
		out = m.NewResult()
		err = mcpjson.Unmarshal(c.cleanList(m, msg.Result, rev), out, rev)
	}
	if err != nil {
		return nil, c.protocolViolation("responded to %s with an invalid result: %v", m.Name, err)
	}
	clean(out)
	if got, ok := out.(*pb.GetTaskResponse); ok {
		clean(got.GetTask())
		clean(got.GetTask().GetResult())
	}
	if lists[m] != "" {
		out = mcpjson.Clone(out) // a copy: the text of the message may be far longer
	}
	if tools, ok := out.(*pb.ListToolsResponse); ok {
		if c.url != nil && rev.Modern() {
			c.params.update(c, tools)
		}
		switch {
		case !tasks:
		case rev.Modern():
			declareExecution(tools)
		default:
			c.params.updateTasks(c, tools)
		}
	}
	return &bridge.Result{Complete: out}, nil
}

// lists are the results whose invalid entries are dropped, with the members that have the entries.
var lists = map[*bridge.Method]string{
	bridge.ListTools: "tools", bridge.ListPrompts: "prompts", bridge.ListResources: "resources",
	bridge.ListResourceTemplates: "resourceTemplates",
}

// cleanList returns the result of a list without invalid entries. The first of them is logged.
func (c *Client) cleanList(m *bridge.Method, result []byte, rev bridge.Revision) []byte {
	entry := m.NewResult().ProtoReflect()
	list := entry.NewField(entry.Descriptor().Fields().ByJSONName(lists[m])).List()
	out := []byte{'{'}
	for name, value := range rawjson.Members(result) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(rawjson.AppendString(out, string(name)), ':')
		if string(name) != lists[m] || !rawjson.IsArray(value) {
			out = append(out, value...)
			continue
		}
		out = append(out, '[')
		kept, bad := 0, 0
		for text := range rawjson.Elements(value) {
			if err := mcpjson.Unmarshal(text, list.NewElement().Message().Interface(), rev); err != nil {
				if bad++; bad == 1 {
					c.log.Warn().Str("entry", rawjson.Shorten(text)).AnErr("why", err).
						Msg("entries of " + m.Name + " are invalid and were dropped; this is the first")
				}
				continue
			}
			if kept++; kept > 1 {
				out = append(out, ',')
			}
			out = append(out, text...)
		}
		out = append(out, ']')
	}
	return append(out, '}')
}

// readOther reads a result that is not complete. tasks means that it may be a task.
func (c *Client) readOther(
	m *bridge.Method, kind, result []byte, rev bridge.Revision, tasks bool,
) (*bridge.Result, error) {
	if string(kind) == `"task"` && m == bridge.CallTool && tasks {
		created := &pb.CreateTaskResult{}
		if err := mcpjson.Unmarshal(result, created, rev); err != nil {
			return nil, c.protocolViolation("responded to %s with an invalid task: %v", m.Name, err)
		}
		clean(created.GetTask())
		return &bridge.Result{Task: created.GetTask()}, nil
	}
	if string(kind) != `"input_required"` || !m.MayRequireInput {
		return nil, c.protocolViolation("responded to %s with the unknown resultType %s", m.Name,
			rawjson.Shorten(kind))
	}
	required := &pb.InputRequired{}
	if err := mcpjson.Unmarshal(result, required, rev); err != nil {
		return nil, c.protocolViolation("responded to %s with invalid input requests: %v", m.Name, err)
	}
	required.Meta = withoutHop(required.GetMeta())
	if len(required.GetInputRequests()) == 0 && required.RequestState == nil {
		return nil, c.protocolViolation("responded to %s with input_required, but without input requests", m.Name)
	}
	return &bridge.Result{InputRequired: required}, nil
}

// clean removes the keys of `_meta` that concern only the server and the bridge.
func clean(m proto.Message) {
	r := m.ProtoReflect()
	fd := r.Descriptor().Fields().ByName("meta")
	if fd == nil || !r.Has(fd) {
		return
	}
	meta := r.Get(fd).String()
	if rest := withoutHop(meta); len(rest) != len(meta) {
		r.Set(fd, protoreflect.ValueOfString(rest))
	}
}

// withoutHop returns `_meta` without the keys that concern only the server and the bridge, or "" if there are no
// others.
func withoutHop(meta string) string {
	object := rawjson.AsBytes(meta)
	if rawjson.Get(object, metaServerInfo) == nil && rawjson.Get(object, metaSubscriptionID) == nil &&
		rawjson.Get(object, metaRelatedTask) == nil {
		return meta
	}
	return rawjson.AsString(rawjson.Without(object, metaServerInfo, metaSubscriptionID, metaRelatedTask))
}

// protocolViolation returns the error of a response that violates the protocol.
func (c *Client) protocolViolation(format string, args ...any) error {
	return bridge.ProtocolViolation(bridge.OutcomeUnknown,
		"server %q "+format+". This is a mistake in the server", append([]any{c.o.Name}, args...)...)
}

// crashed returns the error of a call whose server was lost after the call had been sent, or responded with a status
// only.
func (c *Client) crashed(cause error) error {
	if errors.Is(cause, errTooLarge) {
		return c.tooLarge(cause)
	}
	how := "was lost during the call"
	switch l, ok := errors.AsType[*lostError](cause); {
	case ok && l.responseLost:
		how = l.Error()
	case ok && l.answered:
		how = "failed the call: " + l.Error()
	}
	e := bridge.Failed(codes.Unknown, bridge.OutcomeUnknown, "BACKEND_CRASHED",
		"server %q %s; whether the call was executed is not known", c.o.Name, how)
	e.Cause = cause
	return e
}

// tooLarge returns the error of a call whose response is too large.
func (c *Client) tooLarge(cause error) error {
	e := bridge.Failed(codes.ResourceExhausted, bridge.OutcomeUnknown, "RESPONSE_TOO_LARGE",
		"server %q: %v (max message); the call may have been executed, and its answer is lost", c.o.Name, cause)
	e.Cause = cause
	return e
}

// errTooLarge means that the server sent more than is allowed.
var errTooLarge = errors.New("what the server sent is too large")

// refused returns the error of a call that a server rejected with the status of its response only.
func (c *Client) refused(cause error, sent bool) error {
	e := bridge.Failed(codes.Unavailable, bridge.OutcomeNotExecuted, "BACKEND_UNAVAILABLE",
		"server %q rejected the call: %v; the call was not executed", c.o.Name, cause)
	if sent {
		e = bridge.Failed(codes.Unknown, bridge.OutcomeUnknown, "UPSTREAM_REFUSED",
			"server %q rejected the call: %v; whether the call was executed is not known", c.o.Name, cause)
	}
	e.Cause = cause
	return e
}

// overloaded returns the error of a call above a limit.
func (c *Client) overloaded(format string, args ...any) error {
	e := bridge.Failed(codes.ResourceExhausted, bridge.OutcomeNotExecuted, bridge.ReasonOverloaded,
		"server %q: "+format+": wait for one of them; the call was not executed", append([]any{c.o.Name}, args...)...)
	e.RetryAfter = 100 * time.Millisecond
	return e
}
