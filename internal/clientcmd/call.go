package clientcmd

import (
	"context"
	"fmt"
	"slices"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/signature"
	"github.com/mcpbridge/mcpbridge/internal/terminal"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// runCall calls a tool.
func runCall(ctx context.Context, c *client, args []string) error {
	d, err := c.discover(ctx)
	if err != nil {
		return err
	}
	tools, err := c.tools(ctx, d)
	if err != nil {
		return err
	}
	name := args[0]
	i := slices.IndexFunc(tools, func(t *pb.Tool) bool { return t.GetName() == name })
	if i < 0 {
		var names []string
		for _, t := range tools {
			names = append(names, t.GetName())
		}
		return c.notFound("tool", name, names)
	}
	t := tools[i]
	usage := terminal.OneLine(signature.Tool(name, t.GetInputSchema(), ""), maxSignature)
	arguments, err := argumentReader{c.env.Stdin}.parse(ctx, args[1:], signature.Of(t.GetInputSchema()), name, usage)
	if err != nil {
		return err
	}
	if c.task || c.detach {
		c.declareTasks()
	}
	m, err := c.do(ctx, &bridge.Call{
		Method:  bridge.CallTool,
		Request: &pb.CallToolRequest{Context: c.caller, Name: name, Arguments: arguments},
	})
	if err != nil {
		return err
	}
	if task, ok := m.(*pb.Task); ok {
		res, err := c.created(ctx, task)
		if res == nil || err != nil {
			return err
		}
		return c.printResult(fmt.Sprintf("the tool %q", name), res)
	}
	res := m.(*pb.CallToolResult)
	if res.GetIsError() && !c.called.Load() {
		return invalidArguments([]string{contentText(res.GetContent())}, name, usage)
	}
	if c.task || c.detach {
		c.log.Warn().Str("fix", "mcpbridge decides by `tasks` of the backend, and the tool: docs/tasks.md").
			Msg("the server has not made the call a task: this is its result")
	}
	return c.printResult(fmt.Sprintf("the tool %q", name), res)
}
