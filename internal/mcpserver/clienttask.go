package mcpserver

import (
	"bytes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/mcpjson"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// Input requests are ordinary requests, even to clients that support tasks for them: the response to one may come at
// any time, and needs no stream. A client may reject ordinary requests, however, and then receives the request with
// `task` (2025-11-25: basic/utilities/tasks, task support and handling).

// continueAsTask handles the response to an input request that is not the response to the input: it repeats a request
// that the client wants as a task, and requests the result of the client's task. It reports whether the client has
// another response to send.
func (ss *session) continueAsTask(
	q *inputQuery, msg *jsonrpc.Message, x *exchange, meta []mcpjson.Member,
) (bool, error) {
	switch {
	case !q.asTask && msg.Error.GetCode() == codeInvalidRequest && ss.handlesTask(q.req):
		q.asTask = true
	case q.asTask && q.task == "" && msg.Error == nil:
		id, ok := rawjson.String(rawjson.Get(rawjson.Get(msg.Result, "task"), "taskId"))
		if !ok {
			return false, nil
		}
		tasks := rawjson.AsBytes(ss.caller.GetClientCapabilities().GetTasks())
		q.task, q.cancels = id, rawjson.IsObject(rawjson.Get(tasks, "cancel"))
	default:
		return false, nil
	}
	ss.removeRequest(q.id)
	q.id, q.answer = ss.addRequest()
	if q.task != "" {
		return true, x.out.send(jsonrpc.AppendRequest(nil, []byte(`"`+q.id+`"`), methodTaskResult, taskParams(q.task)))
	}
	request, err := ss.s.inputMessage(q.id, q.req, ss.rev, meta...)
	if err != nil {
		return false, err
	}
	return true, x.out.send(append(bytes.TrimSuffix(request, []byte("}}")), `,"task":{}}}`...))
}

// handlesTask reports whether the client supports tasks for an input request.
func (ss *session) handlesTask(req *pb.InputRequest) bool {
	requests := rawjson.Get(rawjson.AsBytes(ss.caller.GetClientCapabilities().GetTasks()), "requests")
	if !ss.rev.HasTaskMetadata() {
		return false
	}
	switch req.GetRequest().(type) {
	case *pb.InputRequest_Elicit:
		return rawjson.IsObject(rawjson.Get(rawjson.Get(requests, "elicitation"), "create"))
	case *pb.InputRequest_CreateMessage:
		return rawjson.IsObject(rawjson.Get(rawjson.Get(requests, "sampling"), "createMessage"))
	}
	return false
}

// cancelTask returns the request that cancels the client's task. Its response has no effect.
func cancelTask(q *inputQuery) []byte {
	return jsonrpc.AppendRequest(nil, []byte(`"cancel-`+q.id+`"`), bridge.CancelTask.Name, taskParams(q.task))
}
