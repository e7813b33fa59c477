package mcpbridge

import (
	"context"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// Task is an option of a tool that takes a long time: clients that support tasks do not wait for its result, but
// receive a task, and poll its status. The bridge keeps the task: Progress becomes its status, questions become its
// input requests, and the context is canceled when the task is. Other clients wait for the result, as without this
// option.
type Task struct {
	// Required rejects calls of clients that do not support tasks.
	Required bool
	// Retry permits the bridge to call the tool again, once, if the program ends during the call. Otherwise the task
	// fails.
	Retry bool
	// StartsLater makes a call a task only when the tool calls StartTask. Otherwise it is a task from the start.
	StartsLater bool
}

func (o Task) toTool(t *tool) {
	support := "optional"
	if o.Required {
		support = "required"
	}
	t.message.Execution = &pb.ToolExecution{TaskSupport: &support, Retry: o.Retry, StartsLater: o.StartsLater}
}

// StartTask makes the call of a tool with Task.StartsLater a task, for example after a question or if there is much to
// do. It has no effect if the call is a task already, or the client does not support tasks.
func StartTask(ctx context.Context) {
	c := from(ctx)
	if c == nil || c.startTask == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.closed = c.startTask() != nil
	}
}

// hasTasks reports whether calls of the tool can be tasks.
func (t *tool) hasTasks() bool { return t.message.GetExecution() != nil }
