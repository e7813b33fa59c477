// Command go is a server on mcp-go that speaks both eras and asks in the middle of a call, as 2025-11-25 does.
package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

func main() {
	s := server.NewMCPServer("both-go", "1", server.WithElicitation())
	s.EnableSampling()
	s.AddTool(mcp.NewTool("echo", mcp.WithString("text", mcp.Required())),
		func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText(r.GetString("text", "")), nil
		})
	s.AddTool(mcp.NewTool("ask"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		question := mcp.ElicitationRequest{Params: mcp.ElicitationParams{
			Message: "Who are you?",
			RequestedSchema: map[string]any{
				"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}},
				"required": []string{"name"},
			},
		}}
		answer, err := s.RequestElicitation(ctx, question)
		if err != nil {
			return nil, err
		}
		if answer.Action != mcp.ElicitationResponseActionAccept {
			return mcp.NewToolResultText("hi " + string(answer.Action)), nil
		}
		content, _ := answer.Content.(map[string]any)
		return mcp.NewToolResultText(fmt.Sprintf("hi %v!", content["name"])), nil
	})
	s.AddTool(mcp.NewTool("think"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		question := mcp.CreateMessageRequest{CreateMessageParams: mcp.CreateMessageParams{
			Messages:  []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.NewTextContent("What is love?")}},
			MaxTokens: 10,
		}}
		answer, err := s.RequestSampling(ctx, question) //nolint:staticcheck // tests older revisions
		if err != nil {
			return nil, err
		}
		return mcp.NewToolResultText("The model says: " + mcp.GetTextFromContent(answer.Content)), nil
	})
	serve := func() error { return server.ServeStdio(s) }
	if port := os.Getenv("PORT"); port != "" {
		serve = func() error { return serveHTTP(server.NewStreamableHTTPServer(s), port) }
	}
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:forbidigo // main alone ends the process
	}
}

func serveHTTP(h http.Handler, port string) error {
	ln, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "listening on port %s\n", port)
	mux := http.NewServeMux()
	mux.Handle("/mcp", h)
	return http.Serve(ln, mux)
}
