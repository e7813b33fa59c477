package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/config"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/problem"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// limits.line and limits.message cannot exceed 64 MiB, in the file or in the environment. The error contains a fix.
func TestMessageSizeLimit(t *testing.T) {
	const most = 64 << 20
	for _, key := range []string{"line", "message"} {
		for n := most - 1; n <= most+1; n++ {
			file := fmt.Sprintf("limits: {%s: %d}\nbackends: [{dial: 'unix:///x'}]", key, n)
			variable := fmt.Sprintf("MCPBRIDGE_LIMITS__%s=%d", strings.ToUpper(key), n)
			for where, read := range map[string]func() (*config.Config, error){
				"mcpbridge.yaml:2:": func() (*config.Config,
					error,
				) {
					return config.Load(writeConfig(t, file), nil, nil, nil)
				},
				variable[:strings.IndexByte(variable, '=')]: func() (*config.Config, error) {
					return config.Load(writeConfig(t, "backends: [{dial: 'unix:///x'}]"), []string{variable}, nil, nil)
				},
			} {
				l, err := read()
				if err != nil {
					t.Fatal(err)
				}
				err = l.Validate()
				if (err != nil) != (n > most) {
					t.Errorf("%s of %d: %v", key, n, err)
				}
				if err == nil {
					continue
				}
				if p := problem.Of(err); !strings.Contains(p.Where, where) ||
					!strings.Contains(p.Fix, "at most 67108864") {
					t.Errorf("%s of %d: %+v, want the place %s", key, n, p, where)
				}
			}
		}
	}
}

// sized serves answerSized over stdin and stdout.
func sized() {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		if answer := answerSized(in.Bytes()); answer != "" {
			fmt.Println(answer)
		}
	}
}

// answerSized returns the response of a legacy MCP server to a message. The arguments of its only tool are the size of
// the text in the result, and the minimum size of the response in bytes.
func answerSized(request []byte) string {
	msg, err := jsonrpc.Parse(request, limits.Defaults())
	if err != nil || !msg.IsRequest() {
		return ""
	}
	answer := func(result string) string {
		return `{"jsonrpc":"2.0","id":` + string(msg.ID) + `,"result":` + result + `}`
	}
	switch msg.Method {
	case "initialize":
		return answer(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"sized","version":"1"}}`)
	case "tools/list":
		return answer(`{"tools":[{"name":"answer","inputSchema":{"type":"object"}}]}`)
	case "tools/call":
		arguments := rawjson.Get(msg.Params, "arguments")
		text, _ := strconv.Atoi(string(rawjson.Get(arguments, "text")))
		full := answer(`{"content":[{"type":"text","text":"` + strings.Repeat("x", text) + `"}]}`)
		bytes, _ := strconv.Atoi(string(rawjson.Get(arguments, "bytes")))
		return full + strings.Repeat(" ", max(bytes-len(full), 0))
	}
	return `{"jsonrpc":"2.0","id":` + string(msg.ID) + `,"error":{"code":-32601,"message":"no such method"}}`
}

// sizedHTTP serves answerSized over Streamable HTTP and returns its URL.
func sizedHTTP(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		answer := answerSized(body)
		switch {
		case r.Method != http.MethodPost || err != nil:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case answer == "":
			w.WriteHeader(http.StatusAccepted)
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, answer)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// limits.message is the maximum size of an MCP server's message, on a line or in the body of a response, whether the
// server's kind is configured or detected.
func TestMessagesOfServersAreBounded(t *testing.T) {
	const most = 100_000
	config := writeConfig(t, fmt.Sprintf(`
serve: {http: {addr: "127.0.0.1:0"}}
limits: {message: %d}
backends:
  - {name: child, mcp: {command: [sized]}}
  - {name: web, mcp: {url: %q}}
`, most, sizedHTTP(t)))
	r := start(t, nil, nil, "run", "-c", config)
	t.Setenv("MCPBRIDGE_LIMITS__MESSAGE", strconv.Itoa(most))
	for n := most - 1; n <= most+1; n++ {
		wrong := map[string]string{}
		for _, name := range []string{"child", "web"} {
			if _, err := r.at("/"+name).call(t, "answer", fmt.Sprintf(`{"bytes":%d}`, n)); err != nil {
				wrong[name] = err.Error()
			}
		}
		if got := runCommand(t, "", "call", "answer", fmt.Sprintf("bytes=%d", n), "--",
			"sized"); got.code != problem.ExitOK {
			wrong["found out"] = got.stderr
		}
		if n <= most && len(wrong) > 0 || n > most && len(wrong) != 3 {
			t.Errorf("a message of %d bytes, limit %d: %v", n, most, wrong)
		}
		for name, message := range wrong {
			if !strings.Contains(message, "the limit is 100000") &&
				!strings.Contains(message, "more than 100000 bytes") {
				t.Errorf("%s: %s", name, message)
			}
		}
	}
}

// A sizedPlugin is a backend whose tool returns a text of the given size.
type sizedPlugin struct {
	pb.UnimplementedMcpServiceServer

	called atomic.Int32
}

func (*sizedPlugin) Discover(context.Context, *pb.DiscoverRequest) (*pb.DiscoverResponse, error) {
	return &pb.DiscoverResponse{
		ContractVersion: bridge.ContractVersion,
		Capabilities:    &pb.ServerCapabilities{Tools: &pb.ToolsCapability{}},
	}, nil
}

func (*sizedPlugin) ListTools(context.Context, *pb.ListToolsRequest) (*pb.ListToolsResponse, error) {
	return &pb.ListToolsResponse{Tools: []*pb.Tool{{Name: "answer", InputSchema: `{"type":"object"}`}}}, nil
}

func (p *sizedPlugin) CallTool(req *pb.CallToolRequest, stream grpc.ServerStreamingServer[pb.CallToolResponse]) error {
	p.called.Add(1)
	n, _ := strconv.Atoi(string(rawjson.Get(req.GetArguments(), "text")))
	block := &pb.ContentBlock{Block: &pb.ContentBlock_Text{Text: &pb.TextContent{Text: strings.Repeat("x", n)}}}
	return stream.Send(&pb.CallToolResponse{
		Event: &pb.CallToolResponse_Result{Result: &pb.CallToolResult{Content: []*pb.ContentBlock{block}}},
	})
}

func (*sizedPlugin) Listen(_ *pb.ListenRequest, stream grpc.ServerStreamingServer[pb.ListenResponse]) error {
	if err := stream.Send(&pb.ListenResponse{
		Event: &pb.ListenResponse_Acknowledged{Acknowledged: &pb.SubscriptionsAcknowledged{}},
	}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

// startSized serves a sizedPlugin and returns its address.
func startSized(t *testing.T) (*sizedPlugin, string) {
	t.Helper()
	p := &sizedPlugin{}
	return p, servePlugin(t, p)
}

// servePlugin serves a backend and returns its address.
func servePlugin(t *testing.T, p pb.McpServiceServer) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	ln, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(64 << 20))
	pb.RegisterMcpServiceServer(server, p)
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(ln) })
	t.Cleanup(wg.Wait)
	t.Cleanup(server.Stop)
	return "unix://" + socket
}

// limits.message is the maximum size of messages from and to gRPC clients. The error for a larger message
// contains the outcome, no matter which limit rejects the message: that of the client's or of the backend's connection.
func TestMessagesOfGRPCClientsAreBounded(t *testing.T) {
	bridgetest.SkipIfShort(t)
	for _, c := range []struct {
		limits string
		most   int
		server string
		// outcome is the outcome of a call whose response exceeds the limit. If the bridge does not read the message,
		// it does not know whether that is an event or the result.
		outcome string
	}{
		{"{}", 4 << 20, "web", "executed"},    // the limit of a server's messages is 16 MiB
		{"{}", 4 << 20, "plugin", "executed"}, // and so is that of a plugin's
		{"{message: 5242880}", 5 << 20, "plugin", "unknown"},
	} {
		plugin, address := startSized(t)
		socket := "unix://" + filepath.Join(t.TempDir(), "s")
		start(t, nil, nil, "run", "-c", writeConfig(t, fmt.Sprintf(`
serve: {grpc: {addr: %q}, stdio: false}
limits: %s
backends:
  - {name: plugin, dial: %q}
  - {name: web, mcp: {url: %q}}
`, socket, c.limits, address, sizedHTTP(t))))
		conn, err := grpc.NewClient(socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(2*c.most)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		call := func(arguments string) (size int, err error) {
			s, err := pb.NewMcpServiceClient(conn).
				CallTool(metadata.AppendToOutgoingContext(t.Context(), "mcpbridge-server", c.server),
					&pb.CallToolRequest{Name: "answer", Arguments: []byte(arguments)}, grpc.WaitForReady(true))
			if err != nil {
				t.Fatal(err)
			}
			res, err := s.Recv()
			return proto.Size(res), err
		}
		answer := func(n int) (size int, err error) { return call(fmt.Sprintf(`{"text":%d}`, n)) }

		size, err := answer(c.most - 1000)
		if err != nil {
			t.Fatal(err)
		}
		full := c.most - 1000 + c.most - size
		for n := full - 1; n <= full+1; n++ {
			size, err := answer(n)
			switch {
			case n <= full && (err != nil || size != c.most+n-full):
				t.Errorf("%+v: response of %d bytes: got %d, %v", c, c.most+n-full, size, err)
			case n > full && (status.Code(err) != codes.ResourceExhausted ||
				failure(err) != "RESPONSE_TOO_LARGE "+c.outcome):
				t.Errorf("%+v: response of %d bytes: %v, %s", c, c.most+n-full, err, failure(err))
			}
		}

		// The bridge adds the caller's context to a request, which must fit too.
		plugin.called.Store(0)
		if _, err := call(`{"s":"` + strings.Repeat("x", c.most-1000) + `"}`); err != nil {
			t.Errorf("%+v: a request: %v", c, err)
		}
		plugin.called.Store(0)
		if _, err := call(`{"s":"` + strings.Repeat("x", c.most) + `"}`); status.Code(err) != codes.ResourceExhausted ||
			plugin.called.Load() != 0 {
			t.Errorf("%+v: request above the limit: %v", c, err)
		}
	}
}

// limits.streams is the maximum number of subscription streams, of gRPC and MCP clients at all addresses together.
func TestStreamsOfAllClientsAreBounded(t *testing.T) {
	const most = 3
	_, address := startSized(t)
	socket := "unix://" + filepath.Join(t.TempDir(), "s")
	r := start(t, nil, nil, "run", "-c", writeConfig(t, fmt.Sprintf(`
serve: {grpc: {addr: %q}, http: {addr: "127.0.0.1:0"}}
limits: {streams: %d}
backends: [{name: plugin, dial: %q}, {name: web, mcp: {url: %q}}]
`, socket, most, address, sizedHTTP(t))))
	conn, err := grpc.NewClient(socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	// listen opens a subscription stream. It returns a function that ends it, and the error that rejects it.
	listen := func(server string) (end func(), err error) {
		ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(t.Context(), "mcpbridge-server", server))
		t.Cleanup(cancel)
		s, err := pb.NewMcpServiceClient(conn).Listen(ctx, &pb.ListenRequest{})
		if err == nil {
			_, err = s.Recv()
		}
		return cancel, err
	}
	get := func(path string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", "text/event-stream")
		res, err := new(http.Client).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { res.Body.Close() })
		return res.StatusCode
	}

	end, err := listen("plugin")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := listen("web"); err != nil {
		t.Errorf("one below the limit: %v", err)
	}
	if status := get("/web"); status != http.StatusOK {
		t.Errorf("at the limit: status %d", status)
	}
	if _, err := listen("plugin"); status.Code(err) != codes.ResourceExhausted ||
		failure(err) != "OVERLOADED not_executed" || len(status.Convert(err).Details()) != 2 {
		t.Errorf("one above the limit: %v, %v", err, status.Convert(err).Details())
	}
	if status := get(""); status != http.StatusServiceUnavailable {
		t.Errorf("one above the limit: status %d", status)
	}
	end()
	r.await(t, "one that has ended is counted no more", func() bool {
		_, err := listen("plugin")
		return err == nil
	})
}

// failure returns the reason and the outcome in the error of a gRPC client.
func failure(err error) string {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info.GetReason() + " " + info.GetMetadata()["outcome"]
		}
	}
	return ""
}
