package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/clientcmd"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/problem"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A shop is a backend in this process with tools, prompts and resources. It records the context of the last tool call.
type shop struct {
	pb.UnimplementedMcpServiceServer

	cancelled chan struct{} // closed when the context of `wait` ends
	waiting   chan struct{} // closed when `wait` is called
	held      chan struct{} // ends `hold`
	endless   bool          // its list of prompts never ends
	form      string        // the form of `order`, if not orderForm
	schema    string        // the input schema of `buy`, if not buySchema
	mu        sync.Mutex
	caller    *pb.CallContext
	version   int32 // of the contract; 0: the current one
}

// startShop serves a shop and returns its address.
func startShop(t *testing.T) (*shop, string) {
	t.Helper()
	s := newShop()
	return s, serveShop(t, s)
}

func newShop() *shop {
	return &shop{cancelled: make(chan struct{}), waiting: make(chan struct{}), held: make(chan struct{})}
}

// serveShop serves a shop, or one with other methods, and returns its address.
func serveShop(t *testing.T, s pb.McpServiceServer) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	ln, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterMcpServiceServer(server, s)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := server.Serve(ln); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(wg.Wait)
	t.Cleanup(server.Stop)
	return "unix://" + socket
}

func text(s string) *string { return &s }

func (s *shop) Discover(context.Context, *pb.DiscoverRequest) (*pb.DiscoverResponse, error) {
	return &pb.DiscoverResponse{
		ContractVersion: cmp.Or(s.version, bridge.ContractVersion),
		ServerInfo:      &pb.Implementation{Name: "shop", Version: "1"}, Instructions: text("Buy\x1b[31m something."),
		Capabilities: &pb.ServerCapabilities{
			Tools: &pb.ToolsCapability{}, Resources: &pb.ResourcesCapability{}, Prompts: &pb.PromptsCapability{},
			Completions: &pb.Capability{},
		},
	}, nil
}

// orderForm has a field of every type.
const orderForm = `{"type":"object","required":["size","count"],"properties":{
	"size":{"type":"string","enum":["s","l"],"enumNames":["small","large"],"title":"Size"},
	"count":{"type":"integer","minimum":1,"maximum":9,"description":"How many."},
	"gift":{"type":"boolean","default":false},
	"mail":{"type":"string","format":"email"},
	"tags":{"type":"array","items":{"anyOf":[{"const":"new","title":"New"},{"const":"old","title":"Old"}]}}}}`

const buySchema = `{"type":"object","required":["what"],"properties":{"what":{"type":"string"},"n":{"type":"integer","default":1},` +
	`"pay":{"$ref":"#/$defs/pay"},"tags":{"type":"array","items":{"type":"string"}},"fast":{"type":"boolean"},` +
	`"price":{"anyOf":[{"type":"number"},{"type":"null"}]}},` +
	`"$defs":{"pay":{"type":"object","properties":{"by":{"enum":["card","cash"]},"tip":{"type":"number"}}}}}`

func (s *shop) ListTools(_ context.Context, req *pb.ListToolsRequest) (*pb.ListToolsResponse, error) {
	if req.Cursor == nil { // the list of tools has two pages
		return &pb.ListToolsResponse{
			Tools: []*pb.Tool{{
				Name: "paint", Description: text("Paint\x1b[31m red.\nMore."),
				InputSchema: `{"type":"object"}`,
			}},
			NextCursor: text("2"),
		}, nil
	}
	tool := func(name, schema string) *pb.Tool { return &pb.Tool{Name: name, InputSchema: schema} }
	return &pb.ListToolsResponse{Tools: []*pb.Tool{
		tool("order", `{"type":"object"}`),
		tool("visit", `{"type":"object"}`),
		tool("where", `{"type":"object"}`),
		tool("wait", `{"type":"object","properties":{"ms":{"type":"integer"}}}`),
		tool("fail", `{"type":"object"}`),
		tool("nag", `{"type":"object"}`),
		tool("deny", `{"type":"object"}`),
		tool("sell", `{"type":"object"}`),
		tool("dream", `{"type":"object"}`),
		tool("hold", `{"type":"object"}`),
		tool("buy", cmp.Or(s.schema, buySchema)),
	}}, nil
}

func (s *shop) CallTool(req *pb.CallToolRequest, stream grpc.ServerStreamingServer[pb.CallToolResponse]) error {
	s.mu.Lock()
	s.caller = req.GetContext()
	s.mu.Unlock()
	sendText := func(what string, failed bool) error {
		block := &pb.ContentBlock{Block: &pb.ContentBlock_Text{Text: &pb.TextContent{Text: what}}}
		result := &pb.CallToolResult{Content: []*pb.ContentBlock{block}}
		if failed {
			result.IsError = &failed
		}
		return stream.Send(&pb.CallToolResponse{Event: &pb.CallToolResponse_Result{Result: result}})
	}
	requireInput := func(req *pb.InputRequest) error {
		req.Key = "q"
		needs := &pb.InputRequired{InputRequests: []*pb.InputRequest{req}, RequestState: []byte("s")}
		return stream.Send(&pb.CallToolResponse{Event: &pb.CallToolResponse_InputRequired{InputRequired: needs}})
	}
	elicit := func(e *pb.ElicitRequest) error {
		return requireInput(&pb.InputRequest{Request: &pb.InputRequest_Elicit{Elicit: e}})
	}
	answer := req.GetInputResponses()["q"]
	switch req.GetName() {
	case "paint":
		logged := &pb.LogMessage{Level: pb.LogLevel_LOG_LEVEL_NOTICE, Data: `"mixing\u001b[31m"`}
		if err := stream.Send(&pb.CallToolResponse{Event: &pb.CallToolResponse_Log{Log: logged}}); err != nil {
			return err
		}
		return sendText("red \x1b[31m\u202e\u009b and \xff"[:len("red \x1b[31m\u202e\u009b and ")], false)
	case "buy":
		return sendText(string(req.GetArguments()), false)
	case "fail":
		return sendText("out of \x1b[31mpaint", true)
	case "sell": // runs, and then returns this error
		return status.Error(codes.Unavailable, "the till is stuck")
	case "deny":
		return status.Error(codes.Unauthenticated, "who are you?")
	case "nag", "where":
		if answer == nil || req.GetName() == "nag" {
			return requireInput(&pb.InputRequest{
				Request: &pb.InputRequest_ListRoots{ListRoots: &pb.ListRootsRequest{}},
			})
		}
		return sendText(answer.GetListRoots().GetRoots()[0].GetUri(), false)
	case "order":
		if answer == nil {
			form := &pb.ElicitForm{Message: "What\x1b[2J would you like?", RequestedSchema: cmp.Or(s.form, orderForm)}
			return elicit(&pb.ElicitRequest{Mode: &pb.ElicitRequest_Form{Form: form}})
		}
		return sendText(answer.GetElicit().GetAction()+" "+
			answer.GetElicit().GetContent(), false)
	case "visit":
		if answer == nil {
			page := &pb.ElicitUrl{Message: "Pay there.", Url: "https://pay.example.com/1"}
			return elicit(&pb.ElicitRequest{Mode: &pb.ElicitRequest_Url{Url: page}})
		}
		return sendText(answer.GetElicit().GetAction(), false)
	case "hold":
		select {
		case <-s.held:
		case <-stream.Context().Done():
		}
		return sendText("held", false)
	case "dream":
		if answer == nil {
			message := &pb.SamplingMessage{Role: "user", Content: []*pb.ContentBlock{
				{Block: &pb.ContentBlock_Text{Text: &pb.TextContent{Text: "Of what\x1b[2J do you\ndream?"}}},
			}}
			return requireInput(&pb.InputRequest{
				Request: &pb.InputRequest_CreateMessage{CreateMessage: &pb.CreateMessageRequest{
					Messages: []*pb.SamplingMessage{message}, SystemPrompt: text("Be brief."), MaxTokens: 100,
				}},
			})
		}
		if e := answer.GetError(); e != nil {
			return sendText(e.GetReason().String(), true)
		}
		return sendText(answer.GetCreateMessage().GetContent()[0].GetText().GetText()+" "+answer.GetCreateMessage().
			GetModel(), false)
	case "wait":
		close(s.waiting)
		half, total := 5.0, 10.0
		for {
			p := &pb.Progress{Progress: half, Total: &total, Message: text("half\x1b[31m done")}
			if err := stream.Send(&pb.CallToolResponse{Event: &pb.CallToolResponse_Progress{Progress: p}}); err != nil {
				close(s.cancelled)
				return err
			}
			select {
			case <-stream.Context().Done():
				close(s.cancelled)
				return stream.Context().Err()
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	return status.Errorf(codes.NotFound, "there is no tool %q", req.GetName())
}

func (*shop) ListResources(context.Context, *pb.ListResourcesRequest) (*pb.ListResourcesResponse, error) {
	return &pb.ListResourcesResponse{
		Resources: []*pb.Resource{{Uri: "shop://sign", Name: "sign", MimeType: text("text/plain")}},
	}, nil
}

func (*shop) ListResourceTemplates(context.Context,
	*pb.ListResourceTemplatesRequest,
) (*pb.ListResourceTemplatesResponse, error) {
	return &pb.ListResourceTemplatesResponse{
		ResourceTemplates: []*pb.ResourceTemplate{{UriTemplate: "shop://{shelf}", Name: "shelf"}},
	}, nil
}

func (*shop) ReadResource(req *pb.ReadResourceRequest,
	stream grpc.ServerStreamingServer[pb.ReadResourceResponse],
) error {
	c := &pb.ResourceContents{Uri: req.GetUri()}
	switch req.GetUri() {
	case "shop://sign":
		c.Body = &pb.ResourceContents_Text{Text: "open"}
	case "shop://logo":
		c.Body = &pb.ResourceContents_Blob{Blob: []byte{0x89, 'P', 'N', 'G', 0, 0xff}}
	default:
		return status.Errorf(codes.NotFound, "there is no %s", req.GetUri())
	}
	return stream.Send(&pb.ReadResourceResponse{Event: &pb.ReadResourceResponse_Result{
		Result: &pb.ReadResourceResult{Contents: []*pb.ResourceContents{c}},
	}})
}

func (s *shop) ListPrompts(_ context.Context, req *pb.ListPromptsRequest) (*pb.ListPromptsResponse, error) {
	if s.endless {
		return &pb.ListPromptsResponse{NextCursor: text(req.GetCursor() + "x")}, nil
	}
	yes := true
	return &pb.ListPromptsResponse{Prompts: []*pb.Prompt{{Name: "haggle", Arguments: []*pb.PromptArgument{
		{Name: "price", Required: &yes}, {Name: "tone"},
	}}}}, nil
}

func (*shop) GetPrompt(req *pb.GetPromptRequest, stream grpc.ServerStreamingServer[pb.GetPromptResponse]) error {
	block := &pb.ContentBlock{
		Block: &pb.ContentBlock_Text{Text: &pb.TextContent{Text: "Not more than " + req.GetArguments()["price"] + "."}},
	}
	return stream.Send(&pb.GetPromptResponse{Event: &pb.GetPromptResponse_Result{
		Result: &pb.GetPromptResult{Messages: []*pb.PromptMessage{{Role: "user", Content: block}}},
	}})
}

func (*shop) Complete(_ context.Context, req *pb.CompleteRequest) (*pb.CompleteResponse, error) {
	value := req.GetArgument().GetValue()
	return &pb.CompleteResponse{Completion: &pb.Completion{
		Values: []string{value + "ind", value + "ey" + req.GetArgumentContext().GetArguments()["price"]},
	}}, nil
}

// A commandOutput is the output of a command and its exit code.
type commandOutput struct {
	stdout, stderr string
	code           int
}

// runCommand runs a command in this process, without a terminal.
func runCommand(t *testing.T, stdin string, args ...string) commandOutput {
	t.Helper()
	var stdout, stderr lockedBuffer
	p := &Program{Env: clientcmd.Env{
		Args: args, Stdin: strings.NewReader(stdin), Stdout: &stdout, Stderr: &stderr,
		Environ: os.Environ(),
	}}
	code := p.Run(t.Context())
	return commandOutput{stdout.String(), stderr.String(), code}
}

// Client commands ignore the configuration of serve: they have no --insecure flag and need none.
func TestClientCommandsIgnoreServerConfiguration(t *testing.T) {
	backend := fmt.Sprintf("backends: [{name: e, launch: {command: [%q]}, toolScopes: {echo: [admin]}}]\n", echoGo(t))
	for name, c := range map[string]struct{ serve, environ string }{
		"an address that --insecure allows": {serve: "serve: {http: {addr: '0.0.0.0:8080'}}\n"},
		"the address of a pod":              {environ: "MCPBRIDGE_SERVE__HTTP__ADDR=0.0.0.0:8080"},
		"a port of gRPC":                    {serve: "serve: {grpc: {addr: '0.0.0.0:50051'}}\n"},
		"no address at all":                 {},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr lockedBuffer
			p := &Program{
				Env: clientcmd.Env{
					Args:   []string{"call", writeConfig(t, c.serve+backend), "echo", "text=hi"},
					Stdin:  strings.NewReader(""),
					Stdout: &stdout, Stderr: &stderr, Environ: append(os.Environ(), c.environ),
				},
			}
			if code := p.Run(t.Context()); code != problem.ExitOK || stdout.String() != `{"text":"hi"}`+"\n" {
				t.Errorf("%d %s%s", code, &stdout, &stderr)
			}
		})
	}
	if got := runCommand(t, "", "list",
		writeConfig(t, "limits: {calls: -1}\n"+backend)); got.code != problem.ExitConfig {
		t.Errorf("limits did not apply to a client command: %d %s", got.code, got.stderr)
	}
}

// errorCode returns the code of the error in the last line of stderr.
func (s commandOutput) errorCode(t *testing.T) string {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(s.stderr), "\n")
	var last struct{ Error struct{ Code string } }
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil {
		t.Errorf("the last line of stderr is not an error: %v\n%s", err, s.stderr)
	}
	return last.Error.Code
}

func TestListShowsFunctions(t *testing.T) {
	_, shop := startShop(t)
	got := runCommand(t, "", "list", shop)
	want := `Tools
  paint()
      Paint\u001b[31m red.
  order()
  visit()
  where()
  wait(ms?: integer)
  fail()
  nag()
  deny()
  sell()
  dream()
  hold()
  buy(what: string, n?: integer = 1, pay?: {by?: "card" | "cash", tip?: number}, tags?: string[], fast?: boolean, price?: number | null)

Resources
  shop://sign (sign, text/plain)

Resource templates
  shop://{shelf} (shelf)

Prompts
  haggle(price, tone?)
`
	if got != (commandOutput{want, "", problem.ExitOK}) {
		t.Errorf("got %+v", got)
	}
	var document struct {
		Tools, Resources, ResourceTemplates, Prompts []struct{ Name string }
	}
	got = runCommand(t, "", "list", "--json", shop)
	if err := json.Unmarshal([]byte(got.stdout), &document); err != nil || len(document.Tools) != 12 ||
		document.Prompts[0].Name != "haggle" ||
		len(document.Resources) != 1 || len(document.ResourceTemplates) != 1 {
		t.Errorf("%v: %s", err, got.stdout)
	}
}

// Arguments are converted to the types in the tool's schema and keep every digit. All invalid ones are reported at
// once.
func TestArguments(t *testing.T) {
	bridgetest.SkipIfShort(t)
	_, shop := startShop(t)
	file := filepath.Join(t.TempDir(), "what.txt")
	if err := os.WriteFile(file, []byte("two\nlines"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ stdin, words, want string }{
		{"", "what=tea", `{"what":"tea"}`},
		{"", "what=5 n=9007199254740993123456789", `{"what":"5","n":9007199254740993123456789}`},
		{"", "what=tea n=+007 fast=yes", `{"what":"tea","n":7,"fast":true}`},
		{"", "what=tea tags=a tags=b", `{"what":"tea","tags":["a","b"]}`},
		{"", `what=tea tags=["a"]`, `{"what":"tea","tags":["a"]}`},
		{"", "what=tea tags=a", `{"what":"tea","tags":["a"]}`},
		{"", "what=tea pay.by=card pay.tip=0.10", `{"what":"tea","pay":{"by":"card","tip":0.10}}`},
		{"", `what=tea pay={"by":"cash"}`, `{"what":"tea","pay":{"by":"cash"}}`},
		{"", "what=tea price=null", `{"what":"tea","price":null}`},
		{"", "what=tea price=1e2", `{"what":"tea","price":1e2}`},
		{"", "what=@" + file, `{"what":"two\nlines"}`},
		{"", "what=@@tea", `{"what":"@tea"}`},
		{"cha", "what=@-", `{"what":"cha"}`},
		{`{"what": "tea", "n": 1e400}`, "-", `{"what": "tea", "n": 1e400}`},
		{"", `{"what":"tea"}`, `{"what":"tea"}`},
	} {
		got := runCommand(t, c.stdin, append([]string{"call", shop, "buy"}, strings.Fields(c.words)...)...)
		if got != (commandOutput{c.want + "\n", "", problem.ExitOK}) {
			t.Errorf("%s: got %+v", c.words, got)
		}
	}
	for words, want := range map[string]string{
		"":                            "what is missing: it is string",
		"what=tea n=1.5":              `n cannot be \"1.5\": it is a whole number`,
		"what=tea pay.by=crad":        `pay.by cannot be \"crad\"; did you mean card?`,
		"what=tea pay.bye=card":       "there is no argument pay.bye; did you mean by?",
		"wat=tea":                     `what is missing: it is string\nthere is no argument wat; did you mean what?`,
		"what=tea fast=perhaps":       `fast cannot be \"perhaps\": it is true or false`,
		"what=tea n=1 n=2":            "n is given 2 times and is no list: it is integer",
		"what=tea pay=card pay.tip=1": "pay is given both as a whole and by its members",
		`{"n":1}`:                     "what is missing",
		`{"what":5}`:                  "/what: expected a string, got the number 5",
		`{"what":"tea","n":"many"}`:   "/n: expected an integer",
		`{"what":"","pay":{"by":1}}`:  "/pay/by: expected one of",
		`what=tea pay={"by":1}`:       "/pay/by: expected one of",
		`--json {"what":5}`:           "/what: expected a string, got the number 5",
		"what=tea price=cheap":        `price cannot be \"cheap\": it is number | null`,
		"what=@/nowhere":              "cannot read the argument @/nowhere",
		"tea":                         `\"tea\" is not an argument`,
	} {
		got := runCommand(t, "", append([]string{"call", shop, "buy"}, strings.Fields(words)...)...)
		if got.code != problem.ExitUsage || got.stdout != "" || !strings.Contains(got.stderr, want) ||
			!strings.Contains(got.stderr, "what: string") && !strings.Contains(words, "@") {
			t.Errorf("%s: got %+v", words, got)
		}
	}
}

// If a schema is composed of others, or has keywords beside a $ref, an argument is converted to a type that one of the
// parts allows. The catalog validates the result.
func TestArgumentsOfComposedSchemas(t *testing.T) {
	const (
		payment = `{"type":"object","required":["kind"],"properties":{"kind":{"enum":["card","cash"]}},"oneOf":[` +
			`{"properties":{"kind":{"const":"card"},"number":{"type":"string"}},"required":["number"]},{"properties":{"kind":{"const":"cash"}}}]}`
		beside = `{"type":"object","$ref":"#/$defs/b","properties":{"x":{"type":"string"}},` +
			`"$defs":{"b":{"type":"object","properties":{"y":{"type":"string"}}}}}`
		branches = `"oneOf":[{"type":"object","properties":{"iban":{"type":"string"}},"required":["iban"]},` +
			`{"type":"object","properties":{"number":{"anyOf":[{"type":"string"},{"type":"null"}]}},"required":["number"]}]`
		inner = `{"type":"object","properties":{"pay":{` + branches + `}}}`
		deep  = `{"type":"object","properties":{"a":{}},"allOf":[{"$ref":"#/$defs/b"},{"title":"x"}],"$defs":{"b":{` +
			branches + `}}}`
	)
	with := func(keyword string) string {
		return `{"type":"object","properties":{"a":{"type":"integer"}},` + keyword + `}`
	}
	s, shop := startShop(t)
	for _, c := range []struct{ schema, words, want string }{
		{payment, "kind=card number=4111", `{"kind":"card","number":"4111"}`},
		{payment, `{"kind":"card","number":"4111"}`, `{"kind":"card","number":"4111"}`},
		{payment, "kind=cash", `{"kind":"cash"}`},
		{beside, "x=1 y=2", `{"x":"1","y":"2"}`},
		{inner, "pay.number=4111", `{"pay":{"number":"4111"}}`},
		{inner, "pay.iban=7", `{"pay":{"iban":"7"}}`},
		{inner, `pay={"number":null}`, `{"pay":{"number":null}}`},
		{deep, "a=1 number=4111", `{"a":1,"number":"4111"}`},
		{with(`"allOf":[{"properties":{"b":{"type":"string"}}}]`), "a=1 b=1", `{"a":1,"b":"1"}`},
		{
			with(`"anyOf":[{"properties":{"b":{"type":"string"}}},{"properties":{"b":{"type":"integer"}}}]`), "b=1",
			`{"b":1}`,
		},
		{
			with(`"if":{"required":["a"]},"then":{"properties":{"b":{"type":"string"}}},"else":{"properties":{"c":{"type":"string"}}}`),
			"b=1 c=1", `{"b":"1","c":"1"}`,
		},
		{with(`"anyOf":[{"properties":{"b":{"const":"x"}}},{"required":["b"]}]`), "b=y", `{"b":"y"}`},
		{with(`"dependentSchemas":{"a":{"properties":{"b":{"type":"string"}}}}`), "a=1 b=1", `{"a":1,"b":"1"}`},
		{with(`"dependentRequired":{"a":["b"]}`), "a=1 b=1", `{"a":1,"b":1}`},
		{with(`"patternProperties":{"^b":{}}`), "b=1", `{"b":1}`},
		{with(`"unevaluatedProperties":{"type":"string"}`), "b=1", `{"b":"1"}`},
		{
			`{"type":"object","properties":{"p":{"allOf":[{"properties":{"c":{"type":"string"}}}],"properties":{"b":{"type":"string"}}}}}`,
			"p.b=1 p.c=1", `{"p":{"b":"1","c":"1"}}`,
		},
	} {
		s.schema = c.schema
		got := runCommand(t, "", append([]string{"call", shop, "buy"}, strings.Fields(c.words)...)...)
		if got != (commandOutput{c.want + "\n", "", problem.ExitOK}) {
			t.Errorf("%s with %s: got %+v", c.schema, c.words, got)
		}
	}
	for _, c := range []struct{ schema, words, want string }{
		{payment, "kind=card", "/number: expected a value"}, // the catalog reports this
		{payment, "number=4111", "kind is missing"},
		{
			with(`"additionalProperties":false,"anyOf":[{"required":["a"]},{"title":"x"}]`), "ab=1",
			"there is no argument ab; known are: a",
		},
		{with(`"unevaluatedProperties":false`), "ab=1", "there is no argument ab; known are: a"},
		{
			`{"type":"object","properties":{"p":{"$ref":"#/$defs/b","description":"d","default":{}}},"$defs":{"b":{"properties":{"by":{}}}}}`,
			"p.bye=1", "did you mean by?",
		},
		{
			`{"type":"object","properties":{"p":{"anyOf":[{"properties":{"by":{}}},{"type":"null"}]}}}`, "p.bye=1",
			"did you mean by?",
		},
	} {
		s.schema = c.schema
		got := runCommand(t, "", append([]string{"call", shop, "buy"}, strings.Fields(c.words)...)...)
		if got.code != problem.ExitUsage || got.errorCode(t) != "arguments" || !strings.Contains(got.stderr, c.want) {
			t.Errorf("%s with %s: got %+v", c.schema, c.words, got)
		}
	}
}

func TestClientExitCodes(t *testing.T) {
	bridgetest.SkipIfShort(t)
	t.Parallel()
	_, shop := startShop(t)
	for _, c := range []struct {
		args, code string
		exit       int
	}{
		{"call " + shop + " pain", "not_found", problem.ExitTool},
		{"call " + shop + " fail", "tool_error", problem.ExitTool},
		{"call " + shop + " deny", "auth_required", problem.ExitAuth},
		{"call " + shop + " sell", "backend_failed", problem.ExitTool},
		{"call --root . " + shop + " nag", "asks_too_often", problem.ExitTool},
		{"call unix:///nowhere.sock x", "unreachable", problem.ExitUnreachable},
		{"call tcp:127.0.0.1:1 x", "unreachable", problem.ExitUnreachable},
		{"read " + shop + " shop://no", "not_found", problem.ExitTool},
		{"read x://y -- " + echoGo(t), "not_found", problem.ExitTool}, // no resources
		{"prompt " + shop + " hagle price=1", "not_found", problem.ExitTool},
		{"prompt " + shop + " haggle", "arguments", problem.ExitUsage},
		{"prompt " + shop + " haggle price=1 ton=x", "arguments", problem.ExitUsage},
		{"describe " + shop + " nothing", "not_found", problem.ExitTool},
		{"describe " + shop + " shop://3/4", "not_found", problem.ExitTool},
		{"complete " + shop + " haggle ton=k", "arguments", problem.ExitUsage},
		{"complete " + shop + " haggle tone=k pric=3", "arguments", problem.ExitUsage},
		{"complete " + shop + " hagle tone=k", "not_found", problem.ExitTool},
		{"complete " + shop + " shop://{shelf} shelve=k", "arguments", problem.ExitUsage},
		{"complete " + shop + " shop://{shelve} shelve=k", "not_found", problem.ExitTool},
		{"complete greet name=k -- " + echoGo(t), "not_found", problem.ExitTool}, // no completion
		{"call " + shop, "usage", problem.ExitUsage},
		{"call unknown x", "usage", problem.ExitUsage},
		{"list -- no-such-program", "command", problem.ExitPlugin},
		{"list --plugin -- sh -c exit", "plugin_start", problem.ExitPlugin},
		{"call --timeout 50ms " + shop + " wait", "timeout", problem.ExitTimeout},
		{"call " + shop + " order", "no_answer", problem.ExitUsage},
		{"call --answer gift=perhaps " + shop + " order", "usage", problem.ExitUsage},
		{"call --root /no/such/dir " + shop + " where", "usage", problem.ExitUsage},
	} {
		got := runCommand(t, "", strings.Fields(c.args)...)
		if code := got.errorCode(t); got.code != c.exit || code != c.code || got.stdout != "" {
			t.Errorf("%s: got exit code %d and %s, want %d and %s: %+v", c.args, got.code, code, c.exit, c.code,
				got)
		}
	}
}

// The exit codes in --help are the actual ones.
func TestHelpOfExitCodes(t *testing.T) {
	for _, command := range []string{"run", "list", "describe", "call", "read", "prompt", "complete"} {
		help := strings.Join(strings.Fields(runCommand(t, "", command, "--help").stdout), " ")
		if !strings.Contains(help, "1 a wrong command line") || !strings.Contains(help, " 6 a wrong configuration") {
			t.Errorf("%s: got %s", command, help)
		}
		if got := runCommand(t, "", command, "--nope"); got.code != problem.ExitUsage {
			t.Errorf("%s --nope: got %+v", command, got)
		}
	}
}

// No hint suggests repeating a call that may have been executed, even if the backend does not report an outcome.
func TestHintsNeverSuggestRepeatingAnExecutedCall(t *testing.T) {
	_, shop := startShop(t)
	got := runCommand(t, "", "call", shop, "sell")
	if !strings.Contains(got.stderr, "the till is stuck") ||
		!strings.Contains(got.stderr, "check its effect before you call it again") ||
		strings.Contains(got.stderr, "try again") {
		t.Errorf("got %+v", got)
	}
}

// limits.callTotal applies to commands if it is configured.
func TestCommandsHaveNoTimeoutByDefault(t *testing.T) {
	_, shop := startShop(t)
	t.Setenv("MCPBRIDGE_LIMITS__CALLTOTAL", "50ms")
	if got := runCommand(t, "", "call", shop, "wait"); got.code != problem.ExitTimeout ||
		!strings.Contains(got.stderr, "it took longer than 50ms") {
		t.Errorf("with a timeout: got %+v", got)
	}
}

// A program that prints the address on which it listens is not a server on stdin and stdout.
func TestServerAtAnotherPath(t *testing.T) {
	bridgetest.SkipIfShort(t)
	got := runCommand(t, "", "list", "--start-timeout", "200ms", "--", "sh", "-c",
		"echo listening on port 3000; exec sleep 100")
	for _, want := range []string{
		"was answered within 200ms",
		`stdout, where only MCP belongs:\n    listening on port 3000`,
		"check that it is a server on stdin and stdout",
	} {
		if got.code != problem.ExitPlugin || !strings.Contains(got.stderr, want) {
			t.Errorf("got %+v, want %q in it", got, want)
		}
	}
}

// The error for a program that exits contains its output and a fix.
func TestExitedProgramErrorHasAFix(t *testing.T) {
	for script, want := range map[string]string{
		"exit 3":                           "run the command by itself",
		"echo tools.py:3: bad >&2; exit 3": `correct the error that it printed last on standard error;\nif it is a backend of mcpbridge: add --plugin`,
		"echo starting >&2":                "it must call the SDK's run",
	} {
		if got := runCommand(t, "", "list", "--", "sh", "-c", script); got.code != problem.ExitPlugin ||
			!strings.Contains(got.stderr, want) {
			t.Errorf("%s: got %+v, want %q in it", script, got, want)
		}
	}
}

func TestReadPromptCompleteDescribe(t *testing.T) {
	bridgetest.SkipIfShort(t)
	s, shop := startShop(t)
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	logo := filepath.Join(t.TempDir(), "logo.png")
	for args, want := range map[string]string{
		"read " + shop + " shop://sign":                       "open",
		"read " + shop + " shop://logo":                       "\x89PNG\x00\xff",
		"read --output " + logo + " " + shop + " shop://logo": "",
		"prompt " + shop + " haggle price=3":                  "user: Not more than 3.\n",
		"complete " + shop + " haggle tone=k price=3":         "kind\nkey3\n",
		// a URI in place of a template: the server decides whether it completes that
		"complete " + shop + " shop://sign shelf=k": "kind\nkey\n",
		"call " + shop + " paint":                   "red \x1b[31m\u202e\u009b and \n",
		"call --root . " + shop + " where":          "file://" + dir + "\n",
		"describe " + shop + " shop://sign":         "shop://sign (sign, text/plain)\n",
		"describe " + shop + " shop://{shelf}":      "shop://{shelf} (shelf)\n",
		"describe " + shop + " shop://3": "shop://{shelf} (shelf)\n\nshop://3 is one of " +
			"these.\n",
		"describe --json " + shop + " shop://3": `{"name":"shelf","uriTemplate":"shop://{shelf}"}` +
			"\n",
		"complete --json " + shop +
			" shop://{shelf} shelf=k": `{"completion":{"values":["kind","key"]},"resultType":"complete"}` + "\n",
		"call --answer size=l --answer count=2 " + shop + " order": `accept {"size":"l","count":2,"gift":false}` + "\n",
	} {
		if got := runCommand(t, "", strings.Fields(args)...); got.stdout != want || got.code != problem.ExitOK {
			var a, b any
			if json.Unmarshal([]byte(got.stdout), &a) == nil && json.Unmarshal([]byte(want), &b) == nil &&
				strings.Contains(args, "--json") {
				if x, _ := json.Marshal(a); string(x) == mustJSON(b) {
					continue
				}
			}
			t.Errorf("%s: got %+v", args, got)
		}
	}
	if data, err := os.ReadFile(logo); err != nil || string(data) != "\x89PNG\x00\xff" {
		t.Errorf("it wrote %q, %v", data, err)
	}
	document := filepath.Join(t.TempDir(), "sign.json")
	if got := runCommand(t, "", "read", "--json", "-o", document, shop,
		"shop://sign"); got != (commandOutput{"", "", problem.ExitOK}) {
		t.Errorf("got %+v", got)
	}
	shown := runCommand(t, "", "read", "--json", shop, "shop://sign").stdout
	if data, err := os.ReadFile(document); err != nil || string(data) != shown || !json.Valid(data) {
		t.Errorf("wrote %q, %v, and printed %q", data, err, shown)
	}
	for uri, want := range map[string]string{
		"shop://sing":               "did you mean shop://sign?",
		"sign":                      "write its URI: shop://sign",
		"shop://no-such-shelf-here": "it must match shop://{shelf}",
		"x://nothing/of/the/shop":   "`mcpbridge list` shows what there is to read",
	} {
		if got := runCommand(t, "", "read", shop, uri); got.code != problem.ExitTool ||
			!strings.Contains(got.stderr, want) {
			t.Errorf("%s: got %+v", uri, got)
		}
	}
	for args, want := range map[string]string{
		"haggle ton=k":             `there is no argument ton; did you mean tone?","hint":"it is haggle(price, tone?)"`,
		"haggle x=k":               "there is no argument x; known are: price, tone",
		"shop://{shelf} shelve=k":  `there is no argument shelve; did you mean shelf?","hint":"it is shop://{shelf}"`,
		"shop://{shelve} shelve=k": "did you mean shop://{shelf}?",
	} {
		if got := runCommand(t, "",
			append([]string{"complete", shop}, strings.Fields(args)...)...); !strings.Contains(got.stderr, want) {
			t.Errorf("%s: got %+v", args, got)
		}
	}
	got := runCommand(t, "", "describe", shop)
	if !strings.Contains(got.stdout, `Buy\u001b[31m something.`) || !strings.Contains(got.stdout, "tools/call") ||
		strings.Contains(got.stdout, "Revisions: \n") {
		t.Errorf("got %+v", got)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.caller.GetClientCapabilities(); e.GetSampling() != nil {
		t.Error("sampling was declared")
	}
}

// A server without completion rejects the request in 2024-11-05. In later revisions it does not declare the capability.
func TestServersWithoutCompletion(t *testing.T) {
	for _, rev := range []string{"2024-11-05", "2025-11-25"} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			m, wrong := jsonrpc.Parse(body, limits.Defaults())
			answer := `"error":{"code":-32601,"message":"no such method"}`
			switch {
			case r.Method != http.MethodPost || err != nil || wrong != nil:
				w.WriteHeader(http.StatusMethodNotAllowed)
				return
			case !m.IsRequest():
				w.WriteHeader(http.StatusAccepted)
				return
			case m.Method == "initialize":
				answer = `"result":{"protocolVersion":"` + rev +
					`","capabilities":{"prompts":{},"resources":{}},"serverInfo":{"name":"s","version":"1"}}`
			case m.Method == "prompts/list":
				answer = `"result":{"prompts":[{"name":"haggle","arguments":[{"name":"price"}]}]}`
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, answer)
		}))
		t.Cleanup(s.Close)
		got := runCommand(t, "", "complete", s.URL, "haggle", "price=1")
		if got.code != problem.ExitTool || !strings.Contains(got.stderr, "the server does not support completion") ||
			!strings.Contains(got.stderr, "mcpbridge describe") {
			t.Errorf("%s: got %+v", rev, got)
		}
		// The server declares no tools.
		got = runCommand(t, "", "call", s.URL, "haggle")
		if got.code != problem.ExitTool ||
			!strings.Contains(got.stderr, "the server has no tools; `mcpbridge list` shows") {
			t.Errorf("%s: call: %+v", rev, got)
		}
		// The server declares resources without implementing their list: the list is empty.
		if got := runCommand(t, "", "list", s.URL); got.code != problem.ExitOK ||
			!strings.Contains(got.stdout, "haggle") {
			t.Errorf("%s: list: %+v", rev, got)
		}
	}
}

func mustJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Without a terminal, no elicitation capability is declared.
func TestNoTerminalNoElicitation(t *testing.T) {
	s, shop := startShop(t)
	runCommand(t, "", "call", shop, "paint")
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.caller.GetClientCapabilities(); c.GetElicitation() != nil || c.GetRoots() != nil ||
		!s.caller.GetProgressWanted() {
		t.Errorf("it declared %v", c)
	}
}

// An unknown tool may be hidden from clients without input capabilities: the error has a hint.
func TestHiddenTools(t *testing.T) {
	_, shop := startShop(t)
	const hidden = "it may be hidden because this client cannot answer input requests"
	for _, c := range []struct {
		args  []string
		shown bool
	}{
		{[]string{"call", shop, "survey-of-customers"}, true},
		{[]string{"call", shop, "pain"}, false},
		{[]string{"call", "--answer", "a=b", shop, "survey-of-customers"}, false},
		{[]string{"prompt", shop, "survey-of-customers"}, false},
	} {
		if got := runCommand(t, "", c.args...); got.code != problem.ExitTool ||
			strings.Contains(got.stderr, hidden) != c.shown {
			t.Errorf("%v: got %+v", c.args, got)
		}
	}
}

// A form is sent only if the user has filled it in: --answer for another form, or defaults, are not consent.
func TestUnansweredFormIsNotSent(t *testing.T) {
	s, shop := startShop(t)
	const sure = `{"type":"object","properties":{"sure":{"type":"boolean","default":true},"why":{"type":"string"}}}`
	for _, c := range []struct{ form, args, fix string }{
		{`{"type":"object","properties":{}}`, "--answer language=French", "call it from a terminal"},
		{`{"type":"object","properties":{}}`, "", "call it from a terminal"},
		{
			`{"type":"object","properties":{"why":{"type":"string"}}}`, "--answer language=French",
			"--answer why=VALUE, where VALUE is string",
		},
		{sure, "--answer language=French", "--answer sure=VALUE, where VALUE is yes or no"},
		{sure, "", "--answer sure=VALUE, where VALUE is yes or no"},
		{orderForm, "--answer gift=no", "--answer size=VALUE"},
	} {
		s.form = c.form
		got := runCommand(t, "", append([]string{"call", shop, "order"}, strings.Fields(c.args)...)...)
		if got.code != problem.ExitUsage || got.errorCode(t) != "no_answer" || !strings.Contains(got.stderr, c.fix) ||
			got.stdout != "" {
			t.Errorf("%s with %q: got %+v", c.form, c.args, got)
		}
	}
	for answer, want := range map[string]string{
		"sure=yes": `accept {"sure":true}`, "sure=no": `accept {"sure":false}`,
		"why=because": `accept {"sure":true,"why":"because"}`,
	} {
		s.form = sure
		if got := runCommand(t, "", "call", "--answer", answer, shop,
			"order"); got != (commandOutput{want + "\n", "", problem.ExitOK}) {
			t.Errorf("%s: got %+v", answer, got)
		}
	}
}

// --revision is for servers that support 2026-07-28 but have tools that request input only in sessions.
func TestRevisionOfTheServer(t *testing.T) {
	first := "read -r line; echo \"$line\" >&2; exit 3"
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--revision", "legacy", "--", "sh", "-c", first}, `\"method\":\"initialize\"`},
		{[]string{"--revision", "2024-11-05", "--", "sh", "-c", first}, `\"protocolVersion\":\"2024-11-05\"`},
		{[]string{"--revision", "modern", "--", "sh", "-c", first}, `\"method\":\"server/discover\"`},
		{[]string{"--revision", "2024-11-06", "--", "sh", "-c", first}, `there is no revision \"2024-11-06\" of MCP`},
		{[]string{"--revision", "legacy", "--plugin", "--", "sh", "-c", first}, "keep one of the two"},
		{[]string{"--revision", "legacy", "tcp:127.0.0.1:9"}, "--revision is for an MCP server"},
	} {
		got := runCommand(t, "", append([]string{"list"}, c.args...)...)
		if got.code == problem.ExitOK || !strings.Contains(strings.ReplaceAll(got.stderr, `\\\"`, `\"`), c.want) {
			t.Errorf("%q: got %+v, want %s in it", c.args, got, c.want)
		}
	}
}

// An unused --answer is reported, because it is probably a typo.
func TestUnusedAnswersAreReported(t *testing.T) {
	_, shop := startShop(t)
	for _, c := range []struct{ args, stdout, warns string }{
		{
			"--answer size=l --answer count=2 --answer gitf=y " + shop + " order",
			`accept {"size":"l","count":2,"gift":false}` + "\n", "did you mean gift?",
		},
		{"--answer size=l " + shop + " paint", "red", "leave it out"},
		{"--answer size=l --answer count=2 " + shop + " order", "accept", ""},
	} {
		got := runCommand(t, "", append([]string{"call"}, strings.Fields(c.args)...)...)
		if got.code != problem.ExitOK || !strings.HasPrefix(got.stdout, c.stdout) ||
			!strings.Contains(got.stderr, c.warns) || (got.stderr == "") != (c.warns == "") {
			t.Errorf("%s: got %+v", c.args, got)
		}
	}
}

// Answers with the same name are used in order, for the forms of a round and of later rounds.
func TestAnswersOfSeveralForms(t *testing.T) {
	bridgetest.SkipIfShort(t)
	t.Parallel()
	kit := filepath.Join(t.TempDir(), "kit-go")
	if out, err := exec.Command("go", "build", "-o", kit, "../../examples/kit-go").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	survey := func(answers ...string) commandOutput {
		args := []string{"call", "survey"}
		for _, answer := range answers {
			args = append(args, "--answer", "value="+answer)
		}
		return runCommand(t, "", append(args, "--", kit)...)
	}
	if got := survey("Ada", "36", "no"); got != (commandOutput{"Ada is 36: false, 1\n", "", problem.ExitOK}) {
		t.Errorf("got %+v", got)
	}
	if got := survey("Ada", "36", "no", "maybe", "maybe"); got.stdout != "Ada is 36: false, 1\n" ||
		!strings.Contains(got.stderr, "--answer value is given 5 times, and 3 of them were used") {
		t.Errorf("with unused answers: got %+v", got)
	}
	// The last answer is used for all remaining forms.
	if got := survey("Ada", "36"); got.code != problem.ExitUsage || !strings.Contains(got.stderr, "it is yes or no") {
		t.Errorf("without the third answer: got %+v", got)
	}
}

// All invalid answers are reported at once, and no valid one is reported as unused.
func TestEveryWrongAnswerIsReported(t *testing.T) {
	_, shop := startShop(t)
	got := runCommand(t, "",
		strings.Fields("call --log-format text --answer size=xxl --answer gift=yes --answer count=many "+shop+
			" order")...)
	for _, want := range []string{
		"the answer size cannot be", "the answer count cannot be", "--answer size",
		"--answer count",
	} {
		if !strings.Contains(got.stderr, want) {
			t.Errorf("%q is missing: %+v", want, got)
		}
	}
	if got.code != problem.ExitUsage || strings.Contains(got.stderr, "was not used") ||
		strings.Contains(got.stderr, "gift") {
		t.Errorf("got %+v", got)
	}
	if got := runCommand(t, "", strings.Fields("call --answer size=l "+shop+" order")...); !strings.Contains(got.stderr,
		`"code":"no_answer"`) ||
		!strings.Contains(got.stderr, "asks for count, ") || strings.Contains(got.stderr, "was not used") {
		t.Errorf("got %+v", got)
	}
	// No tool was called, so unused answers are not reported.
	if got := runCommand(t, "", strings.Fields("call --answer size=l "+shop+" buy nothing=1")...); got.errorCode(
		t) != "arguments" || strings.Contains(got.stderr, "was not used") {
		t.Errorf("got %+v", got)
	}
}

// Forms and URL elicitations can be accepted, declined and canceled as a whole on the command line.
func TestAnswerOfAWholeFormOrPage(t *testing.T) {
	s, shop := startShop(t)
	const empty, sure = `{"type":"object","properties":{}}`,
		`{"type":"object","properties":{"sure":{"type":"boolean","default":true}}}`
	for _, c := range []struct{ form, args, want string }{
		{empty, "--answer /accept", "accept {}"},
		{empty, "--answer /decline", "decline "},
		{sure, "--answer /accept", `accept {"sure":true}`},
		{sure, "--answer /accept --answer sure=no", `accept {"sure":false}`},
		{orderForm, "--answer /decline", "decline "},
		{orderForm, "--answer /cancel", "cancel "},
	} {
		s.form = c.form
		got := runCommand(t, "", append([]string{"call", shop, "order"}, strings.Fields(c.args)...)...)
		if got != (commandOutput{c.want + "\n", "", problem.ExitOK}) {
			t.Errorf("%s with %s: got %+v", c.form, c.args, got)
		}
	}
	s.form = orderForm
	if got := runCommand(t, "", "call", shop, "order", "--answer", "/accept"); got.errorCode(t) != "no_answer" ||
		!strings.Contains(got.stderr, "size, count") {
		t.Errorf("without the required fields: got %+v", got)
	}
	for action, want := range map[string]string{"/accept": "accept", "/decline": "decline", "/cancel": "cancel"} {
		got := runCommand(t, "", "call", shop, "visit", "--answer", action)
		if got.code != problem.ExitOK || got.stdout != want+"\n" ||
			strings.Contains(got.stderr, "https://pay.example.com/1") != (action == "/accept") {
			t.Errorf("a page with %s: got %+v", action, got)
		}
	}
	if got := runCommand(t, "", "call", shop, "visit", "--answer", "accept"); got.code != problem.ExitUsage ||
		!strings.Contains(got.stderr, "/accept, /decline or /cancel") {
		t.Errorf("got %+v", got)
	}
}

// A backend with another version of the contract is rejected, and the error has a fix.
func TestCallOfAnotherContractVersion(t *testing.T) {
	s, shop := startShop(t)
	s.version = 1
	const want = "was built with version 1 of the contract, and this mcpbridge has version 2: update its SDK, or " +
		"its stubs with mcpbridge proto DIR"
	for _, args := range [][]string{{"call", shop, "order"}, {"list", shop}} {
		if got := runCommand(t, "", args...); got.code == problem.ExitOK || !strings.Contains(got.stderr, want) {
			t.Errorf("%v: got %+v", args, got)
		}
	}
}

// --sample responds in place of a model.
func TestSamplingFromTheCommandLine(t *testing.T) {
	s, shop := startShop(t)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"text":   "Of electric sheep.\n",
		"json":   `{"content": {"type": "text", "text": "Of sheep."}, "model": "android"}`,
		"wrong":  `{"content": {"type": "text"}}`,
		"object": `{"sheep": 1}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		filepath.Join(dir, "text"): "Of electric sheep. mcpbridge\n", filepath.Join(dir, "json"): "Of sheep. android\n",
		"-":                          "Of stdin. mcpbridge\n",
		filepath.Join(dir, "object"): "{\"sheep\": 1} mcpbridge\n",
	} {
		if got := runCommand(t, "Of stdin.", "call", shop, "dream", "--sample",
			name); got != (commandOutput{want, "", problem.ExitOK}) {
			t.Errorf("--sample %s: got %+v", name, got)
		}
	}
	if s.caller.GetClientCapabilities().GetSampling() == nil {
		t.Error("sampling was not declared")
	}
	got := runCommand(t, "", "call", shop, "dream", "--sample", filepath.Join(dir, "wrong"), "--sample",
		filepath.Join(dir, "absent"))
	if got.code != problem.ExitUsage || !strings.Contains(got.stderr, "not a result of sampling") ||
		!strings.Contains(got.stderr, "absent") {
		t.Errorf("got %+v", got)
	}
	if got := runCommand(t, "", "call", shop, "paint", "--sample",
		filepath.Join(dir, "text")); !strings.Contains(got.stderr, "--sample was not used") {
		t.Errorf("got %+v", got)
	}
}

func TestSamplingOnATerminal(t *testing.T) {
	_, shop := startShop(t)
	x := openTerminal(t, "call", shop, "dream")
	x.expect("system: Be brief.")
	x.expect(`user: Of what\u001b[2J do you`)
	x.expect("> ")
	x.write("Of electric\n")
	x.expect("> ")
	x.write("sheep.\n")
	x.expect("> ")
	x.write(".\n")
	x.expect("Of electric\r\nsheep. mcpbridge")
	if code, all := x.wait(); code != problem.ExitOK {
		t.Errorf("exit code %d:\n%s", code, all)
	}
	x = openTerminal(t, "call", shop, "dream")
	x.expect("> ")
	x.write("/decline\n")
	x.expect("REASON_REFUSED")
	if code, all := x.wait(); code != problem.ExitTool {
		t.Errorf("exit code %d:\n%s", code, all)
	}
}

// A screen is a pseudo-terminal on which a command runs as a process. The test types and reads like a user.
type screen struct {
	t   *testing.T
	pty *os.File
	cmd *exec.Cmd

	mu    sync.Mutex
	shown bytes.Buffer
	seen  int // how many bytes of shown expect has consumed
	more  chan struct{}
	ended chan struct{} // closed at the end of the output
}

func openTerminal(t *testing.T, args ...string) *screen {
	t.Helper()
	cmd := exec.Command("mcpbridge", args...)
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 80})
	if err != nil {
		t.Fatal(err)
	}
	x := &screen{t: t, pty: f, cmd: cmd, more: make(chan struct{}, 1), ended: make(chan struct{})}
	go func() {
		defer close(x.ended)
		buf := make([]byte, 4096)
		for {
			n, err := f.Read(buf)
			x.mu.Lock()
			x.shown.Write(buf[:n])
			x.mu.Unlock()
			select {
			case x.more <- struct{}{}:
			default:
			}
			if err != nil { // EIO when the process has exited
				return
			}
		}
	}()
	t.Cleanup(func() {
		cmd.Process.Kill() // it has exited unless the test failed
		f.Close()
		<-x.ended
	})
	return x
}

// expect waits until the text appears, after the text of the previous expect.
func (x *screen) expect(text string) {
	x.t.Helper()
	limit := time.After(20 * time.Second)
	for {
		x.mu.Lock()
		i := strings.Index(x.shown.String()[x.seen:], text)
		if i >= 0 {
			x.seen += i + len(text)
		}
		all := x.shown.String()
		x.mu.Unlock()
		if i >= 0 {
			return
		}
		select {
		case <-x.more:
		case <-x.ended:
			select {
			case <-x.more:
				continue
			default:
			}
			x.t.Fatalf("the command exited without %q:\n%s", text, all)
		case <-limit:
			x.t.Fatalf("%q did not appear:\n%s", text, all)
		}
	}
}

func (x *screen) write(text string) {
	x.t.Helper()
	if _, err := io.WriteString(x.pty, text); err != nil {
		x.t.Fatal(err)
	}
}

// wait waits until the command exits, and returns its exit code and all output.
func (x *screen) wait() (int, string) {
	x.t.Helper()
	err := x.cmd.Wait()
	if _, isExit := errors.AsType[*exec.ExitError](err); err != nil && !isExit {
		x.t.Fatal(err)
	}
	<-x.ended
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.cmd.ProcessState.ExitCode(), x.shown.String()
}

func TestElicitationOnATerminal(t *testing.T) {
	_, shop := startShop(t)
	x := openTerminal(t, "call", shop, "order")
	x.expect(`What\u001b[2J would you like?`) // the server's escape sequences are escaped
	x.expect("l  large")
	x.expect(`Size ("s" | "l"): `)
	x.write("m\n")
	x.expect(`it cannot be "m"; known are: l, s`)
	x.expect(`Size ("s" | "l"): `)
	x.write("l\n")
	x.expect("How many.")
	x.write("\n")
	x.expect("it is required")
	x.write("10\n")
	x.expect("has to be at most 9")
	x.write("2\n")
	x.expect("gift (yes or no, optional) [no]: ")
	x.write("perhaps\n")
	x.expect(`it cannot be "perhaps": it is yes or no`)
	x.write("y\n")
	x.expect("mail (email, optional): ")
	x.write("ada\n")
	x.expect("an address such as")
	x.write("ada@example.com\n")
	x.expect("new  New")
	x.expect("tags")
	x.write("new, old\n")
	x.expect("Send it?")
	x.write("edit\n")
	x.expect(`Size ("s" | "l") [l]: `)
	x.write("s\n\n\n\n\n\n")
	x.expect(`accept {"size":"s","count":2,"gift":true,"mail":"ada@example.com","tags":["new","old"]}`)
	if code, all := x.wait(); code != problem.ExitOK {
		t.Errorf("exit code %d:\n%s", code, all)
	}
}

func TestDeclineAndCancelOnATerminal(t *testing.T) {
	t.Parallel()
	_, shop := startShop(t)
	for typed, want := range map[string]string{"/decline\n": "decline ", "/cancel\n": "cancel ", "\x04": "cancel "} {
		x := openTerminal(t, "call", shop, "order")
		x.expect("Size")
		x.expect(": ")
		x.write(typed)
		x.expect(want)
		if code, all := x.wait(); code != problem.ExitOK {
			t.Errorf("%q: exit code %d:\n%s", typed, code, all)
		}
	}
}

func TestWebPageOnATerminal(t *testing.T) {
	_, shop := startShop(t)
	x := openTerminal(t, "call", shop, "visit")
	x.expect("https://pay.example.com/1")
	x.expect("Its host is pay.example.com.")
	x.write("yes\n")
	x.expect("accept")
	x.wait()
}

func TestProgressBarAndCtrlC(t *testing.T) {
	s, shop := startShop(t)
	x := openTerminal(t, "call", shop, "wait")
	x.expect(`[##########..........] 50% half\u001b[31m done`)
	x.write("\x03")
	code, all := x.wait()
	if code != problem.ExitInterrupted || !strings.Contains(all, "cancelled") {
		t.Errorf("exit code %d:\n%s", code, all)
	}
	select {
	case <-s.cancelled:
	case <-time.After(10 * time.Second):
		t.Error("the server received no cancellation")
	}
}

// The terminal shows what the command waits for, and clears that line before it prints the result.
func TestTerminalShowsPendingWork(t *testing.T) {
	bridgetest.SkipIfShort(t)
	t.Parallel()
	s, shop := startShop(t)
	x := openTerminal(t, "list", "--plugin", "--", "sh", "-c", "sleep 2; exec "+echoGo(t))
	x.expect("starting sh -c")
	x.expect(" s)")
	x.expect("\r\x1b[KTools")
	if code, all := x.wait(); code != problem.ExitOK {
		t.Errorf("exit code %d:\n%s", code, all)
	}
	x = openTerminal(t, "call", shop, "hold")
	x.expect(`tools/call "hold", Ctrl-C cancels (1 s)`)
	close(s.held)
	x.expect("\r\x1b[Kheld")
	if code, all := x.wait(); code != problem.ExitOK {
		t.Errorf("exit code %d:\n%s", code, all)
	}
}

// On a terminal, control characters in a server's text are escaped, and binary data is not printed.
func TestTerminalOutputIsEscaped(t *testing.T) {
	t.Parallel()
	_, shop := startShop(t)
	for _, args := range [][]string{
		{"call", shop, "paint"},
		{"call", "--json", shop, "paint"},
		{"call", shop, "fail"},
		{"describe", shop},
		{"list", shop},
	} {
		_, all := openTerminal(t, args...).wait()
		// the client shows its pending request after a second
		all = strings.ReplaceAll(all, "\r\x1b[K", "")
		if strings.ContainsAny(all, "\x1b\u202e\u009b") || !strings.Contains(all, `\u001b[31m`) {
			t.Errorf("%v showed %q", args, all)
		}
	}
	code, all := openTerminal(t, "read", shop, "shop://logo").wait()
	if code != problem.ExitUsage || !strings.Contains(all, "write --output FILE") || strings.Contains(all, "PNG") {
		t.Errorf("exit code %d, output %q", code, all)
	}
}

// After the first signal a server has 5 s to exit; the second signal kills it.
func TestSecondSignalEndsAClientCommand(t *testing.T) {
	bridgetest.SkipIfShort(t)
	mark := filepath.Join(t.TempDir(), "mark")
	stubborn := "trap '' TERM INT; touch " + mark + "; while :; do sleep 0.1; done"
	cmd := exec.Command("mcpbridge", "call", "--mcp", "x", "--", "sh", "-c", stubborn)
	stderr := &lockedBuffer{}
	cmd.Stderr = stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	(&run{stderr: stderr}).await(t, "the server runs", func() bool {
		_, err := os.Stat(mark)
		return err == nil
	})
	begin := time.Now()
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM} { // two equal signals could be merged
		if err := cmd.Process.Signal(s); err != nil {
			t.Error(err)
		}
	}
	err := cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != problem.ExitInterrupted {
		t.Errorf("exit code %d, %v:\n%s", code, err, stderr)
	}
	if d := time.Since(begin); d >= 5*time.Second {
		t.Errorf("it took %s", d)
	}
}

func TestCtrlCDuringAPrompt(t *testing.T) {
	_, shop := startShop(t)
	x := openTerminal(t, "call", shop, "order")
	x.expect("Size")
	x.write("\x03")
	if code, all := x.wait(); code != problem.ExitInterrupted {
		t.Errorf("exit code %d:\n%s", code, all)
	}
}

// A silent stdin has no data, and ends when end is closed. The first Read closes read.
type silent struct{ read, end chan struct{} }

func (s silent) Read([]byte) (int, error) {
	close(s.read)
	<-s.end
	return 0, io.EOF
}

// A command that reads an open stdin ends at --timeout, Ctrl-C or SIGTERM.
func TestWaitingForStdinEnds(t *testing.T) {
	bridgetest.SkipIfShort(t)
	_, shop := startShop(t)
	for _, args := range []string{
		"call SHOP buy -", "call SHOP buy what=@-", "call --answer size=@- SHOP order", "prompt SHOP haggle price=@-",
		"complete SHOP haggle tone=k price=@-",
	} {
		for _, timeout := range []bool{true, false} {
			words := strings.Fields(strings.ReplaceAll(args, "SHOP", shop))
			code, exit := "cancelled", problem.ExitInterrupted
			if timeout {
				words = append(words, "--timeout", "100ms")
				code, exit = "timeout", problem.ExitTimeout
			}
			stdin := silent{make(chan struct{}), make(chan struct{})}
			t.Cleanup(func() { close(stdin.end) })
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			var stdout, stderr lockedBuffer
			done := make(chan int)
			go func() {
				done <- (&Program{Env: clientcmd.Env{
					Args: words, Stdin: stdin, Stdout: &stdout, Stderr: &stderr,
					Environ: os.Environ(),
				}}).Run(ctx)
			}()
			if !timeout {
				<-stdin.read
				interrupt()
			}
			got := commandOutput{code: <-done, stdout: stdout.String(), stderr: stderr.String()}
			if got.code != exit || got.errorCode(t) != code || !timeout &&
				!strings.Contains(got.stderr, "nothing was called: the argument @- ") {
				t.Errorf("%v: got %+v", words, got)
			}
		}
	}
}

func TestLimitsOfAClient(t *testing.T) {
	s, shop := startShop(t)
	s.endless = true
	if got := runCommand(t, "", "list", shop); got.code != problem.ExitOK ||
		!strings.Contains(got.stderr, "prompts/list has too many pages") {
		t.Errorf("got %+v", got)
	}
	digits := "n=1" + strings.Repeat("0", 10_000)
	if got := runCommand(t, "", "call", shop, "buy", "what=x", digits); got.code != problem.ExitUsage ||
		len(got.stderr) > 2_000 {
		t.Errorf("got %+v", got)
	}
	long := writeConfig(t, strings.Repeat("#", 4<<20))
	if got := runCommand(t, "", "list", "-c", long); got.code != problem.ExitConfig ||
		!strings.Contains(got.stderr, "longer than 4 MiB") {
		t.Errorf("got %+v", got)
	}
}

func TestLogOfACall(t *testing.T) {
	s, shop := startShop(t)
	for _, c := range []struct {
		level string
		shown bool
		sent  pb.LogLevel
	}{
		{"info", true, pb.LogLevel_LOG_LEVEL_INFO},
		{"debug", true, pb.LogLevel_LOG_LEVEL_DEBUG},
		{"error", false, pb.LogLevel_LOG_LEVEL_ERROR},
	} {
		got := runCommand(t, "", "call", "--log-level", c.level, shop, "paint")
		if strings.Contains(got.stderr, `mixing\\u001b[31m`) != c.shown || got.code != problem.ExitOK {
			t.Errorf("%s: got %+v", c.level, got)
		}
		s.mu.Lock()
		if got := s.caller.GetLogLevel(); got != c.sent {
			t.Errorf("%s: the server received %s", c.level, got)
		}
		s.mu.Unlock()
	}
}

// fronted starts a bridge, and an HTTP server without handlers, to which tests add a reverse proxy of the bridge.
func fronted(t *testing.T) (bridge *url.URL, mux *http.ServeMux, server *httptest.Server) {
	t.Helper()
	r := start(t, nil, nil, "run", "--http", "127.0.0.1:0", "--", echoGo(t))
	bridge, err := url.Parse(r.url)
	if err != nil {
		t.Fatal(err)
	}
	bridge.Path = ""
	mux = http.NewServeMux()
	server = httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return bridge, mux, server
}

// Tokens are requested with the options under auth.oauth.
func TestOAuthOfTheConfiguration(t *testing.T) {
	to, mux, server := fronted(t)
	answer := func(pattern string, value any) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, mustJSON(value))
		})
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Authorization") != "Bearer the-token" {
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+server.URL+`/prm"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		proxy.ServeHTTP(w, req)
	})
	answer("/prm", map[string]any{"resource": server.URL + "/mcp", "authorization_servers": []string{server.URL}})
	answer("/.well-known/oauth-authorization-server", map[string]any{
		"issuer": server.URL, "token_endpoint": server.URL + "/token",
		"authorization_endpoint":                server.URL + "/authorize",
		"grant_types_supported":                 []string{"client_credentials"},
		"token_endpoint_auth_methods_supported": []string{"client_secret_basic"},
		"response_types_supported":              []string{"code"}, "code_challenge_methods_supported": []string{"S256"},
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, req *http.Request) {
		id, secret, _ := req.BasicAuth()
		w.Header().Set("Content-Type", "application/json")
		if id != "me" || secret != "hunter2-hunter2" || req.FormValue("grant_type") != "client_credentials" ||
			req.FormValue("scope") != "tea" {
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, `{"error":"invalid_client"}`)
			return
		}
		io.WriteString(w, `{"access_token":"the-token","token_type":"Bearer","expires_in":3600}`)
	})
	t.Setenv("SECRET", "hunter2-hunter2")
	credentials := filepath.Join(t.TempDir(), "credentials")
	config := func(id string) string {
		return writeConfig(t, "backends: [{name: a, mcp: {url: '"+server.URL+
			"/mcp', auth: {oauth: {grant: client_credentials, issuer: '"+server.URL+"', clientId: "+id+
			", clientSecret: '${env:SECRET}', scopes: [tea], credentials: '"+credentials+"'}}}}]")
	}
	if got := runCommand(t, "", "call", "-c", config("me"), "a", "echo",
		"n=1"); got != (commandOutput{`{"n":1}` + "\n", "", problem.ExitOK}) {
		t.Errorf("got %+v", got)
	}
	credentials = filepath.Join(t.TempDir(), "others")
	got := runCommand(t, "", "list", "-c", config("you"))
	if got.code != problem.ExitAuth || got.errorCode(t) != "auth_required" || strings.Contains(got.stderr, "hunter2") {
		t.Errorf("got %+v", got)
	}
}

// wantsLogin starts a server whose users log in with a browser. The browser is a script that it writes into dir. begun
// is called after the browser has opened the page; the login continues when it returns. refused is called for each
// request without a valid token.
func wantsLogin(t *testing.T, dir string, begun func(context.Context), refused func()) *httptest.Server {
	t.Helper()
	to, mux, server := fronted(t)
	proxy := httputil.NewSingleHostReverseProxy(to)
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, req *http.Request) {
		if token := req.Header.Get("Authorization"); token != "Bearer the-token" && token != "Bearer hunter2-hunter2" {
			refused()
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+server.URL+`/prm"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		proxy.ServeHTTP(w, req)
	})
	answer := func(pattern string, value map[string]any) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, mustJSON(value))
		})
	}
	answer("/prm", map[string]any{"resource": server.URL + "/mcp", "authorization_servers": []string{server.URL}})
	answer("/.well-known/oauth-authorization-server", map[string]any{
		"issuer": server.URL, "token_endpoint": server.URL + "/token",
		"authorization_endpoint": server.URL + "/authorize",
		"registration_endpoint":  server.URL + "/register", "response_types_supported": []string{"code"},
		"code_challenge_methods_supported": []string{"S256"}, "token_endpoint_auth_methods_supported": []string{"none"},
	})
	mux.HandleFunc("POST /register", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, `{"client_id":"me"}`)
	})
	mux.HandleFunc("/authorize", func(w http.ResponseWriter, req *http.Request) {
		begun(req.Context())
		q := req.URL.Query()
		http.Redirect(w, req, q.Get("redirect_uri")+"?code=c&state="+url.QueryEscape(q.Get("state")), http.StatusFound)
	})
	answer("POST /token", map[string]any{"access_token": "the-token", "token_type": "Bearer", "expires_in": 3600})
	browser := filepath.Join(dir, "browser")
	if err := os.WriteFile(browser, []byte("#!/bin/sh\nexec curl -sSL -o /dev/null \"$1\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("BROWSER", browser)
	t.Setenv("XDG_CONFIG_HOME", dir)
	t.Setenv("HOME", dir)
	return server
}

// Servers in the configuration of another client use the same login as those on the command line. One with an
// Authorization header needs none.
func TestLoginToServersOfOtherClients(t *testing.T) {
	dir, logins := t.TempDir(), 0
	server := wantsLogin(t, dir, func(context.Context) { logins++ }, func() {})
	file := filepath.Join(dir, "mcp.json")
	t.Setenv("SECRET_TOKEN", "hunter2-hunter2")
	for servers, want := range map[string]int{
		`"a": {"url": "URL", "headers": {"Authorization": "Bearer ${SECRET_TOKEN}"}}`: 0,
		`"a": {"url": "URL"}`: 1,
		`"a": {"url": "URL", "headers": {"X-Team": "tools"}}, "b": {"command": "sh", "args": ["-c", "exit 1"]}`: 1,
	} {
		if err := os.WriteFile(file,
			[]byte(`{"mcpServers": {`+strings.ReplaceAll(servers, "URL", server.URL+"/mcp")+`}}`), 0o600); err != nil {
			t.Fatal(err)
		}
		logins = 0
		if got := runCommand(t, "", "call", "-c", file, "a", "echo", "n=1"); got.stdout != `{"n":1}`+"\n" ||
			logins != want {
			t.Errorf("%s: got %+v after %d logins, want %d", servers, got, logins, want)
		}
		if err := os.RemoveAll(filepath.Join(dir, "mcpbridge")); err != nil {
			t.Fatal(err)
		}
	}
	// In the bridge's own configuration, a server without auth gets no login.
	logins = 0
	ours := writeConfig(t, "backends: [{name: a, mcp: {url: '"+server.URL+"/mcp'}}]")
	if got := runCommand(t, "", "list", "-c", ours); got.code != problem.ExitAuth || logins != 0 {
		t.Errorf("got %+v after %d logins", got, logins)
	}
}

// The timeout of a login applies while a user logs in; it is longer than that of a request or of an attempt to connect.
func TestLoginIsAwaited(t *testing.T) {
	bridgetest.SkipIfShort(t)
	dir := t.TempDir()
	var attempts, requests atomic.Int64
	late := make(chan struct{})
	begun := func(ctx context.Context) {
		requests.Add(1)
		select {
		case <-late:
		case <-ctx.Done(): // the browser was killed
		}
	}
	server := wantsLogin(t, dir, begun, func() {
		// the third attempt begins: the first two took two seconds each
		if requests.Load() > 0 && attempts.Add(1) == 2 {
			close(late)
		}
	})
	config := writeConfig(t,
		"backends: [{name: a, mcp: {url: '"+server.URL+"/mcp', startTimeout: 2s, auth: {oauth: {}}}}]")
	var stdout, stderr lockedBuffer
	p := &Program{
		Env: clientcmd.Env{
			Args: []string{"call", "-c", config, "a", "echo", "n=1"}, Stdin: strings.NewReader(""), Stdout: &stdout,
			Stderr:  &stderr,
			Environ: os.Environ(), ReachTimeout: 3 * time.Second,
		},
	}
	if code := p.Run(t.Context()); code != problem.ExitOK || stdout.String() != `{"n":1}`+"\n" ||
		stderr.String() != "" || requests.Load() != 1 {
		t.Errorf("after %d logins: exit code %d: %s%s", requests.Load(), code, &stdout, &stderr)
	}
}

// If a user does not log in in time, the same command does not start another login.
func TestUnansweredLoginEndsTheCommand(t *testing.T) {
	bridgetest.SkipIfShort(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var requests atomic.Int64
	server := wantsLogin(t, t.TempDir(), func(login context.Context) {
		if requests.Add(1) > 1 {
			cancel()
		}
		<-login.Done()
	}, func() {})
	config := writeConfig(t, "backends: [{name: a, mcp: {url: '"+server.URL+"/mcp', auth: {oauth: {}}}}]")
	var stdout, stderr lockedBuffer
	p := &Program{
		Env: clientcmd.Env{
			Args: []string{"call", "-c", config, "a", "echo", "n=1"}, Stdin: strings.NewReader(""), Stdout: &stdout,
			Stderr:  &stderr,
			Environ: os.Environ(), LoginTimeout: time.Second,
		},
	}
	if code := p.Run(ctx); code != problem.ExitAuth || requests.Load() != 1 ||
		!strings.Contains(stderr.String(), "the user did not log in") {
		t.Errorf("after %d logins: exit code %d: %s", requests.Load(), code, &stderr)
	}
}

func TestCredentialsWithoutEncryptionCauseAWarning(t *testing.T) {
	for _, c := range []struct {
		server string
		warned bool
	}{
		{"url: 'http://192.0.2.1/mcp', auth: {bearer: token}", true}, // reserved for documentation (RFC 5737)
		{"url: 'http://192.0.2.1/mcp', headers: {authorization: token}", true},
		{"url: 'http://192.0.2.1/mcp', headers: {X-Team: tools}", false},
		{"url: 'https://192.0.2.1/mcp', auth: {bearer: token}", false},
		{"url: 'http://127.0.0.1:1/mcp', auth: {bearer: token}", false},
	} {
		config := writeConfig(t, "backends: [{name: a, mcp: {"+c.server+"}}]")
		got := runCommand(t, "", "list", "--timeout", "50ms", "--log-level", "info", "-c", config)
		if strings.Contains(got.stderr, "without encryption") != c.warned {
			t.Errorf("%s: got %+v", c.server, got)
		}
	}
}

// Without a token, a server that requires one causes the error auth_required. With a token, it is called.
func TestServerThatRequiresAToken(t *testing.T) {
	r := start(t, nil, nil, "run", "--http", "127.0.0.1:0", "--", echoGo(t))
	to, err := url.Parse(r.url)
	if err != nil {
		t.Fatal(err)
	}
	to.Path = ""
	proxy := httputil.NewSingleHostReverseProxy(to)
	guarded := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Authorization") != "Bearer hunter2-hunter2" {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		proxy.ServeHTTP(w, req)
	}))
	defer guarded.Close()
	t.Setenv("SECRET_TOKEN", "hunter2-hunter2")
	there := guarded.URL + "/mcp"
	if got := runCommand(t, "", "list", there); got.code != problem.ExitAuth || got.errorCode(t) != "auth_required" {
		t.Errorf("got %+v", got)
	}
	if got := runCommand(t, "", "call", "--header", "Authorization: Bearer ${env:SECRET_TOKEN}", there, "echo",
		"n=1"); got.stdout != `{"n":1}`+"\n" {
		t.Errorf("got %+v", got)
	}
	config := writeConfig(t, "backends: [{name: a, mcp: {url: '"+there+"', auth: {bearer: '${env:SECRET_TOKEN}'}}}]")
	if got := runCommand(t, "", "call", "-c", config, "a", "echo",
		"n=1"); got != (commandOutput{`{"n":1}` + "\n", "", problem.ExitOK}) {
		t.Errorf("got %+v", got)
	}
	config = writeConfig(t, "backends: [{name: a, mcp: {url: '"+there+"'}}]")
	if got := runCommand(t, "", "list", "-c", config); got.code != problem.ExitAuth {
		t.Errorf("got %+v", got)
	}

	// If the server rejects a token, the error does not suggest passing a token.
	const passed, bare = "rejected the Authorization header", "a token is written"
	wrong := writeConfig(t, "backends: [{name: a, mcp: {url: '"+there+"', auth: {bearer: wrong}}}]")
	for _, c := range []struct {
		args []string
		want string
		not  string
	}{
		{[]string{"list", there}, "authenticate: --header", passed},
		{[]string{"list", "--header", "X-Team: a", there}, "authenticate: --header", passed},
		{[]string{"list", "--header", "authorization: Bearer wrong", there}, passed, bare},
		{[]string{"list", "--header", "Authorization: hunter2-hunter2", there}, bare, "hunter2"},
		{[]string{"list", "-c", wrong}, passed, "--header"},
	} {
		got := runCommand(t, "", c.args...)
		if got.code != problem.ExitAuth || !strings.Contains(got.stderr, c.want) ||
			strings.Contains(got.stderr, c.not) {
			t.Errorf("%v: got %+v", c.args, got)
		}
	}
}

// The kind of a command is detected by its output: an MCP server is started once, and a plugin twice.
func TestTargetKindIsDetected(t *testing.T) {
	bridgetest.SkipIfShort(t)
	t.Parallel()
	for _, c := range []struct {
		flag, command, starts string
		code                  int
	}{
		{"", "exec " + echoGo(t), "..", problem.ExitOK},
		{"--plugin", "exec " + echoGo(t), ".", problem.ExitOK},
		{"", "echo noise; exec " + bridgeProgram(t) + " run --stdio -- " + echoGo(t), ".", problem.ExitOK},
		{"--mcp", "exec " + bridgeProgram(t) + " run --stdio -- " + echoGo(t), ".", problem.ExitOK},
		{"", "exit 3", "", problem.ExitPlugin}, // mcpclient may start it again
	} {
		count := filepath.Join(t.TempDir(), "count")
		args := strings.Fields("call " + c.flag + " echo n=1 --")
		got := runCommand(t, "", append(args, "sh", "-c", "printf . >>"+count+"; "+c.command)...)
		if got.code != c.code || c.code == problem.ExitOK && got.stdout != `{"n":1}`+"\n" {
			t.Errorf("%s %s: got %+v", c.flag, c.command, got)
		}
		if starts, err := os.ReadFile(count); err != nil || c.starts != "" && string(starts) != c.starts {
			t.Errorf("%s %s: it was started %q times, %v", c.flag, c.command, starts, err)
		}
	}
}
