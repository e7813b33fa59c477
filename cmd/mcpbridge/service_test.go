package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/problem"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A manager starts processes as systemd does: with listening sockets that it keeps, a socket for notifications, and a
// watchdog.
type manager struct {
	names   []string // of the sockets
	sockets []*os.File
	addrs   []string
	notify  string // the path of the socket for notifications

	ready, stopping, beats atomic.Int32 // numbers of notifications
}

// newManager returns a manager with sockets at addresses.
func newManager(t *testing.T, names []string, addrs ...string) *manager {
	t.Helper()
	m := &manager{names: names, notify: filepath.Join(t.TempDir(), "notify")}
	for _, addr := range addrs {
		ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close() // the file remains
		f, err := ln.(*net.TCPListener).File()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		m.sockets, m.addrs = append(m.sockets, f), append(m.addrs, ln.Addr().String())
	}
	received, err := new(net.ListenConfig).ListenPacket(t.Context(), "unixgram", m.notify)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() {
		received.Close()
		wg.Wait()
	})
	wg.Go(func() {
		for state := make([]byte, 100); ; {
			n, _, err := received.ReadFrom(state)
			if err != nil {
				return
			}
			switch string(state[:n]) {
			case "READY=1":
				m.ready.Add(1)
			case "STOPPING=1":
				m.stopping.Add(1)
			case "WATCHDOG=1":
				m.beats.Add(1)
			default:
				t.Errorf("the manager received %q", state[:n])
			}
		}
	})
	return m
}

// command returns a command that starts a bridge.
func (m *manager) command(t *testing.T, binary string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sh", "-c", `LISTEN_PID=$$ exec "$@"`, "sh", binary, "--log-format", "json", "run", "--",
		echoGo(t))
	cmd.ExtraFiles = m.sockets
	cmd.Env = append(os.Environ(), "LISTEN_FDS="+strconv.Itoa(len(m.sockets)),
		"LISTEN_FDNAMES="+strings.Join(m.names, ":"), "NOTIFY_SOCKET="+m.notify, "WATCHDOG_USEC=1000000")
	return cmd
}

// install replaces the binary as a package manager does: processes keep the one that they run.
func install(t *testing.T, binary string) {
	t.Helper()
	program, err := exec.LookPath("mcpbridge")
	if err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(binary+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(binary+".new", binary); err != nil {
		t.Fatal(err)
	}
}

// Under socket activation, the binary is upgraded while clients connect and call constantly. No connection is refused,
// and every call is executed.
func TestUpgradeLosesNoCall(t *testing.T) {
	bridgetest.SkipIfShort(t)
	m := newManager(t, []string{"http", "grpc"}, "127.0.0.1:0", "127.0.0.1:0")
	binary := filepath.Join(t.TempDir(), "mcpbridge")
	install(t, binary)
	cmd := m.command(t, binary)
	r := spawn(t, cmd)
	if want := "http://" + m.addrs[0] + "/mcp"; r.url != want {
		t.Fatalf("it serves %s, and not %s", r.url, want)
	}

	var calls atomic.Int32
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var leaving atomic.Bool
	keepCalling := func(call func() error) {
		wg.Go(func() {
			for !leaving.Load() {
				if err := call(); err != nil {
					t.Errorf("call: %v", err)
					return
				}
				calls.Add(1)
			}
		})
	}
	for i := range 24 {
		tool, arguments := "echo", `{}`
		if i%2 == 0 {
			tool, arguments = "slow", `{"ms":300}`
		}
		transport := &http.Transport{DisableKeepAlives: i%3 == 0}
		defer transport.CloseIdleConnections()
		client := &http.Client{Transport: transport}
		keepCalling(func() error {
			_, err := r.callWith(ctx, client, tool, arguments)
			return err
		})
	}
	for range 4 {
		conn, err := grpc.NewClient(m.addrs[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		keepCalling(func() error {
			stream, err := pb.NewMcpServiceClient(conn).
				CallTool(ctx, &pb.CallToolRequest{Name: "echo", Arguments: []byte(`{}`)})
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		})
	}
	awaitCalls := func() {
		before := calls.Load()
		r.await(t, "calls are made", func() bool { return calls.Load() > before+200 })
	}

	for i := range int32(2) {
		awaitCalls()
		r.await(t, "it has notified the manager", func() bool { return m.ready.Load() == i+1 })
		before := m.beats.Load()
		r.await(t, "the watchdog receives beats", func() bool { return m.beats.Load() > before+1 })
		install(t, binary)
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("exited with %v:\n%s", err, r.stderr)
		}
		r.await(t, "it has notified the manager of its end", func() bool { return m.stopping.Load() == i+1 })
		connected := make(chan struct{})
		wg.Go(func() {
			trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { close(connected) }}
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			if _, err := r.callWith(httptrace.WithClientTrace(ctx, trace), client, "echo", `{}`); err != nil {
				t.Errorf("call while no process serves: %v", err)
			}
		})
		<-connected
		cmd = m.command(t, binary)
		spawn(t, cmd)
	}
	awaitCalls()
	leaving.Store(true)
	wg.Wait()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("exited with %v", err)
	}
	t.Logf("%d calls", calls.Load())
}

// Sockets obey the same rules as configured addresses, and errors name them.
func TestSocketsOfTheServiceManager(t *testing.T) {
	bridgetest.SkipIfShort(t)
	for name, tt := range map[string]struct {
		names, addrs []string
		want         string
	}{
		"reachable from other machines": {
			[]string{"mcpbridge.socket"},
			[]string{"0.0.0.0:0"},
			`socket \"http\" of the service manager`,
		},
		"an unknown name": {
			[]string{"http", "admin"},
			[]string{"127.0.0.1:0", "127.0.0.1:0"},
			"set FileDescriptorName= to http, grpc, ops",
		},
		"one name twice": {
			[]string{"http", "http"},
			[]string{"127.0.0.1:0", "127.0.0.1:0"},
			"there are two sockets with this name",
		},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := newManager(t, tt.names, tt.addrs...).command(t, "mcpbridge")
			out, err := cmd.CombinedOutput()
			if cmd.ProcessState.ExitCode() != problem.ExitConfig || !strings.Contains(string(out), tt.want) {
				t.Errorf("exited with %v:\n%s", err, out)
			}
		})
	}
}
