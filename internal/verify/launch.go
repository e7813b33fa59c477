package verify

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/mcpbridge/mcpbridge/internal/child"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mtls"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// Environment variables of plugins, of hashicorp/go-plugin and of the bridge.
const (
	cookie     = "MCPBRIDGE_PLUGIN"
	versions   = "PLUGIN_PROTOCOL_VERSIONS"
	clientCert = "PLUGIN_CLIENT_CERT"
	socketDir  = "PLUGIN_UNIX_SOCKET_DIR"
	transports = "PLUGIN_TRANSPORTS"
	multiplex  = "PLUGIN_MULTIPLEX_GRPC"
	keyPair    = "MCPBRIDGE_KEY_PAIR"
	lifeline   = "MCP_PLUGIN_LIFELINE"
)

const (
	dialTimeout   = 3 * time.Second
	maxSocketPath = 100 // bytes; systems allow 104 to 108
	maxHandshakes = 10
)

// handshake matches 1|VERSION|unix or tcp|ADDRESS|grpc|CERTIFICATE.
var handshake = regexp.MustCompile(`^\s*\d+\|\d+\|(unix|tcp)\|`)

// A process is one run of the backend's program.
type process struct {
	*child.Process
	dir          string // of its sockets and the key pair
	client       tls.Certificate
	startTimeout time.Duration
	listening    chan struct{} // closed after the handshake

	stdout, stderr child.Tail
	mu             sync.Mutex // guards handshakes
	handshakes     []string
}

// start launches the program and waits for its handshake. with has variables that are added to the environment, or,
// without a value, removed from it.
func (d *driver) start(ctx context.Context, with ...string) (*process, error) {
	p, err := d.spawn(with...)
	if err != nil {
		return nil, err
	}
	select {
	case <-p.listening:
		return p, nil
	case <-p.Context().Done():
		p.Finish()
		err = &StartError{Defect{
			What: fmt.Sprintf("%s exited before its handshake: %s", child.Quote(d.o.Command), p.ExitReason()),
			Why:  p.output(),
			Fix:  "run it by hand with the environment variable " + cookie + "=mcpbridge.v1 and look at what it prints",
		}}
	case <-time.After(d.o.StartTimeout):
		err = &StartError{Defect{
			What: fmt.Sprintf("%s printed no handshake within %v", child.Quote(d.o.Command), d.o.StartTimeout),
			Why:  p.output(),
			Fix: "print one line like 1|1|unix|/path|grpc|CERTIFICATE to standard output when it listens, and " +
				"flush it",
		}}
	case <-ctx.Done():
		err = fmt.Errorf("starting: %w", context.Cause(ctx))
	}
	p.stop()
	return nil, err
}

// spawn launches the program.
func (d *driver) spawn(with ...string) (*process, error) {
	failed := func(err error) error {
		return &StartError{Defect{
			What: fmt.Sprintf("%s: %v", child.Quote(d.o.Command), err), Why: "the program was not started",
			Fix: "check the command and the directory",
		}}
	}
	dir, err := os.MkdirTemp("", "mcpv")
	if err != nil {
		return nil, failed(err)
	}
	if len(filepath.Join(dir, "plugin4294967295.sock")) > maxSocketPath {
		_ = os.Remove(dir)
		return nil, failed(fmt.Errorf("directory %s: name too long for sockets; set TMPDIR to a shorter one", dir))
	}
	keys, err := mtls.New()
	if err != nil {
		return nil, failed(err)
	}
	file := filepath.Join(dir, "key-pair.pem")
	if err := os.WriteFile(file, keys.Server, 0o600); err != nil {
		return nil, failed(err)
	}
	networks := "unix,tcp"
	if runtime.GOOS == "windows" {
		networks = "tcp"
	}
	env := append(slices.Clone(d.o.Env),
		cookie+"=mcpbridge.v1", versions+"=1", "PLUGIN_MIN_PORT=10000", "PLUGIN_MAX_PORT=25000",
		clientCert+"="+string(keys.Authority), socketDir+"="+dir, transports+"="+networks, keyPair+"="+file,
		lifeline+"=stdin")
	log := zerolog.Nop()
	p := &process{
		Process: child.New(d.o.Command, d.o.Dir, &log), dir: dir, client: keys.Client, startTimeout: d.o.StartTimeout,
		listening: make(chan struct{}),
	}
	p.Env = modified(env, with)
	p.Stdout = func(f *os.File) { child.CopyLines(f, p.readLine) }
	p.Stderr = func(f *os.File) { child.CopyLines(f, func(line []byte, _ int) { p.stderr.Add(line) }) }
	if err := p.Start(); err != nil {
		_ = os.RemoveAll(dir)
		return nil, failed(err)
	}
	return p, nil
}

// modified returns env with variables added, or, without a value, removed.
func modified(env, with []string) []string {
	for _, kv := range with {
		name, _, add := strings.Cut(kv, "=")
		kept := env[:0:0]
		for _, old := range env {
			if !strings.HasPrefix(old, name+"=") {
				kept = append(kept, old)
			}
		}
		if env = kept; add {
			env = append(env, kv)
		}
	}
	return env
}

// readLine handles a line of standard output.
func (p *process) readLine(line []byte, length int) {
	if length != len(line) || !handshake.Match(line) {
		p.stdout.Add(line)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.handshakes) < maxHandshakes {
		p.handshakes = append(p.handshakes, strings.TrimSpace(string(line)))
	}
	select {
	case <-p.listening:
	default:
		close(p.listening)
	}
}

// output returns the last lines that the process printed.
func (p *process) output() string {
	var out strings.Builder
	for _, s := range []struct {
		name string
		tail *child.Tail
	}{{"standard error", &p.stderr}, {"standard output", &p.stdout}} {
		lines, n := s.tail.Read()
		if n > 0 {
			fmt.Fprintf(&out, "last lines of %s:\n  %s\n", s.name, strings.Join(lines, "\n  "))
		}
	}
	if out.Len() == 0 {
		return "it printed nothing"
	}
	return strings.TrimSpace(out.String())
}

// stop kills the process, waits for it and removes its files.
func (p *process) stop() {
	p.Signal(child.Kill)
	p.Finish()
	_ = os.RemoveAll(p.dir)
}

// awaitExit waits for the exit of the process, and returns its reason.
func (p *process) awaitExit(within time.Duration) (string, bool) {
	select {
	case <-p.Context().Done():
		p.Finish()
		return p.ExitReason(), true
	case <-time.After(within):
		return "", false
	}
}

// crashed reports whether a signal ended the process.
func (p *process) crashed() bool { return strings.HasPrefix(p.ExitReason(), "killed by signal: ") }

// fields returns at least six fields of the handshake.
func (p *process) fields() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := strings.Split(p.handshakes[0], "|")
	for len(f) < 6 {
		f = append(f, "")
	}
	return f
}

// connect dials the process and waits until it responds.
func (p *process) connect(ctx context.Context) (*backend, error) {
	f := p.fields()
	var config *tls.Config
	if f[5] != "" {
		cert, _ := parseCertificate(f[5]) // errors are for the check of the handshake
		config = pinned(cert, p.client)
	}
	b := dial(f[2], f[3], config)
	b.proc = p
	if err := b.waitReady(ctx, p.startTimeout); err != nil {
		_ = b.conn.Close()
		return nil, &StartError{Defect{
			What: fmt.Sprintf("printed its handshake but does not respond at %s %s: %v", f[2], f[3], err),
			Why:  p.output(),
			Fix: "serve gRPC there with the certificate of field 6 of the handshake," +
				" and trust client certificates signed by " + clientCert,
		}}
	}
	return b, nil
}

// pinned returns the TLS configuration of a client that trusts exactly one certificate, even an invalid one.
func pinned(cert *x509.Certificate, own ...tls.Certificate) *tls.Config {
	return &tls.Config{
		ServerName: "localhost", MinVersion: tls.VersionTLS12, Certificates: own,
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection compares it; its validity is a check of its own
		VerifyConnection: func(s tls.ConnectionState) error {
			if cert != nil && !s.PeerCertificates[0].Equal(cert) {
				return errors.New("its certificate differs from that in its handshake")
			}
			return nil
		},
	}
}

// parseCertificate parses field 6 of a handshake. With some errors, it also returns the certificate.
func parseCertificate(field string) (*x509.Certificate, error) {
	bare := strings.TrimRight(field, "=")
	der, err := base64.RawStdEncoding.DecodeString(bare)
	if err != nil {
		return nil, fmt.Errorf("is not base64 of the standard alphabet: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("is not an X.509 certificate in DER: %w", err)
	}
	if err := cert.VerifyHostname("localhost"); err != nil {
		return cert, fmt.Errorf("is not for localhost, which must be among its subject alternative names: %w", err)
	}
	if bare != field {
		return cert, errors.New("is padded with =, which works or fails by the certificate's length; strip it")
	}
	return cert, nil
}

// handshakeDefects returns the defects of the handshake.
func (p *process) handshakeDefects(wantTLS bool) (faults []string) {
	f := p.fields()
	add := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if f[0] != "1" {
		add("field 1 is %q; must be 1, the version of go-plugin's handshake", f[0])
	}
	if f[1] != "1" {
		add("field 2 is %q; must be one of the versions in %s, which was 1", f[1], versions)
	}
	if f[4] != "grpc" {
		add("field 5 is %q; must be grpc", f[4])
	}
	switch _, err := parseCertificate(f[5]); {
	case wantTLS && f[5] == "":
		add("field 6 is empty; if %s is set, it must serve TLS and have its certificate there", clientCert)
	case wantTLS && err != nil:
		add("field 6, the certificate, %v", err)
	case !wantTLS && f[5] != "":
		add("field 6 is not empty; without %s there is no TLS, and some hosts crash on a certificate", clientCert)
	}
	if f[2] == "tcp" {
		if a, err := netip.ParseAddrPort(f[3]); err != nil || !a.Addr().IsLoopback() || a.Port() == 0 {
			add("it listens at tcp %q; must be 127.0.0.1:PORT or [::1]:PORT, which only this machine can reach", f[3])
		}
		return faults
	}
	if len(f[3]) > maxSocketPath {
		add("the path of its socket has %d bytes; the limit of systems is %d", len(f[3]), maxSocketPath)
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(f[3]))
	own, _ := filepath.EvalSymlinks(p.dir)
	if err != nil || parent != own {
		add("its socket %q is not in the directory %s, so other users of this machine may reach it", f[3], socketDir)
	}
	return faults
}

// Connections.

// A backend is a connection to the backend under test.
type backend struct {
	proc   *process // nil if it was not launched
	conn   *grpc.ClientConn
	mcp    pb.McpServiceClient
	health grpc_health_v1.HealthClient
}

// dial returns a backend without waiting for the connection.
func dial(network, address string, config *tls.Config) *backend {
	creds, authority := insecure.NewCredentials(), "localhost"
	if config != nil {
		creds = credentials.NewTLS(config)
	}
	retry := backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.5, MaxDelay: time.Second}
	conn, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(creds), grpc.WithAuthority(authority), grpc.WithDisableRetry(),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		}),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: retry, MinConnectTimeout: 5 * time.Second}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(limits.MaxMessage),
			grpc.MaxCallSendMsgSize(limits.MaxMessage)))
	if err != nil {
		panic(err) // only for contradictory options
	}
	return &backend{conn: conn, mcp: pb.NewMcpServiceClient(conn), health: grpc_health_v1.NewHealthClient(conn)}
}

// dialAddress returns the backend at an address when it responds.
func dialAddress(ctx context.Context, address string) (*backend, error) {
	scheme, rest, _ := strings.Cut(address, ":")
	rest = strings.TrimPrefix(rest, "//")
	if scheme != "unix" && scheme != "tcp" || rest == "" {
		return nil, &StartError{Defect{
			What: fmt.Sprintf("%q is not an address", address), Why: "it does not begin with unix: or tcp:",
			Fix: "write unix:PATH or tcp:HOST:PORT",
		}}
	}
	b := dial(scheme, rest, nil)
	if err := b.waitReady(ctx, dialTimeout); err != nil {
		b.close()
		return nil, &StartError{Defect{
			What: fmt.Sprintf("no response from %s: %v", address, err),
			Why:  "the contract's service cannot be called there",
			Fix:  "start the backend first, and check the address",
		}}
	}
	return b, nil
}

// waitReady waits until the backend responds.
func (b *backend) waitReady(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if b.proc != nil {
		defer context.AfterFunc(b.proc.Context(), cancel)()
	}
	_, err := b.mcp.Discover(ctx, &pb.DiscoverRequest{Context: testContext()}, grpc.WaitForReady(true))
	return err
}

// close closes the connection, and stops the process if it was launched.
func (b *backend) close() {
	_ = b.conn.Close()
	if b.proc != nil {
		b.proc.stop()
	}
}
