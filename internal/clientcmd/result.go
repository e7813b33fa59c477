package clientcmd

import (
	"github.com/mcpbridge/mcpbridge/internal/problem"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// printResult prints the result of a tool, or returns the problem of one that failed. what is the tool or the task.
func (c *client) printResult(what string, res *pb.CallToolResult) error {
	if c.asJSON {
		if err := c.printMessage(res); err != nil {
			return err
		}
	}
	text := contentText(res.GetContent())
	if len(res.GetContent()) == 0 && len(res.GetStructuredContent()) > 0 {
		text = string(res.GetStructuredContent())
	}
	if res.GetIsError() {
		return &problem.Error{
			Exit: problem.ExitTool, Code: "tool_error", What: what + " failed",
			Why: text, Fix: inputFix(text),
		}
	}
	if c.asJSON {
		return nil
	}
	return c.writeText(text)
}
