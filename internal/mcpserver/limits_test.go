package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mcpserver"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A session may have 16 streams opened by GET, or the configured number. In this test each resumes a running call.
func TestStreamsOfASessionAtTheirLimit(t *testing.T) {
	bridgetest.SkipIfShort(t)
	for most, o := range map[int]mcpserver.Options{16: {}, 2: {Limits: limits.Limits{SessionStreams: 2}}} {
		streamsOfASession(t, most, o)
	}
}

func streamsOfASession(t *testing.T, most int, o mcpserver.Options) {
	t.Helper()
	f := newFront(t, o)
	c := f.initialize("2025-11-25", clientCaps)
	last := make([]string, most+1)
	var wg sync.WaitGroup
	for n := range last {
		wg.Go(func() {
			s := read(t, c.send(call(strconv.Itoa(n), "wait", "{}", "")))
			if _, ok := s.event(); !ok {
				t.Errorf("call %d ended", n)
			}
			last[n] = s.last
		})
	}
	wg.Wait()
	for n, id := range last {
		want := 200
		if n == most {
			want = 429
		}
		if res := c.get(t.Context(), id); res.StatusCode != want || want == 429 && res.Header.Get("Retry-After") == "" {
			t.Errorf("stream %d: %s", n+1, res.Status)
		}
	}
}

// A client with too many subscriptions is not advised to retry: that would not help.
func TestSubscriptionsAboveTheLimitAreRejected(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	c := f.initialize("2025-11-25", clientCaps)
	uri := func(n int) string {
		return fmt.Sprintf(`"test:%d%s"`, n, strings.Repeat("x", limits.URI-len("test:0")))
	}
	var uris []string
	for n := range limits.URIs/limits.URI + 1 {
		uris = append(uris, uri(n))
	}
	body, h := modern(1, "subscriptions/listen",
		`"notifications":{"resourceSubscriptions":[`+strings.Join(uris, ",")+`]}`, noCaps)
	results := map[int]*http.Response{400: f.post(body, h)}
	for n, u := range uris {
		results[200] = c.send(fmt.Sprintf(
			`{"jsonrpc":"2.0","id":%d,"method":"resources/subscribe","params":{"uri":%s}}`, 100+n, u))
	}
	for status, res := range results {
		if res.StatusCode != status || res.Header.Get("Retry-After") != "" {
			t.Errorf("%s, want %d; %v", res.Status, status, res.Header)
		}
		want(t, read(t, res).next(), "error.data.reason", `"TOO_MANY"`)
	}
}

// The retained part of initialize is limited to 64 KiB, whichever member it is in and however the message is encoded.
func TestInitializeSizeLimit(t *testing.T) {
	const most = 64 << 10
	forms := []string{
		`"capabilities":{},"clientInfo":{"name":"%s","version":"1"}`,
		`"capabilities":{},"clientInfo":{"name":"c","version":"1","unknown":"%s"}`,
		`"capabilities":{"experimental":{"x":"%s"}},"clientInfo":{"name":"c","version":"1"}`,
		`"capabilities":{},%s"clientInfo":{"name":"c","version":"1"}`, // not retained
	}
	f := newFront(t, mcpserver.Options{})
	for i, form := range forms {
		for over := -1; over <= 1; over++ {
			pad := strings.Repeat("x", most-len(form)+len(`"capabilities":`+`,"clientInfo":`+"%s")+over)
			refused := over > 0
			if i == len(forms)-1 {
				pad, refused = `"pad":"`+strings.Repeat("x", 4*most)+`",`, false
			}
			body := `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25",` +
				fmt.Sprintf(form, pad) + `}}`
			p := newPipe(t, mcpserver.Options{})
			p.send(body)
			s, url := f.openSSE(t.Context())
			f.do(t.Context(), http.MethodPost, url, body, header{"Accept", ""})
			res := f.post(body, nil)
			if session := res.Header.Get("Mcp-Session-Id"); res.StatusCode != 200 || (session == "") != refused {
				t.Errorf("%s, %+d: %s, session %q", form, over, res.Status, session)
			}
			for _, msg := range []string{p.next(), s.next(), read(t, res).next()} {
				if !refused {
					want(t, msg, "id", `"i"`, "error", "null")
					continue
				}
				want(t, msg, "id", `"i"`, "error.code", "-32602", "error.message",
					`"initialize: params.capabilities and params.clientInfo have 65537 bytes together, `+
						`and at most 65536 are allowed, without icons: shorten them"`)
			}
		}
	}
}

// A backend receives up to 100 icons of a client, or sizes of icons, within 64 KiB together with the rest. A client
// with more is served without icons.
func TestClientIconLimit(t *testing.T) {
	icons := make(chan int, 1)
	f := newFrontOf(t, mcpserver.Options{}, func(h bridge.Handler) bridge.Handler {
		return bridge.HandlerFunc(
			func(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
				if call.Method == bridge.CallTool {
					icons <- len(call.Context().GetClientInfo().GetIcons())
				}
				return h.Handle(ctx, call, emit)
			})
	})
	for name, c := range map[string]struct {
		form string // of the icons; %s stands for repetitions of with
		with string
		most int
		has  int
	}{
		"icons":  {`{"src":""}%s`, `,{"src":""}`, 99, 100},
		"sizes":  {`{"src":"","sizes":[""%s]}`, `,""`, 98, 1},
		"a long": {`{"src":"%s"}`, "x", 64<<10 - len(`{}{"name":"c","version":"1","icons":[{"src":""}]}`), 1},
	} {
		for over := -1; over <= 1; over++ {
			res := f.post(fmt.Sprintf(
				`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},`+
					`"clientInfo":{"name":"c","version":"1","icons":[`+c.form+`]}}}`,
				strings.Repeat(c.with, c.most+over)),
				nil)
			session := header{"Mcp-Session-Id", res.Header.Get("Mcp-Session-Id")}
			want(t, read(t, res).next(), "error", "null")
			f.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, session)
			f.post(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{}}}`, session)
			has := c.has
			switch {
			case over > 0:
				has = 0
			case name == "icons":
				has += over
			}
			if got := <-icons; got != has {
				t.Errorf("%s, %+d: the backend received %d icons, want %d", name, over, got, has)
			}
		}
	}
}

// A listen request is limited to 128 KiB, whichever member they are in.
func TestListenRequestLimit(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	for _, form := range []string{`"pad":"%s","method"`, `"method"`} {
		for over := -1; over <= 1; over++ {
			body, h := modern(1, "subscriptions/listen", `"notifications":{"toolsListChanged":true}`,
				noCaps+`,"pad":"%s"`)
			if form != `"method"` {
				body, h = modern(1, "subscriptions/listen", `"notifications":{"toolsListChanged":true}`, noCaps)
				body = strings.Replace(body, `"method"`, form, 1)
			}
			body = fmt.Sprintf(body, strings.Repeat("x", limits.ListenRequest-len(body)+len("%s")+over))
			p := newPipe(t, mcpserver.Options{})
			p.send(body)
			ctx, cancel := context.WithCancel(t.Context())
			res := f.do(ctx, http.MethodPost, f.url, body, h)
			status := http.StatusOK
			if over > 0 {
				status = http.StatusBadRequest
			}
			if res.StatusCode != status {
				t.Errorf("%+d: %s", over, res.Status)
			}
			for _, msg := range []string{p.next(), read(t, res).next()} {
				if over <= 0 {
					want(t, msg, "method", `"notifications/subscriptions/acknowledged"`)
					continue
				}
				want(t, msg, "id", "1", "error.code", "-32602", "error.message",
					`"subscriptions/listen: the request has 131073 bytes, and at most 131072 are allowed: send only the filter"`)
			}
			cancel()
		}
	}
}

// All clients together may subscribe to as many resources as one client, with URIs of the same total size before JSON
// encoding. Resources with a subscription cost nothing.
func TestSubscriptionLimitOfAllClients(t *testing.T) {
	bridgetest.SkipIfShort(t)
	uris := func(what string, n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf("test:%s%d", what, i))
		}
		return all
	}
	long := func(s string) string { return strings.Repeat(s, limits.URI) }
	for _, c := range map[string]struct {
		rest func(client int) []string // the URIs of the clients at the limit
		has  []string                  // those of another client
		more func(over int) []string
	}{
		"resources": {
			func(client int) []string { return uris(fmt.Sprint(client, "-"), limits.Subscriptions) },
			uris("a", limits.Subscriptions-2), func(over int) []string { return uris("b", 2+over) },
		},
		"bytes": {
			func(client int) (all []string) {
				for i := range limits.URIs / limits.URI {
					all = append(all, fmt.Sprint(client, i, strings.Repeat("x", limits.URI))[:limits.URI])
				}
				return all
			},
			// the second is twice as long in JSON
			[]string{long("a"), long(`"`), long("b"), long("c")},
			func(over int) []string {
				return []string{long("d"), long("e"), strings.Repeat("f", limits.URI+over-1), "g"}
			},
		},
	} {
		for over := -1; over <= 1; over++ {
			f := newFront(t, mcpserver.Options{})
			listen := func(uris []string) string {
				quoted, err := json.Marshal(uris)
				if err != nil {
					t.Fatal(err)
				}
				body, h := modern(1, "subscriptions/listen",
					`"notifications":{"resourceSubscriptions":`+string(quoted)+`}`, noCaps)
				return read(t, f.post(body, h)).next()
			}
			session := f.initialize("2025-11-25", clientCaps)
			received := func(method, uri string) string {
				return read(t, session.send(
					fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"resources/%s","params":{"uri":%q}}`, method, uri))).
					next()
			}
			for client := range limits.AllClientsFactor - 1 {
				want(t, listen(c.rest(client)), "method", `"notifications/subscriptions/acknowledged"`)
			}
			want(t, listen(c.has), "method", `"notifications/subscriptions/acknowledged"`)
			more := c.more(over)
			for i, uri := range more {
				msg, reason := received("subscribe", uri), "null"
				if over > 0 && i == len(more)-1 {
					reason = `"TOO_MANY"`
				}
				want(t, msg, "error.data.reason", reason)
			}
			want(t, received("subscribe", c.has[0]), "error", "null")
			for _, uri := range more {
				want(t, received("unsubscribe", uri), "error", "null")
			}
			if msg := listen(more); over > 0 {
				want(t, msg, "error.code", "-32603", "error.data.reason", `"TOO_MANY"`, "error.data.outcome",
					`"not_executed"`)
			} else {
				want(t, msg, "method", `"notifications/subscriptions/acknowledged"`)
			}
		}
	}
}

// The limits of JSON belong to a server: it rejects deeper nesting from clients and backends, and another server in the
// same process does not.
func TestJSONLimitsArePerServer(t *testing.T) {
	deep := func(n int) string { return strings.Repeat(`{"a":`, n-1) + `{}` + strings.Repeat(`}`, n-1) }
	for depth, l := range map[int]limits.Limits{20: {JSONDepth: 20}, 256: {}} {
		result := 0
		f := newFrontOf(t, mcpserver.Options{Limits: l}, func(h bridge.Handler) bridge.Handler {
			return bridge.HandlerFunc(
				func(ctx context.Context, c *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
					if c.Method == bridge.CallTool {
						return &bridge.Result{Complete: &pb.CallToolResult{
							StructuredContent: []byte(deep(result)),
						}}, nil
					}
					return h.Handle(ctx, c, emit)
				})
		})
		send := func(args int) string {
			body, h := modern(1, "tools/call", `"name":"x","arguments":`+deep(args), noCaps, "Mcp-Name", "x")
			return read(t, f.post(body, h)).next()
		}
		result = depth
		want(t, send(depth-2), "result.structuredContent", deep(depth)) // a request has two more levels
		want(t, send(depth-1), "error.code", "-32600")
		result = depth + 1
		want(t, send(1), "error.data.outcome", `"executed"`)
	}
}
