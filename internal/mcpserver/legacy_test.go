package mcpserver_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/limit"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mcpserver"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

var legacyRevisions = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"}

const clientCaps = `{"elicitation":{},"sampling":{},"roots":{}}`

func call(id, tool, args, meta string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":` +
		args + `,"_meta":{` + meta + `}}}`
}

// The error code for a missing client capability exists in the modern era only. Legacy clients get the error as text
// for the model.
func TestMissingCapabilityErrorFollowsTheEra(t *testing.T) {
	for data, needs := range map[string]string{
		`{"requiredCapabilities":{"elicitation":{"form":{}}}}`: "an answer from the user (elicitation)",
		`{"requiredCapabilities":{"elicitation":{"url":{}},"roots":{}}}`: "a web page to be opened for the user " +
			"(elicitation, url mode) and the client's folders (roots)",
		`{"requiredCapabilities":{"sampling":{"tools":{}}}}`: "an answer from the model with tools " +
			"(sampling.tools)",
		`{"requiredCapabilities":{"extensions":{"com.example/x":{}}}}`: "the extension com.example/x",
		`{"requiredCapabilities":7}`:                                   "an unknown capability",
		`[]`:                                                           "an unknown capability",
	} {
		f := newFrontOf(t, mcpserver.Options{}, func(h bridge.Handler) bridge.Handler {
			return bridge.HandlerFunc(
				func(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
					if call.Method == bridge.Discover {
						return h.Handle(ctx, call, emit)
					}
					code, message := int32(bridge.CodeMissingCapability), "no"
					return nil, bridge.FromJSONRPC(&pb.JsonRpcError{Code: code, Message: message, Data: data},
						bridge.Rev20260728, call.Method)
				})
		})
		text := "This needs " + needs +
			", which this client does not support. Ask the user directly, or use another client."
		for _, rev := range legacyRevisions {
			c := f.initialize(rev, `{}`)
			want(t, read(t, c.send(call("1", "t", "{}", ""))).next(), "result.isError", "true", "result.content.0.text",
				`"`+text+`"`)
			want(t, read(t, c.send(`{"jsonrpc":"2.0","id":2,"method":"prompts/get","params":{"name":"p"}}`)).next(),
				"error.code", "-32603", "error.message", `"prompts/get: `+text+`"`, "error.data", "null")
			want(t, read(t, c.send(`{"jsonrpc":"2.0","id":3,"method":"tools/list"}`)).next(), "error.code", "-32603",
				"error.message", `"tools/list: `+text+`"`)
		}
		status, msgs := f.callModern("t", "", noCaps, "")
		if want(t, msgs[0], "error.code", "-32021", "error.message", `"no"`, "error.data", data); status != 400 {
			t.Errorf("status %d", status)
		}
	}
}

func TestLegacyRoundsAreBounded(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	c := f.initialize("2025-11-25", clientCaps)
	s := read(t, c.send(call("1", "endless", "{}", "")))
	n := 0
	for m := s.next(); ; m = s.next() {
		if get(t, m, "method") == "null" {
			want(t, m, "error.code", "-32603")
			break
		}
		n++
		c.send(`{"jsonrpc":"2.0","id":` + get(t, m, "id") + `,"result":{"action":"decline"}}`)
	}
	if n != 10 {
		t.Errorf("got %d requests", n)
	}
}

// sameIDs are pairs of different encodings of one ID.
var sameIDs = [][2]string{{`"a"`, `"\u0061"`}, {`"\u00e9\/"`, `"é/"`}, {`"\u000A"`, `"\n"`}, {"0", "-0"}}

// IDs are compared by value, whatever their encoding: a duplicate gets no second response, and a cancellation finds its
// request.
func TestIDsAreComparedByValue(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	c := f.initialize("2025-03-26", clientCaps)
	for _, ids := range sameIDs {
		for _, ids := range [][2]string{ids, {ids[1], ids[0]}} {
			cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + ids[1] + `}}`
			batch := `[` + call(ids[0], "echo", "{}", "") + `,` + call(ids[1], "echo", "{}", "") + `]`
			done := make(chan []string)
			go func() { done <- read(t, c.send(call(ids[0], "wait", "{}", ""))).rest() }()
			<-f.h.Started
			again := read(t, c.send(call(ids[1], "echo", "{}", ""))).next()
			want(t, again, "id", "null", "error.code", "-32600")
			c.send(cancel)
			<-f.h.Ended
			if msgs := <-done; len(msgs) > 0 {
				t.Errorf("got a response after the cancellation: %s", msgs)
			}
			want(t, read(t, c.send(batch)).next(), "error.code", "-32600")

			p := newPipe(t, mcpserver.Options{})
			p.initialize("2025-03-26")
			modern := strings.Replace(modernLine(7, "tools/call", `"name":"wait"`, noCaps), `"id":7`, `"id":`+ids[0], 1)
			for _, wait := range []string{call(ids[0], "wait", "{}", ""), modern} {
				p.send(wait)
				<-p.h.Started
				p.send(strings.Replace(wait, `"id":`+ids[0], `"id":`+ids[1], 1))
				want(t, p.next(), "id", "null", "error.code", "-32600")
				p.send(cancel)
				<-p.h.Ended
			}
			p.send(batch)
			want(t, p.next(), "error.code", "-32600")
		}
	}
}

func TestSessionRules(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	c := f.initialize("2025-06-18", clientCaps)
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	for _, x := range []struct {
		name   string
		h      header
		status int
	}{
		{"its session", header{"Mcp-Session-Id", c.id, "MCP-Protocol-Version", "2025-06-18"}, 200},
		{"its session, no revision", header{"Mcp-Session-Id", c.id}, 200},
		{"another revision than negotiated", header{"Mcp-Session-Id", c.id, "MCP-Protocol-Version", "2025-11-25"}, 200},
		{"an invalid revision", header{"Mcp-Session-Id", c.id, "MCP-Protocol-Version", "newest"}, 400},
		{"an empty revision", header{"Mcp-Session-Id", c.id, "MCP-Protocol-Version", " "}, 400},
		{"two sessions", header{"Mcp-Session-Id", c.id, "Mcp-Session-Id", "x"}, 400},
		{"two revisions", header{
			"Mcp-Session-Id", c.id, "MCP-Protocol-Version", "2025-06-18", "MCP-Protocol-Version",
			"2025-11-25",
		}, 400},
		{"two names, which it does not need", header{"Mcp-Session-Id", c.id, "Mcp-Name", "a", "Mcp-Name", "a"}, 400},
		{"two of an unknown parameter", header{"Mcp-Session-Id", c.id, "Mcp-Param-X", "a", "Mcp-Param-X", "b"}, 400},
		{"no session", header{"MCP-Protocol-Version", "2025-06-18"}, 400},
		{"no such session", header{"Mcp-Session-Id", "x" + c.id}, 404},
	} {
		if res := f.post(list, x.h); res.StatusCode != x.status {
			t.Errorf("%s: %s", x.name, res.Status)
		}
	}
}

// Streams above the limit are rejected, and one that ends frees its place.
func TestStreamsAreBounded(t *testing.T) {
	f := newFront(t, mcpserver.Options{Streams: limit.StreamsOf(limits.Limits{Streams: 3}, nil)})
	c := f.initialize("2025-11-25", clientCaps)
	ctx, cancel := context.WithCancel(t.Context())
	read(t, c.get(ctx, "")).event()
	f.openSSE(t.Context())
	body, h := modern(7, "subscriptions/listen", `"notifications":{"toolsListChanged":true}`, noCaps)
	listen := func() *http.Response { return f.post(body, h) }
	want(t, read(t, listen()).next(), "method", `"notifications/subscriptions/acknowledged"`)
	if res := listen(); res.StatusCode != 503 || res.Header.Get("Retry-After") == "" {
		t.Errorf("one above the limit: %s", res.Status)
	}
	if res := c.get(t.Context(), ""); res.StatusCode != 503 || res.Header.Get("Retry-After") == "" {
		t.Errorf("one above the limit by GET: %s", res.Status)
	}
	cancel()
	for listen().StatusCode != 200 {
		runtime.Gosched() // the server notices the end of the stream shortly after
	}
}

func TestStreamsOfASessionAreBounded(t *testing.T) {
	bridgetest.SkipIfShort(t)
	f := newFront(t, mcpserver.Options{})
	c := f.initialize("2025-11-25", clientCaps)
	statuses := make(chan int)
	const flood = 100
	for range flood {
		go func() { statuses <- c.get(t.Context(), "").StatusCode }()
	}
	got := map[int]int{}
	for range flood {
		got[<-statuses]++
	}
	if got[200] != 1 || got[429] == 0 || got[200]+got[409]+got[429] != flood {
		t.Errorf("%v", got)
	}
}

// A stream can be resumed after any event: nothing is lost or repeated, and no event belongs to another session.
func TestResumeAfterEveryEvent(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	for _, rev := range []string{"2025-03-26", "2025-06-18", "2025-11-25"} {
		c := f.initialize(rev, clientCaps)
		s := read(t, c.send(call("1", "count", "{}", `"progressToken":"t"`)))
		var ids, all []string
		for e, ok := s.event(); ok; e, ok = s.event() {
			if primed := e.data == ""; primed != (rev == "2025-11-25" && len(ids) == 0) {
				t.Errorf("%s: event %d is %+v", rev, len(ids), e)
			}
			ids, all = append(ids, e.id), append(all, e.data)
		}
		read(t, c.send(call("2", "count", "{}", `"progressToken":"other"`))).rest()
		for i, id := range ids {
			if diff := cmp.Diff(all[i+1:], read(t, c.get(t.Context(), id)).rest(), cmpEmpty); diff != "" {
				t.Errorf("%s: after %s: %s", rev, id, diff)
			}
		}
	}
}

var cmpEmpty = cmp.Transformer("", func(s []string) []string {
	if len(s) == 0 {
		return nil
	}
	return s
})

func TestResumeOfAnUnknownStream(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	c := f.initialize("2025-11-25", clientCaps)
	s := read(t, c.send(call("1", "count", "{}", `"progressToken":"t"`)))
	s.rest()
	other := f.initialize("2025-11-25", clientCaps)
	// creates streams with the same numbers
	read(t, other.send(call("1", "count", "{}", `"progressToken":"t"`))).rest()
	if res := other.get(t.Context(), s.last); res.StatusCode != 400 {
		t.Errorf("event of another session: %s", res.Status)
	}
	for _, id := range []string{"nonsense", "1-999", "9-0", "1--1", "1-01", "-", "1-0x"} {
		if res := c.get(t.Context(), id); res.StatusCode != 400 {
			t.Errorf("%q: %s", id, res.Status)
		}
	}
	for _, session := range []*client{c, other} { // a client would replace its session after 404
		if res := session.send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`); res.StatusCode != 200 {
			t.Errorf("the session later: %s", res.Status)
		}
	}
	if res := f.do(t.Context(), "GET", f.url, "",
		append(c.headers(), "Last-Event-ID", "1-1", "Last-Event-ID", "1-2")); res.StatusCode != 400 {
		t.Errorf("two events: %s", res.Status)
	}
}

// The responses have no fixed order. Transcripts cover the rest (http/batch-*).
func TestEveryRequestOfABatchIsAnswered(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	const batch = `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":"2","method":"tools/list"},` +
		`{"jsonrpc":"2.0","id":3,"method":"nosuch"},{"jsonrpc":"1.0","id":4,"method":"ping"}]`
	for _, rev := range []string{"2024-11-05", "2025-03-26"} {
		c := f.initialize(rev, clientCaps)
		msgs := read(t, c.send(batch)).next()
		seen := map[string]bool{}
		for i := range 4 {
			p := fmt.Sprint(i, ".")
			seen[get(t, msgs, p+"id")+" "+get(t, msgs, p+"error.code")] = true
		}
		if diff := cmp.Diff(map[string]bool{"1 null": true, `"2" null`: true, "3 -32601": true, "4 -32600": true},
			seen); diff != "" {
			t.Errorf("%s in %s", diff, msgs)
		}
		// If notifications precede the responses, all are sent as events.
		ids := map[string]bool{}
		for _, m := range read(t,
			c.send(`[`+call("1", "count", "{}", `"progressToken":"t"`)+`,`+call("2", "echo", "{}", "")+`]`)).rest() {
			if get(t, m, "method") == "null" {
				ids[get(t, m, "id")] = true
			}
		}
		if !ids["1"] || !ids["2"] {
			t.Errorf("got responses to %v", ids)
		}
	}
}

// A long stream that is cut between events or inside one can be resumed after the last complete event.
func TestResumeAtEveryBoundaryAndInsideEvents(t *testing.T) {
	const events = 64
	f := newFront(t, mcpserver.Options{})
	c := f.initialize("2025-11-25", clientCaps)
	res := c.send(call("1", "steps", fmt.Sprintf(`{"n":%d}`, events-1), `"progressToken":"t"`))
	whole, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	all := messages(t, string(whole))
	if len(all) != events {
		t.Fatalf("%d events", len(all))
	}
	read(t, c.send(call("2", "steps", `{"n":3}`, `"progressToken":"other"`))).rest()
	// Every boundary of events, and every byte of one event in the middle.
	cuts := map[int]bool{}
	at := 0
	for i, part := range strings.SplitAfter(string(whole), "\n\n") {
		cuts[at] = true
		for k := range part {
			if i == events/2 || k%37 == 0 {
				cuts[at+k] = true
			}
		}
		at += len(part)
	}
	for cut := range cuts {
		got := string(whole[:cut])
		got = got[:strings.LastIndex("\n\n"+got, "\n\n")]
		last := ""
		for line := range strings.Lines(got) {
			if id, ok := strings.CutPrefix(line, "id: "); ok {
				last = strings.TrimSpace(id)
			}
		}
		if last == "" {
			continue // cut before the first event ID
		}
		resumed := append(messages(t, got), read(t, c.get(t.Context(), last)).rest()...)
		if diff := cmp.Diff(all, resumed); diff != "" {
			t.Fatalf("cut at byte %d, resumed after %s: %s", cut, last, diff)
		}
	}
}

// messages returns the messages of a stream of complete events.
func messages(t *testing.T, text string) []string {
	t.Helper()
	return read(t, &http.Response{Body: io.NopCloser(strings.NewReader(text))}).rest()
}
