package mcpserver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest/fuzzing"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/lifecycle"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mcpjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// FuzzLines reads any lines, split in any way: those within the limit are returned whole, and no others.
func FuzzLines(f *testing.F) {
	for _, s := range []string{
		"", "a\nb\n", "\r\n \r\na\r\n", "\v", "no end", "\n\n\n",
		"0123456789012345678901234567890123456789\nshort\n", "0123456789012345\n01234567890123456\n",
	} {
		f.Add([]byte(s))
	}
	const most = 32
	fuzzing.Run(f, func(t *testing.T, data []byte) {
		var want [][]byte
		for i, line := range bytes.Split(data, []byte("\n")) {
			whole := i < bytes.Count(data, []byte("\n"))
			if trimmed := bytes.Trim(line, " \t\r\n"); len(line) <= most && len(trimmed) > 0 {
				want = append(want, trimmed)
			} else if !whole && len(line) == most+1 && len(trimmed) > 0 {
				want = append(want, trimmed) // the possible end of the line
			}
		}
		in := lineReader{r: bufio.NewReaderSize(bytes.NewReader(data), 16), max: most}
		for {
			line, err := in.next()
			if errors.Is(err, errLineTooLong) {
				continue
			}
			if err != nil {
				if !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
				break
			}
			if len(want) == 0 || !bytes.Equal(line, want[0]) {
				t.Fatalf("read %q, want the first of %q", line, want)
			}
			want = want[1:]
		}
		if len(want) > 0 {
			t.Fatalf("did not read %q", want)
		}
	})
}

// FuzzLastEventID looks up streams by any text: only the exact ID of an existing event finds one.
func FuzzLastEventID(f *testing.F) {
	for _, s := range []string{
		"", "1-0", "1-2", "1-3", "1-00", "1-+0", "01-1", "1-1 ", "1-0x1", "\u0031-1", "1--1",
		"1-99999999999999999999", "2-0", "-", "1-0-0",
	} {
		f.Add(s)
	}
	log := newEventLog("1", &replayLimit{max: 1 << 20}, &replayLimit{max: 1 << 20})
	for range 3 {
		log.push([]byte("{}"))
	}
	ss := &session{logs: map[string]*eventLog{"1": log}}
	fuzzing.Run(f, func(t *testing.T, s string) {
		l, n := ss.resumable(s)
		if there := s == "1-0" || s == "1-1" || s == "1-2"; there != (l != nil) || there && log.eventID(n) != s {
			t.Fatalf("%q found event %d of %v", s, n, l)
		}
	})
}

// messages are seeds.
var messages = []string{
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},"name":"echo","arguments":{"n":1e2}}}`,
	`{"jsonrpc":"2.0","id":"a","method":"resources/read","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}},"uri":"a:é"}}`,
	`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"_meta":{"progressToken":1,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},"name":"=?base64?x?=","arguments":{"a":"b"},"inputResponses":{"k":{"action":"accept","content":{"x":1}}},"requestState":"AA"}}`,
	`{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""},"context":{"arguments":{"b":"c"}}}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":""}}`,
	`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["a:b"],"toolsListChanged":true}}}`,
	`{"jsonrpc":"2.0","id":1,"method":"server/discover"}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"Name":"x","name":"y"}}`,
}

// FuzzMessages parses any bytes as a request of every revision: a valid one has the same meaning as its JSON, and the
// same call results from writing and parsing it.
func FuzzMessages(f *testing.F) {
	for _, m := range messages {
		f.Add([]byte(m))
	}
	fuzzing.Run(f, func(t *testing.T, body []byte) {
		msg, err := jsonrpc.Parse(body, limits.Defaults())
		m := bridge.MethodByName(msg.Method)
		if err != nil || m == nil {
			return
		}
		for _, rev := range bridge.Revisions() {
			var call *bridge.Call
			fuzzing.Within(t, len(body), 1<<20, func() { call, err = decode(m, &msg, &pb.CallContext{}, rev) })
			if err != nil {
				continue
			}
			sameAsText(t, body, call)
			out, err := mcpjson.Append(nil, call.Request, rev)
			if err != nil {
				continue // an older revision cannot express it
			}
			again, err := decode(m, &jsonrpc.Message{Params: out}, &pb.CallContext{}, rev)
			if err != nil {
				t.Fatalf("%s: %s\nbecame %s\nwhich is invalid: %v", rev, body, out, err)
			}
			if twice, err := mcpjson.Append(nil, again.Request, rev); err != nil || !bytes.Equal(out, twice) {
				t.Fatalf("%s: %s\nonce  %s\ntwice %s, %v", rev, body, out, twice, err)
			}
		}
	})
}

// sameAsText fails the test unless the method, name and arguments of a call are those that encoding/json/v2 parses.
func sameAsText(t *testing.T, body []byte, call *bridge.Call) {
	t.Helper()
	v, err := fuzzing.Value(body)
	if err != nil {
		t.Fatalf("%s was accepted as JSON: %v", body, err)
	}
	params, _ := v.(map[string]any)["params"].(map[string]any)
	if target := targets[call.Method.Name]; target != "" {
		if got, want := call.Method.Target(call.Request), params[target]; got != want {
			t.Fatalf("%s is a call of %q, want %q", body, want, got)
		}
	}
	if r, ok := call.Request.(*pb.CallToolRequest); ok && len(r.GetArguments()) > 0 {
		got, err := fuzzing.Value(r.GetArguments())
		if want := params["arguments"]; err != nil || !equalValues(got, want) {
			t.Fatalf("%s has the arguments %v, want %s: %v", body, want, r.GetArguments(), err)
		}
	}
}

func equalValues(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		for name := range a {
			ok = ok && equalValues(a[name], b[name])
		}
		return ok && len(a) == len(b)
	case []any:
		b, ok := b.([]any)
		ok = ok && len(a) == len(b)
		for i := range a {
			ok = ok && equalValues(a[i], b[i])
		}
		return ok
	}
	return a == b
}

// targets are the members of params that Mcp-Name contains, by method (2026-07-28: streamable-http, standard headers).
var targets = map[string]string{"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}

// headersMatch reports whether the headers of a request match its body: each exists once and has the same value. It is
// written as plainly as possible.
func headersMatch(header http.Header, body []byte) bool {
	v, err := fuzzing.Value(body)
	if err != nil {
		return false
	}
	message, _ := v.(map[string]any)
	params, _ := message["params"].(map[string]any)
	meta, _ := params["_meta"].(map[string]any)
	method, _ := message["method"].(string)
	want := map[string]any{
		"Mcp-Protocol-Version": meta["io.modelcontextprotocol/protocolVersion"],
		"Mcp-Method":           method,
	}
	if target := targets[method]; target != "" {
		want["Mcp-Name"] = params[target]
	}
	for name, value := range want {
		all := header[name]
		if len(all) != 1 {
			return false
		}
		received := all[0]
		if strings.ContainsFunc(received, func(r rune) bool { return r != '\t' && (r < ' ' || r > '~') }) {
			return false // must be encoded
		}
		if inner, ok := strings.CutPrefix(received, "=?base64?"); ok && name == "Mcp-Name" &&
			strings.HasSuffix(inner, "?=") {
			text, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSuffix(inner, "?="))
			if err != nil {
				return false
			}
			received = string(text)
		}
		if received != value {
			return false
		}
	}
	return true
}

// FuzzHeaders compares the validation of a modern request's headers with a slow and plain one.
func FuzzHeaders(f *testing.F) {
	const good = "Mcp-Protocol-Version: 2026-07-28\nMcp-Method: tools/call\nMcp-Name: echo\n"
	for _, h := range []string{
		good, good + "mcp-name: secret\n",
		"Mcp-Name: =?base64?ZWNobw==?=\nMCP-METHOD: tools/call\nmcp-protocol-version:2026-07-28", "Mcp_Name: echo\n",
		"Mcp-Name: ECHO\n", "",
	} {
		f.Add([]byte(messages[0]), h)
	}
	f.Add([]byte(messages[1]),
		"Mcp-Protocol-Version: 2026-07-28\nMcp-Method: resources/read\nMcp-Name: =?base64?YTrDqQ==?=\n")
	f.Add([]byte(messages[2]),
		"Mcp-Protocol-Version: 2026-07-28\nMcp-Method: prompts/get\nMcp-Name: =?base64?PT9iYXNlNjQ/eD89?=\n")
	s := &Server{}
	fuzzing.Run(f, func(t *testing.T, body []byte, lines string) {
		msg, err := jsonrpc.Parse(body, limits.Defaults())
		m := bridge.MethodByName(msg.Method)
		if err != nil || m == nil {
			return
		}
		read, err := textproto.NewReader(bufio.NewReader(strings.NewReader(lines + "\n\n"))).ReadMIMEHeader()
		if err != nil {
			return // net/http rejects it
		}
		header := http.Header(read)
		out := &discarding{}
		x := s.newExchange(bridge.Rev20260728, &msg, out)
		call, err := s.readModern(x, m, &msg, origin{header: header})
		same := headersMatch(header, body)
		e, refused := errors.AsType[*bridge.Error](err)
		switch {
		case err == nil && !same:
			t.Fatalf("%s\n%s\naccepted: %v", lines, body, call.Request)
		case refused && e.RPC.GetCode() == codeHeaderMismatch && same:
			t.Fatalf("%s\n%s\nare refused: %v", lines, body, err)
		}
	})
}

// A discarding is a sink that drops everything.
type discarding struct{ sink }

// FuzzInitialize parses any bytes as the first message of a legacy client: the result is a session of a supported
// revision, or an error.
func FuzzInitialize(f *testing.F) {
	f.Add([]byte(`{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{},"sampling":{"tools":{}},"roots":{"listChanged":true}},"clientInfo":{"name":"x","version":"1","icons":[{"src":"a:b"}]}}`))
	f.Add([]byte(`{"protocolVersion":"2099-01-01","capabilities":{"experimental":{"a":{}}},"clientInfo":{"name":"","version":""}}`))
	f.Add([]byte(`{"protocolVersion":7,"capabilities":[],"clientInfo":null}`))
	s := New(bridge.HandlerFunc(func(context.Context, *bridge.Call, bridge.Emit) (*bridge.Result, error) {
		return &bridge.Result{Complete: &pb.DiscoverResponse{Capabilities: &pb.ServerCapabilities{}}}, nil
	}), Options{})
	defer s.Close()
	fuzzing.Run(f, func(t *testing.T, params []byte) {
		msg, err := jsonrpc.Parse(
			append(append([]byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":`), params...), '}'),
			limits.Defaults())
		if err != nil {
			return
		}
		ss, result, err := s.initialize(t.Context(), &msg, origin{})
		if err != nil {
			return
		}
		ss.cancel(lifecycle.ErrClosing)
		v, err := fuzzing.Value(result)
		if err != nil || ss.rev.Modern() || v.(map[string]any)["protocolVersion"] != ss.rev.String() {
			t.Fatalf("%s: got a session of %s and the response %s, %v", params, ss.rev, result, err)
		}
	})
}
