package main

import (
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// The tools of the scenarios for tasks. They are tools like the others: the bridge keeps their tasks.

// executions are the tools whose calls can be tasks.
var executions = map[string]*pb.ToolExecution{
	"slow_compute":        {TaskSupport: proto.String("optional")},
	"failing_job":         {TaskSupport: proto.String("required")},
	"protocol_error_job":  {TaskSupport: proto.String("optional")},
	"confirm_delete":      {TaskSupport: proto.String("optional")},
	"multi_input":         {TaskSupport: proto.String("optional")},
	"test_tool_with_task": {TaskSupport: proto.String("required"), StartsLater: true},
}

const (
	nameSchema = `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`
	slowSchema = `{"type":"object","properties":{"seconds":{"type":"number"},"label":{"type":"string"}},
		"required":["seconds"]}`
	filenameSchema = `{"type":"object","properties":{"filename":{"type":"string"}},"required":["filename"]}`
	deleteForm     = `{"type":"object","properties":{"confirm":{"type":"boolean"}},"required":["confirm"]}`
)

func greetByName(c *call) error {
	var args struct{ Name string }
	if err := c.arguments(&args); err != nil {
		return err
	}
	return c.finish(text("Hello, " + args.Name + "!"))
}

func slowCompute(c *call) error {
	var args struct {
		Seconds float64
		Label   string
	}
	if err := c.arguments(&args); err != nil {
		return err
	}
	if err := c.work(time.Duration(args.Seconds * float64(time.Second))); err != nil {
		return err
	}
	return c.finish(text(fmt.Sprintf("%s: computed for %v s", args.Label, args.Seconds)))
}

func failingJob(c *call) error {
	if err := c.work(step); err != nil {
		return err
	}
	return c.fail("This job always fails")
}

func protocolErrorJob(c *call) error {
	if err := c.work(step); err != nil {
		return err
	}
	return status.Error(codes.Internal, "this job always ends with a JSON-RPC error")
}

func confirmDelete(c *call) error {
	var args struct{ Filename string }
	if err := c.arguments(&args); err != nil {
		return err
	}
	e := c.GetInputResponses()["confirm"].GetElicit()
	if e == nil {
		return c.requireInput(inputRequired("", keyed("confirm", form("Delete "+args.Filename+"?", deleteForm))))
	}
	return c.finish(text(args.Filename + ": " + answerText(e)))
}

func multiInput(c *call) error {
	first, second := c.GetInputResponses()["first"].GetElicit(), c.GetInputResponses()["second"].GetElicit()
	if first == nil || second == nil {
		return c.requireInput(inputRequired("", keyed("first", form("The first name?", nameForm)),
			keyed("second", form("The second name?", nameForm))))
	}
	return c.finish(text(answerText(first) + " and " + answerText(second)))
}

// taskAfterInput becomes a task only when it has the name.
func taskAfterInput(c *call) error {
	name, ok := field(c.GetInputResponses()["user_name"].GetElicit(), "name")
	if !ok {
		return c.requireInput(inputRequired("", keyed("user_name", form("What is your name?", nameForm))))
	}
	err := c.stream.Send(&pb.CallToolResponse{
		Event: &pb.CallToolResponse_TaskStarted{TaskStarted: &pb.TaskStarted{}},
	})
	if err != nil {
		return err
	}
	if err := c.work(step); err != nil {
		return err
	}
	return c.finish(text("Hello, " + name + "!"))
}
