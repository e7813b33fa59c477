package verify_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// modeKey is the environment variable that makes the test binary a backend. Its value is the backend's defect. "sound"
// means none, and "an array" and "anything" are valid output schemas.
const modeKey = "VERIFY_TEST_MODE"

// A hostile is a backend with one defect, written without an SDK.
type hostile struct {
	mode    string
	inner   *bridgetest.Handler
	server  *grpc.Server
	calls   atomic.Int64
	stopped chan struct{} // closed by Shutdown
}

// crash kills the process if its mode is the given one.
func (h *hostile) crash(mode string) {
	if h.is(mode) {
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			_ = self.Kill()
		}
		select {}
	}
}

func (h *hostile) is(mode string) bool { return h.mode == mode }

// run is the main function. It returns the exit code.
func (h *hostile) run() int {
	if os.Getenv("MCPBRIDGE_PLUGIN") != "mcpbridge.v1" && !h.is("handshake by hand") {
		if h.is("no message by hand") {
			return 1
		}
		fmt.Fprintln(os.Stderr, "this is a backend for mcpbridge")
		h.crash("crashes by hand")
		if h.is("exits with 0 by hand") {
			return 0
		}
		return 1
	}
	if os.Getenv("PLUGIN_PROTOCOL_VERSIONS") != "1" && !h.is("any version") {
		fmt.Fprintln(os.Stderr, "no version in common")
		h.crash("crashes on other versions")
		return 1
	}
	config, certificate, err := h.tls()
	if err != nil {
		if !h.is("no message without keys") {
			fmt.Fprintln(os.Stderr, err)
		}
		h.crash("crashes without keys")
		return 1
	}
	l, err := h.listen()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	h.serve(config)
	if !h.is("interrupted") {
		signal.Ignore(os.Interrupt)
	}
	terminate := make(chan os.Signal, 1)
	signal.Notify(terminate, syscall.SIGTERM)
	orphaned := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(orphaned)
	}()
	fmt.Println(h.handshake(l, certificate))
	go func() { _ = h.server.Serve(l) }()
	for {
		select {
		case <-terminate:
			if h.is("ignores SIGTERM") {
				continue
			}
		case <-orphaned:
			if h.is("survives as an orphan") {
				orphaned = nil
				continue
			}
			h.crash("crashes as an orphan")
			return 0
		case <-h.stopped:
		}
		return h.drain(l)
	}
}

// tls returns the TLS configuration for connections of the bridge, and the certificate for the handshake.
func (h *hostile) tls() (*tls.Config, string, error) {
	client := os.Getenv("PLUGIN_CLIENT_CERT")
	if client == "" && !h.is("always a certificate") || h.is("no TLS") {
		return nil, "", nil
	}
	name := "localhost"
	if h.is("certificate for another name") {
		name = "elsewhere"
	}
	if (h.is("no message without keys") || h.is("crashes without keys")) && os.Getenv("MCPBRIDGE_KEY_PAIR") == "" {
		return nil, "", errors.New("no keys")
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, "", err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{name},
		NotAfter: time.Now().Add(time.Hour),
		IsCA:     true, BasicConstraintsValid: true,
	}
	for { // until base64 of the certificate needs padding
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			return nil, "", err
		}
		if len(der)%3 == 0 {
			continue
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM([]byte(client))
		config := &tls.Config{
			Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, ClientCAs: pool,
			ClientAuth: tls.RequireAndVerifyClientCert,
			MinVersion: tls.VersionTLS12,
		}
		if h.is("no client certificate required") || client == "" {
			config.ClientAuth = tls.NoClientCert
		}
		if h.is("padded certificate") {
			return config, base64.StdEncoding.EncodeToString(der), nil
		}
		return config, base64.RawStdEncoding.EncodeToString(der), nil
	}
}

func (h *hostile) listen() (net.Listener, error) {
	var c net.ListenConfig
	ctx := context.Background()
	if !strings.Contains(os.Getenv("PLUGIN_TRANSPORTS"), "unix") && !h.is("unix only") {
		return c.Listen(ctx, "tcp", "127.0.0.1:0")
	}
	dir := os.Getenv("PLUGIN_UNIX_SOCKET_DIR")
	name := fmt.Sprintf("%d.sock", os.Getpid())
	switch h.mode {
	case "all interfaces":
		return c.Listen(ctx, "tcp", "0.0.0.0:0")
	case "socket in another directory":
		sub := filepath.Join(dir, "sub")
		if err := os.Mkdir(sub, 0o700); err != nil {
			return nil, err
		}
		dir = sub
	case "one socket":
		name = "s"
	}
	return c.Listen(ctx, "unix", filepath.Join(dir, name))
}

func (h *hostile) handshake(l net.Listener, certificate string) string {
	fields := []string{"1", "1", l.Addr().Network(), l.Addr().String(), "grpc", certificate}
	switch h.mode {
	case "old handshake":
		fields[0] = "0"
	case "another version":
		fields[1] = "2"
	case "net/rpc":
		fields[4] = "netrpc"
	case "invalid certificate":
		fields[5] = "!garbage"
	}
	if os.Getenv("PLUGIN_MULTIPLEX_GRPC") != "" && !h.is("six fields") {
		fields = append(fields, "false")
	}
	return strings.Join(fields, "|")
}

func (h *hostile) serve(config *tls.Config) {
	options := []grpc.ServerOption{grpc.MaxRecvMsgSize(64 << 20)}
	if h.is("small messages") {
		options = nil
	}
	if config != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(config)))
	}
	h.server = grpc.NewServer(options...)
	register(h.server, bridge.HandlerFunc(h.handle))
	checks := health.NewServer()
	if !h.is("no plugin service") {
		checks.SetServingStatus("plugin", grpc_health_v1.HealthCheckResponse_SERVING)
	}
	if h.is("not serving") {
		checks.SetServingStatus("", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	}
	grpc_health_v1.RegisterHealthServer(h.server, checks)
	if h.is("no controller") {
		return
	}
	h.server.RegisterService(
		&grpc.ServiceDesc{ServiceName: "plugin.GRPCController", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{
			MethodName: "Shutdown", Handler: func(_ any, _ context.Context, read func(any) error,
				_ grpc.UnaryServerInterceptor,
			) (any, error) {
				if !h.is("ignores Shutdown") {
					close(h.stopped)
				}
				m := &emptypb.Empty{}
				return m, read(m)
			},
		}}}, h)
}

func (h *hostile) drain(l net.Listener) int {
	switch h.mode {
	case "exits during calls":
		<-time.After(50 * time.Millisecond) // for the response to Shutdown
		return 0
	case "leaves its socket":
		if u, ok := l.(*net.UnixListener); ok {
			u.SetUnlinkOnClose(false)
		}
	}
	h.inner.Drop()
	h.server.GracefulStop()
	if h.is("exits with 3") {
		return 3
	}
	return 0
}

// handle calls the inner Handler and adds a defect.
func (h *hostile) handle(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
	n := h.calls.Add(1)
	if r, ok := call.Request.(*pb.CallToolRequest); ok {
		return h.tool(ctx, r, emit)
	}
	if r, ok := call.Request.(*pb.ListenRequest); ok {
		return h.listening(ctx, call, r, emit)
	}
	if r, ok := call.Request.(*pb.ListToolsRequest); ok && r.Cursor != nil &&
		(h.is("any cursor") || h.is("too many pages") || h.is("huge list")) {
		call = &bridge.Call{Method: call.Method, Request: &pb.ListToolsRequest{}}
	}
	// The inner Handler relies on the following checks, which a front performs in the bridge.
	page, ok := call.Request.(interface{ GetCursor() string })
	if ok && page.GetCursor() != "" && call.Method != bridge.ListTools {
		return nil, bridge.Errorf(codes.InvalidArgument, "unknown cursor %q", page.GetCursor())
	}
	if r, ok := call.Request.(*pb.CompleteRequest); ok && r.GetReference().GetPrompt().GetName() != "p" {
		return nil, bridge.Errorf(codes.NotFound, "unknown prompt")
	}
	res, err := h.inner.Handle(ctx, call, emit)
	if err != nil {
		return nil, err
	}
	res = &bridge.Result{Complete: proto.Clone(res.Complete)}
	switch m := res.Complete.(type) {
	case *pb.DiscoverResponse:
		switch h.mode {
		case "no server name":
			m.ServerInfo = nil
		case "declares revisions":
			m.SupportedVersions = []string{"2026-07-28"}
		case "no capabilities":
			m.Capabilities = nil
		case "changing Discover":
			m.Instructions = proto.String(fmt.Sprint("call ", n))
		}
	case *pb.ListToolsResponse:
		switch h.mode {
		case "endless list":
			m.NextCursor = proto.String("8")
		case "too many pages":
			m.NextCursor = proto.String(fmt.Sprint("page ", n))
		case "huge list":
			m.NextCursor = proto.String(fmt.Sprint("page ", n))
			m.Tools[0].Description = proto.String(strings.Repeat("x", 16<<20))
		case "changing order":
			m.Tools[0].Description = proto.String(fmt.Sprint("call ", n))
		case "bad name":
			m.Tools[0].Name = "has spaces"
		case "no schema":
			m.Tools[0].InputSchema = ""
		case "not an object":
			m.Tools[0].InputSchema = `{"type":"array"}`
		case "no JSON Schema":
			m.Tools[0].InputSchema = `{"type":"object","properties":{"a":{"type":"nothing"}}}`
		case "schema of an array":
			m.Tools[0].OutputSchema = `{"type":"array"}`
		case "schema of any type":
			m.Tools[0].OutputSchema = `{}`
		case "a boolean schema":
			m.Tools[0].OutputSchema = `true`
		case "truncated schema":
			m.Tools[0].OutputSchema = `{"type":`
		case "external schema":
			m.Tools[0].InputSchema = `{"type":"object","properties":{"a":{"$ref":"https://example.com/a.json"}}}`
		case "duplicate tool":
			m.Tools = append(m.Tools, m.GetTools()[0])
		case "no meta":
			m.Tools[0].Meta = `[]`
		case "undeclared tasks":
			m.Tools[0].Execution = &pb.ToolExecution{TaskSupport: proto.String("optional")}
		case "invalid task support":
			m.Tools[0].Execution = &pb.ToolExecution{TaskSupport: proto.String("sometimes")}
		}
	case *pb.ListResourcesResponse:
		switch h.mode {
		case "no scheme":
			m.Resources[0].Uri = "a"
		case "nameless resource":
			m.Resources[0].Name = ""
		}
	case *pb.ListResourceTemplatesResponse:
		if h.is("no template") {
			m.ResourceTemplates[0].UriTemplate = "test://{id"
		}
	case *pb.ListPromptsResponse:
		if h.is("duplicate argument") {
			m.Prompts[0].Arguments = append(m.Prompts[0].Arguments, m.GetPrompts()[0].GetArguments()...)
		}
	}
	return res, nil
}

func (h *hostile) listening(ctx context.Context, call *bridge.Call, r *pb.ListenRequest,
	emit bridge.Emit,
) (*bridge.Result, error) {
	yes := true
	switch h.mode {
	case "no acknowledgement":
		return h.inner.Handle(ctx, call, func(ctx context.Context, e bridge.Event) error {
			if e.Change.GetAcknowledged() != nil {
				return nil
			}
			return emit(ctx, e)
		})
	case "no changes":
		return h.inner.Handle(ctx, call, func(ctx context.Context, e bridge.Event) error {
			if e.Change.GetAcknowledged() == nil {
				return nil
			}
			return emit(ctx, e)
		})
	case "all changes":
		call = &bridge.Call{
			Method:  call.Method,
			Request: &pb.ListenRequest{Notifications: &pb.SubscriptionFilter{ToolsListChanged: &yes}},
		}
		return h.inner.Handle(ctx, call, emit)
	}
	// The inner Handler sends all changes, and a front in the bridge filters them. A backend must filter them itself.
	return h.inner.Handle(ctx, call, func(ctx context.Context, e bridge.Event) error {
		f := r.GetNotifications()
		updated := e.Change.GetResourceUpdated()
		if e.Change.GetToolsListChanged() != nil && !f.GetToolsListChanged() || updated != nil &&
			!strings.Contains(fmt.Sprint(f.GetResourceSubscriptions()), updated.GetUri()) {
			return nil
		}
		return emit(ctx, e)
	})
}

func (h *hostile) tool(ctx context.Context, r *pb.CallToolRequest, emit bridge.Emit) (*bridge.Result, error) {
	text := func(s string) (*bridge.Result, error) { return &bridge.Result{Complete: bridgetest.Text("%s", s)}, nil }
	name := r.GetName()
	var object map[string]any
	sound := utf8.Valid(r.GetArguments()) && json.Unmarshal(r.GetArguments(), &object) == nil
	if !sound && !h.is("exits on bad arguments") && !h.is("status for bad arguments") {
		return nil, bridge.Errorf(codes.InvalidArgument, "the arguments are not an object")
	}
	switch h.mode + ": " + name {
	case "status for bad arguments: echo":
		if !sound {
			return nil, errors.New("cannot parse")
		}
	case "exits on bad arguments: echo":
		if !sound {
			fmt.Fprintln(os.Stderr, "panic: not an object")
			os.Exit(2)
		}
	case "accepts unknown names: mcpbridge-verify-nothing":
		return text("done")
	case "status instead of a tool error: fail":
		return nil, bridge.Errorf(codes.Internal, "it does not work")
	case "other error code: exact":
		return nil, bridge.Errorf(codes.Unknown, "no luck")
	case "floating point: echo", "floating point: structured":
		again, _ := json.Marshal(object)
		r = proto.CloneOf(r)
		r.Arguments = again
	case "decreasing progress: steps":
		return h.inner.Handle(ctx, &bridge.Call{Method: bridge.CallTool, Request: r},
			func(ctx context.Context, e bridge.Event) error {
				e.Progress.Progress = -e.Progress.GetProgress()
				return emit(ctx, e)
			})
	case "too few progress events: steps":
		return h.inner.Handle(ctx, &bridge.Call{Method: bridge.CallTool, Request: r},
			func(ctx context.Context, e bridge.Event) error {
				if int(e.Progress.GetProgress())%2 == 0 {
					return nil
				}
				return emit(ctx, e)
			})
	case "endless progress: steps":
		for {
			if err := emit(ctx, bridge.Event{Progress: &pb.Progress{}}); err != nil {
				return nil, err
			}
		}
	case "ignores the log level: levels":
		r = proto.CloneOf(r)
		r.Context.LogLevel = pb.LogLevel_LOG_LEVEL_DEBUG
	case "ignores cancellation: wait":
		return h.inner.Handle(context.WithoutCancel(ctx), &bridge.Call{Method: bridge.CallTool, Request: r}, emit)
	case "drops unknown members: meta":
		return text("meta")
	case "one input request per round: survey", "repeats steps: survey":
		return h.survey(r)
	case "ignores declined forms: tell":
		if r.GetInputResponses()["answer"].GetElicit().GetAction() == "decline" {
			return text("cancelled")
		}
	case "ignores client capabilities: tell":
		r = proto.CloneOf(r)
		r.Context.ClientCapabilities.Elicitation = &pb.ElicitationCapability{}
	case "accepts any state: survey":
		if bytes.Equal(r.GetRequestState(), []byte("nonsense")) {
			return text("done")
		}
	case "mixes up callers: who":
		if h.calls.Load()%2 == 0 {
			return text("2026-07-28 somebody-else progress=true log=LOG_LEVEL_DEBUG forms=true")
		}
	case "second handshake: noise":
		for range 20 {
			fmt.Println("1|1|unix|/nowhere|grpc|")
		}
	}
	call := &bridge.Call{Method: bridge.CallTool, Request: r}
	if !r.GetContext().GetProgressWanted() && !h.is("progress for all") {
		return h.inner.Handle(ctx, call, func(ctx context.Context, e bridge.Event) error {
			if e.Progress != nil {
				return nil
			}
			return emit(ctx, e)
		})
	}
	return h.inner.Handle(ctx, call, emit)
}

// survey requires input in the wrong way.
func (h *hostile) survey(r *pb.CallToolRequest) (*bridge.Result, error) {
	if h.is("repeats steps") { // counts in each round
		res, err := h.inner.Handle(context.Background(), &bridge.Call{Method: bridge.CallTool, Request: r}, nil)
		if _, again := h.inner.Handle(context.Background(),
			&bridge.Call{Method: bridge.CallTool, Request: &pb.CallToolRequest{Name: "survey"}}, nil); again != nil {
			return nil, again
		}
		return res, err
	}
	requests := []*pb.InputRequest{bridgetest.Form("name", "What is your name?", "value")}
	if r.RequestState != nil {
		requests = []*pb.InputRequest{bridgetest.Form("age", "How old are you?", "value")}
	}
	return &bridge.Result{InputRequired: &pb.InputRequired{InputRequests: requests, RequestState: []byte("x")}}, nil
}

// register registers h as the contract's service, without the checks of a front.
func register(s grpc.ServiceRegistrar, h bridge.Handler) {
	desc := grpc.ServiceDesc{ServiceName: pb.McpService_ServiceDesc.ServiceName, HandlerType: (*bridge.Handler)(nil)}
	for _, m := range bridge.Methods() {
		name := m.GRPC[len("/"+desc.ServiceName+"/"):]
		if m.Streams {
			desc.Streams = append(desc.Streams,
				grpc.StreamDesc{StreamName: name, ServerStreams: true, Handler: stream(m)})
		} else {
			desc.Methods = append(desc.Methods, grpc.MethodDesc{MethodName: name, Handler: unary(m)})
		}
	}
	s.RegisterService(&desc, h)
}

func unary(m *bridge.Method) grpc.MethodHandler {
	return func(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		req := m.NewRequest(nil)
		if err := decode(req); err != nil {
			return nil, err
		}
		res, err := srv.(bridge.Handler).
			Handle(ctx, &bridge.Call{Method: m, Request: req}, func(context.Context, bridge.Event) error { return nil })
		if err != nil {
			return nil, bridge.AsError(err)
		}
		return res.Complete, nil
	}
}

func stream(m *bridge.Method) grpc.StreamHandler {
	return func(srv any, s grpc.ServerStream) error {
		req := m.NewRequest(nil)
		if err := s.RecvMsg(req); err != nil {
			return err
		}
		res, err := srv.(bridge.Handler).
			Handle(s.Context(), &bridge.Call{Method: m, Request: req}, func(_ context.Context, e bridge.Event) error {
				return s.SendMsg(m.Join(e, nil))
			})
		if err != nil {
			return bridge.AsError(err)
		}
		return s.SendMsg(m.Join(bridge.Event{}, res))
	}
}
