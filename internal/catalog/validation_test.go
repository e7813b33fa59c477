package catalog

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

func TestArgumentsAreValidated(t *testing.T) {
	b := &backend{}
	b.set(newTool("f", intSchema), newTool("any", ""))
	c := New(b, Options{})
	expect(t, "good", callTool(t, c, as("x"), "f", `{"n":1}`), "called")
	got := callTool(t, c, as("x"), "f", `{"n":"one"}`)
	expect(t, "bad", got, "error: The arguments do not fit the tool \"f\", and it was not called:\n- /n: expected "+
		"an integer, got the string \"one\"\nIt is called like this: f(n: integer)")
	contains(t, callTool(t, c, as("x"), "f", ``), "error: ", "/n: expected integer, got nothing: it is required")
	expect(t, "any", callTool(t, c, as("x"), "any", ``), "called")
	expect(t, "calls", b.calls, []string{`{"n":1}`, ``})
	expect(t, "unchecked", callTool(t, New(b, Options{SkipArguments: true}), as("x"), "f", `{}`), "called")
}

func TestUnknownToolIsPassedToTheBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{}
		b.set(newTool("f", intSchema))
		c := New(b, Options{})
		for range 10 {
			expect(t, "unknown", callTool(t, c, as("x"), "g", `{}`), "called")
		}
		expect(t, "lists", b.listCount(), 1)
		pass(searchInterval)
		b.set(newTool("g", intSchema))
		contains(t, callTool(t, c, as("x"), "g", `{}`), "error: ")
	})
}

func TestToolIsFoundOnAnyPage(t *testing.T) {
	b := &backend{pageSize: 1}
	b.set(newTool("a", intSchema), newTool("b", intSchema), newTool("c", intSchema), newTool("d", intSchema))
	c := New(b, Options{})
	contains(t, callTool(t, c, as("x"), "c", `{}`), "error: ")
	expect(t, "lists", b.listCount(), 3)
	expect(t, "good", callTool(t, c, as("x"), "c", `{"n":1}`), "called")
	expect(t, "lists", b.listCount(), 3)
}

func TestCallProceedsWithoutAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{listErr: bridge.Errorf(codes.Unimplemented, "no lists")}
		c := New(b, Options{})
		expect(t, "list fails", callTool(t, c, as("x"), "f", `{}`), "called")
		b.hold = make(chan struct{}) // never receives
		began := time.Now()
		expect(t, "list hangs", callTool(t, c, as("x"), "f", `{}`), "called")
		expect(t, "how long it is waited for", time.Since(began), limits.FindTimeout)
	})
}

func TestCallCanBeCanceledDuringTheList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{hold: make(chan struct{})}
		c := New(b, Options{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.Handle(ctx, &bridge.Call{Method: bridge.CallTool, Request: &pb.CallToolRequest{Name: "f"}}, nil)
		if !errors.Is(err, context.DeadlineExceeded) || len(b.calls) > 0 {
			t.Errorf("%v, %q", err, b.calls)
		}
	})
}

func TestConcurrentCallsShareTheList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{hold: make(chan struct{})}
		b.set(newTool("f", intSchema))
		c := New(b, Options{})
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() { expect(t, "call", callTool(t, c, as("x"), "f", `{"n":1}`), "called") })
		}
		synctest.Wait()
		close(b.hold)
		wg.Wait()
		expect(t, "lists", b.listCount(), 1)
	})
}

func TestStaleSchemaNeverRejectsArguments(t *testing.T) {
	b := &backend{}
	b.set(newTool("f", intSchema))
	c := New(b, Options{})
	callTool(t, c, as("x"), "f", `{"n":1}`)
	expect(t, "lists", b.listCount(), 1)
	b.set(newTool("f", stringSchema))
	expect(t, "what the old schema takes", callTool(t, c, as("x"), "f", `{"n":1}`), "called")
	expect(t, "lists", b.listCount(), 1)
	expect(t, "what the new schema takes", callTool(t, c, as("x"), "f", `{"n":"one"}`), "called")
	expect(t, "lists", b.listCount(), 2)
	contains(t, callTool(t, c, as("x"), "f", `{"n":1}`), "/n: expected a string, got the number 1")
	expect(t, "lists: a refusal has its own", b.listCount(), 3)

	b.set()
	expect(t, "a tool that is gone is for the backend to refuse", callTool(t, c, as("x"), "f", `{}`), "called")
	b.listErr = errors.New("down")
	expect(t, "and when there is no list", callTool(t, c, as("x"), "f", `{}`), "called")
}

func TestListForAValidationUsesTheCallersPrincipal(t *testing.T) {
	b := &backend{}
	b.set(newTool("f", intSchema))
	cc := as("x")
	cc.Meta, cc.ProgressWanted, cc.Verified.Headers = `{"progressToken":1}`, true, map[string]string{"h": "v"}
	callTool(t, New(b, Options{}), cc, "f", `{}`)
	got := b.lastList
	v := got.GetVerified()
	if v.GetPrincipal().GetSubject() != "x" || v.GetProtocolVersion() != "2025-11-25" ||
		v.GetHeaders()["h"] != "v" || got.GetMeta() != "" || got.GetProgressWanted() {
		t.Errorf("requests with %v", got)
	}
}

func TestUnusableSchemaIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	b := &backend{}
	b.set(newTool("dialect", `{"$schema":"https://example.com/d","type":"object","required":["a"]}`),
		newTool("ref", `{"type":"object","$ref":"#/nowhere"}`),
		newTool("pattern", `{"type":"object","properties":{"a":{"type":"string","pattern":"(?=x)"}}}`))
	c := New(b, Options{Log: zerolog.New(&log)})
	expect(t, "tools", len(listTools(t, c, as("x")).GetTools()), 3)
	for range 3 {
		for _, name := range []string{"dialect", "ref", "pattern"} {
			expect(t, name, callTool(t, c, as("x"), name, `{"a":"b"}`), "called")
		}
	}
	contains(t, log.String(), "its dialect is not supported", "nowhere", `(?=x)`)
	expect(t, "warnings", strings.Count(log.String(), "\n"), 3)
	contains(t, callTool(t, c, as("x"), "pattern", `{"a":1}`), "/a: expected a string")
}

const returnsInt = `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`

func TestOutputIsValidated(t *testing.T) {
	tool := &pb.Tool{Name: "f", InputSchema: `{"type":"object"}`, OutputSchema: returnsInt}
	for _, c := range []struct {
		name, output string
		isError      bool
		want         string // part of an error's text
	}{
		{name: "conforms", output: `{"n":1}`},
		{name: "wrong", output: `{"n":"secret"}`, want: `/n: expected an integer, got the string "secret"`},
		{name: "missing member", output: `{}`, want: "/n: expected integer, got nothing"},
		{name: "missing", output: ``, want: "the structured content: expected one, got nothing"},
		{name: "null", output: `null`, want: "the structured content: expected an object, got null"},
		{name: "array", output: `[1]`, want: "the structured content: expected an object, got an array of 1 item"},
		{name: "not JSON", output: `{"n":`, want: "the structured content: it is not JSON"},
		{name: "U-17: an error may return anything", output: ``, isError: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log bytes.Buffer
			b := &backend{result: &pb.CallToolResult{
				StructuredContent: []byte(c.output), IsError: &c.isError,
				Meta: `{"a":1}`,
			}}
			b.set(tool)
			catalog := New(b, Options{Log: zerolog.New(&log)})
			r, err := catalog.Handle(t.Context(),
				&bridge.Call{Method: bridge.CallTool, Request: &pb.CallToolRequest{Name: "f", Context: as("x")}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if c.want == "" {
				if r.Complete != b.result || log.Len() > 0 {
					t.Errorf("got %v, log %s", r.Complete, &log)
				}
				return
			}
			got := r.Complete.(*pb.CallToolResult)
			if !got.GetIsError() || got.StructuredContent != nil || got.Meta != "" {
				t.Errorf("got %v", got)
			}
			contains(t, got.GetContent()[0].GetText().GetText(), `The tool "f" was called`, c.want, "{n: integer}")
			contains(t, log.String(), `"level":"error"`, `"tool":"f"`, `"code":"Internal"`)
			expect(t, "unchecked", callTool(t, New(b, Options{SkipOutput: true}), as("x"), "f", `{}`), c.output)
		})
	}
}

// If a value is too expensive to validate, the error contains the reason and the outcome: for arguments the tool was
// not called, for a result it was.
func TestUndecidableValidationFails(t *testing.T) {
	const itself = `{"type":"object","$ref":"#","minProperties":1}`
	branches := of(`{"items":{"anyOf":[` + commas(500, always(`{"type":"string"}`)) + `]}}`)
	unequal := of(`{"type":"array","items":{"type":"string"}}`)
	for _, c := range []struct{ name, schema, value, why string }{
		{"endless", itself, `{"a":1}`, " it cannot be compared with a schema that refers to itself without end"},
		{
			"too long", branches, with(items(1_000, "1")),
			" it takes too long to be compared with the schema: more than about 100 ms",
		},
		{
			"too large", unequal, with(`[` + items(90_000, "777") + `,` + items(90_000, "777") + `]`),
			" it is too large to be compared with the schema: it would take more than 4 MiB of memory",
		},
		{"too many digits", unequal, with(`[1e1000000000]`), "- /a/0: expected a number of at most 1000 digits"},
	} {
		var log bytes.Buffer
		b := &backend{result: &pb.CallToolResult{StructuredContent: []byte(c.value)}}
		b.set(&pb.Tool{Name: "f", InputSchema: c.schema}, &pb.Tool{Name: "g", OutputSchema: c.schema})
		catalog := New(b, Options{Log: zerolog.New(&log)})
		got := callTool(t, catalog, as("x"), "f", c.value)
		contains(t, got, `error: The arguments of the tool "f" could not be compared with its input schema, and it was not called:`,
			c.why, "less at a time", "skipArguments")
		if strings.Contains(got, "do not fit") || len(b.calls) > 0 {
			t.Errorf("%s: called with %d bytes of arguments: %s", c.name, len(b.calls), got)
		}
		if c.name == "too large" {
			continue // a result may be larger
		}
		got = callTool(t, catalog, as("x"), "g", `{}`)
		contains(t, got, `error: The tool "g" was called and did its work. Its result could not be compared with its output schema, and is withheld:`,
			c.why, "less at a time", "skipOutput")
		contains(t, log.String(), `"level":"error"`, `"tool":"g"`, `"code":"ResourceExhausted"`, c.why[3:],
			"could not be compared", "skipOutput")
		if text := got + log.String(); strings.Contains(text, "fault") || strings.Contains(text, "does not allow") ||
			len(b.calls) != 1 {
			t.Errorf("%s: called %d times: %s", c.name, len(b.calls), text)
		}
		expect(t, c.name, callTool(t, New(b, Options{SkipOutput: true}), as("x"), "g", `{}`), c.value)
	}
}

func TestStaleSchemaNeverRejectsOutput(t *testing.T) {
	b := &backend{result: &pb.CallToolResult{StructuredContent: []byte(`{"n":1}`)}}
	b.set(&pb.Tool{Name: "f", OutputSchema: returnsInt})
	c := New(b, Options{})
	expect(t, "old", callTool(t, c, as("x"), "f", `{}`), `{"n":1}`)
	b.set(&pb.Tool{Name: "f", OutputSchema: stringSchema})
	b.result = &pb.CallToolResult{StructuredContent: []byte(`{"n":"one"}`)}
	expect(t, "new", callTool(t, c, as("x"), "f", `{}`), `{"n":"one"}`)
	b.set(&pb.Tool{Name: "f"})
	b.result = &pb.CallToolResult{}
	expect(t, "without", callTool(t, c, as("x"), "f", `{}`), ``)
}

func TestInputRequiredIsNotValidatedAsOutput(t *testing.T) {
	needs := &pb.InputRequired{RequestState: []byte("s")}
	c := New(bridge.HandlerFunc(func(_ context.Context, call *bridge.Call, _ bridge.Emit) (*bridge.Result, error) {
		if call.Method == bridge.ListTools {
			return &bridge.Result{Complete: &pb.ListToolsResponse{
				Tools: []*pb.Tool{{Name: "f", OutputSchema: returnsInt}},
			}}, nil
		}
		return &bridge.Result{InputRequired: needs}, nil
	}), Options{})
	r, err := c.Handle(t.Context(), &bridge.Call{Method: bridge.CallTool, Request: &pb.CallToolRequest{Name: "f"}}, nil)
	if err != nil || r.InputRequired != needs {
		t.Errorf("%v, %v", r, err)
	}
}
