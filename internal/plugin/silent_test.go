package plugin

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A silence is a listener whose connections delay all writes while it is locked, as on a network that delivers nothing.
type silence struct {
	net.Listener
	sync.RWMutex
}

func (h *silence) Accept() (net.Conn, error) {
	c, err := h.Listener.Accept()
	return hushed{c, h}, err
}

type hushed struct {
	net.Conn
	hush *silence
}

func (c hushed) Write(b []byte) (int, error) {
	c.hush.RLock()
	defer c.hush.RUnlock()
	return c.Conn.Write(b)
}

// long returns a fake whose tool "long" returns when finish is closed.
func long(finish <-chan struct{}) *fake {
	return &fake{
		call: func(r *pb.CallToolRequest, s stream) error {
			if r.GetName() == "long" {
				if err := s.Send(progressing(1)); err != nil {
					return err
				}
				select {
				case <-finish:
				case <-s.Context().Done():
					return s.Context().Err()
				}
			}
			return s.Send(saying(r.GetName()))
		},
		listen: func(s grpc.ServerStreamingServer[pb.ListenResponse]) error {
			err := s.Send(&pb.ListenResponse{
				Event: &pb.ListenResponse_Acknowledged{Acknowledged: &pb.SubscriptionsAcknowledged{}},
			})
			<-s.Context().Done()
			return err
		},
	}
}

// An outcome is the result of a concurrent call.
type outcome struct {
	result *bridge.Result
	err    error
}

// begin makes a call and returns when the backend has received it.
func begin(t *testing.T, r *running, call *bridge.Call) <-chan outcome {
	t.Helper()
	begun, done := make(chan struct{}), make(chan outcome, 1)
	go func() {
		res, err := r.Handle(t.Context(), call, func(context.Context, bridge.Event) error { close(begun); return nil })
		done <- outcome{res, err}
	}()
	select {
	case <-begun:
	case o := <-done:
		t.Fatalf("the call did not start: %+v", o)
	}
	return done
}

// A dialed backend that is unresponsive and cannot be connected to gets no more calls. Its calls in flight end later:
// the network may still deliver their responses.
func TestUnresponsiveBackendReceivesNoMoreCalls(t *testing.T) {
	for name, patient := range map[string]time.Duration{"and is back": time.Hour, "for good": 50 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			sock := filepath.Join(t.TempDir(), "s")
			l, err := net.Listen("unix", sock)
			if err != nil {
				t.Fatal(err)
			}
			finish, network := make(chan struct{}), &silence{Listener: l}
			long(finish).serveAt(t, network)
			r := run(t, Options{Address: "unix:" + sock}, func(p *intervals) {
				p.health, p.poll, p.silence, p.lastAnswer, p.CallWait = 50*time.Millisecond, 20*time.Millisecond,
					time.Second, patient, time.Hour
			}).ready(t)
			was := r.supervisor.Live()
			call, listen := begin(t, r, tool("long", "")),
				begin(t, r, &bridge.Call{Method: bridge.Listen, Request: &pb.ListenRequest{}})

			network.Lock()
			if err := os.Rename(sock, sock+".away"); err != nil {
				t.Fatal(err)
			}
			back := sync.OnceFunc(func() {
				network.Unlock()
				if err := os.Rename(sock+".away", sock); err != nil {
					t.Error(err)
				}
			})
			defer back()
			<-was.done
			r.log.wait(t, "the backend was lost")
			_, err = r.Handle(t.Context(), tool("next", ""), ignore) // with a timeout of an hour
			wantFailure(t, err, codes.Unavailable, bridge.OutcomeNotExecuted, "BACKEND_UNAVAILABLE")
			wantFailure(t, (<-listen).err, codes.Unknown, bridge.OutcomeUnknown, "BACKEND_CRASHED")

			if patient < time.Hour {
				wantFailure(t, (<-call).err, codes.Unknown, bridge.OutcomeUnknown, "BACKEND_CRASHED")
			}
			close(finish)
			back()
			if patient == time.Hour {
				if o := <-call; o.err != nil || textOf(o.result) != "long" {
					t.Errorf("got %v, %v", o.result, o.err)
				}
			}
			if got := r.ready(t).text(t, "next", ""); got != "next" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// A dialed backend that reports NOT_SERVING gets no more calls, and completes those in flight.
func TestNotServingBackendCompletesItsCalls(t *testing.T) {
	finish := make(chan struct{})
	f := long(finish)
	f.health = health.NewServer()
	sock := filepath.Join(t.TempDir(), "s")
	f.serve(t, "unix", sock)
	r := run(t, Options{Address: "unix:" + sock}, func(p *intervals) { p.health = 10 * time.Millisecond }).ready(t)
	was := r.supervisor.Live()
	call := begin(t, r, tool("long", ""))
	f.health.SetServingStatus("", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	<-was.done
	f.health.SetServingStatus("", grpc_health_v1.HealthCheckResponse_SERVING)
	if got := r.ready(t).text(t, "next", ""); got != "next" {
		t.Errorf("got %q", got)
	}
	close(finish)
	if o := <-call; o.err != nil || textOf(o.result) != "long" {
		t.Errorf("got %v, %v", o.result, o.err)
	}
}

// A busy dialed backend keeps its calls and gets new ones. If it stays busy, it counts as hung.
func TestBusyBackendKeepsItsCalls(t *testing.T) {
	bridgetest.SkipIfShort(t)
	for name, hang := range map[string]time.Duration{"and answers": time.Hour, "for good": time.Second} {
		t.Run(name, func(t *testing.T) {
			sock := filepath.Join(t.TempDir(), "s")
			l, err := net.Listen("unix", sock)
			if err != nil {
				t.Fatal(err)
			}
			finish, network := make(chan struct{}), &silence{Listener: l}
			long(finish).serveAt(t, network)
			r := run(t, Options{Address: "unix:" + sock, HangTimeout: hang}, func(p *intervals) {
				p.health, p.poll, p.silence, p.busy = 20*time.Millisecond, 20*time.Millisecond, 40*time.Millisecond,
					60*time.Millisecond
			}).ready(t)
			was := r.supervisor.Live()
			call := begin(t, r, tool("long", ""))
			network.Lock()
			back := sync.OnceFunc(network.Unlock)
			defer back()
			next := make(chan outcome, 1)
			go func() {
				res, err := r.Handle(t.Context(), tool("next", ""), ignore)
				next <- outcome{res, err}
			}()
			r.log.wait(t, "tool long")
			r.log.wait(t, "has blocked the backend for")
			if hang < time.Hour {
				<-was.done
				for _, o := range []outcome{<-call, <-next} {
					e := wantFailure(t, o.err, codes.Unknown, bridge.OutcomeUnknown, "BACKEND_CRASHED")
					if !strings.Contains(e.Error(), "did not answer for 1s (hangTimeout)") {
						t.Errorf("got %v", e)
					}
				}
				close(finish)
				back()
				if got := r.ready(t).text(t, "again", ""); got != "again" {
					t.Errorf("got %q", got)
				}
				return
			}
			close(finish)
			back()
			for want, got := range map[string]outcome{"long": <-call, "next": <-next} {
				if got.err != nil || textOf(got.result) != want {
					t.Errorf("got %v, %v, want %s", got.result, got.err, want)
				}
			}
			if r.supervisor.Live() != was {
				t.Error("the connection was closed")
			}
			r.log.wait(t, "the backend responds again")
		})
	}
}
