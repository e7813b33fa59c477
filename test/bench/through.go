package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	gosdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// The cost of the bridge in front of an MCP server. The server, and the client where it is an MCP client, are go-sdk's.

var versions = map[era]string{legacy: "2025-11-25", modern: "2026-07-28"}

// An sdkCaller is go-sdk's client with one connection and session. It makes sequential calls.
type sdkCaller struct {
	session   *gosdk.ClientSession
	transport *http.Transport
	arguments []byte
	at        []int
	answers   *answerCheck
	next      int
}

// dialSDK connects go-sdk's client in the fastest way: without capabilities, and without a stream besides its calls.
func dialSDK(endpoint string, e era, p payload) (client, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	transport := &http.Transport{}
	c := gosdk.NewClient(&gosdk.Implementation{Name: "bench", Version: "1"},
		&gosdk.ClientOptions{Capabilities: &gosdk.ClientCapabilities{}})
	session, err := c.Connect(ctx, &gosdk.StreamableClientTransport{
		Endpoint: endpoint, HTTPClient: &http.Client{Transport: transport}, DisableStandaloneSSE: true,
	}, &gosdk.ClientSessionOptions{ProtocolVersion: versions[e]})
	if err != nil {
		return nil, err
	}
	if got := session.InitializeResult().ProtocolVersion; got != versions[e] {
		session.Close()
		return nil, fmt.Errorf("the server speaks %q, want %q", got, versions[e])
	}
	return &sdkCaller{
		session: session, transport: transport, arguments: p.arguments, at: places(p.arguments, firstCall),
		answers: newEchoCheck(p), next: firstCall,
	}, nil
}

func (c *sdkCaller) call() error {
	n := c.next
	c.next++
	for _, i := range c.at {
		number(c.arguments[i:], n)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	res, err := c.session.CallTool(ctx, &gosdk.CallToolParams{Name: "echo", Arguments: json.RawMessage(c.arguments)})
	if err != nil {
		return fmt.Errorf("call %d: %w", n, err)
	}
	if res.IsError || len(res.Content) != 1 {
		return fmt.Errorf("call %d: answer is no good result: %v", n, res)
	}
	text, ok := res.Content[0].(*gosdk.TextContent)
	if !ok {
		return fmt.Errorf("call %d: answered with %T", n, res.Content[0])
	}
	return c.answers.check([]byte(text.Text), n)
}

func (c *sdkCaller) decoded() int { return c.answers.decoded }

func (c *sdkCaller) close() {
	c.session.Close()
	c.transport.CloseIdleConnections()
}

// A grpcCaller is a client of the contract with one connection. It makes sequential calls.
type grpcCaller struct {
	conn    *grpc.ClientConn
	service pb.McpServiceClient
	request *pb.CallToolRequest
	at      []int
	answers *answerCheck
	next    int
}

// dialGRPC connects a client with the generated stubs.
func dialGRPC(endpoint string, _ era, p payload) (client, error) {
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	return &grpcCaller{
		conn: conn, service: pb.NewMcpServiceClient(conn),
		request: &pb.CallToolRequest{Name: "echo", Arguments: p.arguments},
		at:      places(p.arguments, firstCall), answers: newEchoCheck(p), next: firstCall,
	}, nil
}

func (c *grpcCaller) call() error {
	n := c.next
	c.next++
	for _, i := range c.at {
		number(c.request.Arguments[i:], n)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	stream, err := c.service.CallTool(ctx, c.request)
	if err != nil {
		return fmt.Errorf("call %d: %w", n, err)
	}
	m, err := stream.Recv()
	if err != nil {
		return fmt.Errorf("call %d: %w", n, err)
	}
	res := m.GetResult()
	if res == nil || res.GetIsError() || len(res.GetContent()) != 1 {
		return fmt.Errorf("call %d: answer is no good result: %.300v", n, m)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("call %d: it does not end: %w", n, err)
	}
	return c.answers.check([]byte(res.GetContent()[0].GetText().GetText()), n)
}

func (c *grpcCaller) decoded() int { return c.answers.decoded }

func (c *grpcCaller) close() { c.conn.Close() }

// servePassing runs the minimum in place of a bridge between MCP and MCP: net/http's reverse proxy.
func servePassing(ctx context.Context, args []string) error {
	target, err := url.Parse(args[0])
	if err != nil {
		return err
	}
	return serveHTTP(ctx, &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: &http.Transport{MaxIdleConnsPerHost: 100},
	})
}

// behind runs a go-sdk server of an era behind the bridge, whose front is http or grpc, or behind the proxy.
func behind(front string, e era) func(options) (*exec.Cmd, error) {
	return func(o options) (*exec.Cmd, error) {
		exe, err := filepath.Abs(filepath.Join(o.Bin, "mcpbridge"))
		if err != nil {
			return nil, err
		}
		if _, err := os.Stat(exe); err != nil {
			return nil, fmt.Errorf("not there: %w", err)
		}
		return self("serve-behind", exe, front, string(e))
	}
}

// serveBehind runs a go-sdk server in this process and the bridge as its child, and prints the bridge's endpoint.
func serveBehind(ctx context.Context, args []string) error {
	exe, front, e := args[0], args[1], era(args[2])
	server := httptest.NewServer(goSDKHandler(e))
	defer server.Close()
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	cmd := exec.CommandContext(ctx, exe, "run", "--log-format", "json", server.URL+"/mcp")
	switch front {
	case "grpc":
		cmd.Env = append(os.Environ(), "MCPBRIDGE_SERVE__GRPC__ADDR=unix://"+filepath.Join(dir, "grpc.sock"))
	case "http":
		cmd.Env = append(os.Environ(), "MCPBRIDGE_SERVE__HTTP__ADDR=127.0.0.1:0")
	case "floor":
		if cmd.Path, err = os.Executable(); err != nil {
			return err
		}
		cmd.Args = []string{cmd.Path, "serve-passing", server.URL}
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		if front == "floor" {
			fmt.Fprintln(os.Stderr, lines.Text()) // it prints its address in the same form
			break
		}
		var line struct{ Message, URL, GRPC string }
		if err := json.Unmarshal(lines.Bytes(), &line); err == nil && line.Message == "ready" {
			fmt.Fprintln(os.Stderr, "serving", line.URL+line.GRPC)
			break
		}
		fmt.Fprintln(os.Stderr, "mcpbridge:", line.Message) // not the whole line, which may have the server's address
	}
	_, err = io.Copy(os.Stderr, stderr)
	if waited := cmd.Wait(); ctx.Err() == nil {
		return errors.Join(err, waited)
	}
	return nil
}
