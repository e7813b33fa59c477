// Command rogue is a plugin without go-plugin that can misbehave. Its arguments select how; without arguments, it
// behaves correctly. It serves with the key pair that the bridge gives it.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

func does(what string) bool { return slices.Contains(os.Args[1:], what) }

// once reports whether the file FILE does not exist yet, and creates it, for what only the first process does.
func once() bool {
	f, err := os.OpenFile(os.Getenv("FILE"), os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		f.Close()
	}
	return err == nil
}

func main() {
	if does("exit") || does("exit-later") && !once() {
		fmt.Fprintln(os.Stderr, "config.yaml: no such file")
		os.Exit(7)
	}
	if does("nothing") {
		return
	}
	if does("noise") {
		fmt.Println("library banner")
		fmt.Println("1|2|3")
		fmt.Println(strings.Repeat("x", 200_000))
	}
	if does("ignore") {
		signal.Ignore(syscall.SIGTERM)
	}
	if does("grandchild") || does("daemon") {
		c := exec.Command("sleep", "300")
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: does("daemon")}
		if err := c.Start(); err != nil {
			panic(err)
		}
		if f := os.Getenv("PIDS"); f != "" {
			_ = os.WriteFile(f, fmt.Appendf(nil, "%d %d", os.Getpid(), c.Process.Pid), 0o600)
		}
	}
	if !does("ignore-stdin") {
		go func() {
			b, err := io.ReadAll(os.Stdin)
			fmt.Fprintf(os.Stderr, "stdin ended after %d bytes: %v\n", len(b), err)
			os.Exit(0)
		}()
	}
	if does("no-handshake") {
		fmt.Println("hello")
		fmt.Println("I am a server")
		select {}
	}
	listen, cert := serve()
	network, addr := listen.Addr().Network(), listen.Addr().String()
	version := "1"
	switch {
	case does("no-cert"):
		cert = ""
	case does("bad-cert"):
		cert = base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("certificate?", 10)))
	case does("padded"):
		cert += "="
	case does("foreign"):
		network, addr = "tcp", "192.0.2.1:80"
	case does("elsewhere"):
		addr = "/tmp/elsewhere.sock"
	case does("version"):
		version = "2"
	}
	fmt.Printf("1|%s|%s|%s|grpc|%s\n", version, network, addr, cert)
	if does("noise") {
		fmt.Print(strings.Repeat("y", 200_000)) // and never a newline
	}
	select {}
}

func serve() (net.Listener, string) {
	pair, err := os.ReadFile(os.Getenv("MCPBRIDGE_KEY_PAIR"))
	if err != nil {
		panic(err)
	}
	cert, err := tls.X509KeyPair(pair, pair)
	if err != nil {
		panic(err)
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM([]byte(os.Getenv("PLUGIN_CLIENT_CERT")))
	config := &tls.Config{
		Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAndVerifyClientCert,
		ClientCAs: clients,
	}
	if does("untrusted-client") {
		config.ClientCAs = x509.NewCertPool()
	}
	listen, err := net.Listen("unix", filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), "p.sock"))
	if does("tcp") {
		listen, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		panic(err)
	}
	s := grpc.NewServer(grpc.Creds(credentials.NewTLS(config)), grpc.MaxRecvMsgSize(64<<20))
	h := health.NewServer()
	pb.RegisterMcpServiceServer(s, server{health: h})
	h.SetServingStatus("plugin", grpc_health_v1.HealthCheckResponse_SERVING)
	if does("late") {
		h.SetServingStatus("plugin", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
		if once() {
			time.AfterFunc(100*time.Millisecond, func() {
				h.SetServingStatus("plugin", grpc_health_v1.HealthCheckResponse_SERVING)
			})
		}
	}
	if !does("no-health") {
		grpc_health_v1.RegisterHealthServer(s, h)
	}
	if does("drain") {
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGTERM)
		go func() {
			<-signals
			s.GracefulStop()
			os.Exit(0)
		}()
	}
	go func() {
		if does("serve-late") { // after its handshake
			if !once() {
				select {}
			}
			time.Sleep(6 * time.Second)
		}
		s.Serve(listen)
	}()
	return listen, base64.RawStdEncoding.EncodeToString(cert.Certificate[0])
}

type server struct {
	pb.UnimplementedMcpServiceServer
	health *health.Server
}

// Discover returns the process ID as the version. The first process may respond NOT_SERVING from then on.
func (s server) Discover(context.Context, *pb.DiscoverRequest) (*pb.DiscoverResponse, error) {
	if does("not-serving") && once() {
		s.health.SetServingStatus("plugin", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	}
	return &pb.DiscoverResponse{
		ContractVersion: 2,
		ServerInfo:      &pb.Implementation{Name: "rogue", Version: fmt.Sprint(os.Getpid())},
	}, nil
}

// ListTools returns one tool, whose name is the process ID. With die or die-once, it kills the process.
func (server) ListTools(context.Context, *pb.ListToolsRequest) (*pb.ListToolsResponse, error) {
	if does("die-once") && once() || does("die") {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	return &pb.ListToolsResponse{Tools: []*pb.Tool{{Name: fmt.Sprint(os.Getpid())}}}, nil
}

func (server) CallTool(req *pb.CallToolRequest, stream grpc.ServerStreamingServer[pb.CallToolResponse]) error {
	var text string
	switch req.GetName() {
	case "env":
		b, _ := json.Marshal(os.Environ())
		text = string(b)
	case "echo":
		text = string(req.GetArguments())
	case "nap": // returns its arguments after a short pause
		time.Sleep(20 * time.Millisecond)
		text = string(req.GetArguments())
	case "eat": // uses memory without end
		var eaten [][]byte
		for {
			eaten = append(eaten, bytes.Repeat([]byte{1}, 1<<20))
		}
	case "hold": // sends progress, and returns when the file FILE exists
		if err := sendProgress(stream); err != nil {
			return err
		}
		for {
			if _, err := os.Stat(os.Getenv("FILE")); err == nil {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
		text = string(req.GetArguments())
	case "hang": // sends progress, and never returns
		if err := sendProgress(stream); err != nil {
			return err
		}
		<-stream.Context().Done()
		return stream.Context().Err()
	default:
		return status.Error(codes.NotFound, "no such tool")
	}
	block := &pb.ContentBlock{Block: &pb.ContentBlock_Text{Text: &pb.TextContent{Text: text}}}
	result := &pb.CallToolResult{Content: []*pb.ContentBlock{block}}
	return stream.Send(&pb.CallToolResponse{Event: &pb.CallToolResponse_Result{Result: result}})
}

func sendProgress(stream grpc.ServerStreamingServer[pb.CallToolResponse]) error {
	return stream.Send(&pb.CallToolResponse{Event: &pb.CallToolResponse_Progress{Progress: &pb.Progress{}}})
}
