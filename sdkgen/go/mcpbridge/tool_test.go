package mcpbridge_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
	"github.com/mcpbridge/mcpbridge/sdkgen/go/mcpbridge"
	"github.com/mcpbridge/mcpbridge/sdkgen/go/mcpbridgetest"
)

type M = map[string]any

type forecastIn struct {
	City  string `json:"city" jsonschema:"City name" schema:"minLen=1"`
	Days  int    `json:"days,omitempty" jsonschema:"How far to look ahead" schema:"min=1,max=14,default=3"`
	Units string `json:"units,omitempty" schema:"enum=metric|imperial,default=metric"`
}

type forecast struct {
	City string    `json:"city"`
	Days []float64 `json:"days"`
}

func weather(t *testing.T) *mcpbridge.App {
	t.Helper()
	app := mcpbridge.New("weather", "1.0")
	mcpbridge.Tool(app, "get_forecast", "Weather forecast", func(_ context.Context, in forecastIn) (forecast, error) {
		return forecast{in.City + " in " + in.Units, make([]float64, in.Days)}, nil
	}, mcpbridge.ReadOnly(), mcpbridge.Title("Forecast"))
	if err := app.Err(); err != nil {
		t.Fatal(err)
	}
	return app
}

func list(t *testing.T, app *mcpbridge.App) []*pb.Tool {
	t.Helper()
	r, err := app.Service().ListTools(t.Context(), &pb.ListToolsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return r.GetTools()
}

func TestToolIsListedWithItsSchemas(t *testing.T) {
	tool := list(t, weather(t))[0]
	const in = `{"type":"object","properties":{` +
		`"city":{"type":"string","description":"City name","minLength":1},` +
		`"days":{"type":"integer","description":"How far to look ahead","default":3,"minimum":1,"maximum":14},` +
		`"units":{"type":"string","default":"metric","enum":["metric","imperial"]}},` +
		`"required":["city"],"additionalProperties":false}`
	const out = `{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"array","items":{"type":"number"}}},` +
		`"required":["city","days"],"additionalProperties":false}`
	got := []string{canonical(t, []byte(tool.GetInputSchema())), canonical(t, []byte(tool.GetOutputSchema()))}
	if diff := cmp.Diff([]string{canonical(t, []byte(in)), canonical(t, []byte(out))}, got); diff != "" {
		t.Error(diff)
	}
	if !strings.HasPrefix(tool.GetInputSchema(), `{"type":"object","properties":{"city":`) {
		t.Errorf("the order of the fields is lost: %s", tool.GetInputSchema())
	}
	a := tool.GetAnnotations()
	if !a.GetReadOnlyHint() || a.DestructiveHint != nil || tool.GetTitle() != "Forecast" ||
		tool.GetDescription() != "Weather forecast" {
		t.Errorf("got %v", tool)
	}
}

func canonical(t *testing.T, text []byte) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	text, _ = json.MarshalIndent(v, "", " ")
	return string(text)
}

func TestDefaultsAreFilledIn(t *testing.T) {
	called := mcpbridgetest.Call(t, weather(t), "get_forecast", M{"city": "Bern"})
	if got, want := called.Text(), `{"city":"Bern in metric","days":[0,0,0]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	var f forecast
	called.Structured(t, &f)
	if len(f.Days) != 3 {
		t.Errorf("got %+v", f)
	}
}

type nested struct {
	When  time.Time         `json:"when"`
	Tags  []string          `json:"tags" schema:"maxItems=2,unique,enum=a|b|c"`
	Price float64           `json:"price" schema:"above=0,multipleOf=0.5"`
	Code  string            `json:"code" schema:"pattern=^[a-z]{1,3}$"`
	Sub   struct{ N uint8 } `json:"sub"`
	By    map[string]int    `json:"by,omitempty"`
	Maybe *int              `json:"maybe,omitempty"`
}

func TestWrongArgumentsAreNamed(t *testing.T) {
	app := weather(t)
	mcpbridge.Tool(app, "nested", "", func(_ context.Context, in nested) (nested, error) { return in, nil })
	const usage = "\nUsage: get_forecast(city: string, days: integer 1..14 = 3, units: \"metric\" | \"imperial\" = " +
		"\"metric\")"
	const right = `"when":"2026-01-02T03:04:05Z","tags":["a"],"price":1.5,"code":"ab","sub":{"N":1}`
	for _, c := range []struct{ tool, arguments, want string }{
		{
			"get_forecast", `{"city":"Bern","days":20}`,
			"get_forecast: the arguments are not valid.\n- days: must be at most 14, got 20" + usage,
		},
		{"get_forecast", ``, "get_forecast: the arguments are not valid.\n- city: is required" + usage},
		{"get_forecast", `{"City":"Bern"}`, "- City: does not exist; did you mean city?\n- city: is required"},
		{"get_forecast", `{"city":"","days":"3","units":"si"}`, "- city: must have at least 1 character, got 0\n" +
			"- days: must be integer, got \"3\"\n- units: must be one of \"metric\", \"imperial\", got \"si\""},
		{"get_forecast", `{"city":null}`, "- city: must be string, got null"},
		{"get_forecast", `{"city":"Bern","days":2.5}`, "- days: must be integer, got 2.5"},
		{
			"get_forecast", `{"city":"Bern","days":99999999999999999999}`,
			"- days: must be at most 14, got 99999999999999999999",
		},
		{
			"get_forecast", `{"city":"Bern","city":"Basel"}`,
			`- (all): this is not JSON: jsontext: duplicate object member name "city"`,
		},
		{"get_forecast", `["Bern"]`, `- (all): must be object, got ["Bern"]`},
		{"get_forecast", `{"city":"Bern"} {}`, "- (all): this is more than one JSON value"},
		{
			"nested", `{"when":"tomorrow","tags":["a"],"price":1.5,"code":"ab","sub":{"N":1}}`,
			"- when: must be a date and time with an offset such as 2026-01-31T14:30:00Z, got \"tomorrow\"",
		},
		{
			"nested", `{` + strings.Replace(right, `"ab"`, `"ABCD"`, 1) + `}`,
			`- code: must match ^[a-z]{1,3}$, got "ABCD"`,
		},
		{
			"nested", `{` + strings.Replace(right, `["a"]`, `["a","x","a"]`, 1) + `}`,
			"- tags.1: must be one of \"a\", \"b\", \"c\", got \"x\"\n" +
				"- tags: must not have the same twice: 0 and 2 are both \"a\"\n" +
				"- tags: must have at most 2 items, got 3",
		},
		{
			"nested", `{` + strings.Replace(right, `{"N":1}`, `{"N":256}`, 1) + `}`,
			"- sub.N: must be at most 255, got 256",
		},
		{"nested", `{` + strings.Replace(right, `1.5`, `0`, 1) + `}`, "- price: must be more than 0, got 0"},
		{"nested", `{` + right + `,"by":{"x":1,"y":"z"}}`, `- by.y: must be integer, got "z"`},
		{"nested", `{}`, `Usage: nested(when: date-time, tags: "a" | "b" | "c"[], price: number > 0, code: string,`},
	} {
		called := mcpbridgetest.Call(t, app, c.tool, []byte(c.arguments))
		if !called.IsError() || !strings.Contains(called.Text(), c.want) {
			t.Errorf("%s: got %s\nwant %s", c.arguments, called.Text(), c.want)
		}
	}
	for _, arguments := range []string{
		`{` + right + `}`, `{` + right + `,"maybe":null}`, `{` + right + `,"maybe":7,"by":{"x":1.0,"y":2e1}}`,
		`{` + strings.Replace(right, `["a"]`, `["\u0061"]`, 1) + `}`,
	} {
		if called := mcpbridgetest.Call(t, app, "nested", []byte(arguments)); called.IsError() {
			t.Errorf("%s: got %s", arguments, called.Text())
		}
	}
}

func TestResultsOfEveryType(t *testing.T) {
	app := mcpbridge.New("test", "1")
	tool(app, "text", "hello")
	tool(app, "number", 42)
	tool(app, "list", []string(nil))
	tool(app, "map", map[string]int{"b": 2, "a": 1})
	tool(app, "pointer", &forecast{City: "Bern"})
	tool(app, "none", mcpbridge.None{})
	tool(app, "image", mcpbridge.Image([]byte{1, 2}, "image/png"))
	tool(app, "link", []*mcpbridge.Content{mcpbridge.Text("see"), mcpbridge.Link("file:///a/b.txt", "")})
	embedded, err := mcpbridge.Embedded("x://a", M{"x": 1}, "")
	if err != nil {
		t.Fatal(err)
	}
	tool(app, "others", []*mcpbridge.Content{mcpbridge.Audio([]byte{3}, "audio/wav"), embedded})
	tool[any](app, "any", M{"x": 1})
	tool(app, "nil", (*forecast)(nil))
	tool(app, "invalid", "a\xffb")
	if err := app.Err(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"text":    `content:{text:{text:"hello"}}`,
		"number":  `content:{text:{text:"42"}} structured_content:"{\"result\":42}"`,
		"list":    `content:{text:{text:"[]"}} structured_content:"{\"result\":[]}"`,
		"map":     `content:{text:{text:"{\"a\":1,\"b\":2}"}} structured_content:"{\"a\":1,\"b\":2}"`,
		"pointer": `content:{text:{text:"{\"city\":\"Bern\",\"days\":[]}"}} structured_content:"{\"city\":\"Bern\",\"days\":[]}"`,
		"none":    ``,
		"image":   `content:{image:{data:"\x01\x02" mime_type:"image/png"}}`,
		"link":    `content:{text:{text:"see"}} content:{resource_link:{uri:"file:///a/b.txt" name:"b.txt"}}`,
		"others":  `content:{audio:{data:"\x03" mime_type:"audio/wav"}} content:{resource:{resource:{uri:"x://a" mime_type:"application/json" text:"{\"x\":1}"}}}`,
		"any":     `content:{text:{text:"{\"x\":1}"}} structured_content:"{\"x\":1}"`,
		"nil":     `content:{text:{text:"the tool returned null and no error, and its results are objects"}} is_error:true`,
		"invalid": `content:{text:{text:"a` + "\uFFFD" + `b"}}`,
	} {
		got := strings.ReplaceAll(fmt.Sprint(mcpbridgetest.Call(t, app, name, nil).Result), "  ", " ")
		if got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

// Values that JSON cannot represent are rejected, and the error names their location.
func TestResultsThatJSONCannotHold(t *testing.T) {
	type row struct {
		Price float64 `json:"price"`
		Owner any     `json:"owner"`
	}
	for want, v := range map[string]any{
		"the value is NaN, which JSON cannot represent": math.NaN(),
		"rows.1.price is NaN, which JSON cannot represent": M{
			"rows": []row{{Price: 1}, {Price: math.NaN()}},
		},
		"0.owner.pay is -Infinity, which JSON cannot represent": []row{{
			1,
			M{"pay": math.Inf(-1)},
		}},
		"0.owner is chan int, which JSON cannot represent": []row{{
			1,
			make(chan int),
		}},
		"0.owner is sync.Mutex, which JSON cannot represent: Go struct has no exported fields": []row{{
			1,
			&sync.Mutex{},
		}},
		"0.owner is errors.errorString, which JSON cannot represent: Go struct has no exported fields": []row{{
			1,
			errors.New("x"),
		}},
	} {
		app := mcpbridge.New("test", "1")
		tool(app, "returns", v)
		mcpbridge.ResourceFunc(app, "x://a", "a", "", func(context.Context) (any, error) { return v, nil })
		if called := mcpbridgetest.Call(t, app, "returns", nil); !called.IsError() || called.Text() != want {
			t.Errorf("got %s, want %s", called.Text(), want)
		}
		read := mcpbridgetest.Read(t, app, "x://a")
		if read.Err == nil || !strings.Contains(read.Err.Error(), want) {
			t.Errorf("got %v, want %s", read.Err, want)
		}
	}
	typed := mcpbridge.New("test", "1")
	tool(typed, "row", []row{{Price: math.Inf(1)}})
	if called := mcpbridgetest.Call(t, typed, "row",
		nil); called.Text() != "0.price is Infinity, which JSON cannot represent" {
		t.Errorf("got %s", called.Text())
	}
}

// tool adds a tool without arguments that returns v.
func tool[T any](app *mcpbridge.App, name string, v T) {
	mcpbridge.Tool(app, name, "", func(context.Context, struct{}) (T, error) { return v, nil })
}

// fails adds a tool that fails.
func fails(app *mcpbridge.App, name string, fn func() error) {
	mcpbridge.Tool(app, name, "", func(context.Context, struct{}) (string, error) { return "", fn() })
}

func TestErrorsKeepTheirMeaning(t *testing.T) {
	app := mcpbridge.New("test", "1")
	fails(app, "plain", func() error { return errors.New("the disk is full") })
	fails(app, "meant", func() error { return mcpbridge.ToolError("no city %q", "Atlantis") })
	index := func(i int) int { return []int{}[i] }
	fails(app, "panics", func() error { return fmt.Errorf("%d", index(5)) })
	fails(app, "cancelled", func() error { return context.Canceled }) // of a context of the tool's own
	fails(app, "exact", func() error {
		return fmt.Errorf("wrapped: %w", &mcpbridge.Error{Code: -32050, Message: "busy", Data: M{"retry": 3}})
	})
	for name, want := range map[string]string{
		"plain": "the disk is full", "meant": `no city "Atlantis"`, "cancelled": "context canceled",
		"panics": "runtime error: index out of range [5] with length 0",
	} {
		if called := mcpbridgetest.Call(t, app, name, nil); called.Text() != want || !called.Result.GetIsError() {
			t.Errorf("%s: got %v, want %s", name, called.Result, want)
		}
	}
	s, _ := status.FromError(mcpbridgetest.Call(t, app, "exact", nil).Err)
	detail, _ := s.Details()[0].(*pb.JsonRpcError)
	if s.Code() != codes.Unknown || detail.GetCode() != -32050 || detail.GetMessage() != "busy" ||
		detail.GetData() != `{"retry":3}` {
		t.Errorf("got %v with %v", s, detail)
	}
	err := mcpbridgetest.Call(t, app, "meent", nil).Err
	if status.Code(err) != codes.NotFound ||
		!strings.Contains(err.Error(), `there is no tool "meent"; did you mean meant?`) {
		t.Errorf("got %v", err)
	}
}

func TestMistakesInDefinitionsNameTheLine(t *testing.T) {
	app := mcpbridge.New("test", "1")
	tool(app, "twice", 1)
	tool(app, "twice", 2)
	tool(app, "has space", 1)
	tool(app, "bytes", []byte{})
	tool(app, "channel", make(chan int))
	with[string](app)
	with[struct {
		Days int `schema:"mni=1"`
	}](app)
	with[struct {
		City string `schema:"min=1"`
	}](app)
	with[struct {
		Days int `schema:"default=three"`
	}](app)
	with[struct {
		Days []struct {
			N int `schema:"default=1"`
		}
	}](app)
	with[struct {
		City string `jsonschema:"minLength=1"`
	}](app)
	with[struct {
		Skipped chan int `json:"-"`
		In      []struct{ Done *chan int }
	}](app)
	with[struct{ Root []treeNode }](app)
	mcpbridge.ResourceFunc(app, "config", "c", "", func(context.Context) (string, error) { return "", nil })
	mcpbridge.ResourceTemplate(app, "{+path}", "x", "", func(context.Context, M) (string, error) { return "", nil })
	mcpbridge.ResourceTemplate(app, "x://{ctiy}", "x", "",
		func(context.Context, struct{ City string }) (string, error) { return "", nil })
	mcpbridge.Prompt(app, "p", "", func(context.Context, struct{}) (int, error) { return 0, nil })
	lines := strings.Split(app.Err().Error(), "\n")
	for i, want := range []string{
		`tool "twice": it is already defined at tool_test.go:`,
		`tool "has space": a name is 1 to 128 letters, digits, '_', '-' and '.'`,
		`tool "bytes": a tool cannot return bytes`,
		`tool "channel": it returns chan int, which JSON cannot represent`,
		`tool "with": its arguments: arguments have names, so they are a struct or a map, and not string`,
		`field Days, schema:"mni=1": there is no mni; did you mean min?`,
		`field City, schema:"min=1": it is for numbers; use minLen or maxLen for text`,
		`field Days, schema:"default=three": "three" is not of type integer`,
		`field N, schema:"default=1": a default works in a struct and the structs in it`,
		`tag must not begin with 'WORD='`,
		`field In.Done has a type that JSON cannot represent, chan int; leave it out`,
		`mcpbridge_test.treeNode contains itself, and has no schema here; use any in it`,
		`resource "config": a URI begins with a scheme, such as file:///`,
		`resource template "{+path}": a URI begins with a scheme, such as file:///`,
		`there is no field for {ctiy}; did you mean City?`,
		`prompt "p": it returns int, and a prompt returns string, *Message or []*Message`,
	} {
		if i >= len(lines) || !strings.Contains(lines[i], want) || !strings.HasPrefix(lines[i], "tool_test.go:") {
			t.Errorf("line %d: want %s, got\n%s", i, want, strings.Join(lines, "\n"))
			break
		}
	}
}

type treeNode struct {
	Next *treeNode `json:"next,omitempty"`
}

func with[In any](app *mcpbridge.App) {
	mcpbridge.Tool(app, "with", "", func(context.Context, In) (string, error) { return "", nil })
}

func TestOwnSchema(t *testing.T) {
	app := mcpbridge.New("test", "1")
	mcpbridge.Tool(app, "any", "",
		func(_ context.Context, in json.RawMessage) (string, error) { return string(in), nil })
	mcpbridge.Tool(app, "own", "", func(_ context.Context, in M) (string, error) { return fmt.Sprint(in), nil },
		mcpbridge.InputSchema(`{"type":"object","properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"oneOf":[{"type":"string"},{"type":"integer"}]}}}`))
	if got := mcpbridgetest.Call(t, app, "any", []byte(`{"a": 9007199254740993}`)).
		Text(); got != `{"a": 9007199254740993}` {
		t.Errorf("got %s", got)
	}
	if got := mcpbridgetest.Call(t, app, "own", M{"a": "b"}).Text(); got != "map[a:b]" {
		t.Errorf("got %s", got)
	}
	if got := mcpbridgetest.Call(t, app, "own", M{"a": true}); !got.IsError() ||
		!strings.Contains(got.Text(), "own: the arguments are not valid.\n- (all):") {
		t.Errorf("got %s", got.Text())
	}
}

func TestBigAndUnicodeArguments(t *testing.T) {
	app := mcpbridge.New("test", "1")
	mcpbridge.Tool(app, "echo", "",
		func(_ context.Context, in struct{ Text string }) (string, error) { return in.Text, nil })
	for _, text := range []string{"", "日本語 🎉 \u0000 \u2028 \"\\", strings.Repeat("ä", 4<<20)} {
		if got := mcpbridgetest.Call(t, app, "echo", M{"Text": text}).Text(); got != text {
			t.Errorf("got %.40q of %d bytes", got, len(got))
		}
	}
}

func TestIdentityOfTheCaller(t *testing.T) {
	app := mcpbridge.New("test", "1")
	mcpbridge.Tool(app, "who", "", func(ctx context.Context, _ struct{}) (string, error) {
		return fmt.Sprint(mcpbridge.Principal(ctx).GetSubject(), " ", mcpbridge.Headers(ctx)["x-team"], " ",
			mcpbridge.ClientInfo(ctx).GetName(),
			" ", mcpbridge.ProtocolVersion(ctx), " ", mcpbridge.RequestMeta(ctx)["k"]), nil
	})
	caller := mcpbridgetest.Everything()
	caller.Verified.Principal = &pb.Principal{Subject: "ada"}
	caller.Verified.Headers = map[string]string{"x-team": "red"}
	caller.Meta = `{"k":"v"}`
	if got, want := mcpbridgetest.Call(t, app, "who", nil, mcpbridgetest.WithCaller(caller)).Text(),
		"ada red mcpbridgetest 2026-07-28 v"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestProgressAndLogs(t *testing.T) {
	app := mcpbridge.New("test", "1")
	late := make(chan context.Context, 2)
	mcpbridge.Tool(app, "works", "", func(ctx context.Context, _ struct{}) (string, error) {
		log := slog.New(mcpbridge.NewLogHandler(nil)).With("unit", 7).WithGroup("g")
		for i := range 10_000 {
			mcpbridge.Progress(ctx, float64(i), 10_000)
		}
		mcpbridge.Progress(ctx, 10_000, 0, "done \xff")
		mcpbridge.Log(ctx, mcpbridge.LevelInfo, M{"a": 1})
		mcpbridge.Log(ctx, mcpbridge.LevelDebug, func() {})
		log.InfoContext(ctx, "hello", "k", "v")
		log.Log(ctx, slog.LevelError+8, "fire")
		log.Info("outside a call")
		late <- ctx
		return "", nil
	})
	called := mcpbridgetest.Call(t, app, "works", nil)
	if n := len(called.Progress); n != 10_001 || called.Progress[0].GetTotal() != 10_000 ||
		called.Progress[10_000].Total != nil {
		t.Errorf("got %d: %v", n, called.Progress[n-1])
	}
	var logs []string
	for _, l := range called.Logs {
		logs = append(logs, fmt.Sprintf("%v %.40s", l.GetLevel(), l.GetData()))
	}
	if len(logs) != 4 {
		t.Fatalf("got %v", logs)
	}
	logs[1] = strings.Split(logs[1], `"0x`)[0] // a function's address
	want := []string{
		`LOG_LEVEL_INFO {"a":1}`, `LOG_LEVEL_DEBUG `,
		`LOG_LEVEL_INFO {"msg":"hello","unit":7,"g":{"k":"v"}}`, `LOG_LEVEL_ALERT {"msg":"fire","unit":7}`,
	}
	if diff := cmp.Diff(want, logs); diff != "" {
		t.Error(diff)
	}

	mcpbridge.Progress(<-late, 1, 1) // After the result nothing is sent, and nothing breaks.

	caller := mcpbridgetest.Everything()
	caller.ProgressWanted, caller.LogLevel = false, pb.LogLevel_LOG_LEVEL_UNSPECIFIED
	if called := mcpbridgetest.Call(t, app, "works", nil, mcpbridgetest.WithCaller(caller)); len(called.Progress)+
		len(called.Logs) > 0 {
		t.Errorf("got %v %v, which the caller did not request", called.Progress, called.Logs)
	}
}

func TestCancelledCallEndsItsContext(t *testing.T) {
	app := mcpbridge.New("test", "1")
	started := make(chan struct{})
	mcpbridge.Tool(app, "waits", "", func(ctx context.Context, _ struct{}) (string, error) {
		close(started)
		<-ctx.Done()
		return "", ctx.Err()
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-started; cancel() }()
	if err := mcpbridgetest.Call(t, app, "waits", nil, mcpbridgetest.WithContext(ctx)).
		Err; status.Code(err) != codes.Canceled {
		t.Errorf("got %v", err)
	}
}
