package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"

	mcpgo "github.com/mark3labs/mcp-go/mcp"
	mcpgoserver "github.com/mark3labs/mcp-go/server"
	gosdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const echoSchema = `{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`

// serveHTTP serves handler at /mcp of a free port, prints the endpoint, and ends with ctx.
func serveHTTP(ctx context.Context, handler http.Handler) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)
	server := &http.Server{Handler: mux}
	context.AfterFunc(ctx, func() { server.Close() })
	fmt.Fprintf(os.Stderr, "serving http://%s/mcp\n", l.Addr())
	if err := server.Serve(l); err != http.ErrServerClosed {
		return err
	}
	return nil
}

// serveGoSDK serves echo with go-sdk in both eras.
func serveGoSDK(ctx context.Context, _ []string) error { return serveHTTP(ctx, goSDKHandler("")) }

// goSDKHandler serves echo with go-sdk in the fastest way: a raw tool, which gets the arguments as bytes without
// validation, and JSON responses. One go-sdk handler cannot serve both eras, so that the version header selects one,
// unless only is set.
func goSDKHandler(only era) http.Handler {
	server := gosdk.NewServer(&gosdk.Implementation{Name: "bench", Version: "1"}, nil)
	server.AddTool(&gosdk.Tool{
		Name: "echo", Description: "Answers its arguments.",
		InputSchema: json.RawMessage(echoSchema),
	},
		func(_ context.Context, r *gosdk.CallToolRequest) (*gosdk.CallToolResult, error) {
			return &gosdk.CallToolResult{
				Content: []gosdk.Content{&gosdk.TextContent{Text: string(r.Params.Arguments)}},
			}, nil
		})
	get := func(*http.Request) *gosdk.Server { return server }
	stateful := gosdk.NewStreamableHTTPHandler(get, &gosdk.StreamableHTTPOptions{JSONResponse: true})
	stateless := gosdk.NewStreamableHTTPHandler(get, &gosdk.StreamableHTTPOptions{JSONResponse: true, Stateless: true})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if only == modern || only == "" && r.Header.Get("MCP-Protocol-Version") == versions[modern] {
			stateless.ServeHTTP(w, r)
			return
		}
		stateful.ServeHTTP(w, r)
	})
}

// serveMCPGo serves echo with mcp-go: stateful sessions, arguments as bytes, and JSON responses.
func serveMCPGo(ctx context.Context, _ []string) error {
	server := mcpgoserver.NewMCPServer("bench", "1")
	server.AddTool(mcpgo.NewToolWithRawSchema("echo", "Answers its arguments.", json.RawMessage(echoSchema)),
		func(_ context.Context, r mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
			arguments, ok := r.GetRawArguments().(json.RawMessage)
			if !ok {
				return nil, fmt.Errorf("arguments are %T, not the bytes that came", r.GetRawArguments())
			}
			return mcpgo.NewToolResultText(string(arguments)), nil
		})
	return serveHTTP(ctx, mcpgoserver.NewStreamableHTTPServer(server, mcpgoserver.WithStateful(true)))
}
