package grpcserver_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/grpcserver"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// byToken returns the principal of a token, and an error without one.
func byToken(_ context.Context, md metadata.MD) (*pb.Principal, error) {
	if who := md.Get("authorization"); len(who) == 1 {
		return &pb.Principal{Subject: who[0]}, nil
	}
	return nil, bridge.Failed(codes.Unauthenticated, bridge.OutcomeNotExecuted, "UNAUTHENTICATED",
		"send a token")
}

// Unauthenticated clients that fill all connections with PINGs, rejected calls or health watches block neither probes
// and new clients nor authenticated clients without a call.
func TestUnauthenticatedConnectionsAreClosedForNewOnes(t *testing.T) {
	const most = 8
	for name, hold := range map[string]func(c *rawClient) error{
		"pings": func(c *rawClient) error { return c.WritePing(false, [8]byte{1}) },
		"calls": func(c *rawClient) error { return c.open(1, callTool, []byte{0, 0, 0, 0, 0}) },
		"watch": func(c *rawClient) error { return c.open(1, "/grpc.health.v1.Health/Watch", []byte{0, 0, 0, 0, 0}) },
	} {
		t.Run(name, func(t *testing.T) {
			var log bridgetest.Log
			addr := serve(t, textHandler("ok"), nil,
				grpcserver.Options{MaxConns: most, Principal: byToken, Log: zerolog.New(&log).Level(zerolog.WarnLevel)})
			known := rawDial(t, addr)
			if !known.request(t, 0, [2]string{"authorization", "me"}) {
				t.Fatal("a caller with a token was rejected")
			}
			for range 3 * most {
				c := rawDial(t, addr)
				if err := hold(c); err != nil {
					t.Fatal(err)
				}
				if err := c.until(t, answersHold); err != nil {
					t.Fatal(err)
				}
			}
			probe := grpc_health_v1.NewHealthClient(dial(t, addr))
			if res, err := probe.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil ||
				res.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
				t.Errorf("a probe: %v, %v", res, err)
			}
			ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "you")
			if _, err := call(ctx, client(t, addr), &pb.CallToolRequest{}); err != nil {
				t.Errorf("a new client: %v", err)
			}
			if !known.request(t, 1, [2]string{"authorization", "me"}) {
				t.Error("an authenticated client lost its connection")
			}
			if got := log.String(); strings.Count(got, "too many gRPC connections") != 1 ||
				!strings.Contains(got, `"limit":8`) {
				t.Errorf("got log %s", got)
			}
		})
	}
}

// answersHold reports whether a frame is the response to a request that keeps a connection busy.
func answersHold(f http2.Frame) bool {
	if p, ok := f.(*http2.PingFrame); ok {
		return p.IsAck()
	}
	_, ok := f.(*http2.HeadersFrame)
	return ok
}

// A connection without a call is closed gracefully after its idle timeout, whatever frames it receives; one with a call
// is not.
func TestIdleGRPCConnectionsAreClosed(t *testing.T) {
	bridgetest.SkipIfShort(t)
	h, begun, letGo := holding()
	const idle = 100 * time.Millisecond
	addr := serve(t, h, nil, grpcserver.Options{Limits: limits.Limits{ConnectionIdle: idle}})
	busy := rawDial(t, addr)
	if err := busy.open(1, callTool, []byte{0, 0, 0, 0, 0}); err != nil {
		t.Fatal(err)
	}
	<-begun
	c := rawDial(t, addr)
	bye := false
	err := c.until(t, func(f http2.Frame) bool {
		switch f := f.(type) {
		case *http2.GoAwayFrame:
			bye = f.ErrCode == http2.ErrCodeNo
		case *http2.PingFrame:
			if !f.IsAck() {
				_ = c.WritePing(true, f.Data)
			}
		}
		return false
	})
	if err == nil || !bye {
		t.Errorf("ended with %v, GOAWAY before: %v", err, bye)
	}
	close(letGo)
	if err := busy.until(t, func(f http2.Frame) bool {
		h, ok := f.(*http2.HeadersFrame)
		return ok && h.StreamEnded()
	}); err != nil {
		t.Errorf("connection with a call: %v", err)
	}
}

// The connection of a client that floods control frames or resets calls at once is closed soon, with a GOAWAY and a
// line in the log.
func TestGRPCFloodClosesTheConnection(t *testing.T) {
	for name, flood := range map[string]func(c *rawClient, i int) error{
		"resets": func(c *rawClient, i int) error {
			if err := c.begin(i); err != nil {
				return err
			}
			return c.write(func() error { return c.WriteRSTStream(uint32(2*i+1), http2.ErrCodeCancel) })
		},
		"resets of the server": func(c *rawClient, i int) error {
			if err := c.begin(i); err != nil {
				return err
			}
			return c.write(func() error { return c.WriteWindowUpdate(uint32(2*i+1), 1<<31-1) })
		},
		"streams": (*rawClient).begin,
		"resets of old streams": func(c *rawClient, i int) error {
			if i == 0 {
				return c.begin(0)
			}
			return c.write(func() error { return c.WriteRSTStream(1, http2.ErrCodeCancel) })
		},
		"settings": func(c *rawClient, _ int) error {
			return c.write(func() error {
				return c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
			})
		},
		"settings acknowledged": func(c *rawClient, _ int) error { return c.write(c.WriteSettingsAck) },
		"pings acknowledged": func(c *rawClient, _ int) error {
			return c.write(func() error { return c.WritePing(true, [8]byte{1}) })
		},
		"priorities": func(c *rawClient, _ int) error {
			return c.write(func() error { return c.WritePriority(1, http2.PriorityParam{StreamDep: 3}) })
		},
		"windows": func(c *rawClient, _ int) error {
			return c.write(func() error { return c.WriteWindowUpdate(0, 1) })
		},
		"unknown kinds": func(c *rawClient, _ int) error {
			return c.write(func() error { return c.WriteRawFrame(0x42, 0xff, 1, nil) })
		},
		"empty data": func(c *rawClient, i int) error {
			if i == 0 {
				return c.open(1, callTool, nil)
			}
			return c.write(func() error { return c.WriteData(1, false, nil) })
		},
		"data of no stream": func(c *rawClient, i int) error {
			if i == 0 {
				return c.begin(0)
			}
			return c.write(func() error { return c.WriteData(1, true, nil) })
		},
		"continuations": func(c *rawClient, i int) error {
			return c.write(func() error {
				if i == 0 {
					return c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1})
				}
				return c.WriteContinuation(1, false, nil)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, _, _ := holding()
			var log bridgetest.Log
			addr := serve(t, h, nil,
				grpcserver.Options{MaxStreams: 50, Log: zerolog.New(&log).Level(zerolog.WarnLevel)})
			c := rawDial(t, addr)
			c.AllowIllegalWrites = true
			// The settings have been exchanged.
			if err := errors.Join(c.WritePing(false, [8]byte{1}), c.until(t, answersHold)); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			rejected := false
			go func() {
				ended <- c.until(t, func(f http2.Frame) bool {
					bye, ok := f.(*http2.GoAwayFrame)
					rejected = rejected || ok && bye.ErrCode == http2.ErrCodeEnhanceYourCalm
					return false
				})
			}()
			if err := c.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			for sent := 0; flood(c, sent) == nil; sent++ { // until the connection is closed or the timeout
			}
			if err := <-ended; !rejected {
				t.Errorf("no reason in the GOAWAY: %v", err)
			}
			if got := log.String(); strings.Count(got, "frames") != 1 {
				t.Errorf("got log %s", got)
			}
			checkOtherClient(t, addr)
		})
	}
}

// Rejected or missing client certificates are logged, but not one line for each.
func TestRejectedCertificatesAreLogged(t *testing.T) {
	a, stranger := newAuthority(t), newAuthority(t)
	_, _, cert, key := issue(t, a, &x509.Certificate{DNSNames: []string{"localhost"}})
	theirs, theirKey, _, _ := issue(t, stranger, &x509.Certificate{Subject: pkix.Name{CommonName: "somebody else"}})
	for name, tt := range map[string]struct {
		certs []tls.Certificate
		want  string
	}{
		"none": {nil, "didn't provide a certificate"},
		"of another authority": {
			[]tls.Certificate{{Certificate: [][]byte{theirs.Raw}, PrivateKey: theirKey}},
			"somebody else",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var log bridgetest.Log
			addr := serve(t, textHandler("ok"), nil, grpcserver.Options{
				Log: zerolog.New(&log).Level(zerolog.WarnLevel),
				TLS: &grpcserver.TLS{Cert: cert, Key: key, ClientCA: a.file},
			})
			for range 20 {
				conn, err := new(net.Dialer).DialContext(t.Context(), "unix", strings.TrimPrefix(addr, "unix:"))
				if err != nil {
					t.Fatal(err)
				}
				c := tls.Client(conn, &tls.Config{
					InsecureSkipVerify: true, NextProtos: []string{"h2"},
					GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
						if len(tt.certs) == 0 {
							return &tls.Certificate{}, nil
						}
						return &tt.certs[0], nil
					},
				})
				_ = c.HandshakeContext(t.Context()) // with TLS 1.3 the client gets the error from its next read
				_, _ = c.Read(make([]byte, 1))
				c.Close()
			}
			if lines := strings.Count(log.String(), "refused a gRPC client"); lines < 1 || lines > 15 ||
				!strings.Contains(log.String(), tt.want) {
				t.Errorf("%d lines: %s", lines, log.String())
			}
		})
	}
}

// write writes frames with the lock.
func (c *rawClient) write(f func() error) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	return f()
}

// begin sends call n.
func (c *rawClient) begin(number int) error {
	return c.open(uint32(2*number+1), callTool, []byte{0, 0, 0, 0, 0})
}

// 6,000 completed calls, and as many that are canceled after an event, do not close the connection.
func TestManyCallsAreAllowed(t *testing.T) {
	bridgetest.SkipIfShort(t)
	var log bridgetest.Log
	addr := serve(t, toolHandler(
		func(ctx context.Context, r *pb.CallToolRequest, emit bridge.Emit) (*bridge.Result, error) {
			if r.GetName() == "" {
				return textResult("ok"), nil
			}
			if err := emit(ctx, bridge.Event{Progress: &pb.Progress{Progress: 1}}); err != nil {
				return nil, err
			}
			<-ctx.Done()
			return nil, ctx.Err()
		}), nil, grpcserver.Options{Log: zerolog.New(&log).Level(zerolog.WarnLevel)})
	c := client(t, addr)
	for i := range 12_000 {
		if i%2 == 0 {
			if got := callText(t, c, &pb.CallToolRequest{}); got != "ok" {
				t.Fatal(got)
			}
			continue
		}
		ctx, cancel := context.WithCancel(t.Context())
		s, err := c.CallTool(ctx, &pb.CallToolRequest{Name: "cancel", Context: &pb.CallContext{ProgressWanted: true}})
		if err == nil {
			_, err = s.Recv()
		}
		cancel()
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := log.String(); got != "" {
		t.Errorf("got log %s", got)
	}
}
