package grpcserver_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/grpcserver"
	"github.com/mcpbridge/mcpbridge/internal/lifecycle"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

func TestSocketIsAccessibleOnlyToItsOwner(t *testing.T) {
	for mode, want := range map[fs.FileMode]fs.FileMode{0: 0o600, 0o660: 0o660, 0o666: 0o666} {
		path := filepath.Join(t.TempDir(), "s")
		ln, err := grpcserver.Listen(t.Context(), "unix:"+path, mode)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Lstat(path)
		if err != nil || info.Mode().Perm() != want || info.Mode().Type() != fs.ModeSocket {
			t.Errorf("%o: %v %v", mode, info.Mode(), err)
		}
		ln.Close()
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the socket still exists: %v", err)
		}
	}
}

// leave leaves a socket as a killed process does.
func leave(t *testing.T, path string) {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	ln.Close()
}

func TestSocketIsReplacedOnlyIfUnused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	leave(t, path)
	ln, err := grpcserver.Listen(t.Context(), "unix://"+path, 0)
	if err != nil {
		t.Fatalf("socket of a killed process: %v", err)
	}
	if _, err := grpcserver.Listen(t.Context(), "unix:"+path, 0); !errors.Is(err, grpcserver.ErrInUse) ||
		!strings.Contains(err.Error(), path) {
		t.Errorf("socket in use: %v", err)
	}
	if c, err := new(net.Dialer).DialContext(t.Context(), "unix", path); err != nil {
		t.Errorf("the first listener is closed: %v", err)
	} else {
		c.Close()
	}
	ln.Close()
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := grpcserver.Listen(t.Context(), "unix:"+path, 0); err == nil {
		t.Error("a regular file was replaced")
	}
	if text, err := os.ReadFile(path); string(text) != "precious" {
		t.Errorf("the file was removed: %v", err)
	}
	for _, bad := range []string{
		"unix:", "unix://", "unix:" + filepath.Join(t.TempDir(), "no", "s"), "tcp:nowhere",
		"127.0.0.1", "",
	} {
		if ln, err := grpcserver.Listen(t.Context(), bad, 0); err == nil {
			t.Errorf("%q was accepted as %v", bad, ln.Addr())
			ln.Close()
		}
	}
}

// Of many processes that find the same unused socket, one gets it.
func TestConcurrentListenersOfOneSocket(t *testing.T) {
	for range 20 {
		path := filepath.Join(t.TempDir(), "s")
		leave(t, path)
		var wg sync.WaitGroup
		var got atomic.Int32
		lns := make(chan net.Listener, 16)
		for range 16 {
			wg.Go(func() {
				if ln, err := grpcserver.Listen(t.Context(), "unix:"+path, 0); err == nil {
					got.Add(1)
					lns <- ln
				}
			})
		}
		wg.Wait()
		close(lns)
		if c, err := new(net.Dialer).DialContext(t.Context(), "unix", path); err != nil || got.Load() != 1 {
			t.Errorf("%d listeners, and %v", got.Load(), err)
		} else {
			c.Close()
		}
		for ln := range lns {
			ln.Close()
		}
	}
}

// An authority issues certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	a.cert, a.key, a.file, _ = issue(t, nil,
		&x509.Certificate{
			Subject: pkix.Name{CommonName: "the authority"}, IsCA: true, BasicConstraintsValid: true,
			KeyUsage: x509.KeyUsageCertSign,
		})
	return a
}

// issue returns a certificate and the names of its files.
func issue(t *testing.T, a *authority,
	template *x509.Certificate,
) (*x509.Certificate, *ecdsa.PrivateKey, string, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(1), time.Now().Add(-time.Hour),
		time.Now().Add(time.Hour)
	parent, signer := template, key
	if a != nil {
		parent, signer = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	for file, block := range map[string]*pem.Block{
		certFile: {Type: "CERTIFICATE", Bytes: der},
		keyFile:  {Type: "PRIVATE KEY", Bytes: pkcs8},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key, certFile, keyFile
}

func TestPrincipalComesFromTheCertificate(t *testing.T) {
	a, stranger := newAuthority(t), newAuthority(t)
	_, _, cert, key := issue(t, a, &x509.Certificate{DNSNames: []string{"localhost"}})
	who := toolHandler(func(_ context.Context, r *pb.CallToolRequest, _ bridge.Emit) (*bridge.Result, error) {
		return textResult(fmt.Sprintf("%s of %s", r.GetContext().GetVerified().GetPrincipal().GetSubject(),
			r.GetContext().GetVerified().GetPrincipal().GetIssuer())), nil
	})
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	spiffe, err := url.Parse("spiffe://example.org/x")
	if err != nil {
		t.Fatal(err)
	}
	of := func(a *authority, template *x509.Certificate) []tls.Certificate {
		cert, key, _, _ := issue(t, a, template)
		return []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key}}
	}
	req := &pb.CallToolRequest{Context: &pb.CallContext{
		Verified: &pb.VerifiedCaller{Principal: &pb.Principal{Subject: "root"}},
	}}
	for name, s := range map[string]struct {
		clientCA string
		certs    []tls.Certificate
		plain    bool
		want     string // if empty, the client is rejected
	}{
		"TLS":                   {"", nil, false, " of "},
		"TLS, with certificate": {"", of(a, &x509.Certificate{Subject: pkix.Name{CommonName: "me"}}), false, " of "},
		"no TLS":                {"", nil, true, ""},
		"mutual, subject": {
			a.file, of(a, &x509.Certificate{Subject: pkix.Name{CommonName: "me"}}), false,
			"CN=me of CN=the authority",
		},
		"mutual, name": {
			a.file,
			of(a, &x509.Certificate{Subject: pkix.Name{CommonName: "me"}, DNSNames: []string{"me.example.org"}}), false,
			"me.example.org of CN=the authority",
		},
		"mutual, SPIFFE": {
			a.file,
			of(a, &x509.Certificate{DNSNames: []string{"me.example.org"}, URIs: []*url.URL{spiffe}}), false,
			"spiffe://example.org/x of CN=the authority",
		},
		"mutual, no name": {
			a.file, of(a, &x509.Certificate{EmailAddresses: []string{"me@example.org"}}), false,
			"serial:1 of CN=the authority",
		},
		"mutual, no certificate": {a.file, nil, false, ""},
		"mutual, a stranger's": {
			a.file, of(stranger, &x509.Certificate{Subject: pkix.Name{CommonName: "me"}}), false,
			"",
		},
	} {
		addr := serve(t, who, nil, grpcserver.Options{TLS: &grpcserver.TLS{Cert: cert, Key: key, ClientCA: s.clientCA}})
		var opts []grpc.DialOption
		if !s.plain {
			opts = append(opts, withCreds(
				credentials.NewTLS(&tls.Config{
					RootCAs: pool, ServerName: "localhost", Certificates: s.certs,
					MinVersion: tls.VersionTLS13,
				})))
		}
		all, err := call(t.Context(), client(t, addr, opts...), req)
		if s.want == "" {
			if status.Code(err) != codes.Unavailable {
				t.Errorf("%s: %v %v", name, all, err)
			}
			continue
		}
		if err != nil || all[0].GetResult().GetContent()[0].GetText().GetText() != s.want {
			t.Errorf("%s: %v %v", name, all, err)
		}
	}
}

func TestHealthByServiceName(t *testing.T) {
	s, addr := start(t, textHandler(""),
		[]grpcserver.Backend{{Name: "a", Handler: textHandler("")}, {Name: "b", Handler: textHandler("")}},
		grpcserver.Options{})
	c := grpc_health_v1.NewHealthClient(dial(t, addr))
	check := func(when, want string) {
		t.Helper()
		var got []byte
		for _, name := range []string{"", "mcpbridge.v1.McpService", "a", "b"} {
			r, err := c.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: name})
			if err != nil {
				t.Fatal(err)
			}
			sign := byte('-')
			if r.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING {
				sign = '+'
			}
			got = append(got, sign)
		}
		if string(got) != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	check("at first", "----")
	s.SetServing("a", true)
	check("a serves", "+++-")
	s.SetServing("b", true)
	s.SetServing("a", false)
	check("b serves", "++-+")
	s.SetServing("b", false)
	check("none serves", "----")
	s.SetServing("unknown", true)
	if _, err := c.Check(t.Context(),
		&grpc_health_v1.HealthCheckRequest{Service: "unknown"}); status.Code(err) != codes.NotFound {
		t.Error(err)
	}
}

// A drain is a server with a settable phase.
type drain struct {
	addr string
	life *lifecycle.Lifecycle
	over chan error
}

// end begins to drain.
func (d *drain) end() { d.life.Advance(lifecycle.Draining) }

// closeAfter cancels calls in flight after a duration.
func (d *drain) closeAfter(after time.Duration) {
	time.AfterFunc(after, func() { d.life.Advance(lifecycle.Closing) })
}

func startDrain(t *testing.T, h bridge.Handler, o grpcserver.Options) (*grpcserver.Server, *drain) {
	t.Helper()
	d := &drain{addr: "unix:" + filepath.Join(t.TempDir(), "s"), life: lifecycle.New(), over: make(chan error, 1)}
	o.Lifecycle = d.life
	s, err := grpcserver.New(h, []grpcserver.Backend{{Name: "a", Handler: h}}, o)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := grpcserver.Listen(t.Context(), d.addr, 0)
	if err != nil {
		t.Fatal(err)
	}
	go func() { d.over <- s.Serve(ln) }()
	t.Cleanup(d.end)
	return s, d
}

// Calls in flight complete during the drain. Subscriptions and watches end, and new calls are rejected.
func TestRunningCallsCompleteDuringDrain(t *testing.T) {
	h, begun, letGo := holding()
	s, d := startDrain(t, h, grpcserver.Options{})
	s.SetServing("a", true)
	conn := dial(t, d.addr)
	c := pb.NewMcpServiceClient(conn)
	watch, err := grpc_health_v1.NewHealthClient(conn).
		Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := watch.Recv(); err != nil || r.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Fatalf("%v %v", r, err)
	}
	reflection, err := grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	listens, err := c.Listen(t.Context(),
		&pb.ListenRequest{Notifications: &pb.SubscriptionFilter{ToolsListChanged: proto.Bool(true)}})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := listens.Recv(); err != nil || r.GetAcknowledged() == nil {
		t.Fatalf("%v %v", r, err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := call(t.Context(), c, &pb.CallToolRequest{})
		done <- err
	}()
	<-begun

	d.end()
	if r, err := watch.Recv(); err != nil || r.GetStatus() != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("health watch: got %v %v", r, err)
	}
	if r, err := listens.Recv(); err != nil || r.GetResult() == nil {
		t.Errorf("Listen: got %v %v", r, err)
	}
	if r, err := watch.Recv(); err == nil {
		t.Errorf("the health watch continues with %v", r)
	}
	if r, err := reflection.Recv(); err == nil {
		t.Errorf("reflection continues with %v", r)
	}
	if _, err := call(t.Context(), client(t, d.addr), &pb.CallToolRequest{}); status.Code(err) != codes.Unavailable {
		t.Errorf("a new call: %v", err)
	}
	select {
	case err := <-d.over:
		t.Errorf("the server did not wait for the call: %v", err)
	case err := <-done:
		t.Errorf("the call ended: %v", err)
	default:
	}
	close(letGo)
	if err := <-done; err != nil {
		t.Errorf("call in flight: %v", err)
	}
	if err := <-d.over; err != nil {
		t.Error(err)
	}
}

// calling makes a call and returns a channel for its error.
func calling(t *testing.T, addr string) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	c := client(t, addr)
	go func() {
		_, err := call(t.Context(), c, &pb.CallToolRequest{})
		done <- err
	}()
	return done
}

func TestDrainTimeout(t *testing.T) {
	h, begun, _ := holding()
	_, d := startDrain(t, h, grpcserver.Options{})
	done := calling(t, d.addr)
	<-begun
	began := time.Now()
	d.end()
	d.closeAfter(300 * time.Millisecond)
	if err := <-d.over; err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took < 300*time.Millisecond {
		t.Errorf("interrupted after %v", took)
	}
	checkCut(t, <-done)
}

// checkCut checks the error of a call that the shutdown interrupted.
func checkCut(t *testing.T, err error) {
	t.Helper()
	s := status.Convert(err)
	f := bridge.FromStatus(s)
	if s.Code() != codes.Unknown || f.Reason != "SHUTTING_DOWN" ||
		f.Outcome != bridge.OutcomeUnknown ||
		s.Message() != "tools/call was ended: the bridge is shutting down; whether it was executed is not known" {
		t.Errorf("interrupted call: got %v with %v", err, f)
	}
}

// A client that reads nothing does not delay the shutdown.
func TestUnreadStreamDoesNotDelayDrain(t *testing.T) {
	bridgetest.SkipIfShort(t)
	message := strings.Repeat("x", 100_000)
	stuck := make(chan struct{})
	h := toolHandler(func(ctx context.Context, _ *pb.CallToolRequest, emit bridge.Emit) (*bridge.Result, error) {
		for i := 0; ; i++ {
			if i == 1 {
				close(stuck)
			}
			if err := emit(ctx, bridge.Event{Progress: &pb.Progress{
				Progress: float64(i),
				Message:  &message,
			}}); err != nil {
				return nil, err
			}
		}
	})
	_, d := startDrain(t, h, grpcserver.Options{})
	raw := rawDial(t, d.addr)
	request := []byte{0, 0, 0, 0, 4, 0x0a, 2, 0x28, 1} // context {progress_wanted: true}
	if err := raw.open(1, callTool, request); err != nil {
		t.Fatal(err)
	}
	<-stuck
	d.end()
	d.closeAfter(100 * time.Millisecond)
	if err := <-d.over; err != nil {
		t.Error(err)
	}
}

// A silent connection has five seconds for its preface, and does not delay the shutdown.
func TestSilentConnectionDoesNotDelayShutdown(t *testing.T) {
	bridgetest.SkipIfShort(t)
	s, d := startDrain(t, textHandler(""), grpcserver.Options{})
	silent, err := new(net.Dialer).DialContext(t.Context(), "unix", strings.TrimPrefix(d.addr, "unix:"))
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	// The previous connection has been accepted by now too.
	if _, err := call(t.Context(), client(t, d.addr), &pb.CallToolRequest{}); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	s.Close()
	if took := time.Since(began); took >= 5*time.Second {
		t.Errorf("it took %v", took)
	}
	if err := <-d.over; err != nil {
		t.Error(err)
	}
}

func TestCloseEndsAllCallsAtOnce(t *testing.T) {
	h, begun, _ := holding()
	s, d := startDrain(t, h, grpcserver.Options{})
	done := calling(t, d.addr)
	<-begun
	d.end() // the drain waits for the call
	s.Close()
	if err := <-d.over; err != nil {
		t.Error(err)
	}
	checkCut(t, <-done)
	s.Close() // allowed twice
}

// A queued call that the shutdown rejects gets the same error.
func TestCallRejectedByShutdownWasNotExecuted(t *testing.T) {
	begun := make(chan struct{})
	h := toolHandler(func(ctx context.Context, _ *pb.CallToolRequest, _ bridge.Emit) (*bridge.Result, error) {
		close(begun)
		<-ctx.Done()
		return nil, bridge.Failed(codes.Canceled, bridge.OutcomeNotExecuted, "CANCELLED", "it waited")
	})
	s, d := startDrain(t, h, grpcserver.Options{})
	done := calling(t, d.addr)
	<-begun
	s.Close()
	err := <-done
	f := bridge.FromStatus(status.Convert(err))
	if status.Code(err) != codes.Unavailable || f.Reason != "SHUTTING_DOWN" ||
		f.Outcome != bridge.OutcomeNotExecuted {
		t.Errorf("got %v with %v", err, f)
	}
	if err := <-d.over; err != nil {
		t.Error(err)
	}
}

// Calls that a client sends after the GOAWAY are rejected and not executed.
func TestCallAfterShutdownIsNotExecuted(t *testing.T) {
	bridgetest.SkipIfShort(t)
	h, begun, _ := holding()
	s, d := startDrain(t, h, grpcserver.Options{})
	c := rawDial(t, d.addr)
	if err := c.open(1, callTool, []byte{0, 0, 0, 0, 0}); err != nil {
		t.Fatal(err)
	}
	<-begun
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		s.Close()
	}()
	answered := func(id uint32) func(http2.Frame) bool {
		return func(f http2.Frame) bool {
			h, ok := f.(*http2.HeadersFrame)
			return ok && h.StreamID == id && h.StreamEnded()
		}
	}
	if err := c.until(t, answered(1)); err != nil {
		t.Fatalf("the call in flight got no response: %v", err)
	}
	if c.open(3, callTool, []byte{0, 0, 0, 0, 0}) == nil {
		_ = c.until(t, answered(3)) // an error means that the connection is closed
	}
	<-closed
	if err := <-d.over; err != nil {
		t.Error(err)
	}
	if len(begun) > 0 {
		t.Error("the call was executed")
	}
}

// Under load, calls that started complete, and others are rejected so that clients retry them elsewhere: no call is
// lost.
func TestDrainUnderLoadLosesNoCall(t *testing.T) {
	for range 5 {
		var executed atomic.Int64
		h := toolHandler(func(context.Context, *pb.CallToolRequest, bridge.Emit) (*bridge.Result, error) {
			executed.Add(1)
			return textResult("ok"), nil
		})
		_, d := startDrain(t, h, grpcserver.Options{})
		var wg sync.WaitGroup
		var answered, refused atomic.Int64
		var under sync.WaitGroup
		for range 8 {
			conn := dial(t, d.addr)
			c := pb.NewMcpServiceClient(conn)
			under.Add(1)
			wg.Go(func() {
				for n := 0; ; n++ {
					if n == 20 {
						under.Done()
					}
					switch _, err := call(t.Context(), c, &pb.CallToolRequest{}); status.Code(err) {
					case codes.OK:
						answered.Add(1)
					case codes.Unavailable:
						refused.Add(1)
						if n < 20 {
							t.Errorf("rejected before the drain: %v", err)
							under.Done()
						}
						return
					default:
						t.Errorf("call ended with %v", err)
						return
					}
				}
			})
		}
		under.Wait()
		d.end()
		if err := <-d.over; err != nil {
			t.Error(err)
		}
		wg.Wait()
		if answered.Load() != executed.Load() || refused.Load() != 8 {
			t.Errorf("%d were executed and %d completed; %d were rejected", executed.Load(), answered.Load(),
				refused.Load())
		}
	}
}

func TestBrokenListenerIsReported(t *testing.T) {
	s, err := grpcserver.New(textHandler(""), nil, grpcserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := grpcserver.Listen(t.Context(), "127.0.0.1:0", 0)
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() { over <- s.Serve(ln) }()
	conn := dial(t, ln.Addr().String())
	conn.Connect()
	for state := conn.GetState(); state != connectivity.Ready; state = conn.GetState() {
		conn.WaitForStateChange(t.Context(), state)
	}
	ln.Close()
	if err := <-over; err == nil {
		t.Error("no status received")
	}
	s.Close()
}

// Setting the unchanged status of many backends every second allocates nothing: an idle bridge does that.
func TestServingABackendAllocatesNothing(t *testing.T) {
	var backends []grpcserver.Backend
	for i := range 100 {
		backends = append(backends, grpcserver.Backend{Name: strconv.Itoa(i), Handler: textHandler("ok")})
	}
	s, err := grpcserver.New(textHandler("ok"), backends, grpcserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range backends {
		s.SetServing(b.Name, true)
	}
	if n := testing.AllocsPerRun(100, func() { s.SetServing("7", true) }); n > 10 {
		t.Errorf("got %.0f allocations", n)
	}
}
