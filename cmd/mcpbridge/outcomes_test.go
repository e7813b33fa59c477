package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/mcpbridge/mcpbridge/bridge"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A wrong is a backend with a defect for the name of each tool.
type wrong struct {
	pb.UnimplementedMcpServiceServer
}

func (wrong) Discover(context.Context, *pb.DiscoverRequest) (*pb.DiscoverResponse, error) {
	return &pb.DiscoverResponse{
		ContractVersion: bridge.ContractVersion,
		Capabilities:    &pb.ServerCapabilities{Tools: &pb.ToolsCapability{}},
	}, nil
}

func (wrong) ListTools(context.Context, *pb.ListToolsRequest) (*pb.ListToolsResponse, error) {
	return &pb.ListToolsResponse{}, nil
}

func (wrong) CallTool(r *pb.CallToolRequest, s grpc.ServerStreamingServer[pb.CallToolResponse]) error {
	result := func(structured string) *pb.CallToolResponse {
		return &pb.CallToolResponse{
			Event: &pb.CallToolResponse_Result{Result: &pb.CallToolResult{StructuredContent: []byte(structured)}},
		}
	}
	required := func(state []byte) *pb.CallToolResponse {
		return &pb.CallToolResponse{
			Event: &pb.CallToolResponse_InputRequired{InputRequired: &pb.InputRequired{RequestState: state}},
		}
	}
	switch r.GetName() {
	case "no result":
		return nil
	case "two results":
		return errors.Join(s.Send(result("{}")), s.Send(result("{}")))
	case "an empty event":
		return s.Send(&pb.CallToolResponse{})
	case "invalid JSON":
		return s.Send(result("{nope"))
	case "an empty InputRequired":
		return s.Send(required(nil))
	case "a request state above the limit":
		return s.Send(required(make([]byte, 40_000)))
	case "input requests without end":
		return s.Send(required([]byte("x")))
	case "a reason of its own":
		st, err := status.New(codes.Internal, "m").
			WithDetails(&errdetails.ErrorInfo{
				Reason: "MINE", Domain: bridge.ErrorDomain, Metadata: map[string]string{"outcome": "executed"},
			})
		return errors.Join(st.Err(), err)
	case "an invalid reason":
		st, err := status.New(codes.NotFound, "m").
			WithDetails(&errdetails.ErrorInfo{Reason: "a\x01\"b", Domain: bridge.ErrorDomain})
		if err != nil {
			return err
		}
		return st.Err()
	}
	for code := codes.OK; code <= codes.Unauthenticated; code++ {
		if code.String() == r.GetName() {
			return status.Error(code, "a secret")
		}
	}
	return s.Send(result("{}"))
}

// Every error of a call contains a reason and an outcome, unless the request itself is invalid.
func TestEveryFailureReportsTheOutcome(t *testing.T) {
	dir := t.TempDir()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "unix", filepath.Join(dir, "b"))
	if err != nil {
		t.Fatal(err)
	}
	backend := grpc.NewServer()
	pb.RegisterMcpServiceServer(backend, wrong{})
	var wg sync.WaitGroup
	wg.Go(func() { _ = backend.Serve(ln) })
	t.Cleanup(wg.Wait)
	t.Cleanup(backend.Stop)
	r := start(t, nil, nil, "run", "-c", writeConfig(t, fmt.Sprintf(`
serve: {http: {addr: "127.0.0.1:0"}, grpc: {addr: "unix://%s/s"}, stdio: false}
backends: [{name: b, dial: "unix://%s/b"}]
`, dir, dir)))
	conn, err := grpc.NewClient("unix://"+dir+"/s", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })

	const misbehaved, failed, answered = "BACKEND_MISBEHAVED unknown", "BACKEND_FAILED unknown", ""
	for tool, want := range map[string]struct{ modern, legacy, grpc string }{
		"no result":                       {misbehaved, misbehaved, misbehaved},
		"two results":                     {answered, answered, answered}, // the first one counts
		"an empty event":                  {misbehaved, misbehaved, misbehaved},
		"an empty InputRequired":          {misbehaved, misbehaved, misbehaved},
		"a request state above the limit": {misbehaved, misbehaved, misbehaved},
		"input requests without end":      {answered, misbehaved, answered}, // other clients repeat the call themselves
		"invalid JSON":                    {"BACKEND_MISBEHAVED executed", "BACKEND_MISBEHAVED executed", answered},
		"a reason of its own":             {"MINE executed", "MINE executed", "MINE executed"},
		"an invalid reason":               {failed, failed, failed},
		"Canceled":                        {failed, failed, failed},
		"Unknown":                         {failed, failed, failed},
		"InvalidArgument":                 {answered, answered, answered},
		"DeadlineExceeded":                {failed, failed, failed},
		"NotFound":                        {answered, answered, answered},
		"AlreadyExists":                   {failed, failed, failed},
		"PermissionDenied":                {failed, failed, failed},
		"ResourceExhausted":               {failed, failed, failed},
		"FailedPrecondition":              {failed, failed, failed},
		"Aborted":                         {failed, failed, failed},
		"OutOfRange":                      {answered, answered, answered},
		"Unimplemented":                   {answered, answered, answered},
		"Internal":                        {failed, failed, failed},
		"Unavailable":                     {failed, failed, failed},
		"DataLoss":                        {failed, failed, failed},
		"Unauthenticated":                 {failed, failed, failed},
	} {
		if got := r.failure(t, tool, ""); got != want.modern {
			t.Errorf("%s, modern: %q, want %q", tool, got, want.modern)
		}
		if got := r.failure(t, tool, r.session(t)); got != want.legacy {
			t.Errorf("%s, legacy: %q, want %q", tool, got, want.legacy)
		}
		s, err := pb.NewMcpServiceClient(conn).
			CallTool(t.Context(), &pb.CallToolRequest{Name: tool}, grpc.WaitForReady(true))
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Recv()
		if got := failure(err); got != want.grpc {
			t.Errorf("%s, gRPC: %q, want %q: %v", tool, got, want.grpc, err)
		}
	}
	if n := strings.Count(r.stderr.String(), "This is a mistake in the backend"); n == 0 {
		t.Error("the log does not report the backend's defects")
	}
}

// session starts a session of 2025-11-25 and returns its ID.
func (r *run) session(t *testing.T) string {
	t.Helper()
	res := r.post(t, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, "")
	res.Body.Close()
	id := res.Header.Get("Mcp-Session-Id")
	r.post(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, id).Body.Close()
	return id
}

// failure calls a tool in a session, or as a client of 2026-07-28, and returns the reason and the outcome in its error.
func (r *run) failure(t *testing.T, tool, session string) string {
	t.Helper()
	meta := `{}`
	if session == "" {
		meta = `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	}
	res := r.post(t, fmt.Sprintf(
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":%q,"arguments":{},"_meta":%s}}`, tool, meta),
		session,
		"Mcp-Method", "tools/call", "Mcp-Name", tool)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Result json.RawMessage
		Error  struct {
			Data struct{ Reason, Outcome string }
		}
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Fatalf("%s: %v: %s", tool, err, text)
	}
	if strings.Contains(string(text), "secret") && tool != "" &&
		strings.Contains("Unknown AlreadyExists Aborted Internal Unavailable DataLoss", tool) {
		t.Errorf("%s: the message is not redacted: %s", tool, text)
	}
	return strings.TrimSpace(answer.Error.Data.Reason + " " + answer.Error.Data.Outcome)
}

// post posts a message in a session, or as a client of 2026-07-28.
func (r *run) post(t *testing.T, body, session string, header ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	switch {
	case session != "":
		req.Header.Set("Mcp-Session-Id", session)
	case len(header) > 0:
		req.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := new(http.Client).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return res
}
