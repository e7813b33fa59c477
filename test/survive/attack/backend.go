package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"google.golang.org/protobuf/encoding/prototext"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
	"github.com/mcpbridge/mcpbridge/sdkgen/go/mcpbridge"
)

// journalVar is the environment variable with the backend's journal. If it is set, this program is the backend, which
// writes a line to the journal for each call.
const journalVar = "ATTACK_JOURNAL"

// echoSchema requires a header for the argument n.
const echoSchema = `{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"N"}}}`

func backend(journal string) int {
	f, err := os.OpenFile(journal, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, "attack:", err)
		return 2
	}
	defer f.Close()
	note := func(format string, args ...any) {
		fmt.Fprintln(f, strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " "))
	}
	note("environment %q", os.Environ())
	begin := func(ctx context.Context, tool string) *pb.CallToolRequest {
		r := mcpbridge.Request(ctx).(*pb.CallToolRequest)
		note("call %s %s", tool, prototext.MarshalOptions{}.Format(r.GetContext()))
		return r
	}
	app := mcpbridge.New("attacked", "1")
	for _, name := range []string{"echo", "secret"} {
		mcpbridge.Tool(app, name, "Return its input", func(ctx context.Context, in json.RawMessage) (string, error) {
			begin(ctx, name)
			return string(in), nil
		}, mcpbridge.InputSchema(echoSchema))
	}
	mcpbridge.Tool(app, "hang", "Wait to be canceled", func(ctx context.Context, _ struct{}) (string, error) {
		begin(ctx, "hang")
		<-ctx.Done()
		note("canceled hang")
		return "", ctx.Err()
	})
	ask := func(ctx context.Context, _ json.RawMessage) (string, error) {
		begin(ctx, "ask")
		if len(mcpbridge.State(ctx)) > 0 {
			return "resumed", nil
		}
		return "", mcpbridge.Require(ctx,
			&pb.InputRequired{RequestState: []byte("a state"), InputRequests: []*pb.InputRequest{
				{Key: "name", Request: &pb.InputRequest_Elicit{
					Elicit: &pb.ElicitRequest{Mode: &pb.ElicitRequest_Form{Form: &pb.ElicitForm{
						Message: "name?", RequestedSchema: `{"type":"object","properties":{"name":{"type":"string"}}}`,
					}}},
				}},
			}})
	}
	mcpbridge.Tool(app, "ask", "Request input", ask, mcpbridge.InputSchema(`{"type":"object"}`))
	mcpbridge.Tool(app, "ask2", "Request input, too", ask, mcpbridge.InputSchema(`{"type":"object"}`))
	return app.Run()
}
