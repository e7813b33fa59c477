package mcpbridge

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net"
	"os"
	"os/signal"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/types/known/emptypb"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

const (
	cookieKey, cookieValue = "MCPBRIDGE_PLUGIN", "mcpbridge.v1"

	protocol   = "1"             // the contract's major version, the second field of the handshake
	drainTime  = 5 * time.Second // for calls in flight at shutdown
	maxMessage = 64 << 20
	maxPath    = 100 // of a unix socket: the limit of systems is 104 to 108 bytes
)

// protectStdout makes fmt.Print safe: standard output has one line for the bridge, the handshake. All other output goes
// to stderr, which the bridge logs. It returns the original standard output.
var protectStdout = sync.OnceValue(func() *os.File {
	out := os.Stdout
	if managed() {
		os.Stdout = os.Stderr
	}
	return out
})

func managed() bool { return os.Getenv(cookieKey) == cookieValue }

// Run serves until shutdown: the bridge that launched this program, or, with `--listen ADDRESS` on the command line,
// clients at an address. It returns the program's exit code:
//
//	os.Exit(app.Run())
//
// The address is 127.0.0.1:50051 or unix:/run/tools.sock. It has no TLS: use a loopback address.
//
// It handles SIGTERM and SIGINT. The first one starts a shutdown, as the bridge does: calls in flight have 5 seconds to
// complete. A second one ends the program at once. A program that handles signals itself uses RunContext.
func (a *App) Run() int {
	signalled, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	context.AfterFunc(signalled, func() {
		stop() // First, so that a second signal during the shutdown is not lost.
		cancel()
	})
	return a.RunContext(ctx)
}

// lint logs warnings about definitions.
func (a *App) lint() {
	a.mu.RLock()
	defer a.mu.RUnlock()
	a.tools.values(func(t *tool) {
		if t.message.GetDescription() == "" {
			logger().Warn(fmt.Sprintf("%s: tool %q has no description, by which models choose", t.at, t.name))
		}
	})
}

// RunContext is like Run, but handles no signals, and stops when ctx is done.
func (a *App) RunContext(ctx context.Context) int {
	defer runtime.KeepAlive(ballast())
	listen, err := listenArgument(os.Args[1:])
	if err == nil {
		err = a.Err()
	}
	a.mu.Lock()
	a.running = true
	a.mu.Unlock()
	code := 1
	switch {
	case err != nil:
	case listen != "":
		a.lint()
		err = a.serveAddress(ctx, listen)
	case managed():
		a.lint()
		err = a.serveBridge(ctx)
	default:
		code, err = 2, usageError()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return code
	}
	return 0
}

// usageError returns the usage.
func usageError() error {
	name := filepath.Base(os.Args[0])
	program := "./" + name
	if strings.Contains(filepath.ToSlash(os.Args[0]), "/go-build") {
		program = "go run ."
	}
	return fmt.Errorf(`%s is a backend for mcpbridge, which serves it to MCP clients. Run

    mcpbridge run -- %s

or let it wait for a bridge, or a debugger, with

    %s --listen 127.0.0.1:50051`, name, program, program)
}

func listenArgument(args []string) (string, error) {
	for i, arg := range args {
		if address, ok := strings.CutPrefix(arg, "--listen="); ok {
			return address, nil
		}
		if arg == "--listen" {
			if i+1 < len(args) {
				return args[i+1], nil
			}
			return "", errors.New("--listen needs an address: host:port or unix:/path")
		}
	}
	return "", nil
}

// The two modes.

// serveAddress serves at an address in the bridge's format: tcp:host:port, unix:///path.
func (a *App) serveAddress(ctx context.Context, listen string) error {
	network, address := "tcp", strings.TrimPrefix(strings.TrimPrefix(listen, "tcp:"), "//")
	if path, ok := strings.CutPrefix(listen, "unix:"); ok {
		file, err := filepath.Abs(strings.TrimPrefix(path, "//"))
		if err != nil {
			return err
		}
		removeStaleSocket(file)
		network, address = "unix", file
	}
	l, err := new(net.ListenConfig).Listen(ctx, network, address)
	if err != nil {
		return fmt.Errorf("%s: cannot listen at %s: %w", a.info.GetName(), listen, err)
	}
	where := "unix://" + address
	if network == "tcp" {
		host, _, _ := net.SplitHostPort(address)
		_, port, _ := net.SplitHostPort(l.Addr().String())
		where = "tcp:" + net.JoinHostPort(host, port)
	}
	fmt.Fprintf(os.Stderr, "%s: listening. Serve it with: mcpbridge run %s\n", a.info.GetName(), where)
	return newServer(a, nil).serve(ctx, l, nil)
}

// removeStaleSocket removes a socket without a listener.
func removeStaleSocket(path string) {
	info, err := os.Lstat(path) //nolint:gosec // The user names it on the command line.
	if err != nil || info.Mode().Type() != fs.ModeSocket {
		return
	}
	if c, err := net.DialTimeout("unix", path, time.Second); err == nil { //nolint:noctx,gosec // at most 1 s
		_ = c.Close()
		return
	}
	_ = os.Remove(path) //nolint:gosec // It is a socket.
}

// serveBridge serves the bridge that launched this program, by the protocol of hashicorp/go-plugin. It does not use
// go-plugin's server, which cancels calls at shutdown, does not support a key pair from the host, takes 20 ms to
// generate one, and sends output over gRPC instead of to stderr.
func (a *App) serveBridge(ctx context.Context) error {
	offered := os.Getenv("PLUGIN_PROTOCOL_VERSIONS")
	if offered != "" && !slices.Contains(strings.Split(strings.ReplaceAll(offered, " ", ""), ","), protocol) {
		return fmt.Errorf("the bridge supports version %s of the plugin protocol, and this SDK supports version %s: "+
			"update one of them", offered, protocol)
	}
	config, certificate, err := mutualTLS()
	if err != nil {
		return err
	}
	l, tidy, err := listen(ctx)
	if err != nil {
		return err
	}
	defer tidy()
	signal.Ignore(os.Interrupt) // The terminal also sends it to the bridge, which then stops this program.
	orphaned, err := watchParent()
	if err != nil {
		return err
	}
	fields := []string{"1", protocol, l.Addr().Network(), l.Addr().String(), "grpc", certificate}
	if os.Getenv("PLUGIN_MULTIPLEX_GRPC") != "" {
		fields = append(fields, "false")
	}
	server := newServer(a, config)
	if server.frames = dialFrames(ctx, server.service); server.frames != nil {
		go server.frames.serve()
	}
	// The listener accepts connections; they wait until the server starts.
	if _, err := protectStdout().WriteString(strings.Join(fields, "|") + "\n"); err != nil {
		return fmt.Errorf("the handshake: %w", err)
	}
	return server.serve(ctx, l, orphaned)
}

// listen listens at the address that the host requires. It also returns a cleanup function.
func listen(ctx context.Context) (net.Listener, func(), error) {
	var config net.ListenConfig
	dir := os.Getenv("PLUGIN_UNIX_SOCKET_DIR")
	transports := os.Getenv("PLUGIN_TRANSPORTS")
	if runtime.GOOS == "windows" || len(dir) > maxPath-20 || transports != "" && !strings.Contains(transports, "unix") {
		l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
		return l, func() {}, err
	}
	tidy := func() {}
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "mcpb"); err != nil {
			return nil, nil, err
		}
		tidy = func() { _ = os.Remove(dir) } //nolint:gosec // We made it.
	}
	path := filepath.Join(dir, fmt.Sprintf("%d.sock", os.Getpid()))
	l, err := config.Listen(ctx, "unix", path)
	if err != nil {
		return nil, nil, err
	}
	if group := os.Getenv("PLUGIN_UNIX_SOCKET_GROUP"); group != "" {
		if err := share(path, group); err != nil {
			return nil, nil, fmt.Errorf("PLUGIN_UNIX_SOCKET_GROUP=%s: %w", group, err)
		}
	}
	return l, func() { _ = l.Close(); tidy() }, nil
}

// share lets a group use a socket.
func share(path, group string) error {
	id, err := strconv.Atoi(group)
	if err != nil {
		g, err := user.LookupGroup(group)
		if err != nil {
			return err
		}
		if id, err = strconv.Atoi(g.Gid); err != nil {
			return err
		}
	}
	if err := os.Chown(path, -1, id); err != nil { //nolint:gosec // We made it.
		return err
	}
	return os.Chmod(path, 0o660) //nolint:gosec // That is what the group is for.
}

// mutualTLS returns the TLS configuration that the host requires, or nil, and the certificate as in the handshake.
func mutualTLS() (*tls.Config, string, error) {
	client := os.Getenv("PLUGIN_CLIENT_CERT")
	if client == "" {
		return nil, "", nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(client)) {
		return nil, "", errors.New("PLUGIN_CLIENT_CERT is not a certificate")
	}
	cert, err := keyPair()
	if err != nil {
		return nil, "", err
	}
	return &tls.Config{
		Certificates: []tls.Certificate{cert}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
		MinVersion: tls.VersionTLS12,
		// go-plugin expects no padding.
	}, base64.RawStdEncoding.EncodeToString(cert.Certificate[0]), nil
}

// keyPair returns the key pair from the bridge, or generates one for a standard go-plugin host.
func keyPair() (tls.Certificate, error) {
	if path := os.Getenv("MCPBRIDGE_KEY_PAIR"); path != "" {
		text, err := os.ReadFile(path) //nolint:gosec // The bridge names it.
		if err != nil {
			return tls.Certificate{},
				fmt.Errorf("cannot read the key pair that the bridge made for this plugin: %w", err)
		}
		return tls.X509KeyPair(text, text)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return tls.Certificate{}, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: now.Add(-30 * time.Second), NotAfter: now.AddDate(30, 0, 0),
		// Not a CA: rustls rejects a CA as a server's certificate.
		KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// watchParent returns a channel that is closed when the bridge exits or is killed.
func watchParent() (<-chan struct{}, error) {
	orphaned := make(chan struct{})
	if os.Getenv("MCP_PLUGIN_LIFELINE") == "stdin" {
		// Moved, so that a tool that reads standard input gets an end of file.
		lifeline := os.Stdin
		null, err := os.Open(os.DevNull)
		if err != nil {
			return nil, err
		}
		os.Stdin = null
		go func() {
			_, _ = io.Copy(io.Discard, lifeline)
			close(orphaned)
		}()
		return orphaned, nil
	}
	parent := os.Getppid()
	go func() {
		for range time.Tick(time.Second) {
			if os.Getppid() != parent {
				close(orphaned)
				return
			}
		}
	}()
	return orphaned, nil
}

// A server serves an App over gRPC.
type server struct {
	service *service
	frames  *frames // nil if all calls use gRPC

	grpc   *grpc.Server
	health *health.Server
	ctx    context.Context // done at shutdown
	stop   context.CancelFunc
}

func newServer(a *App, config *tls.Config) *server {
	s := &server{health: health.NewServer()}
	s.ctx, s.stop = context.WithCancel(context.Background())
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxMessage), experimental.BufferPool(buffers()),
		grpc.UnaryInterceptor(checkUnary), grpc.StreamInterceptor(checkStream),
		grpc.NumStreamWorkers(32), // Workers keep a large stack; a new goroutine would have to grow one.
	}
	if config != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(config)))
	}
	s.grpc = grpc.NewServer(options...)
	s.service = &service{app: a, stopping: s.ctx.Done()}
	pb.RegisterMcpServiceServer(s.grpc, s.service)
	s.health.SetServingStatus("plugin", grpc_health_v1.HealthCheckResponse_SERVING) // "" is by default
	grpc_health_v1.RegisterHealthServer(s.grpc, &watches{s.health, s.ctx})
	// The service of go-plugin, with empty messages.
	s.grpc.RegisterService(&grpc.ServiceDesc{
		ServiceName: "plugin.GRPCController", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Shutdown", Handler: s.shutdown}},
	}, s)
	return s
}

// buffers returns a pool of buffers with sizes between 32 KiB and 1 MiB. gRPC's own pool has none there, and clears the
// whole MiB for each message: with this one a large call costs a fifth less.
var buffers = sync.OnceValue(func() mem.BufferPool {
	pool, err := mem.NewBinaryTieredBufferPool(8, 12, 14, 15, 16, 17, 18, 19, 20) // powers of two
	if err != nil {
		return mem.DefaultBufferPool()
	}
	return pool
})

// ballast returns memory that is never touched. It uses no physical memory, but the garbage collector counts it, and so
// does not run after every 4 MiB in a small backend. It is not used if GOGC or GOMEMLIMIT is set. Go clears an
// allocation as a whole if any part of it was in use before, so that one large block could be touched.
func ballast() [][]byte {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	blocks := make([][]byte, 32)
	for i := range blocks {
		blocks[i] = make([]byte, 1<<20)
	}
	return blocks
}

// shutdown implements go-plugin's GRPCController. It responds first: the shutdown waits for it.
//
//nolint:revive // gRPC defines the order of the parameters
func (s *server) shutdown(_ any, _ context.Context, read func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	m := &emptypb.Empty{}
	if err := read(m); err != nil {
		return nil, err
	}
	s.stop()
	return m, nil
}

// serve serves until shutdown, and then waits for calls in flight. If orphaned is closed, no caller is left and it does
// not wait.
func (s *server) serve(ctx context.Context, l net.Listener, orphaned <-chan struct{}) error {
	served := make(chan error, 1)
	go func() { served <- s.grpc.Serve(l) }()
	defer s.stop()
	defer s.frames.close()
	select {
	case err := <-served:
		return err
	case <-orphaned:
		s.grpc.Stop()
		return nil
	case <-ctx.Done():
		s.stop()
	case <-s.ctx.Done():
	}
	s.health.Shutdown()
	drained := make(chan struct{})
	go func() {
		s.frames.drain() // First, because the bridge then makes no new calls over gRPC either.
		s.grpc.GracefulStop()
		close(drained)
	}()
	limit := time.NewTimer(drainTime)
	defer limit.Stop()
	select {
	case <-drained:
	case <-orphaned:
	case <-limit.C:
	}
	s.grpc.Stop()
	return nil
}

// watches is a health service whose Watch ends at shutdown. gRPC's implementation would block the shutdown.
type watches struct {
	*health.Server
	stopping context.Context
}

type watching struct {
	grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse]
	ctx context.Context
}

func (w *watching) Context() context.Context { return w.ctx }

// Watch implements grpc_health_v1.HealthServer.
func (w *watches) Watch(
	req *grpc_health_v1.HealthCheckRequest, stream grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse],
) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	defer context.AfterFunc(w.stopping, cancel)()
	return w.Server.Watch(req, &watching{stream, ctx})
}
