package mcpbridge_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/mtls"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
	"github.com/mcpbridge/mcpbridge/sdkgen/go/mcpbridge"
	"github.com/mcpbridge/mcpbridge/sdkgen/go/mcpbridgetest"
)

// The test program is a backend too, if it is started as one.
func TestMain(m *testing.M) {
	if os.Getenv("MCPBRIDGE_PLUGIN") != "" || os.Getenv("TEST_BACKEND") != "" {
		os.Exit(backend().Run())
	}
	slog.SetDefault(slog.New(slog.DiscardHandler))
	os.Exit(m.Run())
}

func backend() *mcpbridge.App {
	app := mcpbridge.New("backend", "1")
	fmt.Println("noise before the handshake")
	mcpbridge.Tool(app, "echo", "", func(_ context.Context, in struct{ Text string }) (string, error) {
		fmt.Println("noise", in.Text[:min(len(in.Text), 10)])
		return in.Text, nil
	})
	does(app, "sleeps", func(ctx context.Context) (string, error) {
		mcpbridge.Progress(ctx, 1, 2)
		select {
		case <-time.After(400 * time.Millisecond):
			return "slept", nil
		case <-ctx.Done():
			fmt.Fprintln(os.Stderr, "cancelled")
			return "", ctx.Err()
		}
	})
	does(app, "stuck", func(ctx context.Context) (string, error) {
		mcpbridge.Progress(ctx, 1, 2)
		select {}
	})
	does(app, "many", func(ctx context.Context) (string, error) {
		for i := range 10_000 {
			mcpbridge.Progress(ctx, float64(i+1), 10_000)
		}
		return "many", nil
	})
	does(app, "panics", func(context.Context) (string, error) {
		all := map[string]map[string]int{}
		all["none"]["a"] = 1
		return "", nil
	})
	does(app, "greet", func(ctx context.Context) (string, error) {
		name, err := mcpbridge.Elicit[string](ctx, "Who are you?")
		return fmt.Sprintf("Hello, %s!", name.Data), err
	})
	does(app, "reads", func(context.Context) (string, error) {
		text, err := io.ReadAll(os.Stdin)
		return fmt.Sprintf("%q", text), err
	})
	addTasks(app)
	return app
}

// A process is the test program as a backend.
type process struct {
	*exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Scanner
	mu     sync.Mutex // guards stderr
	stderr bytes.Buffer
	lines  chan string // of stderr
}

func start(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(os.Args[0], args...), lines: make(chan string, 100)}
	p.Env = append(os.Environ(), env...)
	p.stdin, _ = p.StdinPipe()
	out, _ := p.StdoutPipe()
	p.stdout = bufio.NewScanner(out)
	errs, _ := p.StderrPipe()
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.lines)
		for s := bufio.NewScanner(errs); s.Scan(); {
			p.mu.Lock()
			p.stderr.WriteString(s.Text() + "\n")
			p.mu.Unlock()
			p.lines <- s.Text()
		}
	}()
	t.Cleanup(func() { p.Process.Kill(); p.Wait() })
	return p
}

// ends waits for the end of the process and returns its exit code.
func (p *process) ends(t *testing.T, within time.Duration) int {
	t.Helper()
	done := make(chan struct{})
	go func() {
		for range p.lines {
			continue
		}
		p.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(within):
		t.Fatalf("it still runs after %v", within)
	}
	return p.ProcessState.ExitCode()
}

func dial(t *testing.T, target string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("localhost"),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// handshake starts a backend as the bridge does, but without TLS, and returns its connection.
func handshake(t *testing.T) (*process, *grpc.ClientConn) {
	t.Helper()
	p := start(t, []string{
		"MCPBRIDGE_PLUGIN=mcpbridge.v1", "PLUGIN_PROTOCOL_VERSIONS=1", "MCP_PLUGIN_LIFELINE=stdin",
		"PLUGIN_UNIX_SOCKET_DIR=" + socketDir(t),
	})
	if !p.stdout.Scan() {
		t.Fatal("there is no handshake")
	}
	fields := strings.Split(p.stdout.Text(), "|")
	if len(fields) != 6 || fields[0] != "1" || fields[1] != "1" || fields[2] != "unix" || fields[4] != "grpc" ||
		fields[5] != "" {
		t.Fatalf("handshake %q", p.stdout.Text())
	}
	return p, dial(t, "unix://"+fields[3])
}

// socketDir is a directory with a name short enough for a socket.
func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "s") //nolint:usetesting // Its names are too long.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func callTool(t *testing.T, conn *grpc.ClientConn, name,
	args string,
) (grpc.ServerStreamingClient[pb.CallToolResponse], context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	stream, err := pb.NewMcpServiceClient(conn).
		CallTool(ctx, &pb.CallToolRequest{Context: mcpbridgetest.Everything(), Name: name, Arguments: []byte(args)})
	if err != nil {
		t.Fatal(err)
	}
	return stream, cancel
}

func result(stream grpc.ServerStreamingClient[pb.CallToolResponse]) (text string, progress int, err error) {
	for {
		m, err := stream.Recv()
		if err == io.EOF {
			return text, progress, nil
		}
		if err != nil {
			return text, progress, err
		}
		if m.GetProgress() != nil {
			progress++
		}
		if m.GetResult() != nil {
			text = m.GetResult().GetContent()[0].GetText().GetText()
		}
	}
}

func TestManagedBackendServesAndItsOutputIsLogged(t *testing.T) {
	p, conn := handshake(t)
	big := strings.Repeat("日本", 1<<20)
	for _, text := range []string{"", "hello", big} {
		stream, _ := callTool(t, conn, "echo", fmt.Sprintf(`{"Text":%q}`, text))
		if got, _, err := result(stream); got != text || err != nil {
			t.Errorf("got %.20q of %d bytes, %v", got, len(got), err)
		}
	}
	stream, _ := callTool(t, conn, "many", "{}")
	if got, n, err := result(stream); got != "many" || n != 10_000 || err != nil {
		t.Errorf("got %s with %d events, %v", got, n, err)
	}
	stream, _ = callTool(t, conn, "reads", "")
	if got, _, err := result(stream); got != `""` || err != nil {
		t.Errorf("a tool that reads stdin got %s, %v", got, err)
	}
	if line := <-p.lines; line != "noise before the handshake" {
		t.Errorf("stderr has %q", line)
	}
	for _, service := range []string{"", "plugin"} {
		h, err := grpc_health_v1.NewHealthClient(conn).
			Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: service})
		if h.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("health of %q is %v, %v", service, h, err)
		}
	}
}

func TestBackendListensAtTheHostsAddress(t *testing.T) {
	dir := socketDir(t)
	for _, c := range []struct{ env, address string }{
		{"PLUGIN_TRANSPORTS=tcp", `^1\|1\|tcp\|127\.0\.0\.1:\d+\|grpc\|$`},
		{"PLUGIN_UNIX_SOCKET_GROUP=" + strconv.Itoa(os.Getgid()), `^1\|1\|unix\|` + dir + `/\d+\.sock\|grpc\|$`},
	} {
		p := start(t, []string{
			"MCPBRIDGE_PLUGIN=mcpbridge.v1", "MCP_PLUGIN_LIFELINE=stdin",
			"PLUGIN_UNIX_SOCKET_DIR=" + dir, c.env,
		})
		if !p.stdout.Scan() || !regexp.MustCompile(c.address).MatchString(p.stdout.Text()) {
			t.Errorf("%s: handshake %q", c.env, p.stdout.Text())
		}
		if sockets, _ := filepath.Glob(filepath.Join(dir, "*.sock")); len(sockets) == 1 {
			if info, err := os.Stat(sockets[0]); err != nil || info.Mode().Perm() != 0o660 {
				t.Errorf("%s: %v, %v", c.env, info, err)
			}
		}
	}
}

func TestCancelledCallIsCancelledInTheBackend(t *testing.T) {
	p, conn := handshake(t)
	stream, cancel := callTool(t, conn, "sleeps", "")
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, _, err := result(stream); status.Code(err) != codes.Canceled {
		t.Errorf("got %v", err)
	}
	for line := range p.lines {
		if line == "cancelled" {
			return
		}
	}
	t.Error("the tool's context did not end")
}

func TestShutdownLetsCallsFinish(t *testing.T) {
	bridgetest.SkipIfShort(t)
	p, conn := handshake(t)
	watch, err := grpc_health_v1.NewHealthClient(conn).Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	yes := true
	listen, err := pb.NewMcpServiceClient(conn).
		Listen(t.Context(), &pb.ListenRequest{
			Context:       mcpbridgetest.Everything(),
			Notifications: &pb.SubscriptionFilter{ToolsListChanged: &yes},
		})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := listen.Recv(); err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	stream, _ := callTool(t, conn, "sleeps", "")
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	if err := conn.Invoke(t.Context(), "/plugin.GRPCController/Shutdown", &emptypb.Empty{},
		&emptypb.Empty{}); err != nil {
		t.Fatal(err)
	}
	if got, _, err := result(stream); got != "slept" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := listen.Recv(); err != io.EOF {
		t.Errorf("the listener got %v", err)
	}
	if code := p.ends(t, 20*time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestShutdownDoesNotWaitForEver(t *testing.T) {
	bridgetest.SkipIfShort(t)
	p, conn := handshake(t)
	stream, _ := callTool(t, conn, "stuck", "")
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := conn.Invoke(t.Context(), "/plugin.GRPCController/Shutdown", &emptypb.Empty{},
		&emptypb.Empty{}); err != nil {
		t.Fatal(err)
	}
	if code := p.ends(t, 30*time.Second); code != 0 || time.Since(began) < 4*time.Second {
		t.Errorf("exit code %d after %v", code, time.Since(began))
	}
}

func TestBackendEndsWithTheBridge(t *testing.T) {
	p, conn := handshake(t)
	stream, _ := callTool(t, conn, "stuck", "")
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	p.stdin.Close()
	if code := p.ends(t, 20*time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// attached starts a backend that listens by itself.
func attached(t *testing.T) (*process, *grpc.ClientConn) {
	t.Helper()
	return attachedAt(t, "unix:"+filepath.Join(socketDir(t), "s"))
}

func attachedAt(t *testing.T, listen string) (*process, *grpc.ClientConn) {
	t.Helper()
	p := start(t, []string{"TEST_BACKEND=1"}, "--listen", listen)
	for line := range p.lines {
		if _, address, ok := strings.Cut(line, "Serve it with: mcpbridge run "); ok {
			return p, dial(t, strings.TrimPrefix(address, "tcp:"))
		}
	}
	t.Fatalf("%s: it does not say where it listens: %s", listen, &p.stderr)
	return nil, nil
}

func TestAttachedBackend(t *testing.T) {
	socket := filepath.Join(socketDir(t), "s")
	for _, listen := range []string{"127.0.0.1:0", "tcp:127.0.0.1:0", "unix:" + socket, "unix://" + socket} {
		p, conn := attachedAt(t, listen)
		stream, _ := callTool(t, conn, "echo", `{"Text":"hello"}`)
		if got, _, err := result(stream); got != "hello" || err != nil {
			t.Errorf("%s: got %q, %v", listen, got, err)
		}
		p.Process.Kill() // The socket of the third is still there for the fourth.
		p.ends(t, 20*time.Second)
	}
}

func TestSignalsLetCallsFinish(t *testing.T) {
	bridgetest.SkipIfShort(t)
	for name, c := range map[string]struct {
		start  func(*testing.T) (*process, *grpc.ClientConn)
		signal os.Signal
	}{
		"SIGTERM, managed":  {handshake, syscall.SIGTERM},
		"SIGTERM, attached": {attached, syscall.SIGTERM},
		"SIGINT, attached":  {attached, os.Interrupt},
	} {
		t.Run(name, func(t *testing.T) {
			p, conn := c.start(t)
			stream, _ := callTool(t, conn, "sleeps", "")
			if _, err := stream.Recv(); err != nil {
				t.Fatal(err)
			}
			if err := p.Process.Signal(c.signal); err != nil {
				t.Fatal(err)
			}
			if got, _, err := result(stream); got != "slept" || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
			if code := p.ends(t, 20*time.Second); code != 0 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

// A panic is one line with the author's frames only, so that the bridge's log has it as one error.
func TestPanicIsOneRecordThatNamesItsLine(t *testing.T) {
	p, conn := handshake(t)
	stream, _ := callTool(t, conn, "panics", "")
	if got, _, err := result(stream); got != "assignment to entry in nil map" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	warned := false
	for line := range p.lines {
		if !strings.HasPrefix(line, "{") {
			continue // printed
		}
		var record struct{ Level, Msg, Stack string }
		if err := json.Unmarshal([]byte(line), &record); err != nil || record.Level != "ERROR" &&
			record.Level != "WARN" {
			t.Fatalf("got %s, %v", line, err)
		}
		if record.Level == "WARN" { // of the only tool that has none
			warned = true
			if !regexp.MustCompile(`^run_test\.go:\d+: tool "echo" has no description, by which models choose$`).
				MatchString(record.Msg) {
				t.Errorf("got %s", record.Msg)
			}
			continue
		}
		if !regexp.MustCompile(`^run_test\.go:\d+: tool "panics" failed: assignment to entry in nil map$`).
			MatchString(record.Msg) {
			t.Errorf("got %s", record.Msg)
		}
		if !strings.Contains(record.Stack, "run_test.go:") || strings.Contains(record.Stack, "google.golang.org/grpc") {
			t.Errorf("the stack is\n%s", record.Stack)
		}
		if !warned {
			t.Error("no warning about the tool without a description")
		}
		return
	}
	t.Error("nothing was logged")
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	p, conn := attached(t)
	stream, _ := callTool(t, conn, "stuck", "")
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	health, err := grpc_health_v1.NewHealthClient(conn).Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := health.Recv(); err != nil {
		t.Fatal(err)
	}
	p.Process.Signal(syscall.SIGTERM)
	if _, err := health.Recv(); err != nil { // NOT_SERVING: the first one has come.
		t.Fatal(err)
	}
	p.Process.Signal(syscall.SIGTERM)
	p.ends(t, 3*time.Second)
	if status, ok := p.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGTERM {
		t.Errorf("exited with %v", p.ProcessState)
	}
}

// A terminal sends SIGINT to the bridge too, which then sends Shutdown.
func TestInterruptIsNotForManagedBackends(t *testing.T) {
	p, conn := handshake(t)
	p.Process.Signal(os.Interrupt)
	stream, _ := callTool(t, conn, "echo", `{"Text":"still here"}`)
	if got, _, err := result(stream); got != "still here" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestBackendStartedByHandPrintsItsUsage(t *testing.T) {
	p := start(t, []string{"TEST_BACKEND=1"})
	if code := p.ends(t, 20*time.Second); code != 2 || !strings.Contains(p.stderr.String(), "\n    mcpbridge run -- ") {
		t.Errorf("exit code %d: %s", code, p.stderr.String())
	}
	p = start(t, []string{"MCPBRIDGE_PLUGIN=mcpbridge.v1", "PLUGIN_PROTOCOL_VERSIONS=2,3"})
	if code := p.ends(t, 20*time.Second); code != 1 ||
		!strings.Contains(p.stderr.String(),
			"supports version 2,3 of the plugin protocol, and this SDK supports version 1") {
		t.Errorf("exit code %d: %s", code, p.stderr.String())
	}
}

// A host is the plugin for go-plugin's client.
type host struct{ plugin.NetRPCUnsupportedPlugin }

func (host) GRPCServer(*plugin.GRPCBroker, *grpc.Server) error { return nil }
func (host) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return conn, nil
}

// A syncBuffer is a buffer for several goroutines.
type syncBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (s *syncBuffer) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(b)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func TestStockGoPluginHost(t *testing.T) {
	for _, mutual := range []bool{true, false} {
		var log syncBuffer
		client := plugin.NewClient(&plugin.ClientConfig{
			HandshakeConfig: plugin.HandshakeConfig{
				ProtocolVersion: 1, MagicCookieKey: "MCPBRIDGE_PLUGIN",
				MagicCookieValue: "mcpbridge.v1",
			},
			Plugins: plugin.PluginSet{"mcpbridge": host{}}, Cmd: exec.Command(os.Args[0]), AutoMTLS: mutual,
			AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
			Logger:           hclog.New(&hclog.LoggerOptions{Output: &log, Level: hclog.Debug}),
		})
		defer client.Kill()
		protocol, err := client.Client()
		if err != nil {
			t.Fatal(err)
		}
		raw, err := protocol.Dispense("mcpbridge")
		if err != nil {
			t.Fatal(err)
		}
		stream, _ := callTool(t, raw.(*grpc.ClientConn), "echo", `{"Text":"hello"}`)
		if got, _, err := result(stream); got != "hello" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
		if err := protocol.Ping(); err != nil {
			t.Error(err)
		}
		client.Kill()
		if strings.Contains(log.String(), "failed to exit gracefully") || !client.Exited() {
			t.Errorf("go-plugin had to kill it: %s", log.String())
		}
	}
}

// bridgeBinary builds the bridge.
func bridgeBinary(t *testing.T) string {
	t.Helper()
	bridge := filepath.Join(t.TempDir(), "mcpbridge")
	if out, err := exec.Command("go", "build", "-o", bridge, "../../../cmd/mcpbridge").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return bridge
}

// The backend runs behind the real bridge.
func TestBehindTheBridge(t *testing.T) {
	bridgetest.SkipIfShort(t)
	t.Setenv("MCPBRIDGE_BIN", bridgeBinary(t))
	c := mcpbridgetest.Start(t, "", os.Args[0])
	if got := c.Call("echo", M{"Text": "日本語"}); got != "日本語" {
		t.Errorf("got %s", got)
	}
	if got := c.Call("many", nil); got != "many" {
		t.Errorf("got %s", got)
	}
	if !slices.ContainsFunc(c.Notifications,
		func(m mcpbridgetest.Message) bool { return m.Method == "notifications/progress" }) {
		t.Error("there was no progress")
	}
	c.Answer = func(method string, _ json.RawMessage) any {
		if method != "elicitation/create" {
			t.Errorf("asked %s", method)
		}
		return M{"action": "accept", "content": M{"value": "Ada"}}
	}
	if got := c.Call("greet", nil); got != "Hello, Ada!" {
		t.Errorf("got %s", got)
	}
	id := c.Send("tools/call", M{"name": "sleeps", "arguments": M{}, "_meta": M{"progressToken": "p"}})
	c.AwaitNotification("notifications/progress")
	c.Notify("notifications/cancelled", M{"requestId": id})
	if got := c.Call("echo", M{"Text": "after"}); got != "after" {
		t.Errorf("got %s", got)
	}
}

// The bridge answers initialize after 2 s, whether the backend has started or not.
func TestStartWaitsForTheBackend(t *testing.T) {
	bridgetest.SkipIfShort(t)
	bridge, started := bridgeBinary(t), filepath.Join(t.TempDir(), "started")
	c := mcpbridgetest.Start(t, bridge, "sh", "-c", `sleep 3; touch "$0"; exec "$@"`, started, os.Args[0])
	if _, err := os.Stat(started); err != nil {
		t.Error(err)
	}
	if got := c.Call("echo", M{"Text": "hello"}); got != "hello" {
		t.Errorf("got %s", got)
	}
}

// A failing test is one whose failure is expected.
type failing struct {
	testing.TB
	message string
}

func (f *failing) Fatalf(format string, args ...any) {
	f.message = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (f *failing) Fatal(args ...any) { f.Fatalf("%s", fmt.Sprint(args...)) }

func TestStartFailsIfTheBackendDoesNotStart(t *testing.T) {
	bridgetest.SkipIfShort(t)
	test, bridge, done := &failing{TB: t, message: "nothing"}, bridgeBinary(t), make(chan struct{})
	go func() {
		defer close(done)
		mcpbridgetest.Start(test, bridge, "sh", "-c", "sleep 3; exit 3")
	}()
	if <-done; !strings.Contains(test.message, "the program does not serve") {
		t.Errorf("got %q", test.message)
	}
}

// For a standard host of go-plugin, the backend generates a certificate. rustls rejects one that is a CA.
func TestGeneratedCertificateIsNoCA(t *testing.T) {
	keys, err := mtls.New()
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, []string{
		"MCPBRIDGE_PLUGIN=mcpbridge.v1", "PLUGIN_PROTOCOL_VERSIONS=1", "MCP_PLUGIN_LIFELINE=stdin",
		"PLUGIN_UNIX_SOCKET_DIR=" + socketDir(t), "PLUGIN_CLIENT_CERT=" + string(keys.Authority),
	})
	if !p.stdout.Scan() {
		t.Fatal("there is no handshake")
	}
	der, err := base64.RawStdEncoding.DecodeString(strings.Split(p.stdout.Text(), "|")[5])
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil || cert.IsCA {
		t.Errorf("%v, an authority: %v", err, cert.IsCA)
	}
}
