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
	"github.com/mcpbridge/mcpbridge/internal/mtls"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// What a host tells a plugin, as hashicorp/go-plugin does, and as the bridge does beside it.
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
	dialTime      = 3 * time.Second // in which one answers that runs already
	maxSocketPath = 100             // bytes of a unix socket's path: systems have room for 104 to 108
	maxMessage    = 64 << 20
	maxHandshakes = 10 // that are kept
)

// handshake is the line that says where a plugin listens: 1|VERSION|unix or tcp|ADDRESS|grpc|CERTIFICATE
var handshake = regexp.MustCompile(`^\s*\d+\|\d+\|(unix|tcp)\|`)

// A process is one run of the backend's program.
type process struct {
	*child.Process
	dir    string // private: sockets and the key pair
	client tls.Certificate
	within time.Duration // how long it may take until it answers
	shaken chan struct{} // closed when there is a handshake

	stdout, stderr child.Tail
	mu             sync.Mutex // guards the rest
	lines          []string   // handshakes, as they were printed
}

// start launches the program and returns it once there is a handshake. Variables are added to what a host says; NAME without
// a value takes one away.
func (d *driver) start(ctx context.Context, with ...string) (*process, error) {
	p, err := d.spawn(with...)
	if err != nil {
		return nil, err
	}
	select {
	case <-p.shaken:
		return p, nil
	case <-p.Context().Done():
		p.Finish()
		err = &StartError{Defect{
			What: fmt.Sprintf("%s ended before it said where it listens: %s", child.Quote(d.o.Command), p.ExitReason()), Why: p.said(),
			Fix: "run it by hand with the environment variable " + cookie + "=mcpbridge.v1 and look at what it prints",
		}}
	case <-time.After(d.o.StartTimeout):
		err = &StartError{Defect{
			What: fmt.Sprintf("%s did not say where it listens within %v", child.Quote(d.o.Command), d.o.StartTimeout), Why: p.said(),
			Fix: "print one line like 1|1|unix|/path|grpc|CERTIFICATE to standard output when it listens, and flush it",
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
		return &StartError{Defect{What: fmt.Sprintf("%s: %v", child.Quote(d.o.Command), err), Why: "nothing was run", Fix: "check the command and the directory"}}
	}
	dir, err := os.MkdirTemp("", "mcpv")
	if err != nil {
		return nil, failed(err)
	}
	if len(filepath.Join(dir, "plugin4294967295.sock")) > maxSocketPath {
		_ = os.Remove(dir)
		return nil, failed(fmt.Errorf("directory %s: its name is too long for a socket in it; set TMPDIR to a shorter one", dir))
	}
	keys, err := mtls.New()
	if err != nil {
		return nil, failed(err)
	}
	file := filepath.Join(dir, "key-pair.pem")
	if err := os.WriteFile(file, keys.Server, 0o600); err != nil {
		return nil, failed(err)
	}
	can := "unix,tcp"
	if runtime.GOOS == "windows" {
		can = "tcp"
	}
	env := append(slices.Clone(d.o.Env),
		cookie+"=mcpbridge.v1", versions+"=1", "PLUGIN_MIN_PORT=10000", "PLUGIN_MAX_PORT=25000", clientCert+"="+string(keys.Authority),
		socketDir+"="+dir, transports+"="+can, keyPair+"="+file, lifeline+"=stdin")
	nothing := zerolog.Nop()
	p := &process{Process: child.New(d.o.Command, d.o.Dir, &nothing), dir: dir, client: keys.Client, within: d.o.StartTimeout, shaken: make(chan struct{})}
	p.Env = altered(env, with)
	p.Stdout = func(f *os.File) { child.CopyLines(f, p.read) }
	p.Stderr = func(f *os.File) { child.CopyLines(f, func(line []byte, _ int) { p.stderr.Add(line) }) }
	if err := p.Start(); err != nil {
		_ = os.RemoveAll(dir)
		return nil, failed(err)
	}
	return p, nil
}

// altered returns env with variables that are added, or, without a value, taken away.
func altered(env, with []string) []string {
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

// read reads a line of standard output.
func (p *process) read(line []byte, length int) {
	if length != len(line) || !handshake.Match(line) {
		p.stdout.Add(line)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.lines) < maxHandshakes {
		p.lines = append(p.lines, strings.TrimSpace(string(line)))
	}
	select {
	case <-p.shaken:
	default:
		close(p.shaken)
	}
}

// said returns what the process printed last.
func (p *process) said() string {
	var out strings.Builder
	for _, s := range []struct {
		name string
		tail *child.Tail
	}{{"standard error", &p.stderr}, {"standard output", &p.stdout}} {
		lines, n := s.tail.Read()
		if n > 0 {
			fmt.Fprintf(&out, "the last it printed to %s:\n  %s\n", s.name, strings.Join(lines, "\n  "))
		}
	}
	if out.Len() == 0 {
		return "it printed nothing"
	}
	return strings.TrimSpace(out.String())
}

// stop kills the process, waits for it and removes what it leaves behind.
func (p *process) stop() {
	p.Signal(child.Kill)
	p.Finish()
	_ = os.RemoveAll(p.dir)
}

// exits reports how the process ends, if it does so soon enough.
func (p *process) exits(within time.Duration) (string, bool) {
	select {
	case <-p.Context().Done():
		p.Finish()
		return p.ExitReason(), true
	case <-time.After(within):
		return "", false
	}
}

// crashed reports whether a signal has ended the process.
func (p *process) crashed() bool { return strings.HasPrefix(p.ExitReason(), "killed by signal: ") }

// fields returns the fields of the handshake, six at least.
func (p *process) fields() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := strings.Split(p.lines[0], "|")
	for len(f) < 6 {
		f = append(f, "")
	}
	return f
}

// connect dials the process and waits until it answers.
func (p *process) connect(ctx context.Context) (*backend, error) {
	f := p.fields()
	var config *tls.Config
	if f[5] != "" {
		cert, _ := certificate(f[5]) // what is wrong with it, a check says
		config = pinned(cert, p.client)
	}
	b := dial(f[2], f[3], config)
	b.proc = p
	if err := b.answers(ctx, p.within); err != nil {
		_ = b.conn.Close()
		return nil, &StartError{Defect{
			What: fmt.Sprintf("it printed its handshake and does not answer at %s %s: %v", f[2], f[3], err), Why: p.said(),
			Fix: "serve gRPC there with the certificate of field 6 of the handshake, and trust client certificates signed by " + clientCert,
		}}
	}
	return b, nil
}

// pinned returns the TLS of a client that trusts one certificate, whatever is wrong with it, and may have one of its own.
func pinned(cert *x509.Certificate, own ...tls.Certificate) *tls.Config {
	return &tls.Config{
		ServerName: "localhost", MinVersion: tls.VersionTLS12, Certificates: own,
		InsecureSkipVerify: true, //nolint:gosec // it is compared below: the rules for certificates are a check of their own
		VerifyConnection: func(s tls.ConnectionState) error {
			if cert != nil && !s.PeerCertificates[0].Equal(cert) {
				return errors.New("it serves with another certificate than its handshake says")
			}
			return nil
		},
	}
}

// certificate reads field 6 of a handshake, or says what is wrong with it.
func certificate(field string) (*x509.Certificate, error) {
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

// faults says what is wrong with a handshake.
func (p *process) faults(tlsWanted bool) (faults []string) {
	f := p.fields()
	wrong := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if f[0] != "1" {
		wrong("field 1 is %q; it is the version of go-plugin's handshake, 1", f[0])
	}
	if f[1] != "1" {
		wrong("field 2 is %q; it is one of the versions in %s, and that was 1", f[1], versions)
	}
	if f[4] != "grpc" {
		wrong("field 5 is %q; it must be grpc", f[4])
	}
	switch _, err := certificate(f[5]); {
	case tlsWanted && f[5] == "":
		wrong("field 6 is empty; with %s in its environment it must serve TLS and say its certificate there", clientCert)
	case tlsWanted && err != nil:
		wrong("field 6, the certificate, %v", err)
	case !tlsWanted && f[5] != "":
		wrong("field 6 is not empty; without %s there is no TLS, and some hosts crash on a certificate", clientCert)
	}
	if f[2] == "tcp" {
		if a, err := netip.ParseAddrPort(f[3]); err != nil || !a.Addr().IsLoopback() || a.Port() == 0 {
			wrong("it listens at tcp %q; it must be 127.0.0.1:PORT or [::1]:PORT, which only this machine can reach", f[3])
		}
		return faults
	}
	if len(f[3]) > maxSocketPath {
		wrong("the socket's path has %d bytes; systems have room for %d", len(f[3]), maxSocketPath)
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(f[3]))
	own, _ := filepath.EvalSymlinks(p.dir)
	if err != nil || parent != own {
		wrong("its socket %q is not in the directory that %s says, so whoever is on this machine may reach it", f[3], socketDir)
	}
	return faults
}

// Connections.

// A backend is one that can be called.
type backend struct {
	proc   *process // nil: it is dialled
	conn   *grpc.ClientConn
	mcp    pb.McpServiceClient
	health grpc_health_v1.HealthClient
}

// dial returns a connection. It does not wait until it is made.
func dial(network, address string, config *tls.Config) *backend {
	creds, authority := insecure.NewCredentials(), "localhost"
	if config != nil {
		creds = credentials.NewTLS(config)
	}
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(creds), grpc.WithAuthority(authority), grpc.WithDisableRetry(),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		}),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.5, MaxDelay: time.Second}, MinConnectTimeout: 5 * time.Second}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)))
	if err != nil {
		panic(err) // only options that contradict one another do that
	}
	return &backend{conn: conn, mcp: pb.NewMcpServiceClient(conn), health: grpc_health_v1.NewHealthClient(conn)}
}

// dialled returns the backend that listens at an address, once it answers.
func dialled(ctx context.Context, address string) (*backend, error) {
	scheme, rest, _ := strings.Cut(address, ":")
	rest = strings.TrimPrefix(rest, "//")
	if scheme != "unix" && scheme != "tcp" || rest == "" {
		return nil, &StartError{Defect{What: fmt.Sprintf("%q is no address", address), Why: "it does not begin with unix: or tcp:", Fix: "write unix:PATH or tcp:HOST:PORT"}}
	}
	b := dial(scheme, rest, nil)
	if err := b.answers(ctx, dialTime); err != nil {
		b.close()
		return nil, &StartError{Defect{
			What: fmt.Sprintf("nothing answers at %s: %v", address, err), Why: "the contract's service cannot be called there",
			Fix: "start the backend first, and check the address",
		}}
	}
	return b, nil
}

// answers waits until the backend answers.
func (b *backend) answers(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if b.proc != nil {
		defer context.AfterFunc(b.proc.Context(), cancel)()
	}
	_, err := b.mcp.Discover(ctx, &pb.DiscoverRequest{Context: caller()}, grpc.WaitForReady(true))
	return err
}

// close ends the connection, and the process if it is ours.
func (b *backend) close() {
	_ = b.conn.Close()
	if b.proc != nil {
		b.proc.stop()
	}
}
