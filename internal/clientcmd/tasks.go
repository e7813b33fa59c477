package clientcmd

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/problem"
	"github.com/mcpbridge/mcpbridge/internal/tasks"
	"github.com/mcpbridge/mcpbridge/internal/terminal"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// declareTasks declares to the server that the command supports tasks, and any input: `tasks answer` may answer later.
func (c *client) declareTasks() {
	c.caller.ClientCapabilities = bridge.DeclareTasks(&pb.ClientCapabilities{
		Elicitation: &pb.ElicitationCapability{Form: &pb.Capability{}, Url: &pb.Capability{}},
		Sampling:    &pb.SamplingCapability{Tools: &pb.Capability{}},
		Roots:       c.caller.GetClientCapabilities().GetRoots(),
	})
}

// runTasksList prints the tasks of the caller, the newest first.
func runTasksList(ctx context.Context, c *client, _ []string) error {
	var own []*pb.Task
	var cursor *string
	for range limits.ListPages {
		m, err := c.do(ctx, &bridge.Call{
			Method: bridge.ListTasks, Request: &pb.ListTasksRequest{Context: c.caller, Cursor: cursor},
		})
		if err != nil {
			if code := bridge.AsError(err).Code; code == codes.Unimplemented || code == codes.FailedPrecondition {
				p := problem.Of(err)
				p.Fix = "keep the ids that `mcpbridge call --task` prints; servers list tasks only to callers that\n" +
					"authenticate, and over MCP only in 2025-11-25"
				return p
			}
			return err
		}
		page := m.(*pb.ListTasksResponse)
		own = append(own, page.GetTasks()...)
		if cursor = page.NextCursor; cursor == nil {
			break
		}
	}
	if c.asJSON {
		raw, err := list(own)
		if err != nil {
			return err
		}
		return c.print(raw)
	}
	var b strings.Builder
	for _, task := range own {
		fmt.Fprintln(&b, taskLine(task))
	}
	return c.write(b.String())
}

// taskLine returns the id, the status and the status message of a task.
func taskLine(task *pb.Task) string {
	return terminal.OneLine(strings.TrimSpace(fmt.Sprintf("%s %s %s %s", task.GetTaskId(), task.GetLastUpdatedAt(),
		task.GetStatus(), task.GetStatusMessage())), maxSignature)
}

// getTask returns a task.
func (c *client) getTask(ctx context.Context, id string) (*pb.Task, error) {
	c.declareTasks()
	m, err := c.do(ctx, &bridge.Call{
		Method: bridge.GetTask, Request: &pb.GetTaskRequest{Context: c.caller, TaskId: id},
	})
	switch {
	case err == nil:
		return m.(*pb.GetTaskResponse).GetTask(), nil
	case ctx.Err() != nil, c.timeout > 0 && bridge.AsError(err).Code == codes.DeadlineExceeded: // the server's clock
		return nil, errFollowing
	case bridge.AsError(err).Code == codes.Unimplemented:
		p := problem.Of(err)
		p.Fix = "configure `tasks` of its backend, if the server is mcpbridge: docs/tasks.md"
		return nil, p
	}
	return nil, err
}

// runTasksGet prints a task.
func runTasksGet(ctx context.Context, c *client, args []string) error {
	task, err := c.getTask(ctx, args[0])
	if err != nil {
		return err
	}
	if c.asJSON {
		return c.printMessage(task)
	}
	lines := []string{taskLine(task)}
	for _, req := range task.GetInputRequests() {
		lines = append(lines, "asks: "+question(req))
	}
	if task.GetResult() != nil {
		lines = append(lines, contentText(task.GetResult().GetContent()))
	}
	if task.GetError() != nil {
		lines = append(lines, "error: "+task.GetError().GetMessage())
	}
	return c.writeText(strings.Join(lines, "\n"))
}

// question returns an input request as text.
func question(req *pb.InputRequest) string {
	switch r := req.GetRequest().(type) {
	case *pb.InputRequest_Elicit:
		if url := r.Elicit.GetUrl(); url != nil {
			return url.GetMessage() + " " + url.GetUrl()
		}
		return r.Elicit.GetForm().GetMessage()
	case *pb.InputRequest_CreateMessage:
		return "a model"
	case *pb.InputRequest_ListRoots:
		return "the directories in which it may work"
	}
	return "something that mcpbridge cannot show"
}

// runTasksWatch prints a task whenever it has changed, until it ends.
func runTasksWatch(ctx context.Context, c *client, args []string) error {
	printed := ""
	for {
		task, err := c.getTask(ctx, args[0])
		if err != nil {
			return err
		}
		if line := taskLine(task); line != printed {
			printed = line
			if c.asJSON {
				err = c.printMessage(task)
			} else {
				err = c.write(line + "\n")
			}
			if err != nil {
				return err
			}
		}
		if tasks.IsFinal(task.GetStatus()) {
			return nil
		}
		if err := pause(ctx, task); err != nil {
			return err
		}
	}
}

// pause waits until the task should be requested again.
func pause(ctx context.Context, task *pb.Task) error {
	next := time.NewTimer(limits.TaskInterval(task.PollIntervalMs))
	defer next.Stop()
	select {
	case <-next.C:
		return nil
	case <-ctx.Done():
		return errFollowing
	}
}

// runTasksAnswer answers the input requests of a task.
func runTasksAnswer(ctx context.Context, c *client, args []string) error {
	task, err := c.getTask(ctx, args[0])
	if err != nil {
		return err
	}
	if len(task.GetInputRequests()) == 0 {
		return &problem.Error{
			Exit: problem.ExitTool, Code: "nothing_to_answer", What: "the task does not wait for input",
			Why: "it is " + task.GetStatus(), Fix: "`mcpbridge tasks result` waits for its result",
		}
	}
	return c.answerTask(ctx, task, map[string]bool{})
}

// answerTask answers the input requests of a task that are not in answered, and adds them.
func (c *client) answerTask(ctx context.Context, task *pb.Task, answered map[string]bool) error {
	needs, have := &pb.InputRequired{}, c.responder.capabilities()
	have.Roots = &pb.RootsCapability{}
	for _, req := range task.GetInputRequests() {
		if answered[req.GetKey()] {
			continue
		}
		if bridge.MissingCapabilities(have, req) != nil {
			return &problem.Error{
				Exit: problem.ExitTool, Code: "input_required", What: "the task waits for input", Why: question(req),
				Fix: "answer with `mcpbridge tasks answer` on a terminal, or with --answer FIELD=VALUE or --sample FILE",
			}
		}
		needs.InputRequests = append(needs.InputRequests, req)
	}
	if len(needs.GetInputRequests()) == 0 {
		return nil
	}
	answers, err := c.responder.answer(ctx, needs)
	if err != nil {
		return err
	}
	for key := range answers {
		answered[key] = true
	}
	_, err = c.do(ctx, &bridge.Call{Method: bridge.UpdateTask, Request: &pb.UpdateTaskRequest{
		Context: c.caller, TaskId: task.GetTaskId(), InputResponses: answers,
	}})
	return err
}

// runTasksCancel cancels a task.
func runTasksCancel(ctx context.Context, c *client, args []string) error {
	c.declareTasks()
	_, err := c.do(ctx, &bridge.Call{
		Method: bridge.CancelTask, Request: &pb.CancelTaskRequest{Context: c.caller, TaskId: args[0]},
	})
	return err
}

// runTasksResult waits for the result of a task, and prints it.
func runTasksResult(ctx context.Context, c *client, args []string) error {
	res, err := c.follow(ctx, args[0])
	if err != nil {
		return err
	}
	return c.printResult("the task", res)
}

// follow waits for the end of a task, answers its input requests, and returns its result.
func (c *client) follow(ctx context.Context, id string) (*pb.CallToolResult, error) {
	answered := map[string]bool{}
	for {
		task, err := c.getTask(ctx, id)
		switch {
		case err != nil:
			return nil, err
		case task.GetResult() != nil:
			return task.GetResult(), nil
		case tasks.IsFinal(task.GetStatus()):
			return nil, &problem.Error{
				Exit: problem.ExitTool, Code: "task_" + task.GetStatus(), What: "the task is " + task.GetStatus(),
				Why: task.GetError().GetMessage(),
			}
		}
		if err := c.answerTask(ctx, task, answered); err != nil {
			return nil, err
		}
		doing := "the task is " + task.GetStatus()
		if task.GetStatusMessage() != "" {
			doing += ": " + task.GetStatusMessage()
		}
		end := c.bar.Begin(doing + "; Ctrl-C stops waiting")
		err = pause(ctx, task)
		end()
		if err != nil {
			return nil, err
		}
	}
}

// created prints the id of the task that a call has become, and returns its result, or nil if the command does not
// wait.
func (c *client) created(ctx context.Context, task *pb.Task) (*pb.CallToolResult, error) {
	id := terminal.OneLine(task.GetTaskId(), maxSignature)
	switch {
	case c.detach && c.asJSON:
		return nil, c.printMessage(task)
	case c.detach:
		return nil, c.write(id + "\n")
	}
	fmt.Fprintln(c.env.Stderr, "task "+id)
	return c.follow(ctx, task.GetTaskId())
}
