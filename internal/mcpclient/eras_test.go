package mcpclient_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/feed"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mcpclient"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A dualEraServer supports both eras, and declares different capabilities in each. It is a program, or the
// http.RoundTripper of an endpoint.
type dualEraServer struct {
	capabilities [bridge.Eras]string
	acks         string // the filter that subscriptions/listen acknowledges; if empty, the method is unsupported

	mu   sync.Mutex
	send [bridge.Eras]func(line string) // sends on the connection of an era, or on its change stream
}

// answer returns the response to a request, and the era of the change stream that the request opens, if any.
func (s *dualEraServer) answer(m *jsonrpc.Message) (line string, begins bridge.Era) {
	begins = bridge.Eras
	line = emptyResponse
	switch m.Method {
	case "server/discover":
		line = strings.Replace(discoverResponse, `{"tools":{}}`, s.capabilities[bridge.ModernEra], 1)
	case "initialize":
		line = strings.Replace(initializeResponse, `{"tools":{}}`, s.capabilities[bridge.LegacyEra], 1)
		line, begins = strings.Replace(line, "2024-11-05", "2025-11-25", 1), bridge.LegacyEra
	case "subscriptions/listen":
		line = unknownMethodResponse
		if s.acks != "" {
			line, begins = modernChange("subscriptions/acknowledged", `"notifications":`+s.acks+`,`), bridge.ModernEra
		}
	}
	return strings.ReplaceAll(line, "ID", string(m.ID)), begins
}

// modernChange returns a notification of the subscription with the placeholder ID.
func modernChange(method, params string) string {
	return `{"jsonrpc":"2.0","method":"notifications/` + method + `","params":{` + params +
		`"_meta":{"io.modelcontextprotocol/subscriptionId":ID}}}`
}

func (s *dualEraServer) setSend(era bridge.Era, send func(line string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.send[era] = send
}

func (s *dualEraServer) program() *script {
	return &script{on: func(m *jsonrpc.Message, send func(...string)) bool {
		if m.ID == nil {
			return true
		}
		line, begins := s.answer(m)
		if begins != bridge.Eras {
			s.setSend(begins, func(line string) { send(line) })
		}
		send(line)
		return true
	}}
}

func (s *dualEraServer) RoundTrip(r *http.Request) (*http.Response, error) {
	res := &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody,
		Request: r,
	}
	out, in := io.Pipe()
	stream := func(era bridge.Era, id []byte) {
		context.AfterFunc(r.Context(), func() { in.Close() })
		s.setSend(era, func(line string) {
			_, _ = io.WriteString(in, "data: "+strings.ReplaceAll(line, "ID", string(id))+"\n\n")
		})
		res.Body = out
		res.Header.Set("Content-Type", "text/event-stream")
	}
	if r.Method == http.MethodGet {
		stream(bridge.LegacyEra, nil)
		return res, nil
	}
	if r.Method != http.MethodPost {
		return res, nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	m, err := jsonrpc.Parse(body, limits.Defaults())
	if err != nil {
		return nil, err
	}
	if m.ID == nil {
		res.StatusCode = http.StatusAccepted
		return res, nil
	}
	id := bytes.Clone(m.ID)
	line, begins := s.answer(&m)
	if begins == bridge.ModernEra {
		stream(begins, id)
		go func() { _, _ = io.WriteString(in, "data: "+line+"\n\n") }()
		return res, nil
	}
	if m.Method == "initialize" {
		res.Header.Set("Mcp-Session-Id", "s")
	}
	res.Header.Set("Content-Type", "application/json")
	res.Body = io.NopCloser(strings.NewReader(line))
	return res, nil
}

// The client receives each change once, whichever era reports it, and acknowledges what either era supports. Two
// programs report separate changes; an endpoint reports the same change in both eras.
func TestChangesOfBothEras(t *testing.T) {
	const (
		all      = `{"tools":{"listChanged":true},"resources":{"subscribe":true}}`
		nothing  = `{"tools":{"listChanged":false}}`
		allAcked = `{"toolsListChanged":true,"resourceSubscriptions":["a:1"]}`
	)
	for name, tt := range map[string]struct {
		modern, legacy string // capabilities
		acks           string
		acked          string // the acknowledged filter
		program        string // changes received from two programs
		endpoint       string // changes received from an endpoint
	}{
		"both report": {all, all, allAcked, "tools a:1", "tools a:1 tools a:1", "tools a:1"},
		"only modern": {all, nothing, allAcked, "tools a:1", "tools a:1", "tools a:1"},
		"only legacy": {nothing, all, `{}`, "tools a:1", "tools a:1", "tools a:1"},
		"one kind each": {
			all, `{"tools":{},"resources":{"subscribe":true}}`, `{"toolsListChanged":true}`,
			"tools a:1", "tools a:1", "tools a:1",
		},
		"modern has none": {nothing, all, "", "tools a:1", "tools a:1", "tools a:1"},
	} {
		s := &dualEraServer{capabilities: [bridge.Eras]string{tt.modern, tt.legacy}, acks: tt.acks}
		for transport, want := range map[string]string{"program": tt.program, "endpoint": tt.endpoint} {
			t.Run(name+"/"+transport, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					o := mcpclient.Options{Command: []string{"pipe"}}
					if transport == "endpoint" {
						o = mcpclient.Options{URL: "http://server/", Transport: s}
					}
					c, err := mcpclient.New(o)
					if err != nil {
						t.Fatal(err)
					}
					if transport == "program" {
						c.Pipe(s.program().serve)
					}
					ctx, cancel := context.WithCancel(t.Context())
					var work sync.WaitGroup
					defer work.Wait()
					defer cancel()
					work.Go(func() {
						if err := c.Run(ctx); err != nil {
							t.Error(err)
						}
					})
					// The first legacy call makes the client connect in that era as well.
					for era, can := range s.capabilities {
						d, err := c.Handle(ctx, &bridge.Call{Method: bridge.Discover, Request: &pb.DiscoverRequest{
							Context: &pb.CallContext{Verified: bridge.Verified(bridge.Era(era).Latest(), nil, nil)},
						}}, ignore)
						if err != nil {
							t.Error(err)
							return
						}
						declared := d.Complete.(*pb.DiscoverResponse).GetCapabilities().GetTools().GetListChanged()
						if want := strings.Contains(can, `"listChanged":true`); declared != want {
							t.Errorf("era %d: got listChanged %t", era, declared)
						}
					}
					var acked, got []string
					work.Go(func() {
						_, _ = c.Handle(ctx, &bridge.Call{Method: bridge.Listen, Request: &pb.ListenRequest{
							Context: &pb.CallContext{Verified: bridge.Verified(bridge.Rev20260728, nil, nil)},
							Notifications: &pb.SubscriptionFilter{
								ToolsListChanged:      proto.Bool(true),
								ResourceSubscriptions: []string{"a:1"},
							},
						}}, func(_ context.Context, e bridge.Event) error {
							if ack := e.Change.GetAcknowledged(); ack != nil {
								acked = changesOf(feed.All(ack.GetNotifications())...)
								return nil
							}
							got = append(got, changesOf(e.Change)...)
							return nil
						})
					})
					synctest.Wait()
					if !slices.Equal(acked, strings.Fields(tt.acked)) {
						t.Errorf("acknowledged %q", acked)
					}
					report := func(era bridge.Era, changes ...string) {
						for _, change := range changes {
							s.mu.Lock()
							send := s.send[era]
							s.mu.Unlock()
							send(change)
							synctest.Wait()
						}
					}
					if strings.Contains(tt.acks, "tools") {
						report(bridge.ModernEra, modernChange("tools/list_changed", ""))
					}
					if strings.Contains(tt.acks, "a:1") {
						report(bridge.ModernEra, modernChange("resources/updated", `"uri":"a:1",`))
					}
					if strings.Contains(tt.legacy, `"listChanged":true`) {
						report(bridge.LegacyEra, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
					}
					if strings.Contains(tt.legacy, "subscribe") {
						report(bridge.LegacyEra,
							`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:1"}}`)
					}
					if !slices.Equal(got, strings.Fields(want)) {
						t.Errorf("received %q, want %q", got, want)
					}
				})
			})
		}
	}
}

// changesOf returns the names of what has changed: the list of tools, or resources.
func changesOf(changes ...*pb.ListenResponse) (names []string) {
	for _, c := range changes {
		if c.GetToolsListChanged() != nil {
			names = append(names, "tools")
		} else {
			names = append(names, c.GetResourceUpdated().GetUri())
		}
	}
	return names
}

// The program for legacy callers starts with the first legacy call. Callers of the other era do not wait until it
// responds.
func TestErasStartIndependently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slow = 20 * time.Second
		s := &dualEraServer{capabilities: [bridge.Eras]string{`{}`, `{}`}}
		program := s.program()
		answer := program.on
		program.on = func(m *jsonrpc.Message, send func(...string)) bool {
			if m.Method == "initialize" {
				time.Sleep(slow) //nolint:forbidigo // by the clock of synctest
			}
			return answer(m, send)
		}
		c, end := startScript(t, mcpclient.Options{}, program)
		if err := c.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := program.starts.Load(); n != 1 {
			t.Errorf("got %d programs before the first legacy call", n)
		}
		for _, waits := range []struct {
			era  bridge.Era
			wait time.Duration
		}{{bridge.ModernEra, 0}, {bridge.LegacyEra, slow}, {bridge.LegacyEra, 0}} {
			began := time.Now()
			if err := c.Started(t.Context(), waits.era); err != nil || time.Since(began) != waits.wait {
				t.Errorf("era %d: started after %v, %v", waits.era, time.Since(began), err)
			}
		}
		if n := program.starts.Load(); n != 2 {
			t.Errorf("got %d programs", n)
		}
		if err := end(); err != nil {
			t.Error(err)
		}
	})
}
