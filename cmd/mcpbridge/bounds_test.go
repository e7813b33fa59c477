package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/config"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/problem"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A limit out of range is rejected, whatever sets it. The error contains the place, the reason and a fix.
func TestLimitsAreValidated(t *testing.T) {
	bridgetest.SkipIfShort(t)
	for _, r := range limits.Table[limits.Limits]() {
		text, unit := func(n int64) string { return strconv.FormatInt(n, 10) }, "a number"
		if f, _ := reflect.TypeFor[limits.Limits]().FieldByName(r.Field); f.Type == reflect.TypeFor[time.Duration]() {
			text, unit = func(n int64) string { return time.Duration(n).String() }, "a time"
		}
		good := map[int64]string{-1: ""}
		if r.Min > 1 {
			good[r.Min-1], good[r.Min] = ": "+r.TooLow, "good"
		}
		if r.Max > 0 {
			good[r.Max], good[r.Max+1] = "good", ": "+r.TooHigh
		}
		key := "limits." + r.Key
		for n, why := range good {
			file := fmt.Sprintf("limits: {%s: %s}\nbackends: [{dial: 'unix:///x'}]", r.Key, text(n))
			variable := "MCPBRIDGE_LIMITS__" + strings.ToUpper(r.Key)
			for where, read := range map[string]func() (*config.Config, error){
				"mcpbridge.yaml:2:": func() (*config.Config,
					error,
				) {
					return config.Load(writeConfig(t, file), nil, nil, nil)
				},
				variable: func() (*config.Config, error) {
					return config.Load(writeConfig(t, "backends: [{dial: 'unix:///x'}]"),
						[]string{variable + "=" + text(n)}, nil, nil)
				},
			} {
				l, err := read()
				if err != nil {
					t.Fatal(err)
				}
				err = l.Validate()
				if why == "good" && err == nil {
					continue
				}
				if err == nil || why == "good" {
					t.Errorf("%s of %s: %v", key, text(n), err)
					continue
				}
				if p := problem.Of(err); !strings.Contains(p.Where, where) || p.What != key+" cannot be "+text(n)+why ||
					!strings.Contains(p.Fix, unit) {
					t.Errorf("%s of %s: %+v, want the place %s", key, text(n), p, where)
				}
			}
		}
	}
}

// A negative timeout of a backend is rejected, whatever its kind, and the error contains the place.
func TestTimeoutsOfBackendsAreNotNegative(t *testing.T) {
	for at, backend := range map[string]string{
		"hangTimeout":         `dial: "unix:///x", hangTimeout: -1s`,
		"launch.startTimeout": `launch: {command: [x], startTimeout: -1s}`,
		"launch.hangTimeout":  `launch: {command: [x], hangTimeout: -1s}`,
		"mcp.startTimeout":    `mcp: {command: [x], startTimeout: -1s}`,
		"mcp.probeTimeout":    `mcp: {url: "http://localhost/mcp", probeTimeout: -1s}`,
		"mcp.hangTimeout":     `mcp: {command: [x], hangTimeout: -1s}`,
	} {
		l, err := config.Load(writeConfig(t, "backends: [{"+backend+"}]"), nil, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		err = l.Validate()
		if err == nil {
			t.Errorf("%s can be negative", at)
			continue
		}
		if p := problem.Of(err); p.What != "backends.0."+at+" cannot be -1s" ||
			!strings.Contains(p.Where, "mcpbridge.yaml:2:") ||
			!strings.HasPrefix(p.Fix, "write a time such as 30s") {
			t.Errorf("%s: %+v", at, p)
		}
	}
}

// The table of limits contains every key of limits, and no others.
func TestLimitsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	for f := range reflect.TypeFor[limits.Limits]().Fields() {
		if !strings.Contains(string(page), "`"+f.Tag.Get("koanf")+"`") {
			t.Errorf("docs/security.md does not have limits.%s", f.Tag.Get("koanf"))
		}
	}
}

// A listedPlugin is a backend with tools. One of them requests input, with a request state of the requested size.
type listedPlugin struct {
	sizedPlugin

	tools []*pb.Tool
}

func (p *listedPlugin) ListTools(context.Context, *pb.ListToolsRequest) (*pb.ListToolsResponse, error) {
	return &pb.ListToolsResponse{Tools: p.tools}, nil
}

func (*listedPlugin) CallTool(req *pb.CallToolRequest, stream grpc.ServerStreamingServer[pb.CallToolResponse]) error {
	n, _ := strconv.Atoi(string(rawjson.Get(req.GetArguments(), "state")))
	needs := &pb.InputRequired{RequestState: make([]byte, n)}
	return stream.Send(&pb.CallToolResponse{Event: &pb.CallToolResponse_InputRequired{InputRequired: needs}})
}

// Requests are held to the limits, over the wire: one below, at, and one above each.
func TestRequestLimitsAreConfigurable(t *testing.T) {
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
	message := func(body string) string {
		res := r.post(t, body, session)
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	ping := func(id, x string) string {
		return message(`{"jsonrpc":"2.0","id":` + id + `,"method":"ping","params":{"x":` + x + `}}`)
	}
	// get sends a request with a header of the given number of bytes or fields and returns its status.
	get := func(bytes, fields int) string {
		conn, err := new(net.Dialer).
			DialContext(t.Context(), "tcp", strings.TrimSuffix(strings.TrimPrefix(r.url, "http://"), "/mcp"))
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
		"jsonDepth": {
			16, func(n int) string { return ping("1", strings.Repeat("[", n-2)+strings.Repeat("]", n-2)) },
			"nested deeper than 16",
		},
		"jsonMembers": {64, func(n int) string {
			var members []string
			for i := range n {
				members = append(members, fmt.Sprintf(`"%d":0`, i))
			}
			return ping("1", "{"+strings.Join(members, ",")+"}")
		}, "more than 64 members"},
		"jsonElements": {
			65, func(n int) string { return ping("1", "["+strings.Repeat("0,", n-1)+"0]") },
			"more than 65 elements",
		},
		"id": {20, func(n int) string { return ping(strings.Repeat("1", n), "0") }, "longer than 20 bytes"},
		"batch": {3, func(n int) string {
			return message("[" + strings.Repeat(`{"jsonrpc":"2.0","method":"notifications/progress"},`, n-1) +
				`{"jsonrpc":"2.0","id":1,"method":"ping"}]`)
		}, "at most 3 messages"},
	} {
		for n := c.most - 1; n <= c.most+1; n++ {
			good := `"result":{}`
			if strings.HasPrefix(key, "header") {
				good = " 404 "
			}
			if got := c.ask(n); strings.Contains(got, c.wrong) != (n > c.most) ||
				strings.Contains(got, good) != (n <= c.most) {
				t.Errorf("%s: %d: %.300s", key, n, got)
			}
		}
	}
}

// The lists of backends are held to the limits: one below, at, and one above each.
func TestBackendLimitsAreConfigurable(t *testing.T) {
	tool := func(name, rest string) *pb.Tool {
		return &pb.Tool{Name: name, InputSchema: `{"type":"object"` + rest + `}`}
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
	for tools := 5; tools <= 7; tools++ { // 6 are allowed
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
		if got := strings.Count(string(text), `"name":`); got != min(tools, 6) ||
			strings.Contains(string(text), "above") {
			t.Errorf("got %d of %d tools: %s", got, tools, text)
		}
		if tools > 5 {
			continue
		}
		conn, err := grpc.NewClient(socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		for n := 1023; n <= 1025; n++ { // sealing makes them longer
			arguments := fmt.Sprintf(`{"state":%d}`, n)
			// The tool expects another response and returns this one as an error.
			_, err := r.call(t, "schema-at", arguments)
			if required := err != nil &&
				strings.Contains(err.Error(), `"input_required","requestState":`); required != (n <= 1024) {
				t.Errorf("a state of %d bytes: %v", n, err)
			}
			s, err := pb.NewMcpServiceClient(conn).CallTool(t.Context(),
				&pb.CallToolRequest{Name: "schema-at", Arguments: []byte(arguments)}, grpc.WaitForReady(true))
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

// The output of programs in the log is held to the limits, whatever the program is: one below, at, and one above each.
func TestOutputLimitsAreConfigurable(t *testing.T) {
	// script prints lines of the given numbers of a, b and c. It does not contain them itself, because the command is
	// logged too.
	script := func(a, b, c int) string {
		return fmt.Sprintf(`lines=$(for n in %da %db %dc; do head -c ${n%%?} /dev/zero | tr '\0' ${n#${n%%?}}; echo; done); echo "$lines" >&2; exec "$@"`, a, b, c)
	}
	line := func(letter string, n int) string { return strings.Repeat(letter, n) }
	for name, c := range map[string]struct {
		limits, script string
		logged, not    []string // what the log contains, and what it does not
	}{
		"logLine": {
			"{logLine: 100}", script(99, 100, 101),
			[]string{line("a", 99), line("b", 100), line("c", 100)},
			[]string{line("c", 101)},
		},
		"logRate": { // each line counts as 512 bytes
			"{logRate: 1024, logLine: 512}", script(412, 412, 412),
			[]string{line("a", 412), line("b", 412), "exceeds the log rate"},
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
