package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/problem"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// initialize starts a session and returns the response.
func (r *run) initialize(t *testing.T) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url, strings.NewReader(
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	res, err := new(http.Client).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	return res
}

// A gRPC client that reads a response slowly gets all of it before the end of the drain.
func TestResponsesAreReadBeforeShutdown(t *testing.T) {
	bridgetest.SkipIfShort(t)
	r := start(t, nil, nil, "run", "--grpc", "127.0.0.1:0", "--", echoGo(t))
	silent, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(r.app.GRPC(), "tcp:"))
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close() // the drain does not wait for it
	conn, err := grpc.NewClient(strings.TrimPrefix(r.app.GRPC(), "tcp:"),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithInitialWindowSize(64<<10), grpc.WithInitialConnWindowSize(64<<10))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	text := strings.Repeat("x", 3<<20)
	s, err := pb.NewMcpServiceClient(conn).
		CallTool(t.Context(), &pb.CallToolRequest{Name: "echo", Arguments: []byte(`{"text":"` + text + `"}`)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Header(); err != nil { // the response has begun
		t.Fatal(err)
	}
	r.drain()
	select {
	case <-r.exited:
		t.Error("the bridge exited before the response was read")
	case <-time.After(1500 * time.Millisecond):
	}
	got, err := s.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if answer := got.GetResult().GetContent()[0].GetText().GetText(); !strings.Contains(answer, text) {
		t.Errorf("got a response of %d bytes, want the bytes sent", len(answer))
	}
	if _, err := s.Recv(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if code := r.wait(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// A load balancer needs time to notice that the bridge is shutting down.
func TestRequestsAreAcceptedDuringTheLameDuckPhase(t *testing.T) {
	bridgetest.SkipIfShort(t)
	t.Setenv("MCPBRIDGE_SERVE__PREDRAIN", "1s")
	r := start(t, nil, nil, "run", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--", echoGo(t))
	conn, err := grpc.NewClient(strings.TrimPrefix(r.app.GRPC(), "tcp:"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	isHealthy := func() bool {
		res, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return res.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING
	}
	r.await(t, "it is healthy", isHealthy)
	running := make(chan error, 1)
	go func() {
		_, err := r.call(t, "slow", `{"ms":4000}`)
		running <- err
	}()
	r.awaitCalls(t, 1)

	r.drain()
	r.await(t, "it is not healthy", func() bool { return !isHealthy() })
	stream, err := pb.NewMcpServiceClient(conn).
		CallTool(t.Context(), &pb.CallToolRequest{Name: "echo", Arguments: []byte(`{}`)})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Errorf("a gRPC call got %v", err)
	}
	if _, err := r.call(t, "echo", `{}`); err != nil {
		t.Errorf("a call got %v", err)
	}
	if res := r.initialize(t); res.StatusCode != http.StatusOK || !res.Close {
		t.Errorf("new session: got %s, closing: %t", res.Status, res.Close)
	}

	r.awaitLog(t, "refusing new calls")
	if res := r.initialize(t); res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") != "1" {
		t.Errorf("late session: got %s, Retry-After %q", res.Status,
			res.Header.Get("Retry-After"))
	}
	if err := <-running; err != nil {
		t.Errorf("call in flight: got %v", err)
	}
	if code := r.wait(t); code != problem.ExitOK {
		t.Errorf("exit code %d:\n%s", code, r.stderr)
	}
}

// A process under load receives SIGTERM. Its load balancer polls readiness at intervals; every request that it sends
// before it detects the change gets a response.
func TestLoadBalancerLosesNoCall(t *testing.T) {
	bridgetest.SkipIfShort(t)
	file := filepath.Join(t.TempDir(), "mcpbridge.yaml")
	text := "version: 1\nserve: {http: {addr: 127.0.0.1:0}, ops: {addr: 127.0.0.1:0}, preDrain: 1s}\nbackends: " +
		"[{name: b, launch: {command: [" + echoGo(t) + "]}}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("mcpbridge", "run", "--log-format", "json", "-c", file)
	r := spawn(t, cmd)
	probes := "http://" + regexp.MustCompile(`"ops":"([^"]*)"`).FindStringSubmatch(r.stderr.String())[1] + "/readyz"

	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	var stopping atomic.Bool // the process received SIGTERM
	var calls, late atomic.Int32
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for ctx.Err() == nil {
				after := stopping.Load()
				tool, arguments := "echo", `{}`
				if i%2 == 0 {
					tool, arguments = "slow", `{"ms":300}`
				}
				if _, err := r.call(t, tool, arguments); err != nil {
					t.Errorf("call (after the signal: %t): %v", after, err)
					return
				}
				calls.Add(1)
				if after {
					late.Add(1)
				}
			}
		})
	}
	r.await(t, "calls are made", func() bool { return calls.Load() > 200 })
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	stopping.Store(true)
	begin := time.Now()
	for range time.Tick(200 * time.Millisecond) {
		res, err := new(http.Client).Get(probes)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			break
		}
	}
	leave()
	wg.Wait()
	if late.Load() == 0 {
		t.Error("no call was sent after the signal")
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("exited with %v:\n%s", err, r.stderr)
	}
	t.Logf("%d calls, %d of them after the signal; shutdown took %s", calls.Load(), late.Load(), time.Since(begin))
}

// However the bridge ends, a gRPC call in flight gets an error with its outcome, and with a code that no client
// retries.
func TestInterruptedGRPCCallsReportIt(t *testing.T) {
	bridgetest.SkipIfShort(t)
	for name, end := range map[string]func(t *testing.T, r *run, stdin io.Closer){
		"the drain is over": func(_ *testing.T, r *run, _ io.Closer) { r.drain() },
		"a second signal": func(t *testing.T, r *run, _ io.Closer) {
			t.Helper()
			r.drain()
			r.awaitLog(t, "draining")
			r.cut()
		},
		"stdin is closed": func(_ *testing.T, _ *run, stdin io.Closer) { stdin.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			drain := "1h"
			if name == "the drain is over" {
				drain = "50ms"
			}
			in, stdin := io.Pipe()
			r := start(t, in, io.Discard, "run", "--stdio", "--grpc", "127.0.0.1:0", "--drain", drain, "--", echoGo(t))
			conn, err := grpc.NewClient(strings.TrimPrefix(r.app.GRPC(), "tcp:"),
				grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			slow := func(arguments string) grpc.ServerStreamingClient[pb.CallToolResponse] {
				stream, err := pb.NewMcpServiceClient(conn).
					CallTool(t.Context(), &pb.CallToolRequest{Name: "slow", Arguments: []byte(arguments)})
				if err != nil {
					t.Fatal(err)
				}
				return stream
			}
			stream := slow(`{"ms":60000}`)
			r.awaitCalls(t, 1)
			if _, err := slow(`{"ms":100}`).Recv(); err != nil { // by the end of this call, the other one has begun
				t.Fatal(err)
			}
			end(t, r, stdin)
			_, err = stream.Recv()
			f := bridge.FromStatus(status.Convert(err))
			if status.Code(err) != codes.Unknown || f.Reason != "SHUTTING_DOWN" ||
				f.Outcome != bridge.OutcomeUnknown {
				t.Errorf("got %v with %v", err, f)
			}
			if code := r.wait(t); code != problem.ExitOK {
				t.Errorf("exit code %d:\n%s", code, r.stderr)
			}
			stdin.Close()
		})
	}
}

// After the second signal, calls in flight end at once with an error. So do calls in a session, which do not end with
// their connections.
func TestSecondSignalFailsWaitingCalls(t *testing.T) {
	r := start(t, nil, nil, "run", "--http", "127.0.0.1:0", "--", echoGo(t))
	post := func(session, body string) (string, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url, strings.NewReader(body))
		if err != nil {
			return "", err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		req.Header.Set("Mcp-Session-Id", session)
		res, err := new(http.Client).Do(req)
		if err != nil {
			return "", err
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		return string(text), err
	}
	const ended = "the call was ended: the bridge is shutting down; whether it was executed is not known"
	var wg sync.WaitGroup
	for range 8 {
		session := r.initialize(t).Header.Get("Mcp-Session-Id")
		if _, err := post(session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			text, err := post(session,
				`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"slow","arguments":{"ms":60000}}}`)
			if err != nil || !strings.Contains(text, ended) ||
				!strings.Contains(text, `{"reason":"SHUTTING_DOWN","outcome":"unknown"}`) {
				t.Errorf("call in a session: got %q, %v", text, err)
			}
		})
		wg.Go(func() {
			if _, err := r.call(t, "slow", `{"ms":60000}`); err == nil || err.Error() != ended {
				t.Errorf("call without a session: got %v", err)
			}
		})
	}
	r.awaitCalls(t, 16)
	if _, err := r.call(t, "slow", `{"ms":100}`); err != nil { // by the end of this call, the others have begun
		t.Error(err)
	}
	r.drain()
	r.awaitLog(t, "draining")
	r.cut()
	wg.Wait()
	r.wait(t)
}
