package plugin

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/mcpbridge/mcpbridge/internal/wire"
)

// An endpoint is the address of a backend.
type endpoint struct {
	network string // unix or tcp
	address string // a path, or host:port
	resolve bool   // gRPC resolves the host
}

// parseAddress parses Options.Address.
func parseAddress(s string) (endpoint, error) {
	scheme, rest, ok := strings.Cut(s, ":")
	if !ok {
		scheme = ""
	}
	var e endpoint
	switch scheme {
	case "unix":
		rest = strings.TrimPrefix(rest, "//") // the path in unix:///path is absolute
		if rest == "" {
			return e, fmt.Errorf("address %q: there is no path after %s", s, "unix:")
		}
		return endpoint{network: "unix", address: rest}, nil
	case "tcp":
		e = endpoint{network: "tcp", address: strings.TrimPrefix(rest, "//")}
	case "dns":
		rest = strings.TrimPrefix(rest, "///")
		if strings.HasPrefix(rest, "//") {
			return e, fmt.Errorf("address %q: a name server cannot be chosen; write dns:///host:port", s)
		}
		e = endpoint{network: "tcp", address: rest, resolve: true}
	default:
		return e, fmt.Errorf("address %q: it must begin with unix:, tcp: or dns:, and an address", s)
	}
	host, port, err := net.SplitHostPort(e.address)
	if err != nil || host == "" || port == "" {
		return e, fmt.Errorf("address %q: what follows %s: must be host:port", s, scheme)
	}
	return e, nil
}

// host returns the name that the endpoint's certificate must have.
func (e endpoint) host() string {
	if e.network == "unix" {
		return "localhost"
	}
	host, _, _ := net.SplitHostPort(e.address)
	return host
}

// Config reads the files and returns the TLS configuration of a client for Options.Address.
func (t *TLS) Config(address string) (*tls.Config, error) {
	e, err := parseAddress(address)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{ServerName: t.ServerName, MinVersion: tls.VersionTLS12}
	if c.ServerName == "" {
		c.ServerName = e.host()
	}
	if t.CA != "" {
		pem, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, fmt.Errorf("TLS CA: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("TLS CA: %s has no certificate in PEM", t.CA)
		}
	}
	if t.Cert == "" && t.Key == "" {
		return c, nil
	}
	cert, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return nil, fmt.Errorf("TLS certificate %q and key %q: %w", t.Cert, t.Key, err)
	}
	c.Certificates = []tls.Certificate{cert}
	return c, nil
}

// A link is a gRPC connection to an endpoint. gRPC reconnects it.
type link struct {
	conn    *grpc.ClientConn
	current atomic.Pointer[trackedConn] // the latest connection
}

// dial returns a link to e without waiting until it is connected; each attempt may take connectTimeout. A nil config
// means no TLS.
func dial(e endpoint, config *tls.Config, maxMessage int, connectTimeout time.Duration) (*link, error) {
	creds, authority := insecure.NewCredentials(), "localhost"
	if e.network == "tcp" {
		authority = e.address
	}
	if config != nil {
		// The :authority of gRPC must be the name in the certificate.
		creds, authority = credentials.NewTLS(config), config.ServerName
	}
	target := "passthrough:///" + e.address
	if e.resolve {
		target = "dns:///" + e.address
	}
	k := &link{}
	connect := func(ctx context.Context, address string) (net.Conn, error) {
		if !e.resolve {
			address = e.address
		}
		c, err := dialWithRetries(ctx, func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, e.network, address)
		})
		if err != nil {
			return nil, err
		}
		w := &trackedConn{Conn: c}
		k.current.Store(w)
		return w, nil
	}
	var err error
	k.conn, err = grpc.NewClient(
		target,
		grpc.WithContextDialer(connect),
		grpc.WithNoProxy(),
		grpc.WithTransportCredentials(connCredentials{creds}),
		// The default of gRPC is the path of a unix socket, which strict HTTP/2 servers reject.
		grpc.WithAuthority(authority),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage),
			grpc.ForceCodecV2(wire.Codec{})),
		experimental.WithBufferPool(wire.Buffers),
		// The bridge decides whether a call that may have reached the backend is repeated. gRPC still repeats calls
		// that no server has processed (REFUSED_STREAM), which retryObserver reports.
		grpc.WithDisableRetry(),
		grpc.WithStatsHandler(retryObserver{}),
		grpc.WithDisableServiceConfig(),
		grpc.WithIdleTimeout(0),
		// No keepalive pings: by default, servers respond with GOAWAY if they come within 5 minutes. Health checks
		// detect broken connections.
		grpc.WithConnectParams(grpc.ConnectParams{
			// The delay is short, so that a backend is used within a second after it is available again, and random, so
			// that not all bridges connect at the same time.
			Backoff: backoff.Config{
				BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.5,
				MaxDelay: 500 * time.Millisecond,
			},
			MinConnectTimeout: connectTimeout,
		}),
		// With these window sizes, answers of 64 KiB do not wait. Since they are fixed, gRPC sends no pings to estimate
		// them.
		grpc.WithInitialWindowSize(1<<20),
		grpc.WithInitialConnWindowSize(4<<20),
		grpc.WithReadBufferSize(64<<10),
		grpc.WithWriteBufferSize(64<<10),
	)
	if err != nil {
		return nil, err
	}
	return k, nil
}

// dialWithRetries dials the endpoint. Until it is connected, it starts another attempt about every 500 ms, because the
// kernel repeats a lost SYN only after 1, 3 and 7 s, and a network should be used as soon as it is available again. It
// uses the first connection that succeeds.
func dialWithRetries(ctx context.Context, dial func(context.Context) (net.Conn, error)) (net.Conn, error) {
	type dialedBackend struct {
		net.Conn
		err error
	}
	results := make(chan dialedBackend)
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		wg.Go(func() {
			c, err := dial(ctx)
			select {
			case results <- dialedBackend{c, err}:
			case <-ctx.Done():
				if err == nil {
					_ = c.Close()
				}
			}
		})
		retry := time.NewTimer(400*time.Millisecond + rand.N(200*time.Millisecond))
		select {
		case d := <-results:
			retry.Stop()
			return d.Conn, d.err
		case <-ctx.Done():
			retry.Stop()
			return nil, ctx.Err()
		case <-retry.C:
		}
	}
}

// A trackedConn connection records its end before gRPC reports it to calls.
type trackedConn struct {
	net.Conn
	ended atomic.Bool
}

func (c *trackedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		c.ended.Store(true)
	}
	return n, err
}

func (c *trackedConn) Close() error {
	c.ended.Store(true)
	return c.Conn.Close()
}

// connCredentials are credentials that put the connection of a call into its peer: gRPC makes new connections while
// calls still end on old ones.
type connCredentials struct {
	credentials.TransportCredentials
}

func (t connCredentials) ClientHandshake(ctx context.Context, authority string,
	c net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	secure, info, err := t.TransportCredentials.ClientHandshake(ctx, authority, c)
	return secure, connInfo{info, c}, err
}

func (t connCredentials) Clone() credentials.TransportCredentials {
	return connCredentials{t.TransportCredentials.Clone()}
}

// connInfo is the AuthInfo that connCredentials adds.
type connInfo struct {
	credentials.AuthInfo
	conn net.Conn
}

// broken reports whether the connection of a call has ended.
func broken(at *peer.Peer) bool {
	t, _ := at.AuthInfo.(connInfo)
	c, ok := t.conn.(*trackedConn)
	return !ok || c.ended.Load()
}

// A refusal reports whether a server refused a call unprocessed after it was sent on a connection (GOAWAY or
// REFUSED_STREAM). gRPC repeats the call on another connection if there is one.
type refusal struct{ atomic.Bool }

type refusalKey struct{}

// refusable returns the context for a call, and its refusal, which retryObserver sets.
func refusable(ctx context.Context) (context.Context, *refusal) {
	r := new(refusal)
	return context.WithValue(ctx, refusalKey{}, r), r
}

// retryObserver is a stats.Handler that observes on which connection a call is sent.
type retryObserver struct{}

func (retryObserver) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (retryObserver) HandleRPC(ctx context.Context, s stats.RPCStats) {
	retry := false
	switch s := s.(type) {
	case *stats.Begin:
		retry = s.IsTransparentRetryAttempt
	case *stats.OutHeader:
	default:
		return
	}
	if r, ok := ctx.Value(refusalKey{}).(*refusal); ok {
		r.Store(retry)
	}
}

func (retryObserver) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (retryObserver) HandleConn(context.Context, stats.ConnStats) {}

// closed reports whether the link was closed. Closing ends calls before gRPC knows the state of their connection.
func (k *link) closed() bool { return k.conn.GetState() == connectivity.Shutdown }

// awaitReady waits until gRPC reports that a used connection is ready, because calls may be faster than that. It
// returns false if the connection has ended.
func (k *link) awaitReady(ctx context.Context) bool {
	for {
		switch s := k.conn.GetState(); {
		case s == connectivity.Ready:
			return true
		case s != connectivity.Connecting || !k.conn.WaitForStateChange(ctx, s):
			return false
		}
	}
}

// errNotServing is the error of a backend that responds NOT_SERVING.
var errNotServing = errors.New("its health service responds NOT_SERVING")

// check performs a health check. Every response except NOT_SERVING counts as healthy, because a backend need not
// implement the health service.
func (k *link) check(ctx context.Context, service string, opts ...grpc.CallOption) error {
	r, err := grpc_health_v1.NewHealthClient(k.conn).
		Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: service}, opts...)
	switch status.Code(err) {
	case codes.OK:
		if s := r.GetStatus(); s == grpc_health_v1.HealthCheckResponse_NOT_SERVING {
			return errNotServing
		}
		return nil
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return err
	}
	return nil
}
