// Command kit-go has the tools of the contract kit, written with the SDK for Go: the handler laws and `mcpbridge
// verify` call them. docs/verify.md specifies each of them.
//
// Try it: mcpbridge verify -- kit-go
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
	"github.com/mcpbridge/mcpbridge/sdkgen/go/mcpbridge"
)

func main() {
	fmt.Println("noise before the start") // It goes to the log, and is not a handshake.
	os.Exit(newApp().Run())
}

// A raw is the unmodified arguments.
type raw = json.RawMessage

// Arguments of several tools.
type (
	none  struct{}
	named struct {
		Name string `json:"name"`
	}
	numbered struct {
		N int `json:"n"`
	}
)

// The schema of tools that take anything, and that of echo, whose header parameters only matter to clients over HTTP.
const (
	anything   = `{"type":"object"}`
	echoSchema = `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},` +
		`"in":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"Count"}}}}}`
)

// A kit is the app, and the state that its tools share.
type kit struct {
	*mcpbridge.App
	serial atomic.Int64

	mu    sync.Mutex // guards waits
	waits map[int]*waitState
}

// A waitState is the calls of the tool wait with one n.
type waitState struct {
	started, ended chan struct{}
	start, end     func()
}

func newApp() *kit {
	k := &kit{
		App: mcpbridge.New("bridgetest", "1", mcpbridge.Title("Bridge Test"),
			mcpbridge.Instructions("call anything")),
		waits: map[int]*waitState{},
	}
	// In the order of their names, which lists have too.
	tool(k, "add", k.add)
	tool(k, "ask", ask)
	tool(k, "blob", blob)
	tool(k, "count", count)
	mcpbridge.Tool(k.App, "echo", "does echo", echo, mcpbridge.InputSchema(echoSchema))
	tool(k, "ended", k.ended)
	tool(k, "exact", exact)
	tool(k, "fail", fail)
	tool(k, "levels", levels)
	tool(k, "many", many)
	tool(k, "meta", meta)
	tool(k, "noise", noise)
	tool(k, "remove", k.remove)
	tool(k, "sleep", sleep)
	tool(k, "started", k.started)
	tool(k, "steps", steps)
	tool(k, "structured", structured)
	tool(k, "survey", k.survey)
	tool(k, "tell", notify)
	tool(k, "unknown", unknown)
	tool(k, "update", k.update)
	tool(k, "wait", k.wait)
	tool(k, "who", who)
	mcpbridge.ResourceFunc(k.App, "test://a", "a", "", a, mcpbridge.Title("The A"))
	mcpbridge.ResourceTemplate(k.App, "test://{id}", "t", "",
		func(_ context.Context, in map[string]string) (string, error) {
			return "", fmt.Errorf("%s: %w", in["id"], mcpbridge.ErrNotFound)
		})
	mcpbridge.Prompt(k.App, "p", "", prompt, mcpbridge.Complete("x",
		func(_ context.Context, typed string, _ map[string]string) ([]string, error) {
			return []string{typed + "!"}, nil
		}))
	return k
}

// tool adds a tool that accepts any arguments, and ignores unknown ones.
func tool[In, Out any](k *kit, name string, fn func(context.Context, In) (Out, error)) {
	mcpbridge.Tool(k.App, name, "does "+name, fn, mcpbridge.InputSchema(anything))
}

// Tools that return their arguments.

func echo(_ context.Context, arguments raw) (string, error) { return string(arguments), nil }

func structured(_ context.Context, arguments raw) (*mcpbridge.Result, error) {
	return &mcpbridge.Result{StructuredContent: arguments}, nil
}

func unknown(ctx context.Context, _ none) (*mcpbridge.Result, error) {
	answer := mcpbridge.Responses(ctx)["new"]
	if answer == nil {
		return nil, mcpbridge.Require(ctx, &pb.InputRequired{InputRequests: []*pb.InputRequest{{
			Key: "new", Request: &pb.InputRequest_Raw{Raw: `{"method":"acme/ask","params":{"n":9007199254740993}}`},
		}}})
	}
	text := mcpbridge.Text(answer.GetRaw())
	text.GetText().Annotations = &pb.Annotations{Audience: []string{"judge"}}
	return &mcpbridge.Result{Content: []*mcpbridge.Content{
		{Block: &pb.ContentBlock_Raw{Raw: `{"type":"acme","n":9007199254740993}`}}, text,
	}}, nil
}

func a(context.Context) (*pb.ReadResourceResult, error) {
	return &pb.ReadResourceResult{CacheScope: "team", Contents: []*pb.ResourceContents{{
		Uri: "test://a", MimeType: proto.String("text/plain"), Body: &pb.ResourceContents_Text{Text: "A"},
	}}}, nil
}

func who(ctx context.Context, _ none) (string, error) {
	c := mcpbridge.Request(ctx).(*pb.CallToolRequest).GetContext()
	e := mcpbridge.ClientCapabilities(ctx).GetElicitation()
	return fmt.Sprintf("%s %s progress=%v log=%v forms=%v", mcpbridge.ProtocolVersion(ctx),
		mcpbridge.ClientInfo(ctx).GetName(),
		c.GetProgressWanted(), c.GetLogLevel(), e != nil && (e.GetForm() != nil || e.GetUrl() == nil)), nil
}

func meta(ctx context.Context, _ raw) (*mcpbridge.Result, error) {
	r := mcpbridge.Request(ctx).(*pb.CallToolRequest)
	return &mcpbridge.Result{
		Content: []*mcpbridge.Content{mcpbridge.Text("meta")}, Meta: r.GetContext().GetMeta(), Extra: r.GetExtra(),
	}, nil
}

func blob(_ context.Context, in struct {
	Size int `json:"size"`
},
) (*mcpbridge.Content, error) {
	data := make([]byte, in.Size)
	for i := range data {
		data[i] = byte(i % 251)
	}
	return mcpbridge.Image(data, "application/octet-stream"), nil
}

func noise(context.Context, none) (string, error) {
	fmt.Println("noise on stdout")
	fmt.Println(strings.Repeat("a long line ", 100_000/12))
	fmt.Fprintln(os.Stderr, "noise on stderr")
	return "quiet", nil
}

// Tools with progress, log messages and cancellation.

func count(ctx context.Context, _ none) (string, error) {
	mcpbridge.Progress(ctx, 0, 2, "begin")
	mcpbridge.Log(ctx, mcpbridge.LevelDebug, "detail")
	mcpbridge.Progress(ctx, 1, 2)
	mcpbridge.Progress(ctx, 1, 2)
	mcpbridge.Log(ctx, mcpbridge.LevelWarning, map[string]int64{"n": 9007199254740993}, "l")
	mcpbridge.Progress(ctx, 2, 2)
	return "counted", nil
}

func steps(ctx context.Context, in numbered) (string, error) {
	for i := range in.N {
		mcpbridge.Progress(ctx, float64(i), 0)
	}
	return strconv.Itoa(in.N) + " steps", nil
}

func levels(ctx context.Context, _ none) (string, error) {
	for l := mcpbridge.LevelDebug; l <= mcpbridge.LevelEmergency; l++ {
		mcpbridge.Log(ctx, l, strings.ToLower(strings.TrimPrefix(l.String(), "LOG_LEVEL_")))
	}
	return "logged", nil
}

func sleep(ctx context.Context, in struct {
	MS int `json:"ms"`
},
) (string, error) {
	select {
	case <-time.After(time.Duration(in.MS) * time.Millisecond):
		return "slept", nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (k *kit) waitState(n int) *waitState {
	k.mu.Lock()
	defer k.mu.Unlock()
	w := k.waits[n]
	if w == nil {
		w = &waitState{started: make(chan struct{}), ended: make(chan struct{})}
		w.start = sync.OnceFunc(func() { close(w.started) })
		w.end = sync.OnceFunc(func() { close(w.ended) })
		k.waits[n] = w
	}
	return w
}

func (k *kit) wait(ctx context.Context, in numbered) (string, error) {
	w := k.waitState(in.N)
	w.start()
	<-ctx.Done()
	w.end()
	return "", ctx.Err()
}

func (k *kit) started(ctx context.Context, in numbered) (string, error) {
	return until(ctx, k.waitState(in.N).started, "started")
}

func (k *kit) ended(ctx context.Context, in numbered) (string, error) {
	return until(ctx, k.waitState(in.N).ended, "ended")
}

func until(ctx context.Context, event <-chan struct{}, word string) (string, error) {
	select {
	case <-event:
		return word, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// Tools that fail.

func fail(context.Context, none) (string, error) {
	return "", mcpbridge.ToolError("it does not work")
}

func exact(context.Context, none) (string, error) {
	return "", &mcpbridge.Error{Code: -7, Message: "no luck", Data: map[string]any{"n": []int{1}}}
}

// Tools that change the lists and resources.

func (k *kit) add(_ context.Context, in named) (string, error) {
	tool(k, in.Name, func(context.Context, none) (string, error) { return in.Name, nil })
	return "added", nil
}

func (k *kit) remove(_ context.Context, in named) (string, error) {
	k.RemoveTool(in.Name)
	return "removed", nil
}

func (k *kit) update(_ context.Context, in struct {
	URI string `json:"uri"`
},
) (string, error) {
	k.NotifyUpdated(in.URI)
	return "updated", nil
}

// Input requests with the SDK's functions.

func notify(ctx context.Context, _ none) (string, error) {
	a, err := mcpbridge.Elicit[string](ctx, "Say something.")
	for _, e := range []struct {
		is   error
		text string
	}{
		{mcpbridge.ErrUnsupported, "unsupported"},
		{mcpbridge.ErrNoAnswer, "no answer"},
		{mcpbridge.ErrRefused, "refused"},
		{mcpbridge.ErrInvalidAnswer, "invalid"},
	} {
		if errors.Is(err, e.is) {
			return e.text, nil
		}
	}
	switch {
	case err != nil:
		return "", err
	case a.Declined():
		return "declined", nil
	case a.Cancelled():
		return "cancelled", nil
	}
	return "accepted: " + a.Data, nil
}

func (k *kit) survey(ctx context.Context, _ none) (string, error) {
	serial, err := mcpbridge.Once(ctx, "serial", func(context.Context) (int64, error) { return k.serial.Add(1), nil })
	if err != nil {
		return "", err
	}
	name, err1 := mcpbridge.Elicit[string](ctx, "What is your name?")
	age, err2 := mcpbridge.Elicit[int](ctx, "How old are you?")
	if err := errors.Join(err1, err2); err != nil {
		return "", err
	}
	right, err := mcpbridge.Elicit[bool](ctx, fmt.Sprintf("%s is %d, right?", name.Data, age.Data))
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s is %d: %v, %d", name.Data, age.Data, right.Data, serial), nil
}

// Input requests as exact messages of the contract.

func form(key, message, field string) *pb.InputRequest {
	return &pb.InputRequest{
		Key: key,
		Request: &pb.InputRequest_Elicit{Elicit: &pb.ElicitRequest{Mode: &pb.ElicitRequest_Form{Form: &pb.ElicitForm{
			Message: message, RequestedSchema: `{"type":"object","properties":{"` + field +
				`":{"type":"string"}},"required":["` + field + `"]}`,
		}}}},
	}
}

func accepted(a *pb.ElicitResult) bool {
	return a.GetAction() == "accept"
}

func ask(ctx context.Context, _ raw) (string, error) {
	mcpbridge.Progress(ctx, 1, 0)
	in := mcpbridge.Responses(ctx)
	if state := mcpbridge.State(ctx); len(state) > 0 {
		return fmt.Sprintf("%s %s", state, in["right"].GetElicit().GetContent()), nil
	}
	switch a := in["name"].GetElicit(); {
	case a == nil:
		return "", mcpbridge.Require(ctx,
			&pb.InputRequired{InputRequests: []*pb.InputRequest{form("name", "who are you?", "name")}})
	case !accepted(a):
		return fmt.Sprintf("the user said %v", a.GetAction()), nil
	default:
		return "", mcpbridge.Require(ctx, &pb.InputRequired{
			RequestState:  append([]byte("name="), a.GetContent()...),
			InputRequests: []*pb.InputRequest{form("right", "is that right?", "yes")},
		})
	}
}

func many(ctx context.Context, _ none) (string, error) {
	in := mcpbridge.Responses(ctx)
	if len(in) == 0 {
		return "", mcpbridge.Require(ctx, &pb.InputRequired{InputRequests: []*pb.InputRequest{
			form("form", "q", "a"),
			{Key: "model", Request: &pb.InputRequest_CreateMessage{CreateMessage: &pb.CreateMessageRequest{
				MaxTokens: 10, Messages: []*pb.SamplingMessage{{
					Role:    "user",
					Content: []*pb.ContentBlock{mcpbridge.Text("2+2?")},
				}},
			}}},
			{Key: "roots", Request: &pb.InputRequest_ListRoots{ListRoots: &pb.ListRootsRequest{}}},
		}})
	}
	return fmt.Sprintf("form=%s model=%s roots=%d", in["form"].GetElicit().GetContent(),
		in["model"].GetCreateMessage().GetContent()[0].GetText().GetText(),
		len(in["roots"].GetListRoots().GetRoots())), nil
}

func prompt(ctx context.Context, in struct {
	X *string `json:"x,omitempty"`
},
) (string, error) {
	if in.X == nil {
		a := mcpbridge.Responses(ctx)["x"].GetElicit()
		if !accepted(a) {
			return "", mcpbridge.Require(ctx,
				&pb.InputRequired{InputRequests: []*pb.InputRequest{form("x", "which x?", "x")}})
		}
		in.X = proto.String(a.GetContent())
	}
	return "x is " + *in.X, nil
}
