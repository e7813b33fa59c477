package mcpclient_test

import (
	"cmp"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mcpclient"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

const (
	modernOnly = `{"jsonrpc":"2.0","id":ID,"error":{"code":-32022,"message":"","data":{"supported":["2026-07-28"],"requested":"2025-11-25"}}}`
	wrong      = `{"jsonrpc":"2.0","id":ID,"error":{"code":-32000,"message":"not today"}}`
)

// A slow program has the era that it declares, even if another response arrives first.
func TestProbeOfSlowPrograms(t *testing.T) {
	type scriptedResponse struct {
		after time.Duration
		what  string // if empty, no response
	}
	second := time.Second
	for name, tt := range map[string]struct {
		discover, initialize scriptedResponse
		timeout              time.Duration // of the probe; 0: 3 s; negative: the default
		rev                  string        // the negotiated revision
		starts               int64         // of the program; 0: 1
		fails                string        // or the expected error
	}{
		"modern, and slower than the probe": {
			discover:   scriptedResponse{5 * second, discoverResponse},
			initialize: scriptedResponse{4 * second, modernOnly}, rev: "2026-07-28",
		},
		"modern, and silent about the other": {
			discover: scriptedResponse{5 * second, discoverResponse}, rev: "2026-07-28",
			starts: 2,
		},
		"modern only, and far slower": {
			discover:   scriptedResponse{25 * second, discoverResponse},
			initialize: scriptedResponse{4 * second, modernOnly}, rev: "2026-07-28",
		},
		"modern only, without declaring it": {
			discover:   scriptedResponse{5 * second, discoverResponse},
			initialize: scriptedResponse{4 * second, unknownMethodResponse}, rev: "2026-07-28",
		},
		"of both eras": {
			discover:   scriptedResponse{7 * second, discoverResponse},
			initialize: scriptedResponse{7*second - 200*time.Millisecond, initializeResponse}, rev: "2026-07-28",
			starts: 2,
		},
		"of both, and given time by default": {
			discover:   scriptedResponse{9 * second, discoverResponse},
			initialize: scriptedResponse{0, initializeResponse}, timeout: -1, rev: "2026-07-28",
		},
		"of both, and one is far slower": {
			discover:   scriptedResponse{9 * second, discoverResponse},
			initialize: scriptedResponse{4 * second, initializeResponse}, rev: "2024-11-05",
		},
		"modern, slow, and given time": {
			discover:   scriptedResponse{9 * second, discoverResponse},
			initialize: scriptedResponse{0, initializeResponse}, timeout: 10 * second, rev: "2026-07-28",
		},
		"legacy, and silent about the other": {
			initialize: scriptedResponse{20 * second, initializeResponse},
			rev:        "2024-11-05",
		},
		"legacy, and late about both": {
			discover:   scriptedResponse{5 * second, unknownMethodResponse},
			initialize: scriptedResponse{8 * second, initializeResponse}, rev: "2024-11-05",
		},
		"legacy, and slow to reject the other": {
			discover:   scriptedResponse{8 * second, wrong},
			initialize: scriptedResponse{5 * second, initializeResponse}, rev: "2024-11-05",
		},
		"none, and it rejects both":     {initialize: scriptedResponse{4 * second, wrong}, fails: "not today"},
		"none, and modern in its error": {initialize: scriptedResponse{4 * second, modernOnly}, fails: "-32022"},
		"none, and silent":              {fails: "neither server/discover nor initialize was answered"},
		"an unsupported revision": {
			discover: scriptedResponse{
				5 * second,
				strings.Replace(modernOnly, "2026-07-28", "2031-01-01", 1),
			}, initialize: scriptedResponse{20 * second, initializeResponse},
			fails: "no revision that the bridge supports",
		},
		"modern, and it rejects its own revision": {
			discover: scriptedResponse{5 * second, modernOnly},
			fails:    "-32022",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var rest sync.WaitGroup
				defer rest.Wait()
				s := &script{on: func(m *jsonrpc.Message, send func(...string)) bool {
					answer := map[string]scriptedResponse{
						"server/discover": tt.discover, "initialize": tt.initialize,
						"tools/call": {what: helloResponse},
					}[m.Method]
					if answer.what != "" {
						rest.Go(func() {
							time.Sleep(answer.after) //nolint:forbidigo // by the bubble's clock
							send(answer.what)
						})
					}
					return true
				}}
				c, end := startScript(t, mcpclient.Options{ProbeTimeout: max(0, cmp.Or(tt.timeout, 3*second))}, s)
				err := c.Ready(t.Context())
				switch {
				case tt.fails != "" && (err == nil || !strings.Contains(err.Error(), tt.fails)):
					t.Errorf("got %v, want %q in it", err, tt.fails)
				case tt.fails == "" && err != nil:
					t.Error(err)
				case tt.fails == "":
					if got := negotiatedRevision(t, c); got != tt.rev {
						t.Errorf("got revision %s, want %s", got, tt.rev)
					}
					if got := call(t, c, "t", "{}"); got != "hello" || s.starts.Load() != cmp.Or(tt.starts, 1) {
						t.Errorf("got %q after %d starts", got, s.starts.Load())
					}
				}
				if err := end(); err != nil && tt.fails == "" {
					t.Error(err)
				}
			})
		})
	}
}

// negotiatedRevision returns the revision that a scripted server supports. The legacy one receives
// notifications/initialized.
func negotiatedRevision(t *testing.T, c *mcpclient.Client) string {
	t.Helper()
	res, err := c.Handle(t.Context(), &bridge.Call{Method: bridge.Discover, Request: &pb.DiscoverRequest{}}, ignore)
	if err != nil {
		t.Fatal(err)
	}
	if res.Complete.(*pb.DiscoverResponse).GetServerInfo().GetName() == "s" { // the name in the response to initialize
		return "2024-11-05"
	}
	return "2026-07-28"
}

// The client sends initialize while an endpoint's response to server/discover is pending.
func TestProbeOfSlowEndpoints(t *testing.T) {
	bridgetest.SkipIfShort(t)
	for name, tt := range map[string]struct {
		initialize string // the response to initialize, sent before that to server/discover; if empty, none until then
		status     int
		discover   bool // whether there is a response
		legacy     bool
	}{
		"modern":      {"", 0, true, false},
		"modern only": {modernOnly, http.StatusBadRequest, true, false},
		"modern only, by its headers": {
			strings.Replace(modernOnly, "-32022", "-32020", 1), http.StatusBadRequest,
			true, false,
		},
		"legacy and silent about other": {initializeResponse, http.StatusOK, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			received, tried := make(chan struct{}), make(chan struct{})
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				m, err := jsonrpc.Parse(body, limits.Defaults())
				if err != nil { // GET and DELETE
					w.WriteHeader(http.StatusMethodNotAllowed)
					return
				}
				send := func(status int, what string) {
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(status)
					_, _ = io.WriteString(w, strings.Replace(what, "ID", string(m.ID), 1))
				}
				switch m.Method {
				case "server/discover":
					if !tt.discover {
						<-r.Context().Done()
						return
					}
					if <-received; tt.initialize != "" {
						<-tried
					}
					send(http.StatusOK, discoverResponse)
				case "initialize":
					if close(received); tt.initialize == "" {
						<-r.Context().Done() // canceled because the other request got a response
						return
					}
					send(tt.status, tt.initialize)
					close(tried)
				case "tools/call":
					if modern := r.Header.Get("Mcp-Method") != ""; modern == tt.legacy {
						t.Errorf("called with %v", r.Header)
					}
					send(http.StatusOK, helloResponse)
				default:
					w.WriteHeader(http.StatusAccepted)
				}
			}))
			t.Cleanup(srv.Close)
			c := run(t, mcpclient.Options{URL: srv.URL, ProbeTimeout: 200 * time.Millisecond})
			if got := call(t, c, "t", "{}"); got != "hello" {
				t.Errorf("got %q", got)
			}
		})
	}
}
