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

// An endpoint is where a backend listens.
type endpoint struct {
	network string // unix or tcp
	address string // a path, or host:port
	resolve bool   // gRPC resolves the host
}

// parseAddress reads an Address of Options.
func parseAddress(s string) (endpoint, error) {
	scheme, rest, ok := strings.Cut(s, ":")
	if !ok {
		scheme = ""
	}
	var e endpoint
	switch scheme {
	case "unix":
		rest = strings.TrimPrefix(rest, "//") // what is left of unix:///path is an absolute path
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

// host returns the name that the endpoint's certificate has.
func (e endpoint) host() string {
	if e.network == "unix" {
		return "localhost"
	}
	host, _, _ := net.SplitHostPort(e.address)
	return host
}

// Config reads the files, and returns how they have a client speak TLS at an Address of Options.
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

// A link is a gRPC connection to an endpoint. gRPC makes it anew when it breaks.
type link struct {
	conn    *grpc.ClientConn
	current atomic.Pointer[watched] // the last connection that was made
}

// dialledConnectTimeout is how long one try to connect to a dialled backend may take, its handshakes included.
const dialledConnectTimeout = 5 * time.Second

// dial returns a link to e. It does not wait until it is connected, which may take connectTimeout each time. A nil
// config means no TLS.
func dial(e endpoint, config *tls.Config, maxMessage int, connectTimeout time.Duration) (*link, error) {
	creds, authority := insecure.NewCredentials(), "localhost"
	if e.network == "tcp" {
		authority = e.address
	}
	if config != nil {
		// What a gRPC client calls its server must be what the certificate says.
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
		c, err := reach(ctx, func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, e.network, address)
		})
		if err != nil {
			return nil, err
		}
		w := &watched{Conn: c}
		k.current.Store(w)
		return w, nil
	}
	var err error
	k.conn, err = grpc.NewClient(
		target,
		grpc.WithContextDialer(connect),
		grpc.WithNoProxy(),
		grpc.WithTransportCredentials(telling{creds}),
		// Not gRPC's default, which is the path for a unix socket: strict HTTP/2 servers refuse that.
		grpc.WithAuthority(authority),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage),
			grpc.ForceCodecV2(wire.Codec{})),
		experimental.WithBufferPool(wire.Buffers),
		// A call that may have reached the backend is ours to repeat or not. What no server has looked at, gRPC still
		// sends again by itself, and stages tell.
		grpc.WithDisableRetry(),
		grpc.WithStatsHandler(stages{}),
		grpc.WithDisableServiceConfig(),
		grpc.WithIdleTimeout(0),
		// No keepalive pings: servers answer them with GOAWAY below 5 minutes unless told otherwise. Health checks find
		// a connection that leads nowhere.
		grpc.WithConnectParams(grpc.ConnectParams{
			// Never so long that a backend which is back waits a second for us; random, so that not all of its bridges
			// come at once.
			Backoff: backoff.Config{
				BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.5,
				MaxDelay: 500 * time.Millisecond,
			},
			MinConnectTimeout: connectTimeout,
		}),
		// The sizes that answers of 64 KiB do not wait for; fixed ones also save the pings by which gRPC estimates
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

// reach dials. While nobody answers it dials again beside that, every half second or so: what the network lost the
// system repeats after one second, three and seven, and a network that is back is to be used before. The first
// connection that is made is the one to use.
func reach(ctx context.Context, dial func(context.Context) (net.Conn, error)) (net.Conn, error) {
	type dialled struct {
		net.Conn
		err error
	}
	first := make(chan dialled)
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		wg.Go(func() {
			c, err := dial(ctx)
			select {
			case first <- dialled{c, err}:
			case <-ctx.Done():
				if err == nil {
					_ = c.Close()
				}
			}
		})
		again := time.NewTimer(400*time.Millisecond + rand.N(200*time.Millisecond))
		select {
		case d := <-first:
			again.Stop()
			return d.Conn, d.err
		case <-ctx.Done():
			again.Stop()
			return nil, ctx.Err()
		case <-again.C:
		}
	}
}

// A watched connection knows of its own end before gRPC tells those who use it.
type watched struct {
	net.Conn
	over atomic.Bool
}

func (c *watched) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		c.over.Store(true)
	}
	return n, err
}

func (c *watched) Close() error {
	c.over.Store(true)
	return c.Conn.Close()
}

// telling are credentials by which the peer of a call tells which connection it is on: gRPC makes new ones while calls
// end on old ones.
type telling struct {
	credentials.TransportCredentials
}

func (t telling) ClientHandshake(ctx context.Context, authority string,
	c net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	secure, info, err := t.TransportCredentials.ClientHandshake(ctx, authority, c)
	return secure, told{info, c}, err
}

func (t telling) Clone() credentials.TransportCredentials {
	return telling{t.TransportCredentials.Clone()}
}

// told is what telling tells.
type told struct {
	credentials.AuthInfo
	on net.Conn
}

// broken reports whether the connection that a call was handed to has ended.
func broken(at *peer.Peer) bool {
	t, _ := at.AuthInfo.(told)
	c, ok := t.on.(*watched)
	return !ok || c.over.Load()
}

// A refusal is whether a call is back after it was handed to a connection: its server says that it has not looked at
// it, such as one that drains, and gRPC makes it again if there is another connection.
type refusal struct{ atomic.Bool }

type refusalKey struct{}

// refusable returns a context for a call, and what stages tell of it.
func refusable(ctx context.Context) (context.Context, *refusal) {
	r := new(refusal)
	return context.WithValue(ctx, refusalKey{}, r), r
}

// stages follow calls to where they are handed to connections.
type stages struct{}

func (stages) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (stages) HandleRPC(ctx context.Context, s stats.RPCStats) {
	again := false
	switch s := s.(type) {
	case *stats.Begin:
		again = s.IsTransparentRetryAttempt
	case *stats.OutHeader:
	default:
		return
	}
	if r, ok := ctx.Value(refusalKey{}).(*refusal); ok {
		r.Store(again)
	}
}

func (stages) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (stages) HandleConn(context.Context, stats.ConnStats) {}

// closed reports whether the link was closed, which ends calls before gRPC knows what has become of their connection.
func (k *link) closed() bool { return k.conn.GetState() == connectivity.Shutdown }

// settled waits until gRPC says of a connection that has been used that it is there, for calls may be quicker than
// that. It reports false if it is gone already.
func (k *link) settled(ctx context.Context) bool {
	for {
		switch s := k.conn.GetState(); {
		case s == connectivity.Ready:
			return true
		case s != connectivity.Connecting || !k.conn.WaitForStateChange(ctx, s):
			return false
		}
	}
}

// errNotServing is what a backend says that is there and not ready.
var errNotServing = errors.New("its health service says that it is not serving")

// check asks whether the backend is well. A backend that answers anything but that it is not, is: it need not have a
// health service.
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
