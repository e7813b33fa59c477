package main

import (
	"context"
	"encoding/json"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A tool is a row of the table below.
type tool struct {
	name, description string
	// schema is the JSON Schema of the arguments. If empty, there are none.
	schema string
	// run answers a call: it ends with exactly one of finish, fail and requireInput, or with an error.
	run func(*call) error
}

// tools are in the order in which they are listed. The suite calls the first one with no arguments to try headers.
var tools = []tool{
	{"test_simple_text", "Returns text.", "", contentTool(text("This is a simple text response for testing."))},
	{"test_image_content", "Returns an image.", "", contentTool(picture())},
	{"test_audio_content", "Returns a sound.", "", contentTool(sound())},
	{"test_embedded_resource", "Returns an embedded resource.", "", contentTool(
		embedded(textContents("test://embedded-resource", "text/plain", "This is an embedded resource content.")))},
	{"test_multiple_content_types", "Returns text, an image and a resource.", "", contentTool(
		text("Multiple content types test:"), picture(),
		embedded(textContents("test://mixed-content-resource", "application/json", `{"test":"data","value":123}`)))},
	{"test_error_handling", "Always fails.", "", func(c *call) error {
		return c.fail("This tool intentionally returns an error for testing")
	}},
	{"test_tool_with_logging", "Logs three lines.", "", logThree},
	{"test_tool_with_progress", "Reports progress three times.", "", progressThree},
	{"test_reconnection", "Runs long enough for its stream to be closed and resumed.", "", reconnection},
	{"test_x_mcp_header", "Takes an argument that is also sent as a header.", headerSchema, echo},
	{"json_schema_2020_12_tool", "Tool with JSON Schema 2020-12 features.", fullSchema, echo},

	{"test_sampling", "Asks the model.", promptSchema, sampling},
	{"test_elicitation", "Asks the user for a name and an address.", messageSchema, elicitation},
	{
		"test_elicitation_sep1034_defaults", "Asks the user with a form that has defaults.", "",
		formTool("", defaultsForm),
	},
	{"test_elicitation_sep1330_enums", "Asks the user with a form that has choices.", "", formTool("", enumsForm)},

	{"test_input_required_result_elicitation", "Asks the user for a name and greets.", "", greet},
	{"test_input_required_result_sampling", "Asks the model for a capital.", "", capital},
	{"test_input_required_result_list_roots", "Asks for the client's folders.", "", folders},
	{"test_input_required_result_request_state", "Asks for a confirmation, with request state.", "", confirm},
	{
		"test_input_required_result_tampered_state", "Asks for a confirmation, with unchanged request state.", "",
		confirm,
	},
	{
		"test_input_required_result_multiple_inputs", "Makes three input requests at once.", "",
		askAll,
	},
	{"test_input_required_result_multi_round", "Asks the user twice, one after the other.", "", askTwice},
	{"test_input_required_result_capabilities", "Asks only what the client can answer.", "", askPossible},

	{"test_missing_capability", "Needs a client with sampling.", "", missingCapability},
	{"test_streaming_elicitation", "Asks for a confirmation.", "", formTool("confirm", confirmForm)},
	{"test_logging_tool", "Logs a line.", "", func(c *call) error {
		if err := c.log("Only clients that set a log level receive this line."); err != nil {
			return err
		}
		return c.finish(text("Logged."))
	}},
	{"test_trigger_tool_change", "Changes the list of tools.", "", func(c *call) error {
		c.changes.toggleTool()
		return c.finish(text("The list of tools has changed."))
	}},
	{"test_trigger_prompt_change", "Changes the list of prompts.", "", func(c *call) error {
		c.changes.togglePrompt()
		return c.finish(text("The list of prompts has changed."))
	}},

	{"greet", "Greets.", nameSchema, greetByName},
	{"slow_compute", "Computes for some seconds.", slowSchema, slowCompute},
	{"failing_job", "Fails, after a while.", "", failingJob},
	{"protocol_error_job", "Ends with a JSON-RPC error, after a while.", "", protocolErrorJob},
	{"confirm_delete", "Asks the user whether to delete a file.", filenameSchema, confirmDelete},
	{"multi_input", "Asks the user for two names at once.", "", multiInput},
	{"test_tool_with_task", "Asks the user for a name, and greets as a task.", "", taskAfterInput},
}

// transientTool is listed, at the end, if test_trigger_tool_change has added it.
var transientTool = tool{"test_transient_tool", "Added and removed by a tool.", "", contentTool(text("I am here."))}

const (
	noArguments   = `{"type":"object","properties":{},"additionalProperties":false}`
	headerSchema  = `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`
	promptSchema  = `{"type":"object","properties":{"prompt":{"type":"string","description":"What to ask the model"}},"required":["prompt"]}`
	messageSchema = `{"type":"object","properties":{"message":{"type":"string","description":"What to ask the user"}},"required":["message"]}`
	// fullSchema has every kind of keyword that must be forwarded unchanged.
	fullSchema = `{
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"type": "object",
		"$defs": {"address": {
			"$anchor": "addressDef", "type": "object",
			"properties": {"street": {"type": "string"}, "city": {"type": "string"}}
		}},
		"properties": {
			"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"},
			"contactMethod": {"type": "string", "enum": ["phone", "email"]},
			"phone": {"type": "string"}, "email": {"type": "string"}
		},
		"allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
		"if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
		"then": {"required": ["phone"]},
		"else": {"required": ["email"]},
		"additionalProperties": false
	}`
)

func (s *server) tools() []tool {
	if s.changes.hasTool() {
		return append(tools[:len(tools):len(tools)], transientTool)
	}
	return tools
}

func (s *server) ListTools(context.Context, *pb.ListToolsRequest) (*pb.ListToolsResponse, error) {
	res := &pb.ListToolsResponse{TtlMs: listTTL, CacheScope: listScope}
	for _, t := range s.tools() {
		schema := t.schema
		if schema == "" {
			schema = noArguments
		}
		res.Tools = append(res.Tools, &pb.Tool{
			Name: t.name, Description: proto.String(t.description), InputSchema: schema, Execution: executions[t.name],
		})
	}
	return res, nil
}

func (s *server) CallTool(req *pb.CallToolRequest, stream grpc.ServerStreamingServer[pb.CallToolResponse]) error {
	c := &call{CallToolRequest: req, changes: s.changes, stream: stream}
	if why := refusalText(req.GetInputResponses()); why != "" {
		return c.fail(why)
	}
	for _, t := range s.tools() {
		if t.name == req.GetName() {
			return t.run(c)
		}
	}
	return status.Errorf(codes.NotFound, "there is no tool %q", req.GetName())
}

// A call is one call of a tool.
type call struct {
	*pb.CallToolRequest

	changes *changes
	stream  grpc.ServerStreamingServer[pb.CallToolResponse]
}

// finish ends the call with its result.
func (c *call) finish(content ...*pb.ContentBlock) error {
	return c.result(&pb.CallToolResult{Content: content})
}

// fail ends the call with a reason for the model to read.
func (c *call) fail(why string) error {
	return c.result(&pb.CallToolResult{Content: []*pb.ContentBlock{text(why)}, IsError: proto.Bool(true)})
}

func (c *call) result(r *pb.CallToolResult) error {
	return c.stream.Send(&pb.CallToolResponse{Event: &pb.CallToolResponse_Result{Result: r}})
}

// requireInput ends the round with input requests. The call is repeated with the answers.
func (c *call) requireInput(n *pb.InputRequired) error {
	return c.stream.Send(&pb.CallToolResponse{Event: &pb.CallToolResponse_InputRequired{InputRequired: n}})
}

// log sends a log message to the client.
func (c *call) log(line string) error {
	data, err := json.Marshal(line)
	if err != nil {
		return err
	}
	l := &pb.LogMessage{Level: pb.LogLevel_LOG_LEVEL_INFO, Logger: proto.String("conformance"), Data: string(data)}
	return c.stream.Send(&pb.CallToolResponse{Event: &pb.CallToolResponse_Log{Log: l}})
}

// progress sends progress to the client, in percent.
func (c *call) progress(done float64) error {
	p := &pb.Progress{Progress: done, Total: proto.Float64(100)}
	return c.stream.Send(&pb.CallToolResponse{Event: &pb.CallToolResponse_Progress{Progress: p}})
}

// work waits for d, or until the call is canceled.
func (c *call) work(d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-c.stream.Context().Done():
		return status.FromContextError(c.stream.Context().Err()).Err()
	}
}

// arguments reads the call's arguments.
func (c *call) arguments(to any) error {
	if len(c.GetArguments()) == 0 {
		return nil
	}
	if err := json.Unmarshal(c.GetArguments(), to); err != nil {
		return status.Errorf(codes.InvalidArgument, "arguments: %v", err)
	}
	return nil
}

// contentTool returns a tool that always returns the same content.
func contentTool(content ...*pb.ContentBlock) func(*call) error {
	return func(c *call) error { return c.finish(content...) }
}

func echo(c *call) error { return c.finish(text(string(c.GetArguments()))) }

// step is the time of one step of the slow tools.
const step = 50 * time.Millisecond

func logThree(c *call) error {
	for i, line := range []string{"Tool execution started", "Tool processing data", "Tool execution completed"} {
		if i > 0 {
			if err := c.work(step); err != nil {
				return err
			}
		}
		if err := c.log(line); err != nil {
			return err
		}
	}
	return c.finish(text("Tool with logging executed successfully"))
}

func progressThree(c *call) error {
	for _, done := range []float64{0, 50, 100} {
		if done > 0 {
			if err := c.work(step); err != nil {
				return err
			}
		}
		if err := c.progress(done); err != nil {
			return err
		}
	}
	return c.finish(text("Tool with progress executed successfully"))
}

// reconnection takes long enough for the bridge to close the stream in between.
func reconnection(c *call) error {
	if err := c.log("The stream may be closed now."); err != nil {
		return err
	}
	if err := c.work(10 * step); err != nil {
		return err
	}
	return c.finish(text("Reconnection test completed"))
}

// missingCapability returns an exact JSON-RPC error for a missing capability. The bridge returns the same error for an
// input request that the client does not support.
func missingCapability(c *call) error {
	if c.GetContext().GetClientCapabilities().GetSampling() != nil {
		return c.finish(text("The client can sample."))
	}
	s, err := status.New(codes.FailedPrecondition, "this tool needs a client with sampling").WithDetails(
		&pb.JsonRpcError{Code: -32021, Data: `{"requiredCapabilities":{"sampling":{}}}`})
	if err != nil {
		return err
	}
	return s.Err()
}
