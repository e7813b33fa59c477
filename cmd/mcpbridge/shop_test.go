package main

import (
	"cmp"
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/clientcmd"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A shop is a backend in this process with tools, prompts and resources. It records the context of the last tool call.
type shop struct {
	pb.UnimplementedMcpServiceServer

	cancelled chan struct{} // closed when the context of `wait` ends
	waiting   chan struct{} // closed when `wait` is called
	held      chan struct{} // ends `hold`
	endless   bool          // its list of prompts never ends
	form      string        // the form of `order`, if not orderForm
	schema    string        // the input schema of `buy`, if not buySchema
	mu        sync.Mutex
	caller    *pb.CallContext
	version   int32 // of the contract; 0: the current one
}

// startShop serves a shop and returns its address.
func startShop(t *testing.T) (*shop, string) {
	t.Helper()
	s := newShop()
	return s, serveShop(t, s)
}

func newShop() *shop {
	return &shop{cancelled: make(chan struct{}), waiting: make(chan struct{}), held: make(chan struct{})}
}

// serveShop serves a shop, or one with other methods, and returns its address.
func serveShop(t *testing.T, s pb.McpServiceServer) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	ln, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterMcpServiceServer(server, s)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := server.Serve(ln); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(wg.Wait)
	t.Cleanup(server.Stop)
	return "unix://" + socket
}

func text(s string) *string { return &s }

func (s *shop) Discover(context.Context, *pb.DiscoverRequest) (*pb.DiscoverResponse, error) {
	return &pb.DiscoverResponse{
		ContractVersion: cmp.Or(s.version, bridge.ContractVersion),
		ServerInfo:      &pb.Implementation{Name: "shop", Version: "1"}, Instructions: text("Buy\x1b[31m something."),
		Capabilities: &pb.ServerCapabilities{
			Tools: &pb.ToolsCapability{}, Resources: &pb.ResourcesCapability{}, Prompts: &pb.PromptsCapability{},
			Completions: &pb.Capability{},
		},
	}, nil
}

// orderForm has a field of every type.
const orderForm = `{"type":"object","required":["size","count"],"properties":{
	"size":{"type":"string","enum":["s","l"],"enumNames":["small","large"],"title":"Size"},
	"count":{"type":"integer","minimum":1,"maximum":9,"description":"How many."},
	"gift":{"type":"boolean","default":false},
	"mail":{"type":"string","format":"email"},
	"tags":{"type":"array","items":{"anyOf":[{"const":"new","title":"New"},{"const":"old","title":"Old"}]}}}}`

const buySchema = `{"type":"object","required":["what"],"properties":{"what":{"type":"string"},"n":{"type":"integer","default":1},` +
	`"pay":{"$ref":"#/$defs/pay"},"tags":{"type":"array","items":{"type":"string"}},"fast":{"type":"boolean"},` +
	`"price":{"anyOf":[{"type":"number"},{"type":"null"}]}},` +
	`"$defs":{"pay":{"type":"object","properties":{"by":{"enum":["card","cash"]},"tip":{"type":"number"}}}}}`

func (s *shop) ListTools(_ context.Context, req *pb.ListToolsRequest) (*pb.ListToolsResponse, error) {
	if req.Cursor == nil { // the list of tools has two pages
		return &pb.ListToolsResponse{
			Tools: []*pb.Tool{{
				Name: "paint", Description: text("Paint\x1b[31m red.\nMore."),
				InputSchema: `{"type":"object"}`,
			}},
			NextCursor: text("2"),
		}, nil
	}
	tool := func(name, schema string) *pb.Tool { return &pb.Tool{Name: name, InputSchema: schema} }
	return &pb.ListToolsResponse{Tools: []*pb.Tool{
		tool("order", `{"type":"object"}`),
		tool("visit", `{"type":"object"}`),
		tool("where", `{"type":"object"}`),
		tool("wait", `{"type":"object","properties":{"ms":{"type":"integer"}}}`),
		tool("fail", `{"type":"object"}`),
		tool("nag", `{"type":"object"}`),
		tool("deny", `{"type":"object"}`),
		tool("sell", `{"type":"object"}`),
		tool("dream", `{"type":"object"}`),
		tool("hold", `{"type":"object"}`),
		tool("buy", cmp.Or(s.schema, buySchema)),
	}}, nil
}

func (s *shop) CallTool(req *pb.CallToolRequest, stream grpc.ServerStreamingServer[pb.CallToolResponse]) error {
	s.mu.Lock()
	s.caller = req.GetContext()
	s.mu.Unlock()
	sendText := func(what string, failed bool) error {
		block := &pb.ContentBlock{Block: &pb.ContentBlock_Text{Text: &pb.TextContent{Text: what}}}
		result := &pb.CallToolResult{Content: []*pb.ContentBlock{block}}
		if failed {
			result.IsError = &failed
		}
		return stream.Send(&pb.CallToolResponse{Event: &pb.CallToolResponse_Result{Result: result}})
	}
	requireInput := func(req *pb.InputRequest) error {
		req.Key = "q"
		needs := &pb.InputRequired{InputRequests: []*pb.InputRequest{req}, RequestState: []byte("s")}
		return stream.Send(&pb.CallToolResponse{Event: &pb.CallToolResponse_InputRequired{InputRequired: needs}})
	}
	elicit := func(e *pb.ElicitRequest) error {
		return requireInput(&pb.InputRequest{Request: &pb.InputRequest_Elicit{Elicit: e}})
	}
	answer := req.GetInputResponses()["q"]
	switch req.GetName() {
	case "paint":
		logged := &pb.LogMessage{Level: pb.LogLevel_LOG_LEVEL_NOTICE, Data: `"mixing\u001b[31m"`}
		if err := stream.Send(&pb.CallToolResponse{Event: &pb.CallToolResponse_Log{Log: logged}}); err != nil {
			return err
		}
		return sendText("red \x1b[31m\u202e\u009b and \xff"[:len("red \x1b[31m\u202e\u009b and ")], false)
	case "buy":
		return sendText(string(req.GetArguments()), false)
	case "fail":
		return sendText("out of \x1b[31mpaint", true)
	case "sell": // runs, and then returns this error
		return status.Error(codes.Unavailable, "the till is stuck")
	case "deny":
		return status.Error(codes.Unauthenticated, "who are you?")
	case "nag", "where":
		if answer == nil || req.GetName() == "nag" {
			return requireInput(&pb.InputRequest{
				Request: &pb.InputRequest_ListRoots{ListRoots: &pb.ListRootsRequest{}},
			})
		}
		return sendText(answer.GetListRoots().GetRoots()[0].GetUri(), false)
	case "order":
		if answer == nil {
			form := &pb.ElicitForm{Message: "What\x1b[2J would you like?", RequestedSchema: cmp.Or(s.form, orderForm)}
			return elicit(&pb.ElicitRequest{Mode: &pb.ElicitRequest_Form{Form: form}})
		}
		return sendText(answer.GetElicit().GetAction()+" "+
			answer.GetElicit().GetContent(), false)
	case "visit":
		if answer == nil {
			page := &pb.ElicitUrl{Message: "Pay there.", Url: "https://pay.example.com/1"}
			return elicit(&pb.ElicitRequest{Mode: &pb.ElicitRequest_Url{Url: page}})
		}
		return sendText(answer.GetElicit().GetAction(), false)
	case "hold":
		select {
		case <-s.held:
		case <-stream.Context().Done():
		}
		return sendText("held", false)
	case "dream":
		if answer == nil {
			message := &pb.SamplingMessage{Role: "user", Content: []*pb.ContentBlock{
				{Block: &pb.ContentBlock_Text{Text: &pb.TextContent{Text: "Of what\x1b[2J do you\ndream?"}}},
			}}
			return requireInput(&pb.InputRequest{
				Request: &pb.InputRequest_CreateMessage{CreateMessage: &pb.CreateMessageRequest{
					Messages: []*pb.SamplingMessage{message}, SystemPrompt: text("Be brief."), MaxTokens: 100,
				}},
			})
		}
		if e := answer.GetError(); e != nil {
			return sendText(e.GetReason().String(), true)
		}
		return sendText(answer.GetCreateMessage().GetContent()[0].GetText().GetText()+" "+answer.GetCreateMessage().
			GetModel(), false)
	case "wait":
		close(s.waiting)
		half, total := 5.0, 10.0
		for {
			p := &pb.Progress{Progress: half, Total: &total, Message: text("half\x1b[31m done")}
			if err := stream.Send(&pb.CallToolResponse{Event: &pb.CallToolResponse_Progress{Progress: p}}); err != nil {
				close(s.cancelled)
				return err
			}
			select {
			case <-stream.Context().Done():
				close(s.cancelled)
				return stream.Context().Err()
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	return status.Errorf(codes.NotFound, "there is no tool %q", req.GetName())
}

func (*shop) ListResources(context.Context, *pb.ListResourcesRequest) (*pb.ListResourcesResponse, error) {
	return &pb.ListResourcesResponse{
		Resources: []*pb.Resource{{Uri: "shop://sign", Name: "sign", MimeType: text("text/plain")}},
	}, nil
}

func (*shop) ListResourceTemplates(context.Context,
	*pb.ListResourceTemplatesRequest,
) (*pb.ListResourceTemplatesResponse, error) {
	return &pb.ListResourceTemplatesResponse{
		ResourceTemplates: []*pb.ResourceTemplate{{UriTemplate: "shop://{shelf}", Name: "shelf"}},
	}, nil
}

func (*shop) ReadResource(req *pb.ReadResourceRequest,
	stream grpc.ServerStreamingServer[pb.ReadResourceResponse],
) error {
	c := &pb.ResourceContents{Uri: req.GetUri()}
	switch req.GetUri() {
	case "shop://sign":
		c.Body = &pb.ResourceContents_Text{Text: "open"}
	case "shop://logo":
		c.Body = &pb.ResourceContents_Blob{Blob: []byte{0x89, 'P', 'N', 'G', 0, 0xff}}
	default:
		return status.Errorf(codes.NotFound, "there is no %s", req.GetUri())
	}
	return stream.Send(&pb.ReadResourceResponse{Event: &pb.ReadResourceResponse_Result{
		Result: &pb.ReadResourceResult{Contents: []*pb.ResourceContents{c}},
	}})
}

func (s *shop) ListPrompts(_ context.Context, req *pb.ListPromptsRequest) (*pb.ListPromptsResponse, error) {
	if s.endless {
		return &pb.ListPromptsResponse{NextCursor: text(req.GetCursor() + "x")}, nil
	}
	yes := true
	return &pb.ListPromptsResponse{Prompts: []*pb.Prompt{{Name: "haggle", Arguments: []*pb.PromptArgument{
		{Name: "price", Required: &yes}, {Name: "tone"},
	}}}}, nil
}

func (*shop) GetPrompt(req *pb.GetPromptRequest, stream grpc.ServerStreamingServer[pb.GetPromptResponse]) error {
	block := &pb.ContentBlock{
		Block: &pb.ContentBlock_Text{Text: &pb.TextContent{Text: "Not more than " + req.GetArguments()["price"] + "."}},
	}
	return stream.Send(&pb.GetPromptResponse{Event: &pb.GetPromptResponse_Result{
		Result: &pb.GetPromptResult{Messages: []*pb.PromptMessage{{Role: "user", Content: block}}},
	}})
}

func (*shop) Complete(_ context.Context, req *pb.CompleteRequest) (*pb.CompleteResponse, error) {
	value := req.GetArgument().GetValue()
	return &pb.CompleteResponse{Completion: &pb.Completion{
		Values: []string{value + "ind", value + "ey" + req.GetArgumentContext().GetArguments()["price"]},
	}}, nil
}

// A commandOutput is the output of a command and its exit code.
type commandOutput struct {
	stdout, stderr string
	code           int
}

// runCommand runs a command in this process, without a terminal.
func runCommand(t *testing.T, stdin string, args ...string) commandOutput {
	t.Helper()
	var stdout, stderr lockedBuffer
	p := &Program{Env: clientcmd.Env{
		Args: args, Stdin: strings.NewReader(stdin), Stdout: &stdout, Stderr: &stderr,
		Environ: os.Environ(),
	}}
	code := p.Run(t.Context())
	return commandOutput{stdout.String(), stderr.String(), code}
}

// errorCode returns the code of the error in the last line of stderr.
func (s commandOutput) errorCode(t *testing.T) string {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(s.stderr), "\n")
	var last struct{ Error struct{ Code string } }
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil {
		t.Errorf("the last line of stderr is not an error: %v\n%s", err, s.stderr)
	}
	return last.Error.Code
}

func mustJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}
