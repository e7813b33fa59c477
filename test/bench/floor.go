package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// The floor is the minimum work of a bridge: net/http reads a body, one unary gRPC call sends it over a Unix socket to
// a plugin that returns it, and the result is written. It checks nothing, has no sessions, and returns the arguments as
// structuredContent without escaping.

const (
	floorMethod = "/bench.v1.Floor/Echo"
	identityEnv = "BENCH_FLOOR_IDENTITY" // certificate and key in PEM; if set, the plugin requires mutual TLS
)

func serveFloor(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("serve-floor", flag.ContinueOnError)
	withTLS := f.Bool("tls", false, "mutual TLS towards the plugin, with P-256 keys as in the bridge")
	if err := f.Parse(args); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "floor")

	plugin, err := self("floor-plugin", socket)
	if err != nil {
		return err
	}
	creds := insecure.NewCredentials()
	if *withTLS {
		identity, err := newIdentity()
		if err != nil {
			return err
		}
		plugin.Env = append(os.Environ(), identityEnv+"="+string(identity))
		if creds, err = mutualTLS(identity); err != nil {
			return err
		}
	}
	plugin.Stderr = os.Stderr
	plugin.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := plugin.Start(); err != nil {
		return err
	}
	defer func() {
		_ = plugin.Process.Signal(syscall.SIGTERM) // the plugin may have exited
		_ = plugin.Wait()                          // the error reports the signal
	}()

	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(creds), grpc.WithAuthority("localhost"))
	if err != nil {
		return err
	}
	defer conn.Close()
	ready, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := conn.Invoke(ready, floorMethod, &wrapperspb.BytesValue{}, &wrapperspb.BytesValue{},
		grpc.WaitForReady(true)); err != nil {
		return err
	}
	return serveHTTP(ctx, floorHandler(conn))
}

// floorHandler forwards requests. It answers the handshake itself, which is not measured.
func floorHandler(conn grpc.ClientConnInterface) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := make([]byte, max(r.ContentLength, 0))
		if _, err := io.ReadFull(r.Body, body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		var echoed wrapperspb.BytesValue
		if err := conn.Invoke(r.Context(), floorMethod, &wrapperspb.BytesValue{Value: body}, &echoed); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		body = echoed.Value
		_, rest, _ := bytes.Cut(body, []byte(`"id":`))
		id, _, _ := bytes.Cut(rest, []byte(","))
		// The load generator puts the arguments last: …"arguments":{…}}}
		_, arguments, isCall := bytes.Cut(body, []byte(`"arguments":`))
		if !isCall {
			floorHandshake(w, body)
			return
		}
		answer := make([]byte, 0, len(arguments)+128)
		answer = fmt.Appendf(answer,
			`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","content":[],"structuredContent":`, id)
		answer = append(append(answer, arguments[:len(arguments)-2]...), "}}"...)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		_, _ = w.Write(answer) // the client may have disconnected
	})
}

func floorHandshake(w http.ResponseWriter, body []byte) {
	if !bytes.Contains(body, []byte(`"initialize"`)) {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Mcp-Session-Id", "floor")
	_, _ = io.WriteString(w,
		`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":`+clientInfo+
			`}}`)
}

// floorPlugin returns the bytes that it receives.
func floorPlugin(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("floor-plugin needs a socket, got %q", args)
	}
	creds := insecure.NewCredentials()
	if identity := os.Getenv(identityEnv); identity != "" {
		var err error
		if creds, err = mutualTLS([]byte(identity)); err != nil {
			return err
		}
	}
	l, err := net.Listen("unix", args[0])
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.Creds(creds))
	server.RegisterService(&floorService, nil)
	context.AfterFunc(ctx, server.Stop)
	return server.Serve(l)
}

var floorService = grpc.ServiceDesc{
	ServiceName: "bench.v1.Floor",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{
		MethodName: "Echo",
		Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			in := new(wrapperspb.BytesValue)
			return in, decode(in)
		},
	}},
}

// newIdentity returns a P-256 certificate for localhost and its key in PEM, for both ends.
func newIdentity() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...), nil
}

// mutualTLS returns credentials that trust the identity only.
func mutualTLS(identity []byte) (credentials.TransportCredentials, error) {
	pair, err := tls.X509KeyPair(identity, identity)
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(identity)
	return credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{pair}, ServerName: "localhost", MinVersion: tls.VersionTLS12,
		RootCAs: trusted, ClientCAs: trusted, ClientAuth: tls.RequireAndVerifyClientCert,
	}), nil
}
