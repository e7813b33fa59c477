package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/mcpbridge/mcpbridge/internal/catalog"
	"github.com/mcpbridge/mcpbridge/internal/child"
	"github.com/mcpbridge/mcpbridge/internal/mcpserver"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A limit cannot be out of its bounds, whatever says so, and who says it is told where, why, and what to write.
func TestLimitsHaveBounds(t *testing.T) {
	for key, b := range bounds {
		name := strings.TrimPrefix(key, "limits.")
		at := slices.IndexFunc(reflect.VisibleFields(reflect.TypeFor[LimitsConfig]()), func(f reflect.StructField) bool { return f.Tag.Get("koanf") == name })
		if at < 0 {
			t.Errorf("there is no key %s", key)
			continue
		}
		text, like := func(n int64) string { return strconv.FormatInt(n, 10) }, any(0)
		if reflect.TypeFor[LimitsConfig]().Field(at).Type == durationType {
			text, like = func(n int64) string { return time.Duration(n).String() }, time.Second
		}
		good := map[int64]bool{}
		if b.least > 1 {
			good[b.least-1], good[b.least] = false, true
		}
		if b.most > 0 {
			good[b.most-1], good[b.most], good[b.most+1] = true, true, false
		}
		for n, want := range good {
			file := fmt.Sprintf("limits: {%s: %s}\nbackends: [{dial: 'unix:///x'}]", name, text(n))
			variable := "MCPBRIDGE_LIMITS__" + strings.ToUpper(name)
			for where, read := range map[string]func() (*loaded, error){
				"mcpbridge.yaml:2:": func() (*loaded, error) { return load(writeConfig(t, file), nil, nil, nil) },
				variable: func() (*loaded, error) {
					return load(writeConfig(t, "backends: [{dial: 'unix:///x'}]"), []string{variable + "=" + text(n)}, nil, nil)
				},
			} {
				l, err := read()
				if err != nil {
					t.Fatal(err)
				}
				err = l.validate()
				if (err == nil) != want {
					t.Errorf("%s of %s: %v", key, text(n), err)
				}
				if err == nil {
					continue
				}
				why := b.why
				if n > b.least {
					why = b.orElse
				}
				if p := asProblem(err); !strings.Contains(p.Where, where) || p.What != fmt.Sprintf("%s cannot be %s: %s", key, text(n), why) || why == "" ||
					!strings.Contains(p.Fix, b.text(like)) {
					t.Errorf("%s of %s: %+v, and it should be at %s", key, text(n), p, where)
				}
			}
		}
	}
}

// Every key of limits is in the table of limits, and what it names there is one.
func TestLimitsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	for f := range reflect.TypeFor[LimitsConfig]().Fields() {
		if !strings.Contains(string(page), "`"+f.Tag.Get("koanf")+"`") {
			t.Errorf("docs/security.md does not have limits.%s", f.Tag.Get("koanf"))
		}
	}
}

// What the limits say reaches what keeps them. Every key has a row, or another test that reaches it: a new one has to be added.
func TestLimitsReachWhoKeepsThem(t *testing.T) {
	l := &LimitsConfig{}
	byKey := map[string]int64{}
	v := reflect.ValueOf(l).Elem()
	for i := range v.NumField() {
		v.Field(i).SetInt(int64(1000 + i))
		byKey[v.Type().Field(i).Tag.Get("koanf")] = int64(1000 + i)
	}
	n := func(key string) int {
		defer delete(byKey, key)
		return int(byKey[key])
	}
	d := func(key string) time.Duration { return time.Duration(n(key)) }
	server := mcpserver.Options{
		SessionTTL: d("sessionIdle"), MaxCalls: n("sessionCalls"),
		MaxSessionStreams: n("sessionStreams"), MaxBody: int64(n("body")), BodyTime: d("bodyTime"), BodyRate: n("bodyRate"), WriteTimeout: d("writeTime"),
		MaxLine: n("line"), MaxChanges: n("changes"), MaxChangesSize: n("changesBytes"), MaxReplay: n("sessionReplay"),
		MaxState: n("state"), StateTTL: d("stateLife"), AskTimeout: d("answerTime"),
	}
	if got := l.server(); !reflect.DeepEqual(got, server) {
		t.Errorf("a server gets %+v", got)
	}
	sessions := mcpserver.SessionLimits{Most: n("sessions"), PerPrincipal: n("sessionsPerCaller"), Replay: n("replay")}
	if got := l.sessions(); got != sessions {
		t.Errorf("all sessions get %+v", got)
	}
	tools := catalog.Options{
		MaxTools: n("tools"), MaxName: n("toolName"), MaxSchema: n("schema"), MaxSchemaValues: n("schemaValues"), MaxSubschemas: n("subschemas"),
	}
	if got := l.catalog(); !reflect.DeepEqual(got, tools) {
		t.Errorf("a catalog gets %+v", got)
	}
	if got := l.logs(); got != (child.LogLimits{Line: n("logLine"), Rate: n("logRate")}) {
		t.Errorf("a program gets %+v", got)
	}
	for _, key := range []string{ // in this package, of the whole program, except for those of calls: internal/limit
		"header", "headerFields", "headerTime", "connectionIdle", "jsonDepth", "jsonMembers", "jsonElements", "id", "batch", "message", "memory", "streams",
		"streamsPerCaller", "calls", "callsPerCaller", "callQueue", "callIdle", "callTotal",
	} {
		n(key)
	}
	if len(byKey) > 0 {
		t.Errorf("nothing is limited by %v", slices.Sorted(maps.Keys(byKey)))
	}
}

// A listedPlugin is a backend with tools, one of which asks, and gives a state of as many bytes as it is told.
type listedPlugin struct {
	sizedPlugin

	tools []*pb.Tool
}

func (p *listedPlugin) ListTools(context.Context, *pb.ListToolsRequest) (*pb.ListToolsResponse, error) {
	return &pb.ListToolsResponse{Tools: p.tools}, nil
}

func (*listedPlugin) CallTool(req *pb.CallToolRequest, stream grpc.ServerStreamingServer[pb.CallToolResponse]) error {
	n, _ := strconv.Atoi(string(rawjson.Get(req.GetArguments(), "state")))
	needs := &pb.InputRequired{State: make([]byte, n)}
	return stream.Send(&pb.CallToolResponse{Event: &pb.CallToolResponse_InputRequired{InputRequired: needs}})
}

// What clients send is held to the keys, over the wire: one below, at, and one above.
func TestLimitsOfRequestsCanBeSet(t *testing.T) {
	_, address := startSized(t)
	r := start(t, nil, nil, "run", "-c", writeConfig(t, fmt.Sprintf(`
serve: {http: {addr: "127.0.0.1:0"}}
limits: {header: 8192, headerFields: 20, jsonDepth: 16, jsonMembers: 64, jsonElements: 65, id: 20, batch: 3}
backends: [{name: plugin, dial: %q}]
`, address)))
	res := r.post(t, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, "")
	res.Body.Close()
	session := res.Header.Get("Mcp-Session-Id")
	r.post(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, session).Body.Close()
	says := func(body string) string {
		res := r.post(t, body, session)
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	ping := func(id, x string) string {
		return says(`{"jsonrpc":"2.0","id":` + id + `,"method":"ping","params":{"x":` + x + `}}`)
	}
	// get makes a request whose header has so many bytes, or fields, and returns its status.
	get := func(bytes, fields int) string {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimSuffix(strings.TrimPrefix(r.url, "http://"), "/mcp"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		request := "GET /nothing HTTP/1.1\r\nHost: localhost\r\n" + strings.Repeat("X: y\r\n", fields-1) + "X: "
		request += strings.Repeat("x", max(bytes-len(request)-len("\r\n\r\n"), 0)) + "\r\n\r\n"
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return line
	}
	for key, c := range map[string]struct {
		most  int
		ask   func(n int) string
		wrong string
	}{
		"header":       {8192, func(n int) string { return get(n, 1) }, " 431 "},
		"headerFields": {20, func(n int) string { return get(0, n) }, " 431 "},
		"jsonDepth":    {16, func(n int) string { return ping("1", strings.Repeat("[", n-2)+strings.Repeat("]", n-2)) }, "nested deeper than 16"},
		"jsonMembers": {64, func(n int) string {
			var members []string
			for i := range n {
				members = append(members, fmt.Sprintf(`"%d":0`, i))
			}
			return ping("1", "{"+strings.Join(members, ",")+"}")
		}, "more than 64 members"},
		"jsonElements": {65, func(n int) string { return ping("1", "["+strings.Repeat("0,", n-1)+"0]") }, "more than 65 elements"},
		"id":           {20, func(n int) string { return ping(strings.Repeat("1", n), "0") }, "longer than 20 bytes"},
		"batch": {3, func(n int) string {
			return says("[" + strings.Repeat(`{"jsonrpc":"2.0","method":"notifications/progress"},`, n-1) + `{"jsonrpc":"2.0","id":1,"method":"ping"}]`)
		}, "at most 3 messages"},
	} {
		for n := c.most - 1; n <= c.most+1; n++ {
			good := `"result":{}`
			if strings.HasPrefix(key, "header") {
				good = " 404 "
			}
			if got := c.ask(n); strings.Contains(got, c.wrong) != (n > c.most) || strings.Contains(got, good) != (n <= c.most) {
				t.Errorf("%s: %d: %.300s", key, n, got)
			}
		}
	}
}

// What a backend has is held to the keys: one below, at, and one above.
func TestLimitsOfBackendsCanBeSet(t *testing.T) {
	tool := func(name, rest string) *pb.Tool {
		return &pb.Tool{Name: name, InputSchema: []byte(`{"type":"object"` + rest + `}`)}
	}
	var all []*pb.Tool
	for over := -1; over <= 1; over++ {
		is := map[int]string{-1: "below", 0: "at", 1: "above"}[over]
		all = append(all,
			tool("name-"+is+strings.Repeat("n", 20+over-len("name-"+is)), ""),
			tool("schema-"+is, `,"title":"`+strings.Repeat("x", 200+over-len(`{"type":"object","title":""}`))+`"`),
			tool("values-"+is, `,"enum":[`+strings.Repeat("0,", 30+over-4)+`0]`),
		)
	}
	p := &listedPlugin{tools: all}
	address := servePlugin(t, p)
	for tools := 5; tools <= 7; tools++ { // 6 are good
		socket := "unix://" + filepath.Join(t.TempDir(), "s")
		r := start(t, nil, nil, "run", "-c", writeConfig(t, fmt.Sprintf(`
serve: {http: {addr: "127.0.0.1:0"}, grpc: {addr: %q}}
limits: {tools: %d, toolName: 20, schema: 200, schemaValues: 30, state: 2048}
backends: [{name: plugin, dial: %q}]
`, socket, tools, address)))
		res := r.post(t, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, r.session(t))
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(string(text), `"name":`); got != min(tools, 6) || strings.Contains(string(text), "above") {
			t.Errorf("%d tools are left of %d: %s", got, tools, text)
		}
		if tools > 5 {
			continue
		}
		conn, err := grpc.NewClient(socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		for n := 1023; n <= 1025; n++ { // sealed, they are more
			arguments := fmt.Sprintf(`{"state":%d}`, n)
			_, err := r.call(t, "schema-at", arguments) // which expects another answer, and returns this one as an error
			if asked := err != nil && strings.Contains(err.Error(), `"input_required","requestState":`); asked != (n <= 1024) {
				t.Errorf("a state of %d bytes: %v", n, err)
			}
			s, err := pb.NewMcpServiceClient(conn).CallTool(t.Context(), &pb.CallToolRequest{Name: "schema-at", Arguments: []byte(arguments)}, grpc.WaitForReady(true))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Recv(); (err == nil) != (n <= 1024) {
				t.Errorf("gRPC: a state of %d bytes: %v", n, err)
			}
		}
		r.awaitLog(t, "has 1025 bytes; at most 1024 are allowed")
	}
}

// What is logged of programs is held to the keys, whatever the program is: one below, at, and one above.
func TestLimitsOfOutputCanBeSet(t *testing.T) {
	// script prints lines of so many a, b and c, at once, which are not in the script itself: the log has that, too.
	script := func(a, b, c int) string {
		return fmt.Sprintf(`said=$(for n in %da %db %dc; do head -c ${n%%?} /dev/zero | tr '\0' ${n#${n%%?}}; echo; done); echo "$said" >&2; exec "$@"`, a, b, c)
	}
	line := func(letter string, n int) string { return strings.Repeat(letter, n) }
	for name, c := range map[string]struct {
		limits, script string
		logged, not    []string // what is in the log, and what is not
	}{
		"logLine": {
			"{logLine: 100}", script(99, 100, 101),
			[]string{line("a", 99), line("b", 100), line("c", 100)},
			[]string{line("c", 101)},
		},
		"logRate": { // each line counts 512 bytes
			"{logRate: 1024, logLine: 512}", script(412, 412, 412),
			[]string{line("a", 412), line("b", 412), "more bytes in a second than are logged"},
			[]string{line("c", 412)},
		},
	} {
		for kind, command := range map[string]string{"mcp": "sized", "launch": echoGo(t)} {
			r := start(t, nil, nil, "run", "-c", writeConfig(t, fmt.Sprintf(`
serve: {http: {addr: "127.0.0.1:0"}}
limits: %s
backends: [{name: program, %s: {command: [sh, -c, %q, sh, %q]}}]
`, c.limits, kind, c.script, command)))
			for _, text := range c.logged {
				r.awaitLog(t, text)
			}
			for _, text := range c.not {
				if strings.Contains(r.stderr.String(), text) {
					t.Errorf("%s, %s: it logs %s", name, kind, text)
				}
			}
		}
	}
}
