package catalog

import (
	"fmt"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/mcpjson"
	"github.com/mcpbridge/mcpbridge/internal/tasks"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// The support of a tool for tasks (2025-11-25: ToolExecution.taskSupport). Others are forbidden.
const (
	taskOptional = "optional"
	taskRequired = "required"
)

// taskOptions returns how a call becomes a task, or nil if it does not. t is nil for an unknown tool. It returns an
// error if the client requests a task of a tool without tasks, or does not support tasks and the tool requires them
// (2025-11-25: basic/utilities/tasks, tool-level negotiation; 2026-07-28: extension tasks, capability negotiation).
func (c *Catalog) taskOptions(call *bridge.Call, r *pb.CallToolRequest, t *tool) (*tasks.CallOptions, error) {
	if c.o.Tasks == nil || call.Background {
		return nil, nil //nolint:nilnil // it is executed as any other call
	}
	rule, rev := c.o.TaskPolicy.Of(r.GetName()), call.Revision()
	execution := t.taskExecution()
	support := execution.GetTaskSupport()
	requested := r.GetTask() != nil && rev.HasTaskMetadata()
	// The client may know a tool that could not be listed in time here.
	unlisted := t == nil && requested && c.servesTasks()
	allowed := !rule.Never && (rule.Set || support == taskOptional || support == taskRequired || unlisted)
	if !allowed && !requested {
		return nil, nil //nolint:nilnil // as above
	}
	accepts := bridge.AcceptsTask(r, rev)
	o := &tasks.CallOptions{
		Handler: c, Backend: c.o.Name, Retry: rule.Retry || execution.GetRetry(),
		Required: requested || support == taskRequired,
	}
	switch {
	case !allowed && c.servesTasks():
		return nil, bridge.Errorf(codes.Unimplemented,
			"tools/call: the tool %q does not support tasks: call it without `task`", r.GetName())
	case !allowed: // a server without tasks ignores `task`
		return nil, nil //nolint:nilnil // as above
	case !accepts && support == taskRequired && rev.Modern():
		return nil, mcpjson.MissingTasks(fmt.Sprintf("tools/call: the tool %q runs as a task only", r.GetName()))
	case !accepts && support == taskRequired && rev.HasTaskMetadata():
		return nil, bridge.Errorf(codes.Unimplemented,
			"tools/call: the tool %q runs as a task only: call it with `task`", r.GetName())
	case !accepts:
		return nil, nil //nolint:nilnil // as above
	case requested:
	case rule.Set:
		o.After = rule.After
	case execution.GetStartsLater():
		o.After = -1
	}
	return o, nil
}

func (t *tool) taskExecution() *pb.ToolExecution {
	if t == nil {
		return nil
	}
	return t.execution
}

// taskSources are why calls may become tasks.
type taskSources struct {
	// declared is whether the latest Discover response of the handler or the policy has tasks, and listed whether a
	// list had a tool with tasks since the start: its tasks outlive it.
	declared, listed atomic.Bool
}

// servesTasks reports whether calls may become tasks.
func (c *Catalog) servesTasks() bool { return c.tasks.declared.Load() || c.tasks.listed.Load() }

// withTasks returns a Discover response that declares tasks if the policy or the listed tools have them. A backend can
// add the first tool with tasks at any time.
func (c *Catalog) withTasks(d *pb.DiscoverResponse) *pb.DiscoverResponse {
	declares := bridge.ServesTasks(d.GetCapabilities())
	if c.o.Tasks == nil {
		c.tasks.declared.Store(declares)
		return d
	}
	c.tasks.declared.Store(declares || c.o.TaskPolicy.CreatesTasks())
	if !declares && c.servesTasks() {
		d = bridge.ShallowCopy(d)
		d.Capabilities = bridge.WithTasks(d.GetCapabilities())
	}
	return d
}

// withTaskSupport returns a tool with the support for tasks that the policy gives it.
func (c *Catalog) withTaskSupport(t *pb.Tool) *pb.Tool {
	if c.o.Tasks == nil {
		return t
	}
	rule, support := c.o.TaskPolicy.Of(t.GetName()), t.GetExecution().GetTaskSupport()
	supported := support == taskOptional || support == taskRequired
	if !rule.Never && (rule.Set || supported) {
		c.tasks.listed.Store(true)
	}
	if changes := rule.Never && supported || rule.Set && !supported; !changes {
		return t
	}
	t = bridge.ShallowCopy(t)
	if t.Execution = proto.CloneOf(t.GetExecution()); t.Execution == nil {
		t.Execution = &pb.ToolExecution{}
	}
	t.Execution.TaskSupport = nil
	if rule.Set {
		t.Execution.TaskSupport = proto.String(taskOptional)
	}
	return t
}
