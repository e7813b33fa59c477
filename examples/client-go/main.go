// Command client-go calls any MCP server through mcpbridge, with generated stubs only: docs/clients.md.
//
// It reads commands from stdin, one a line: list | call TOOL {ARGUMENTS} | read URI | listen [URI]. Input
// requests are printed, and the next line is the answer: the values of a form in JSON, or the text of a model.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// caller declares the capabilities of this client. It receives no other input requests, and progress only if it
// requests it.
var caller = &pb.CallContext{
	ClientInfo: &pb.Implementation{Name: "client-go", Version: "1.0"},
	ClientCapabilities: &pb.ClientCapabilities{
		Elicitation: &pb.ElicitationCapability{Form: &pb.Capability{}}, Sampling: &pb.SamplingCapability{},
	},
	ProgressWanted: true,
}

var input = bufio.NewScanner(os.Stdin)

func main() {
	if len(os.Args) < 2 || os.Args[1] == "" {
		fmt.Fprintln(os.Stderr, "usage: client-go ADDRESS [SERVER], where ADDRESS is unix:///path or host:port")
		os.Exit(2)
	}
	conn, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	mcp := pb.NewMcpServiceClient(conn) // one is enough for any number of goroutines
	server := metadata.Pairs()
	if len(os.Args) > 2 {
		server.Set("mcpbridge-server", os.Args[2])
	}
	commands := map[string]func(context.Context, pb.McpServiceClient, string, string) error{
		"list": list, "call": call, "read": read, "listen": listen,
	}
	for input.Scan() {
		words := append(strings.SplitN(input.Text(), " ", 3), "", "")
		// A call that takes longer is canceled, also at the server.
		ctx, cancel := context.WithTimeout(metadata.NewOutgoingContext(context.Background(), server), time.Minute)
		if run := commands[words[0]]; run == nil {
			fmt.Println("there is no command", words[0])
		} else if err := run(ctx, mcp, words[1], words[2]); err != nil {
			explain(err)
		}
		cancel()
	}
}

func list(ctx context.Context, mcp pb.McpServiceClient, _, _ string) error {
	req := &pb.ListToolsRequest{Context: caller}
	for {
		page, err := mcp.ListTools(ctx, req)
		if err != nil {
			return err
		}
		for _, tool := range page.GetTools() {
			fmt.Println("tool", tool.GetName())
		}
		if req.Cursor = page.NextCursor; req.Cursor == nil {
			return nil
		}
	}
}

func call(ctx context.Context, mcp pb.McpServiceClient, name, arguments string) error {
	req := &pb.CallToolRequest{Context: caller, Name: name, Arguments: []byte(arguments)}
	stream, err := mcp.CallTool(ctx, req)
	for err == nil {
		var event *pb.CallToolResponse
		switch event, err = stream.Recv(); {
		case event.GetProgress() != nil:
			fmt.Println("progress", event.GetProgress().GetProgress(), "of", event.GetProgress().GetTotal())
		case event.GetInputRequired() != nil: // call again with the answers and the state
			req.RequestState, req.InputResponses = event.GetInputRequired().RequestState, map[string]*pb.InputResponse{}
			for _, question := range event.GetInputRequired().GetInputRequests() {
				req.InputResponses[question.GetKey()] = answer(question)
			}
			stream, err = mcp.CallTool(ctx, req)
		case event.GetResult() != nil:
			for _, block := range event.GetResult().GetContent() {
				fmt.Println(block.GetText().GetText()) // or GetImage, GetAudio, GetResource, GetResourceLink
			}
			return nil
		}
	}
	return err
}

func answer(question *pb.InputRequest) *pb.InputResponse {
	if sampling := question.GetCreateMessage(); sampling != nil {
		text := ask("model", sampling.GetMessages()[0].GetContent()[0].GetText().GetText())
		return &pb.InputResponse{Response: &pb.InputResponse_CreateMessage{CreateMessage: &pb.CreateMessageResult{
			Role: "assistant", Model: "you",
			Content: []*pb.ContentBlock{{Block: &pb.ContentBlock_Text{Text: &pb.TextContent{Text: text}}}},
		}}}
	}
	form := ask("question", question.GetElicit().GetForm().GetMessage())
	return &pb.InputResponse{Response: &pb.InputResponse_Elicit{Elicit: &pb.ElicitResult{
		Action: "accept", Content: form,
	}}}
}

func ask(who, question string) string {
	fmt.Printf("%s: %s\n", who, question)
	input.Scan()
	return input.Text()
}

func read(ctx context.Context, mcp pb.McpServiceClient, uri, _ string) error {
	stream, err := mcp.ReadResource(ctx, &pb.ReadResourceRequest{Context: caller, Uri: uri})
	for err == nil {
		var event *pb.ReadResourceResponse
		if event, err = stream.Recv(); event.GetResult() != nil {
			for _, contents := range event.GetResult().GetContents() {
				fmt.Printf("%s: %s\n", contents.GetUri(), contents.GetText()) // or GetBlob
			}
			return nil
		}
	}
	return err
}

// listen waits for one change, and cancels the call.
func listen(ctx context.Context, mcp pb.McpServiceClient, uri, _ string) error {
	stream, err := mcp.Listen(ctx, &pb.ListenRequest{Context: caller, Notifications: &pb.SubscriptionFilter{
		ToolsListChanged: proto.Bool(true), ResourceSubscriptions: strings.Fields(uri),
	}})
	for err == nil {
		var event *pb.ListenResponse
		switch event, err = stream.Recv(); {
		case event.GetAcknowledged() != nil:
			fmt.Println("listening")
		case event.GetToolsListChanged() != nil:
			fmt.Println("changed: the list of tools")
			return nil
		case event.GetResourceUpdated() != nil:
			fmt.Println("changed:", event.GetResourceUpdated().GetUri())
			return nil
		}
	}
	return err
}

func explain(err error) {
	st := status.Convert(err)
	fmt.Printf("error %s: %s\n", code.Code(st.Code()), st.Message())
	for _, detail := range st.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			fmt.Println("  "+d.GetReason(), d.GetMetadata()["outcome"])
		case *pb.JsonRpcError:
			fmt.Println("  JSON-RPC", d.GetCode(), d.GetData())
		}
	}
}
