package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/problem"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A tellingPlugin is a backend whose tool sends progress before its result, or hangs after it.
type tellingPlugin struct{ sizedPlugin }

func (*tellingPlugin) Discover(context.Context, *pb.DiscoverRequest) (*pb.DiscoverResponse, error) {
	yes := true
	return &pb.DiscoverResponse{
		ContractVersion: bridge.ContractVersion,
		Capabilities:    &pb.ServerCapabilities{Tools: &pb.ToolsCapability{ListChanged: &yes}},
	}, nil
}

func (p *tellingPlugin) CallTool(req *pb.CallToolRequest,
	stream grpc.ServerStreamingServer[pb.CallToolResponse],
) error {
	if err := stream.Send(&pb.CallToolResponse{
		Event: &pb.CallToolResponse_Progress{Progress: &pb.Progress{Progress: 1}},
	}); err != nil {
		return err
	}
	if rawjson.Get(req.GetArguments(), "hang") != nil {
		<-stream.Context().Done()
		return stream.Context().Err()
	}
	return p.sizedPlugin.CallTool(req, stream)
}

// serveTwo serves two backends, a and b, over HTTP and gRPC, with the given limits.
func serveTwo(t *testing.T, limits, auth string) (r *run, rpc pb.McpServiceClient) {
	t.Helper()
	r = start(t, nil, nil, "run", "-c", writeConfig(t, fmt.Sprintf(`
serve: {http: {addr: "127.0.0.1:0"%s}, grpc: {addr: "127.0.0.1:0", insecure: true}}
limits: %s
backends: [{name: a, dial: %q}, {name: b, dial: %q}]
`, auth, limits, servePlugin(t, &tellingPlugin{}), servePlugin(t, &tellingPlugin{}))))
	conn, err := grpc.NewClient(strings.TrimPrefix(r.app.GRPC(), "tcp:"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return r, pb.NewMcpServiceClient(conn)
}

const twoCallers = `, auth: {tokens: [{token: ada, subject: ada, scopes: []}, {token: bob, subject: bob, scopes: []}]}`

// request sends a request of a caller. The response may last until the end of the test.
func (r *run) request(t *testing.T, method, caller, body string, header ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, r.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i, h := 0, append([]string{
		"Content-Type", "application/json", "Accept", "application/json, text/event-stream",
		"Authorization", "Bearer " + caller,
	}, header...); i < len(h); i += 2 {
		req.Header.Set(h[i], h[i+1])
	}
	res, err := new(http.Client).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

// namesLimit matches messages that contain the limit.
var namesLimit = regexp.MustCompile(`\blimit (is )?\d+\b`)

// refusal returns the reason of a rejection, and checks that it is complete.
func refusal(t *testing.T, res *http.Response) string {
	t.Helper()
	if res.StatusCode == http.StatusOK { // may be a stream
		return res.Status
	}
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		JSONRPC string
		Error   struct {
			Code    int
			Message string
			Data    struct {
				Reason, Outcome string
				RetryAfterMs    int
			}
		}
	}
	e := &answer.Error
	if err := json.Unmarshal(text, &answer); err != nil || answer.JSONRPC != "2.0" || e.Code != -32603 ||
		e.Data.Outcome != "not_executed" || e.Data.RetryAfterMs == 0 ||
		!namesLimit.MatchString(e.Message) || !strings.Contains(e.Message, ": ") ||
		res.Header.Get("Retry-After") != "1" {
		t.Errorf("%s %v %s %v", res.Status, res.Header, text, err)
	}
	return fmt.Sprint(res.StatusCode, " ", e.Data.Reason)
}

const initializeText = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`

// begin starts a session and returns its ID.
func (r *run) begin(t *testing.T) string {
	t.Helper()
	res := r.request(t, http.MethodPost, "ada", initializeText)
	id := res.Header.Get("Mcp-Session-Id")
	if ready := r.request(t, http.MethodPost, "ada", `{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		"Mcp-Session-Id", id); ready.StatusCode != http.StatusAccepted {
		t.Fatalf("%s, %s", res.Status, ready.Status)
	}
	return id
}

// The limits of sessions, of the process and of a caller, apply to all endpoints together. A session that ends at one
// frees a place at each.
func TestSessionsOfAllEndpointsAreBounded(t *testing.T) {
	for _, c := range []struct{ limits, auth, over string }{
		{"{sessions: 3}", "", "503 OVERLOADED"},
		{"{sessionsPerCaller: 3}", twoCallers, "429 TOO_MANY"},
	} {
		r, _ := serveTwo(t, c.limits, c.auth)
		post := func(path, caller string) *http.Response {
			res := r.at(path).request(t, http.MethodPost, caller, initializeText)
			if id := res.Header.Get("Mcp-Session-Id"); id != "" { // unused sessions can be evicted
				r.at(path).request(t, http.MethodPost, caller, `{"jsonrpc":"2.0","id":2,"method":"ping"}`,
					"Mcp-Session-Id", id)
			}
			return res
		}
		stream := func(path string) *http.Response {
			return r.at(path).request(t, http.MethodGet, "ada", "", "Accept", "text/event-stream")
		}
		first := post("/a", "ada")
		for name, res := range map[string]*http.Response{"one below": stream("/b"), "the most": post("", "ada")} {
			if res.StatusCode != http.StatusOK {
				t.Errorf("%s, %s: %s", c.limits, name, res.Status)
			}
		}
		over := func() {
			t.Helper()
			for name, res := range map[string]*http.Response{
				"/a": post("/a", "ada"), "/b": post("/b", "ada"),
				"/": post("", "ada"), "HTTP+SSE": stream("/a"),
			} {
				if got := refusal(t, res); got != c.over {
					t.Errorf("%s, one above at %s: %s, want %s", c.limits, name, got, c.over)
				}
			}
		}
		over()
		if res := post("/b", "bob"); (res.StatusCode == http.StatusOK) != (c.auth != "") {
			t.Errorf("%s, another caller: %s", c.limits, res.Status)
		}
		if res := r.at("/a").request(t, http.MethodDelete, "ada", "", "Mcp-Session-Id",
			first.Header.Get("Mcp-Session-Id")); res.StatusCode != http.StatusNoContent {
			t.Errorf("%s, the end of one: %s", c.limits, res.Status)
		}
		if res := post("/b", "ada"); res.StatusCode != http.StatusOK {
			t.Errorf("%s, when one has ended: %s", c.limits, res.Status)
		}
		over()
	}
}

// modernOf returns the body and header of a request of 2026-07-28.
func modernOf(method, params, name string) (body string, header []string) {
	return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params +
			`,"_meta":{"progressToken":1,"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
			`"io.modelcontextprotocol/clientCapabilities":{}}}}`,
		[]string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name}
}

// The limit of a caller's streams applies to all endpoints and gRPC together.
func TestStreamsOfACallerAreBounded(t *testing.T) {
	r, rpc := serveTwo(t, "{streamsPerCaller: 3}", twoCallers)
	listen := func(path, caller string) *http.Response {
		body, header := modernOf("subscriptions/listen", `"notifications":{"toolsListChanged":true}`, "")
		return r.at(path).request(t, http.MethodPost, caller, body, header[:4]...)
	}
	listenGRPC := func(caller string) error {
		s, err := rpc.Listen(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+caller),
			&pb.ListenRequest{})
		if err == nil {
			_, err = s.Recv()
		}
		return err
	}
	if res := r.at("/a").request(t, http.MethodGet, "ada", "", "Accept",
		"text/event-stream"); res.StatusCode != http.StatusOK {
		t.Error(res.Status)
	}
	if err := listenGRPC("ada"); err != nil {
		t.Errorf("one below: %v", err)
	}
	if res := listen("/b", "ada"); res.StatusCode != http.StatusOK {
		t.Errorf("the most: %s", res.Status)
	}
	for name, res := range map[string]*http.Response{
		"by GET": r.at("/b").request(t, http.MethodGet, "ada", "", "Accept", "text/event-stream"),
		"at all": listen("", "ada"), "at one": listen("/a", "ada"),
	} {
		if got := refusal(t, res); got != "429 TOO_MANY" {
			t.Errorf("one above, %s: %s", name, got)
		}
	}
	if err := listenGRPC("ada"); status.Code(err) != codes.ResourceExhausted ||
		failure(err) != "TOO_MANY not_executed" {
		t.Errorf("one above, over gRPC: %v", err)
	}
	if res := listen("", "bob"); res.StatusCode != http.StatusOK {
		t.Errorf("another caller: %s", res.Status)
	}
}

// The limit of a backend's calls applies to all endpoints and gRPC together. A caller's quota applies to each backend
// separately: a hung backend does not block the others.
func TestCallsOfAllEndpointsAreBounded(t *testing.T) {
	bridgetest.SkipIfShort(t)
	for _, c := range []struct{ limits, auth string }{
		{"{calls: 2, callQueue: 1s}", ""},
		{"{callsPerCaller: 2, callQueue: 1s}", twoCallers},
	} {
		r, rpc := serveTwo(t, c.limits, c.auth)
		call := func(path, tool, arguments string) *http.Response {
			body, header := modernOf("tools/call", `"name":"`+tool+`","arguments":`+arguments, tool)
			return r.at(path).request(t, http.MethodPost, "ada", body, header...)
		}
		callGRPC := func() error {
			s, err := rpc.CallTool(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer ada",
				"mcpbridge-server", "a"),
				&pb.CallToolRequest{Name: "answer", Arguments: []byte("{}")})
			if err == nil {
				_, err = s.Recv()
			}
			return err
		}
		for name, path := range map[string]string{"answer": "/a", "a_answer": ""} {
			if res := call("/a", "answer", "{}"); res.StatusCode != http.StatusOK {
				t.Errorf("%s, up to the limit: %s", c.limits, res.Status)
			}
			if err := callGRPC(); err != nil {
				t.Errorf("%s, up to the limit, over gRPC: %v", c.limits, err)
			}
			if res := call(path, name, `{"hang":true}`); res.StatusCode != http.StatusOK { // it has sent progress
				t.Errorf("%s, %s: %s", c.limits, name, res.Status)
			}
		}
		for name, res := range map[string]*http.Response{
			"by itself":   call("/a", "answer", "{}"),
			"with others": call("", "a_answer", "{}"),
		} {
			if got := refusal(t, res); got != "503 OVERLOADED" {
				t.Errorf("%s, one above, %s: %s", c.limits, name, got)
			}
		}
		if err := callGRPC(); status.Code(err) != codes.ResourceExhausted || failure(err) != "OVERLOADED not_executed" {
			t.Errorf("%s, one above, over gRPC: %v", c.limits, err)
		}
		for path, tool := range map[string]string{"/b": "answer", "": "b_answer"} {
			if res := call(path, tool, "{}"); res.StatusCode != http.StatusOK {
				t.Errorf("%s, at the other backend: %s", c.limits, res.Status)
			}
		}
	}
}

// The memory of event logs is limited for all endpoints together. The stream that ended first is dropped first.
func TestEventLogMemoryOfAllEndpointsIsBounded(t *testing.T) {
	const most = 100_000
	r, _ := serveTwo(t, fmt.Sprintf("{replay: %d}", most), "")
	for over := -1; over <= 1; over++ {
		first, second := r.at("/a").keep(t, "answer", 1), r.keep(t, "b_answer", 1)
		second.end(t)
		second = r.keep(t, "b_answer", 1+most+over-first.size-second.size)
		if first.size+second.size != most+over {
			t.Fatalf("sizes %d and %d", first.size, second.size)
		}
		if got := first.resumes(t); got != (over <= 0) {
			t.Errorf("%+d: the stream that ended first can be resumed: %t", over, got)
		}
		if !second.resumes(t) {
			t.Errorf("%+d: the stream that ended last cannot be resumed", over)
		}
		first.end(t)
		second.end(t)
	}
}

// A kept is the event log of a completed call in a session of its own.
type kept struct {
	*run

	session, first string // the ID of the first event
	size           int
}

// keep makes a call whose response has a text of the given size.
func (r *run) keep(t *testing.T, tool string, text int) *kept {
	t.Helper()
	k := &kept{run: r, session: r.begin(t)}
	res := r.request(t, http.MethodPost, "",
		fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":%q,"arguments":{"text":%d},"_meta":{"progressToken":1}}}`,
			tool, text), "Mcp-Session-Id", k.session)
	all, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(all)) {
		if id, ok := strings.CutPrefix(line, "id: "); ok && k.first == "" {
			k.first = strings.TrimSpace(id)
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			k.size += cmp.Or(len(data)-1, 64) // the size of an event without data
		}
	}
	return k
}

// resumes reports whether the stream can be resumed after its first event, and checks the response if it cannot.
func (k *kept) resumes(t *testing.T) bool {
	t.Helper()
	res := k.request(t, http.MethodGet, "", "", "Accept", "text/event-stream", "Mcp-Session-Id", k.session,
		"Last-Event-ID", k.first)
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	ok := res.StatusCode == http.StatusOK && strings.Contains(string(text), `"result"`)
	if !ok && (res.StatusCode != http.StatusBadRequest ||
		!strings.Contains(string(text), `"reason":"EVENTS_FORGOTTEN","outcome":"unknown"`)) {
		t.Errorf("%s %s", res.Status, text)
	}
	return ok
}

// end ends its session.
func (k *kept) end(t *testing.T) {
	t.Helper()
	if res := k.request(t, http.MethodDelete, "", "", "Mcp-Session-Id",
		k.session); res.StatusCode != http.StatusNoContent {
		t.Errorf("the end of a session: %s", res.Status)
	}
}

// The fixes for a Unix socket are about files, and those for a TCP address about ports.
func TestUnusableListenAddress(t *testing.T) {
	socket := "unix://" + filepath.Join(t.TempDir(), "s")
	start(t, nil, nil, "run", "--grpc", socket, "--", echoGo(t))
	port := start(t, nil, nil, "run", "--grpc", "127.0.0.1:0", "--", echoGo(t)).app.GRPC()
	port = strings.TrimPrefix(port, "tcp:")
	for addr, want := range map[string]string{
		socket: "choose another path: --grpc unix:///path/to.sock",
		port:   "choose another port: --grpc 127.0.0.1:0 selects a free one",
	} {
		got := runCommand(t, "", "run", "--grpc", addr, "--", echoGo(t))
		if got.code != problem.ExitConfig || got.errorCode(t) != "port_in_use" || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: got %+v, want %q in it", addr, got, want)
		}
	}
}
