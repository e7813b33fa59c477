package catalog

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mcpjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

func TestPagesAreLimited(t *testing.T) {
	b := &backend{ttl: proto.Int64(100_000)}
	c := New(b, Options{})
	for i := range maxPages + 10 {
		listTools(t, c, as(strconv.Itoa(i)))
	}
	expect(t, "pages", len(c.pages), maxPages)
	listTools(t, c, as("11")) // the oldest cached list
	listTools(t, c, as("5"))
	expect(t, "lists", b.listCount(), maxPages+11)

	b = &backend{ttl: proto.Int64(100_000)}
	b.set(&pb.Tool{Name: "big", Description: proto.String(strings.Repeat("x", maxPageBytes/4))})
	c = New(b, Options{})
	for i := range 10 {
		listTools(t, c, as(strconv.Itoa(i)))
	}
	if c.bytes > maxPageBytes || len(c.pages) != 3 {
		t.Errorf("got %d bytes in %d pages", c.bytes, len(c.pages))
	}
	b.set(&pb.Tool{Name: "huge", Description: proto.String(strings.Repeat("x", maxPageBytes+1))})
	listTools(t, c, as("huge"))
	expect(t, "pages when one is larger than all", len(c.pages), 3)
	sum := 0
	for _, p := range c.pages {
		sum += p.size
	}
	expect(t, "bytes", c.bytes, sum)
}

// Clients may send any cursor: only short ones are cached, and they count toward the limit.
func TestCursorsOfClientsAreLimited(t *testing.T) {
	for n := maxCursor - 1; n <= maxCursor+1; n++ {
		c := New(bridge.HandlerFunc(func(context.Context, *bridge.Call, bridge.Emit) (*bridge.Result, error) {
			return &bridge.Result{Complete: &pb.ListToolsResponse{TtlMs: proto.Int64(100_000)}}, nil
		}), Options{})
		for i := range maxPages + 10 {
			listTools(t, c, as("x"), fmt.Sprintf("%0*d", n, i))
		}
		kept, bytes := 0, 0
		if n <= maxCursor {
			kept, bytes = maxPages, maxPages*n
		}
		if len(c.pages) != kept || c.bytes < bytes {
			t.Errorf("cursors of %d bytes: %d pages of %d bytes, want %d of %d", n, len(c.pages), c.bytes, kept, bytes)
		}
	}
}

func TestToolCacheIsBounded(t *testing.T) {
	bridgetest.SkipIfShort(t)
	b := &backend{ttl: proto.Int64(100_000)}
	var all []*pb.Tool
	for i := range 2_000 {
		all = append(all, newTool("t"+strconv.Itoa(i), intSchema))
	}
	b.set(all...)
	c := New(b, Options{})
	for i := range 40 {
		listTools(t, c, as(strconv.Itoa(i)))
	}
	if c.count > maxKnown || len(c.known) != maxKnown/2_000 {
		t.Errorf("got %d tools of %d callers", c.count, len(c.known))
	}
	expect(t, "schemas", len(c.schemas), 1)

	c = New(&backend{}, Options{}) // without tools
	for i := range maxCallers + 10 {
		listTools(t, c, as(strconv.Itoa(i)))
	}
	expect(t, "callers", len(c.known), maxCallers)

	c = New(b, Options{})
	for i := range 100 {
		b.set(newTool("t", `{"type":"object","description":"`+strings.Repeat("x", defaults.Schema-100)+strconv.Itoa(i)+
			`"}`))
		listTools(t, c, as("x"+strconv.Itoa(i)))
	}
	if c.text > maxText || len(c.schemas) > 64 {
		t.Errorf("got %d bytes of %d schemas", c.text, len(c.schemas))
	}
	expect(t, "a caller that was forgotten", callTool(t, c, as("x1"), "t", `{}`), "called")
}

func TestBadToolsAreDroppedWithOneWarningEach(t *testing.T) {
	var log bytes.Buffer
	b := &backend{}
	long := strings.Repeat("n", defaults.ToolName)
	b.set(
		newTool("good", intSchema), newTool("none", ""), newTool("", intSchema), newTool("good", stringSchema),
		newTool("text", `{"type":"object"`),
		newTool("twice", `{"type":"object","type":"object"}`), newTool("null", `null`),
		newTool("list", `{"type":"array"}`),
		newTool("untyped", `{}`),
		newTool("large", `{"type":"object","description":"`+strings.Repeat("x", defaults.Schema)+`"}`),
		newTool("many", `{"type":"object","enum":[`+strings.Repeat("0,", defaults.SchemaValues)+`0]}`),
		newTool("elsewhere", `{"type":"object","properties":{"a":{"$ref":"https://example.com/a.json"}}}`),
		newTool("with space", intSchema), newTool(long, intSchema),
		&pb.Tool{Name: "output", InputSchema: intSchema, OutputSchema: `{"type":`},
		newTool("header", `{"type":"object","properties":{"a":{"type":"number","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"B"}}}`),
		newTool("last", intSchema), newTool(long+"n", intSchema), newTool(strings.Repeat("n", 1<<20), intSchema),
		newTool("a\nb", intSchema),
		newTool("a\u202eb", intSchema), newTool("a\u200bb", intSchema), newTool("a\x1b[31m", intSchema),
		&pb.Tool{Name: "meta", Meta: `[`}, &pb.Tool{Name: "metas", Meta: `[]`}, &pb.Tool{Name: "extra", Extra: `5`},
		&pb.Tool{Name: "annotated", Annotations: &pb.ToolAnnotations{Extra: `{"a":1,"a":2}`}},
		&pb.Tool{Name: "executed", Execution: &pb.ToolExecution{Extra: `{}{}`}},
		&pb.Tool{Name: "icon", Icons: []*pb.Icon{{}, {Extra: "{\"\xff\":1}"}}},
		&pb.Tool{Name: "all", Meta: `{}`, Extra: `{"a":1}`, Icons: []*pb.Icon{{Extra: `{}`}}},
	)
	c := New(b, Options{Log: zerolog.New(&log)})
	first := listTools(t, c, as("x"))
	expect(t, "tools", names(first), []string{"good", "none", "with space", long, "header", "last", "all"})
	expect(t, "schema without its bad annotation", first.GetTools()[4].GetInputSchema(),
		`{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"string","x-mcp-header":"B"}}}`)
	if b.tools[15].InputSchema == "" || !strings.Contains(b.tools[15].InputSchema, `"A"`) {
		t.Error("the backend's own tool was modified")
	}
	text := log.String()
	contains(
		t, text, `"tool":"good","reason":"there is another tool of the same name before it"`,
		`"tool":"","reason":"it has no name"`,
		`"tool":"text"`, `duplicate name`, `"tool":"null","reason":"its input schema is not a JSON object"`,
		`"tool":"list","reason":"its input schema has not the type object"`,
		`"tool":"untyped"`, `"tool":"large","reason":"its input schema is too large`, `"tool":"many"`,
		`"tool":"elsewhere"`,
		`"tool":"with space","reason":"it should be 1 to 128`, `its name has 129 bytes`, `its name has 1048576 bytes`,
		`"tool":"a\nb","reason":"its name has invisible characters`, `its output schema is not JSON`,
		`x-mcp-header at \"/properties/a\"`,
	)
	contains(
		t, text, `"tool":"meta","reason":"its _meta: must be a JSON object, not [`, `"tool":"metas"`,
		`"tool":"extra","reason":"its unknown members must be a JSON object, not 5`,
		`"tool":"annotated","reason":"its annotations: unknown members are not strict JSON`, `"tool":"executed"`,
		`"tool":"icon"`,
	)
	expect(t, "warnings", strings.Count(text, "\n"), 25)
	if listTools(t, c, as("x")) != first {
		t.Error("the same response is another message")
	}
	listTools(t, c, as("y"))
	expect(t, "warnings, later", strings.Count(log.String(), "\n"), 25)
}

// Entries of a list that cannot be sent or used are dropped; the others remain.
func TestBadEntriesAreDropped(t *testing.T) {
	nan := &pb.Annotations{Priority: proto.Float64(math.NaN())}
	for _, tt := range []struct {
		method       *bridge.Method
		request      bridge.Request
		list, want   proto.Message
		first, other string // the members of two of them
	}{
		{
			bridge.ListPrompts, &pb.ListPromptsRequest{Context: as("x")},
			&pb.ListPromptsResponse{NextCursor: proto.String("n"), Prompts: []*pb.Prompt{
				{Name: "good"},
				{Name: "meta", Meta: `[`},
				{},
				{Name: "argument", Arguments: []*pb.PromptArgument{{Name: "a", Extra: `5`}}},
				{Name: "last"},
			}},
			&pb.ListPromptsResponse{
				NextCursor: proto.String("n"),
				Prompts:    []*pb.Prompt{{Name: "good"}, {Name: "last"}},
			},
			`"prompt":"","reason":"it has no name","message":"prompt dropped"`,
			`"prompt":"argument","reason":"its arguments[0]: unknown members must be`,
		},
		{
			bridge.ListResources, &pb.ListResourcesRequest{Context: as("x")},
			&pb.ListResourcesResponse{Resources: []*pb.Resource{
				{Uri: "a:1", Annotations: nan},
				{Uri: "a:2"},
				{Name: "none"},
			}},
			&pb.ListResourcesResponse{Resources: []*pb.Resource{{Uri: "a:2"}}},
			`"resource":"a:1","reason":"its annotations.priority: NaN is not a number of JSON"`,
			`"resource":"","reason":"it has no uri"`,
		},
		{
			bridge.ListResourceTemplates, &pb.ListResourceTemplatesRequest{Context: as("x")},
			&pb.ListResourceTemplatesResponse{ResourceTemplates: []*pb.ResourceTemplate{
				{},
				{UriTemplate: "a:{b}", Icons: []*pb.Icon{{Extra: `{"a":1,"a":2}`}}},
			}},
			&pb.ListResourceTemplatesResponse{},
			`"template":"","reason":"it has no uri_template"`,
			`"template":"a:{b}","reason":"its icons[0]: unknown members are not strict JSON`,
		},
	} {
		var log bytes.Buffer
		c := New(bridge.HandlerFunc(func(context.Context, *bridge.Call, bridge.Emit) (*bridge.Result, error) {
			return &bridge.Result{Complete: tt.list}, nil
		}), Options{Log: zerolog.New(&log)})
		for range 2 {
			r, err := c.Handle(t.Context(), &bridge.Call{Method: tt.method, Request: tt.request}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if !proto.Equal(r.Complete, tt.want) {
				t.Errorf("%s: got %v", tt.method.Name, r.Complete)
			}
		}
		contains(t, log.String(), tt.first, tt.other)
		if _, err := mcpjson.Append(nil, tt.list, bridge.LatestLegacy); err == nil {
			t.Errorf("%s: the list was not reported as invalid", tt.method.Name)
		}
	}
}

func TestPagingEndsAndRepeatsNoTool(t *testing.T) {
	b := &backend{pageSize: 2, ttl: proto.Int64(100_000)}
	b.set(newTool("a", intSchema), newTool("b", intSchema), newTool("c", intSchema), newTool("a", intSchema),
		newTool("b", intSchema), newTool("d", intSchema))
	c := New(b, Options{})
	var got [][]string
	for l := listTools(t, c, as("x")); ; l = listTools(t, c, as("x"), l.GetNextCursor()) {
		got = append(got, names(l))
		if l.NextCursor == nil {
			break
		}
	}
	expect(t, "pages", got, [][]string{{"a", "b"}, {"c"}, {"d"}})

	var many []*pb.Tool
	for i := range defaults.Tools + 100 {
		many = append(many, newTool("t"+strconv.Itoa(i), intSchema))
	}
	b = &backend{}
	b.set(many...)
	expect(t, "tools on one page", len(listTools(t, New(b, Options{}), as("x")).GetTools()), defaults.Tools)
	b.pageSize = 1_000
	c, total := New(b, Options{}), 0
	for l := listTools(t, c, as("x")); ; l = listTools(t, c, as("x"), l.GetNextCursor()) {
		total += len(l.GetTools())
		if l.NextCursor == nil {
			break
		}
	}
	expect(t, "tools on several pages", total, defaults.Tools)
}

// With an endless list, a call reads up to the limit of pages, and fewer if a cursor repeats.
func TestEndlessListsFail(t *testing.T) {
	bridgetest.SkipIfShort(t)
	for _, tc := range []struct {
		what string
		next func(cursor string) string
		most int
	}{
		{"the same", func(string) string { return "same" }, 2},
		{"an empty one", func(string) string { return "" }, 2},
		{
			"another one", func(c string) string { return "c" + strconv.Itoa(len(c)) + c[:min(len(c), 8)] },
			limits.ListPages,
		},
		{"ever longer ones", func(c string) string { return c + strings.Repeat("c", 1000) }, limits.ListPages},
	} {
		lists := 0
		c := New(bridge.HandlerFunc(func(_ context.Context, call *bridge.Call, _ bridge.Emit) (*bridge.Result, error) {
			if r, ok := call.Request.(*pb.ListToolsRequest); ok {
				lists++
				return &bridge.Result{Complete: &pb.ListToolsResponse{
					NextCursor: proto.String(tc.next(r.GetCursor())),
				}}, nil
			}
			return &bridge.Result{Complete: bridgetest.Text("called")}, nil
		}), Options{})
		expect(t, tc.what, callTool(t, c, as("x"), "f", `{}`), "called")
		if lists > tc.most {
			t.Errorf("%s: got requests for %d pages", tc.what, lists)
		}
		for key := range c.before {
			if len(key.cursor) > maxCursor {
				t.Fatalf("%s: the page before a cursor of %d bytes is cached, so that every later page looks it up",
					tc.what, len(key.cursor))
			}
		}
	}
}
