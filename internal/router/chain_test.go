package router_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/grpcserver"
	"github.com/mcpbridge/mcpbridge/internal/plugin"
	"github.com/mcpbridge/mcpbridge/internal/router"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// serveAt serves a Handler at an address until the returned function is called.
func serveAt(t *testing.T, addr string, h bridge.Handler) (end func()) {
	t.Helper()
	s, err := grpcserver.New(h, nil, grpcserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := grpcserver.Listen(t.Context(), addr, 0)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	return func() {
		s.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
}

// dialled returns a backend at an address.
func dialled(t *testing.T, addr string) *plugin.Plugin {
	t.Helper()
	p, err := plugin.New(plugin.Options{Address: addr})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ran := make(chan error, 1)
	go func() { ran <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
	if err := p.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p
}

// While one of two backends is unreachable, a stock gRPC client continues to use the other, and it is notified when the
// first is back.
func TestOneOfTwoBackendsDisconnectsAndReconnects(t *testing.T) {
	bridgetest.SkipIfShort(t)
	dir := t.TempDir()
	addr := func(name string) string { return "unix:" + filepath.Join(dir, name) }
	a := &server{pages: [][]string{{"x"}}, changes: make(chan *pb.ListenResponse)}
	b := &server{pages: [][]string{{"x"}}, changes: make(chan *pb.ListenResponse)}
	endA, endB := serveAt(t, addr("a"), a), serveAt(t, addr("b"), b)
	defer func() { endB() }()
	r, err := router.New([]router.Route{
		{Name: "a", Handler: dialled(t, addr("a"))},
		{Name: "b", Handler: dialled(t, addr("b"))},
	}, router.Options{MaxWait: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer serveAt(t, addr("both"), r)()
	conn, err := grpc.NewClient(addr("both"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := pb.NewMcpServiceClient(conn)
	list := func() string {
		l, err := c.ListTools(t.Context(), &pb.ListToolsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tool := range l.GetTools() {
			names = append(names, tool.GetName())
		}
		return strings.Join(names, " ")
	}
	call := func(name string, within time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		s, err := c.CallTool(ctx, &pb.CallToolRequest{Name: name})
		if err == nil {
			_, err = s.Recv()
		}
		return err
	}
	listens, err := c.Listen(t.Context(),
		&pb.ListenRequest{Notifications: &pb.SubscriptionFilter{ToolsListChanged: proto.Bool(true)}})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := listens.Recv(); err != nil || m.GetAcknowledged() == nil {
		t.Fatalf("%v %v", m, err)
	}
	if got := list(); got != "a_x b_x" || call("a_x", time.Minute) != nil || call("b_x", time.Minute) != nil {
		t.Errorf("at first: %s", got)
	}
	endA()
	if got := list(); got != "b_x" || call("b_x", time.Minute) != nil {
		t.Errorf("without a: %s", got)
	}
	if err := call("a_x", 300*time.Millisecond); status.Code(err) != codes.DeadlineExceeded &&
		status.Code(err) != codes.Unavailable {
		t.Errorf("call of the unreachable backend: %v", err)
	}
	if n := len(calls[*pb.CallToolRequest](a)); n != 1 {
		t.Errorf("a received %d calls", n)
	}
	defer serveAt(t, addr("a"), a)()
	if m, err := listens.Recv(); err != nil || m.GetToolsListChanged() == nil {
		t.Fatalf("%v %v", m, err)
	}
	for end := time.Now().Add(20 * time.Second); list() != "a_x b_x"; {
		if time.Now().After(end) {
			t.Fatal("a is still unreachable")
		}
	}
	if err := call("a_x", time.Minute); err != nil {
		t.Error(err)
	}
}
