package mcpbridge_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
	"github.com/mcpbridge/mcpbridge/sdkgen/go/mcpbridge"
	"github.com/mcpbridge/mcpbridge/sdkgen/go/mcpbridgetest"
)

// A discarding stream keeps the last message only.
type discarded struct {
	grpc.ServerStream
	ctx  context.Context
	last *pb.CallToolResponse
}

func (d *discarded) Context() context.Context { return d.ctx }
func (d *discarded) Send(m *pb.CallToolResponse) error {
	d.last = m
	return nil
}

func library() *mcpbridge.App {
	app := mcpbridge.New("library", "1")
	mcpbridge.ResourceFunc(app, "config://app", "config", "The settings",
		func(context.Context) (M, error) { return M{"a": 1}, nil })
	mcpbridge.ResourceFunc(app, "logo://app", "logo", "",
		func(context.Context) ([]byte, error) { return []byte{1}, nil }, mcpbridge.MimeType("image/png"))
	type page struct {
		Book string `json:"book"`
		Page int    `json:"page" schema:"min=1"`
	}
	mcpbridge.ResourceTemplate(app, "book://{book}/{page}", "page", "A page",
		func(ctx context.Context, in page) (string, error) {
			if in.Book == "none" {
				return "", fmt.Errorf("book %q: %w", in.Book, mcpbridge.ErrNotFound)
			}
			return fmt.Sprint(in.Book, " ", in.Page, " ", mcpbridge.URI(ctx)), nil
		}, mcpbridge.Complete("book", func(_ context.Context, typed string, _ map[string]string) ([]string, error) {
			return []string{typed + "!"}, nil
		}))
	mcpbridge.ResourceTemplate(app, "file:///{+path}", "file", "",
		func(_ context.Context, in map[string]string) (string, error) {
			return in["path"], nil
		})
	type review struct {
		Book  string `json:"book" jsonschema:"Which one"`
		Stars int    `json:"stars,omitempty" schema:"min=1,max=5,default=5"`
		Tone  string `json:"tone,omitempty" schema:"enum=kind|Keen|harsh"`
	}
	mcpbridge.Prompt(app, "review", "Review a book", func(_ context.Context, in review) ([]*mcpbridge.Message, error) {
		return []*mcpbridge.Message{
			mcpbridge.User(fmt.Sprint(in.Book, " ", in.Stars, in.Tone)),
			mcpbridge.Assistant("Well."),
		}, nil
	}, mcpbridge.Complete("book", func(_ context.Context, typed string, others map[string]string) ([]string, error) {
		many := make([]string, 150)
		for i := range many {
			many[i] = fmt.Sprint(typed, i, others["tone"])
		}
		return many, nil
	}))
	return app
}

func TestResources(t *testing.T) {
	app := library()
	for uri, want := range map[string]string{
		"config://app":           `contents:{uri:"config://app" mime_type:"application/json" text:"{\"a\":1}"}`,
		"logo://app":             `contents:{uri:"logo://app" mime_type:"image/png" blob:"\x01"}`,
		"book://moby%20dick/12":  `contents:{uri:"book://moby%20dick/12" mime_type:"text/plain" text:"moby dick 12 book://moby%20dick/12"}`,
		"file:///a/b/%C3%A9.txt": `contents:{uri:"file:///a/b/%C3%A9.txt" mime_type:"text/plain" text:"a/b/é.txt"}`,
	} {
		called := mcpbridgetest.Read(t, app, uri)
		if got := strings.ReplaceAll(fmt.Sprint(called.Resource), "  ", " "); got != want || called.Err != nil {
			t.Errorf("%s: got %s (%v), want %s", uri, got, called.Err, want)
		}
	}
	for uri, want := range map[string]struct {
		code codes.Code
		text string
	}{
		"book://none/1":   {codes.NotFound, `book "none": not found`},
		"book://x/1/2":    {codes.NotFound, `there is no resource "book://x/1/2"`},
		"book://x/0":      {codes.InvalidArgument, "- page: must be at least 1, got 0"},
		"book://x/twelve": {codes.InvalidArgument, `- page: must be integer, got "twelve"`},
	} {
		if err := mcpbridgetest.Read(t, app, uri).Err; status.Code(err) != want.code ||
			!strings.Contains(err.Error(), want.text) {
			t.Errorf("%s: got %v", uri, err)
		}
	}
}

func TestResourceCanAsk(t *testing.T) {
	app := mcpbridge.New("test", "1")
	mcpbridge.ResourceFunc(app, "x://y", "y", "", func(ctx context.Context) (string, error) {
		a, err := mcpbridge.Elicit[string](ctx, "Password hint?")
		mcpbridge.Progress(ctx, 1, 1)
		return a.Data, err
	})
	if called := mcpbridgetest.Read(t, app, "x://y", mcpbridgetest.WithAnswers("cat")); called.Text() != "cat" ||
		len(called.Progress) != 2 {
		t.Errorf("got %+v", called)
	}
}

func TestPromptsAndCompletion(t *testing.T) {
	app := library()
	called := mcpbridgetest.Get(t, app, "review", map[string]string{"book": "7", "stars": "4"})
	if called.Text() != "7 4\nWell." || called.Prompt.GetDescription() != "Review a book" ||
		called.Prompt.GetMessages()[1].GetRole() != "assistant" {
		t.Errorf("got %v %v", called.Prompt, called.Err)
	}
	err := mcpbridgetest.Get(t, app, "review", map[string]string{"stars": "6"}).Err
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "- book: is required") ||
		!strings.Contains(err.Error(), "- stars: must be at most 5, got 6") {
		t.Errorf("got %v", err)
	}
	if err := mcpbridgetest.Get(t, app, "reviews", nil).Err; status.Code(err) != codes.NotFound {
		t.Errorf("got %v", err)
	}
	prompts, _ := app.Service().ListPrompts(t.Context(), &pb.ListPromptsRequest{})
	if got := fmt.Sprint(prompts.GetPrompts()[0].GetArguments()); !strings.Contains(got, `description:"Which one"`) ||
		strings.Count(got, "required:true") != 1 {
		t.Errorf("got %s", got)
	}

	if got := mcpbridgetest.Complete(t, app, "review", "tone", "k", nil); !slices.Equal(got, []string{"kind", "Keen"}) {
		t.Errorf("got %v", got)
	}
	if got := mcpbridgetest.Complete(t, app, "review", "book", "b", map[string]string{"tone": "T"}); len(got) != 100 ||
		got[1] != "b1T" {
		t.Errorf("got %v", got)
	}
	if got := mcpbridgetest.Complete(t, app, "book://{book}/{page}", "book", "mo", nil); !slices.Equal(got,
		[]string{"mo!"}) {
		t.Errorf("got %v", got)
	}
	for _, reference := range []*pb.CompletionReference{
		nil, {Reference: &pb.CompletionReference_Raw{Raw: `{"type":"ref/acme"}`}},
	} {
		_, err := app.Service().Complete(t.Context(), &pb.CompleteRequest{Reference: reference})
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("reference %v: %v", reference, err)
		}
	}
	if got := mcpbridgetest.Complete(t, app, "review", "stars", "", nil); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

func TestCapabilitiesFollowTheDefinitions(t *testing.T) {
	for want, app := range map[string]*mcpbridge.App{
		"tools":                         mcpbridge.New("a", "1"),
		"completions resources prompts": library(),
		"tools prompts completions":     mcpbridge.New("c", "1", mcpbridge.Declares("tools", "prompts")),
	} {
		d, err := app.Service().Discover(t.Context(), &pb.DiscoverRequest{})
		if err != nil {
			t.Fatal(err)
		}
		c := d.GetCapabilities()
		got := map[string]bool{
			"tools": c.GetTools() != nil, "resources": c.GetResources() != nil, "prompts": c.GetPrompts() != nil,
			"completions": c.GetCompletions() != nil,
		}
		for kind, has := range got {
			if has != strings.Contains(want, kind) {
				t.Errorf("%s: %s is %t", want, kind, has)
			}
		}
	}
}

// A listening stream passes the events to a channel.
type listening struct {
	grpc.ServerStream
	ctx    context.Context
	events chan *pb.ListenResponse
}

func (l *listening) Context() context.Context { return l.ctx }
func (l *listening) Send(m *pb.ListenResponse) error {
	l.events <- m
	return nil
}

func TestSubscribersAreNotifiedOfChanges(t *testing.T) {
	app := library()
	ctx, cancel := context.WithCancel(t.Context())
	l := &listening{ctx: ctx, events: make(chan *pb.ListenResponse)}
	ended := make(chan error)
	yes := true
	go func() {
		ended <- app.Service().Listen(&pb.ListenRequest{Notifications: &pb.SubscriptionFilter{
			ToolsListChanged: &yes, ResourcesListChanged: &yes,
			ResourceSubscriptions: []string{"book://x/1", "file:///dir/"},
		}}, l)
	}()
	if ack := (<-l.events).GetAcknowledged().GetNotifications(); !ack.GetToolsListChanged() ||
		ack.PromptsListChanged != nil {
		t.Errorf("got %v", ack)
	}
	tool(app, "new", 1)
	if got := <-l.events; got.GetToolsListChanged() == nil {
		t.Errorf("got %v", got)
	}
	app.NotifyUpdated("book://x/12") // no listener has subscribed to it
	app.RemovePrompt("review")       // not asked for
	app.NotifyUpdated("file:///dir/a")
	if got := <-l.events; got.GetResourceUpdated().GetUri() != "file:///dir/a" {
		t.Errorf("got %v", got)
	}
	if !app.RemoveTool("new") || app.RemoveTool("new") || !app.RemoveResource("config://app") ||
		!app.RemoveResourceTemplate("file:///{+path}") {
		t.Error("what was there is not removed, or what was not is")
	}
	seen := ""
	for !strings.Contains(seen, "tools") || !strings.Contains(seen, "resources") {
		m := <-l.events
		switch {
		case m.GetToolsListChanged() != nil:
			seen += "tools"
		case m.GetResourcesListChanged() != nil:
			seen += "resources"
		}
	}
	if err := mcpbridgetest.Read(t, app, "config://app").Err; status.Code(err) != codes.NotFound {
		t.Errorf("got %v", err)
	}
	cancel()
	for {
		select {
		case err := <-ended:
			if status.Code(err) != codes.Canceled && !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			return
		case <-l.events:
		}
	}
}

func TestTemplatesOfFilesAndQueries(t *testing.T) {
	app := mcpbridge.New("test", "1")
	type query struct {
		City string   `json:"city"`
		Days int      `json:"days,omitempty" schema:"default=3"`
		Tags []string `json:"tags,omitempty"`
	}
	mcpbridge.ResourceTemplate(app, "weather://{city}{?days,tags}", "w", "",
		func(_ context.Context, in query) (string, error) {
			return fmt.Sprint(in), nil
		}, mcpbridge.CacheFor(time.Minute, true))
	mcpbridge.ResourceTemplate(app, "file:///{+path}", "f", "",
		func(_ context.Context, in map[string]string) (string, error) {
			return in["path"], nil
		})
	mcpbridge.ResourceTemplate(app, "raw:///{+path}{?line}", "r", "",
		func(_ context.Context, in map[string]string) (string, error) {
			return fmt.Sprint(in), nil
		})
	for uri, want := range map[string]string{
		"weather://bern":                      "{bern 3 []}",
		"weather://bern?days=7":               "{bern 7 []}",
		"weather://bern?tags=a&days=7&tags=b": "{bern 7 [a b]}",
		"file:///a/..b/c":                     "a/..b/c",
		"raw:///a/b?line=2":                   "map[line:2 path:a/b]",
	} {
		if called := mcpbridgetest.Read(t, app, uri); called.Text() != want {
			t.Errorf("%s: got %q, %v, want %q", uri, called.Text(), called.Err, want)
		}
	}
	for _, uri := range []string{
		"weather://bern?dayz=7", "weather://", "file:///../etc/passwd", "file:///a/%2e%2e/b", "file:///a/..%5Cb",
		"file:///" + strings.Repeat("a", 5000),
	} {
		if called := mcpbridgetest.Read(t, app, uri); status.Code(called.Err) != codes.NotFound {
			t.Errorf("%.40s: got %.40q, %v", uri, called.Text(), called.Err)
		}
	}
	if r := mcpbridgetest.Read(t, app, "weather://bern").Resource; r.GetTtlMs() != 60_000 ||
		r.GetCacheScope() != "public" {
		t.Errorf("got %v", r)
	}
	templates, _ := app.Service().ListResourceTemplates(t.Context(), &pb.ListResourceTemplatesRequest{})
	if got := templates.GetResourceTemplates()[0].GetUriTemplate(); got != "weather://{city}{?days,tags}" ||
		templates.GetTtlMs() != 5000 {
		t.Errorf("got %v", templates)
	}
}

func TestReadErrorsHaveTheirReason(t *testing.T) {
	app := mcpbridge.New("test", "1")
	mcpbridge.ResourceFunc(app, "x:1", "x", "",
		func(context.Context) (string, error) { return "", errors.New("the disk is full") })
	mcpbridge.Prompt(app, "p", "", func(context.Context, struct{}) (string, error) { panic("no luck") })
	for err, want := range map[error]string{
		mcpbridgetest.Read(t, app, "x:1").Err:   "the disk is full",
		mcpbridgetest.Get(t, app, "p", nil).Err: "no luck",
	} {
		s, _ := status.FromError(err)
		if s.Code() != codes.Internal || len(s.Details()) != 1 {
			t.Fatalf("got %v", err)
		}
		if e, _ := s.Details()[0].(*pb.JsonRpcError); e.GetCode() != -32603 || e.GetMessage() != want {
			t.Errorf("got %v, want %s", e, want)
		}
	}
}

func TestVisits(t *testing.T) {
	app := mcpbridge.New("test", "1")
	does(app, "mail", func(context.Context) (string, error) {
		return "", mcpbridge.VisitRequired("Sign in", "https://example.com/", "v1")
	})
	s, _ := status.FromError(mcpbridgetest.Call(t, app, "mail", nil).Err)
	e, _ := s.Details()[0].(*pb.JsonRpcError)
	const data = `{"elicitations":[{"elicitationId":"v1","message":"Sign in","mode":"url","url":"https://example.com/"}]}`
	if e.GetCode() != -32042 || e.GetData() != data {
		t.Errorf("got %v", e)
	}
	yes := true
	l := &listening{ctx: t.Context(), events: make(chan *pb.ListenResponse)}
	go app.Service().Listen(&pb.ListenRequest{Notifications: &pb.SubscriptionFilter{ElicitationsCompleted: &yes}}, l)
	<-l.events
	app.NotifyVisited("v1")
	if got := (<-l.events).GetElicitationCompleted().GetElicitationId(); got != "v1" {
		t.Errorf("got %q", got)
	}
}

func TestDefinitionsChangeDuringCalls(t *testing.T) {
	app := mcpbridge.New("test", "1")
	tool(app, "stays", 1)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for n := range 50 {
				name := fmt.Sprint("t", i, "-", n)
				tool(app, name, n)
				if called := mcpbridgetest.Call(t, app, name, nil); called.IsError() {
					t.Errorf("%s: %v", name, called.Err)
				}
				if len(list(t, app)) == 0 || mcpbridgetest.Call(t, app, "stays", nil).IsError() ||
					!app.RemoveTool(name) {
					t.Errorf("%s: something is missing", name)
				}
			}
		})
	}
	wg.Wait()
	if got := list(t, app); len(got) != 1 || app.Err() != nil {
		t.Errorf("left are %v, %v", got, app.Err())
	}
}

func TestGoroutineAfterTheResultIsHarmless(t *testing.T) {
	app := mcpbridge.New("test", "1")
	entered, leave := make(chan struct{}, 2), make(chan struct{})
	does(app, "leaves", func(ctx context.Context) (string, error) {
		go mcpbridge.Once(ctx, "slow", func(ctx context.Context) (int, error) {
			entered <- struct{}{}
			<-leave
			mcpbridge.Progress(ctx, 1, 1)
			mcpbridge.Elicit[string](ctx, "Late?")
			return 1, nil
		})
		<-entered
		a, err := mcpbridge.Elicit[string](ctx, "Name?")
		return a.Data, err
	})
	if called := mcpbridgetest.Call(t, app, "leaves", nil, mcpbridgetest.WithAnswers("Ada")); called.Text() != "Ada" {
		t.Errorf("got %v", called.Result)
	}
	close(leave)
}
