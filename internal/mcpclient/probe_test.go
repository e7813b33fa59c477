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

// A program that is slow is of the era that it says, late as it is, and not of the one that answers first.
func TestProbeOfSlowPrograms(t *testing.T) {
	type says struct {
		after time.Duration
		what  string // nothing: it says nothing
	}
	second := time.Second
	for name, tt := range map[string]struct {
		discover, initialize says
		timeout              time.Duration // of the probe; 0: 3 s; negative: the default
		rev                  string        // what is spoken in the end
		starts               int64         // of the program; 0: 1
		fails                string        // or why nothing is
	}{
		"modern, and slower than the probe": {
			discover:   says{5 * second, discovered},
			initialize: says{4 * second, modernOnly}, rev: "2026-07-28",
		},
		"modern, and silent about the other": {discover: says{5 * second, discovered}, rev: "2026-07-28", starts: 2},
		"modern only, and far slower": {
			discover:   says{25 * second, discovered},
			initialize: says{4 * second, modernOnly}, rev: "2026-07-28",
		},
		"modern only, without saying so": {
			discover:   says{5 * second, discovered},
			initialize: says{4 * second, unknown}, rev: "2026-07-28",
		},
		"of both eras": {
			discover:   says{7 * second, discovered},
			initialize: says{7*second - 200*time.Millisecond, initialized}, rev: "2026-07-28", starts: 2,
		},
		"of both, and given time by default": {
			discover:   says{9 * second, discovered},
			initialize: says{0, initialized}, timeout: -1, rev: "2026-07-28",
		},
		"of both, and one is far slower": {
			discover:   says{9 * second, discovered},
			initialize: says{4 * second, initialized}, rev: "2024-11-05",
		},
		"modern, slow, and given time": {
			discover:   says{9 * second, discovered},
			initialize: says{0, initialized}, timeout: 10 * second, rev: "2026-07-28",
		},
		"legacy, and silent about the other": {initialize: says{20 * second, initialized}, rev: "2024-11-05"},
		"legacy, and late about both": {
			discover:   says{5 * second, unknown},
			initialize: says{8 * second, initialized}, rev: "2024-11-05",
		},
		"legacy, and slow to know the other": {
			discover:   says{8 * second, wrong},
			initialize: says{5 * second, initialized}, rev: "2024-11-05",
		},
		"none, as it says":            {initialize: says{4 * second, wrong}, fails: "not today"},
		"none, and modern as it says": {initialize: says{4 * second, modernOnly}, fails: "-32022"},
		"none, as it says nothing":    {fails: "neither server/discover nor initialize was answered"},
		"of a revision that nobody speaks": {
			discover: says{
				5 * second,
				strings.Replace(modernOnly, "2026-07-28", "2031-01-01", 1),
			}, initialize: says{20 * second, initialized},
			fails: "none of our revisions",
		},
		"modern, and does not know itself so": {discover: says{5 * second, modernOnly}, fails: "-32022"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var rest sync.WaitGroup
				defer rest.Wait()
				s := &script{on: func(m *jsonrpc.Message, say func(...string)) bool {
					answer := map[string]says{
						"server/discover": tt.discover, "initialize": tt.initialize, "tools/call": {what: said1},
					}[m.Method]
					if answer.what != "" {
						rest.Go(func() {
							time.Sleep(answer.after) //nolint:forbidigo // by the bubble's clock
							say(answer.what)
						})
					}
					return true
				}}
				c, end := started(t, mcpclient.Options{ProbeTimeout: max(0, cmp.Or(tt.timeout, 3*second))}, s)
				err := c.Ready(t.Context())
				switch {
				case tt.fails != "" && (err == nil || !strings.Contains(err.Error(), tt.fails)):
					t.Errorf("got %v, want %q in it", err, tt.fails)
				case tt.fails == "" && err != nil:
					t.Error(err)
				case tt.fails == "":
					if got := spoken(t, c); got != tt.rev {
						t.Errorf("it speaks %s, want %s", got, tt.rev)
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

// spoken returns the revision that a server of the script speaks: the legacy one is told that it has begun.
func spoken(t *testing.T, c *mcpclient.Client) string {
	t.Helper()
	res, err := c.Handle(t.Context(), &bridge.Call{Method: bridge.Discover, Request: &pb.DiscoverRequest{}}, ignore)
	if err != nil {
		t.Fatal(err)
	}
	if res.Complete.(*pb.DiscoverResponse).GetServerInfo().GetName() == "s" { // which is in the answer to initialize
		return "2024-11-05"
	}
	return "2026-07-28"
}

// An endpoint that is slow to answer server/discover is not asked in vain: initialize is sent beside it.
func TestProbeOfSlowEndpoints(t *testing.T) {
	bridgetest.SkipIfShort(t)
	for name, tt := range map[string]struct {
		initialize string // what is answered, before server/discover is; nothing: nothing, until then
		status     int
		discover   bool // whether it is answered at all
		legacy     bool
	}{
		"modern":      {"", 0, true, false},
		"modern only": {modernOnly, http.StatusBadRequest, true, false},
		"modern only, by its headers": {
			strings.Replace(modernOnly, "-32022", "-32020", 1), http.StatusBadRequest,
			true, false,
		},
		"legacy and silent about other": {initialized, http.StatusOK, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			asked, tried := make(chan struct{}), make(chan struct{})
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				m, err := jsonrpc.Parse(body, limits.Defaults())
				if err != nil { // GET and DELETE
					w.WriteHeader(http.StatusMethodNotAllowed)
					return
				}
				say := func(status int, what string) {
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
					if <-asked; tt.initialize != "" {
						<-tried
					}
					say(http.StatusOK, discovered)
				case "initialize":
					if close(asked); tt.initialize == "" {
						<-r.Context().Done() // which is because the other was answered
						return
					}
					say(tt.status, tt.initialize)
					close(tried)
				case "tools/call":
					if modern := r.Header.Get("Mcp-Method") != ""; modern == tt.legacy {
						t.Errorf("called with %v", r.Header)
					}
					say(http.StatusOK, said1)
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
