package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/config"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// curious is a legacy MCP server on stdin and stdout whose only tool requests input from its caller.
func curious() {
	in, open := bufio.NewScanner(os.Stdin), "1"
	for in.Scan() {
		m, err := jsonrpc.Parse(in.Bytes(), limits.Defaults())
		if err != nil {
			continue
		}
		answer := func(what string) { fmt.Printf(`{"jsonrpc":"2.0","id":%s,%s}`+"\n", m.ID, what) }
		switch {
		case m.Method == "initialize":
			answer(`"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"curious","version":"1"}}`)
		case m.Method == "tools/list":
			answer(`"result":{"tools":[{"name":"ask","inputSchema":{"type":"object"}}]}`)
		case m.Method == "tools/call":
			open = string(m.ID)
			fmt.Println(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}`)
		case m.IsRequest():
			answer(`"error":{"code":-32601,"message":"no such method"}`)
		case m.IsResponse():
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"done"}]}}`+"\n", open)
		}
	}
}

// serveCurious serves a curious server to gRPC clients, and returns a function that calls its tool, or retries the call
// with an answer.
func serveCurious(t *testing.T, more,
	sessions string,
) (*run, func(ctx context.Context, required *pb.InputRequired) (*pb.CallToolResponse, error)) {
	t.Helper()
	socket := "unix://" + filepath.Join(t.TempDir(), "s")
	r := start(t, nil, nil, "run", "--log-format", "json", "-c", writeConfig(t, fmt.Sprintf(`
serve: {grpc: {addr: %q}}
%s
backends: [{name: a, mcp: {command: [curious], probeTimeout: 50ms, sessions: %s}}]
`, socket, more, sessions)))
	conn, err := grpc.NewClient(socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return r, func(ctx context.Context, required *pb.InputRequired) (*pb.CallToolResponse, error) {
		req := &pb.CallToolRequest{
			Name: "ask", Arguments: []byte("{}"), RequestState: required.GetRequestState(),
			Context: &pb.CallContext{
				ClientCapabilities: &pb.ClientCapabilities{Elicitation: &pb.ElicitationCapability{}},
			},
		}
		for _, q := range required.GetInputRequests() {
			req.InputResponses = map[string]*pb.InputResponse{
				q.GetKey(): {Response: &pb.InputResponse_Elicit{Elicit: &pb.ElicitResult{
					Action: "decline",
				}}},
			}
		}
		s, err := pb.NewMcpServiceClient(conn).CallTool(ctx, req, grpc.WaitForReady(true))
		if err != nil {
			return nil, err
		}
		return s.Recv()
	}
}

// As many calls as mcp.sessions.most can wait for input at a time.
func TestSessionLimitOfAServer(t *testing.T) {
	bridgetest.SkipIfShort(t)
	t.Parallel()
	_, call := serveCurious(t, "", "{most: 2}")
	var required []*pb.InputRequired
	for range 2 {
		res, err := call(t.Context(), nil)
		if err != nil || res.GetInputRequired() == nil {
			t.Fatalf("%v %v", res, err)
		}
		required = append(required, res.GetInputRequired())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if res, err := call(ctx, nil); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("one above the limit: %v %v", res, err)
	}
	for _, a := range required {
		if res, err := call(t.Context(), a); err != nil || res.GetResult() == nil {
			t.Errorf("with an answer: %v %v", res, err)
		}
	}
	if res, err := call(t.Context(), nil); err != nil || res.GetInputRequired() == nil {
		t.Errorf("afterwards: %v %v", res, err)
	}
}

// Both a call that waits for input and its request state expire after limits.stateLife.
func TestStateLifetime(t *testing.T) {
	bridgetest.SkipIfShort(t)
	r, call := serveCurious(t, "limits: {stateLife: 1s}", "{most: 0}")
	res, err := call(t.Context(), nil)
	if err != nil || res.GetInputRequired() == nil {
		t.Fatalf("%v %v", res, err)
	}
	r.awaitLog(t, "canceled a call whose caller did not send the input responses in time")
	// the request state was made a moment later and expires later
	for err == nil || strings.Contains(err.Error(), "the state is not known") {
		if _, err = call(t.Context(), res.GetInputRequired()); status.Code(err) != codes.InvalidArgument {
			break
		}
	}
	if !strings.Contains(err.Error(), "requestState has expired") {
		t.Errorf("too late: %v", err)
	}
}

// Numbers and timeouts of sessions are not negative.
func TestSessionsOfTheConfiguration(t *testing.T) {
	for _, c := range []struct {
		sessions, where string
		want            limits.Pool
	}{
		{"{most: -1}", ".mcp.sessions.most", limits.Pool{}},
		{"{idle: -1ns}", ".mcp.sessions.idle", limits.Pool{}},
		{"{most: 0, idle: 0s}", "", limits.Pool{}},
		{"{most: 1, idle: 1ns}", "", limits.Pool{Processes: 1, Remote: 1, Idle: 1}},
	} {
		for _, server := range []string{"command: [x]", "url: 'http://127.0.0.1:1'"} {
			l, err := config.Load(writeConfig(t, "backends: [{name: a, mcp: {"+server+", sessions: "+c.sessions+"}}]"),
				nil, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			err = l.Validate()
			if (err == nil) != (c.where == "") || err != nil &&
				!strings.Contains(err.Error(), c.where+" cannot be -1") {
				t.Errorf("%s: %v", c.sessions, err)
			}
			if err == nil && l.Backends[0].MCP.Sessions != c.want {
				t.Errorf("%s: read as %+v", c.sessions, l.Backends[0].MCP.Sessions)
			}
		}
	}
}
