package router_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/router"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A server is a Handler with the behavior of its fields, and records requests.
type server struct {
	pages     [][]string        // of tools; the cursor of a page is "p" and its number
	prompts   []string          //
	resources map[string]string // listed, by URI
	hidden    map[string]string // not listed
	templates []string
	about     *pb.DiscoverResponse
	ttl       *int64
	scope     string
	// hang makes every call hang until its context ends; err makes it fail.
	hang bool
	err  error
	// changes are sent by Listen after its acknowledgment; it ends when the channel is closed. If nil, Listen is
	// unsupported.
	changes chan *pb.ListenResponse

	mu   sync.Mutex
	seen []bridge.Request
}

func (s *server) Handle(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
	s.mu.Lock()
	s.seen = append(s.seen, call.Request)
	err, hang := s.err, s.hang
	s.mu.Unlock()
	if hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	switch r := call.Request.(type) {
	case *pb.DiscoverRequest:
		if s.about == nil {
			return complete(&pb.DiscoverResponse{Capabilities: &pb.ServerCapabilities{Tools: &pb.ToolsCapability{}}})
		}
		return complete(s.about)
	case *pb.ListToolsRequest:
		return s.listTools(r)
	case *pb.ListPromptsRequest:
		out := &pb.ListPromptsResponse{}
		for _, name := range s.prompts {
			out.Prompts = append(out.Prompts, &pb.Prompt{Name: name})
		}
		return complete(out)
	case *pb.ListResourcesRequest:
		out := &pb.ListResourcesResponse{}
		for _, uri := range slices.Sorted(maps.Keys(s.resources)) {
			out.Resources = append(out.Resources, &pb.Resource{Uri: uri, Name: s.resources[uri]})
		}
		return complete(out)
	case *pb.ListResourceTemplatesRequest:
		out := &pb.ListResourceTemplatesResponse{}
		for _, uri := range s.templates {
			out.ResourceTemplates = append(out.ResourceTemplates, &pb.ResourceTemplate{UriTemplate: uri})
		}
		return complete(out)
	case *pb.CallToolRequest:
		return complete(&pb.CallToolResult{Content: textContent("tool " + r.GetName())})
	case *pb.GetPromptRequest:
		return complete(&pb.GetPromptResult{Description: proto.String("prompt " + r.GetName())})
	case *pb.ReadResourceRequest:
		return s.read(r)
	case *pb.CompleteRequest:
		if uri := r.GetReference().GetResource().GetUri(); uri != "" && !slices.Contains(s.templates, uri) {
			return nil, bridge.Errorf(codes.InvalidArgument, "no such template")
		}
		return complete(&pb.CompleteResponse{
			Completion: &pb.Completion{Values: []string{"for " + r.GetReference().GetPrompt().GetName()}},
		})
	case *pb.ListenRequest:
		return s.listen(ctx, r, emit)
	}
	panic("there is a new method")
}

func complete(m proto.Message) (*bridge.Result, error) { return &bridge.Result{Complete: m}, nil }

func textContent(text string) []*pb.ContentBlock {
	return []*pb.ContentBlock{{Block: &pb.ContentBlock_Text{Text: &pb.TextContent{Text: text}}}}
}

func (s *server) listTools(r *pb.ListToolsRequest) (*bridge.Result, error) {
	n := 0
	if r.Cursor != nil {
		if _, err := fmt.Sscanf(r.GetCursor(), "p%d", &n); err != nil || n >= len(s.pages) ||
			r.GetCursor() != fmt.Sprintf("p%d", n) {
			return nil, bridge.Errorf(codes.InvalidArgument, "no such page")
		}
	}
	out := &pb.ListToolsResponse{TtlMs: s.ttl, CacheScope: s.scope}
	if len(s.pages) > n {
		for _, name := range s.pages[n] {
			out.Tools = append(out.Tools, &pb.Tool{Name: name})
		}
	}
	if n+1 < len(s.pages) {
		out.NextCursor = proto.String(fmt.Sprintf("p%d", n+1))
	}
	return complete(out)
}

func (s *server) read(r *pb.ReadResourceRequest) (*bridge.Result, error) {
	for _, has := range []map[string]string{s.resources, s.hidden} {
		if text, ok := has[r.GetUri()]; ok {
			if text == "ask" && len(r.GetInputResponses()) == 0 {
				return &bridge.Result{InputRequired: &pb.InputRequired{
					RequestState:  []byte("s"),
					InputRequests: []*pb.InputRequest{{Key: "k"}},
				}}, nil
			}
			return complete(&pb.ReadResourceResult{
				Contents: []*pb.ResourceContents{{Uri: r.GetUri(), Body: &pb.ResourceContents_Text{Text: text}}},
			})
		}
	}
	return nil, bridge.Errorf(codes.NotFound, "there is no %s", r.GetUri())
}

func (s *server) listen(ctx context.Context, r *pb.ListenRequest, emit bridge.Emit) (*bridge.Result, error) {
	if s.changes == nil {
		return nil, bridge.Errorf(codes.Unimplemented, "there is no Listen")
	}
	if err := emit(ctx, acked(r.GetNotifications())); err != nil {
		return nil, err
	}
	for {
		select {
		case c, ok := <-s.changes:
			if !ok {
				return nil, bridge.Errorf(codes.Unavailable, "the server has ended")
			}
			if err := emit(ctx, bridge.Event{Change: c}); err != nil {
				return nil, err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func acked(f *pb.SubscriptionFilter) bridge.Event {
	return bridge.Event{Change: &pb.ListenResponse{
		Event: &pb.ListenResponse_Acknowledged{Acknowledged: &pb.SubscriptionsAcknowledged{Notifications: f}},
	}}
}

// set changes the server's behavior.
func (s *server) set(f func(*server)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s)
}

// calls returns the received requests of one type.
func calls[R bridge.Request](s *server) []R {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []R
	for _, r := range s.seen {
		if r, ok := r.(R); ok {
			all = append(all, r)
		}
	}
	return all
}

var down = bridge.Failed(codes.Unavailable, bridge.OutcomeNotExecuted, "BACKEND_UNAVAILABLE", "it is down")

// route returns a Router of servers named a, b and so on.
func route(t *testing.T, log *bytes.Buffer, servers ...bridge.Handler) *router.Router {
	t.Helper()
	var routes []router.Route
	for i, s := range servers {
		routes = append(routes, router.Route{Name: string(rune('a' + i)), Handler: s})
	}
	return routed(t, log, routes...)
}

func routed(t *testing.T, log *bytes.Buffer, routes ...router.Route) *router.Router {
	t.Helper()
	o := router.Options{}
	if log != nil {
		o.Log = zerolog.New(zerolog.SyncWriter(log))
	}
	r, err := router.New(routes, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// request makes a call and returns its result with its type.
func request[M proto.Message](t *testing.T, h bridge.Handler, m *bridge.Method, req bridge.Request) (M, error) {
	t.Helper()
	res, err := h.Handle(t.Context(), &bridge.Call{Method: m, Request: req},
		func(context.Context, bridge.Event) error { return nil })
	if err != nil {
		var none M
		return none, err
	}
	return res.Complete.(M), nil
}

// tools returns the names on a page, and the page.
func tools(t *testing.T, h bridge.Handler, cursor *string) ([]string, *pb.ListToolsResponse) {
	t.Helper()
	l, err := request[*pb.ListToolsResponse](t, h, bridge.ListTools, &pb.ListToolsRequest{Cursor: cursor})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range l.GetTools() {
		names = append(names, tool.GetName())
	}
	return names, l
}

func code(err error) codes.Code {
	if err == nil {
		return codes.OK
	}
	return bridge.AsError(err).Code
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("%s:\n%s", what, diff)
	}
}

func TestNamesHaveTheServersPrefix(t *testing.T) {
	a, b := &server{pages: [][]string{{"x", "b_x"}}, prompts: []string{"p"}},
		&server{pages: [][]string{{"x"}}, prompts: []string{"p", "größe 1"}}
	r := route(t, nil, a, b)
	names, _ := tools(t, r, nil)
	equal(t, "tools", names, []string{"a_x", "a_b_x", "b_x"})
	prompts, err := request[*pb.ListPromptsResponse](t, r, bridge.ListPrompts, &pb.ListPromptsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "prompts", prompts.GetPrompts(), []*pb.Prompt{{Name: "a_p"}, {Name: "b_p"}, {Name: "b_größe 1"}})
	for public, own := range map[string]*server{"a_x": a, "a_b_x": a, "b_x": b} {
		if _, err := request[*pb.CallToolResult](t, r, bridge.CallTool, &pb.CallToolRequest{Name: public}); err != nil {
			t.Fatal(err)
		}
		all := calls[*pb.CallToolRequest](own)
		if got := all[len(all)-1].GetName(); got != public[2:] {
			t.Errorf("%s: called as %q", public, got)
		}
	}
	got, err := request[*pb.GetPromptResult](t, r, bridge.GetPrompt, &pb.GetPromptRequest{Name: "b_größe 1"})
	if err != nil || got.GetDescription() != "prompt größe 1" {
		t.Errorf("%v %v", got, err)
	}
	completion, err := request[*pb.CompleteResponse](t, r, bridge.Complete, &pb.CompleteRequest{
		Reference: &pb.CompletionReference{
			Reference: &pb.CompletionReference_Prompt{Prompt: &pb.PromptReference{Name: "b_p"}},
		},
	})
	if err != nil || len(calls[*pb.CompleteRequest](a)) != 0 || completion.GetCompletion().GetValues()[0] != "for p" {
		t.Errorf("%v %v", completion, err)
	}
	for _, unknown := range []string{"x", "", "c_x", "A_x", "a", strings.Repeat("z", 1<<20)} {
		_, err := request[*pb.CallToolResult](t, r, bridge.CallTool, &pb.CallToolRequest{Name: unknown})
		if code(err) != codes.NotFound || !strings.Contains(err.Error(), "a_, b_") || len(err.Error()) > 512 {
			t.Errorf("%.80q: %.200v", unknown, err)
		}
	}
}

// Headers that repeat arguments are validated behind the router, where the tool's schema is known.
func TestHeadersReachTheServerOfATool(t *testing.T) {
	var got map[string][]string
	r := route(t, nil, bridge.HandlerFunc(
		func(_ context.Context, call *bridge.Call, _ bridge.Emit) (*bridge.Result, error) {
			got = call.Header
			return complete(&pb.CallToolResult{})
		}))
	call := &bridge.Call{
		Method: bridge.CallTool, Request: &pb.CallToolRequest{Name: "a_x"},
		Header: map[string][]string{"Mcp-Param-X": {"1"}},
	}
	if _, err := r.Handle(t.Context(), call, nil); err != nil || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
}

// Every public name has at most the maximum length, is unique and the same in every router, and resolves to its tool.
func TestLongNamesAreShortenedDeterministically(t *testing.T) {
	long := strings.Repeat("long", 30)
	pages := [][]string{{"short", long + "1", long + "2"}}
	for n := 50; n < 70; n++ { // around the limit, including names that look shortened
		pages = append(pages, []string{strings.Repeat("n", n), strings.Repeat("n", n-14) + "_" + "0123456789ab"})
	}
	a := &server{
		pages:   pages,
		prompts: []string{strings.Repeat("ä", 60), strings.Repeat("x", 1) + strings.Repeat("日本", 60)},
	}
	list := func(r bridge.Handler) (names []string) {
		var cursor *string
		for {
			page, l := tools(t, r, cursor)
			names = append(names, page...)
			if cursor = l.NextCursor; cursor == nil {
				return names
			}
		}
	}
	r := route(t, nil, a, &server{})
	names := list(r)
	equal(t, "another router's names", list(route(t, nil, a, &server{})), names)
	own := slices.Concat(pages...)
	if len(names) != len(own) || len(slices.Compact(slices.Sorted(slices.Values(names)))) != len(own) {
		t.Fatalf("%d names for %d tools: %q", len(names), len(own), names)
	}
	for i, public := range names {
		if len(public) > 64 {
			t.Errorf("%q has %d bytes", public, len(public))
		}
		fresh := route(t, nil, a, &server{}) // like a replica without any list requests
		for _, h := range []bridge.Handler{r, fresh} {
			got, err := request[*pb.CallToolResult](t, h, bridge.CallTool, &pb.CallToolRequest{Name: public})
			if err != nil {
				t.Fatalf("%s: %v", public, err)
			}
			equal(t, public, got.GetContent(), textContent("tool "+own[i]))
		}
	}
	prompts, err := request[*pb.ListPromptsResponse](t, r, bridge.ListPrompts, &pb.ListPromptsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range prompts.GetPrompts() {
		got, err := request[*pb.GetPromptResult](t, route(t, nil, a, &server{}), bridge.GetPrompt,
			&pb.GetPromptRequest{Name: p.GetName()})
		if err != nil || len(p.GetName()) > 64 || got.GetDescription() != "prompt "+a.prompts[i] {
			t.Errorf("%q: %v %v", p.GetName(), got, err)
		}
	}
	cut := "a_" + strings.Repeat("q", 49) + "_0123456789ab"
	if _, err := request[*pb.CallToolResult](t, r, bridge.CallTool,
		&pb.CallToolRequest{Name: cut}); code(err) != codes.NotFound {
		t.Errorf("a name that only looks shortened: %v", err)
	}
}

func TestToolsThatClientsRejectAreDropped(t *testing.T) {
	var log bytes.Buffer
	a := &server{pages: [][]string{{"good.one", "with space", "", "naïve", "x\n{\"level\":\"fatal\"}", "good-two"}}}
	r := route(t, &log, a, &server{})
	for range 2 {
		names, _ := tools(t, r, nil)
		equal(t, "tools", names, []string{"a_good.one", "a_good-two"})
	}
	if n := strings.Count(log.String(), "\n"); n != 4 || strings.Count(log.String(), "tool dropped") != 4 {
		t.Errorf("%d lines:\n%s", n, &log)
	}
}

func TestAmbiguousServersAreRejected(t *testing.T) {
	for _, c := range []struct {
		names []string
		want  string // of the error; if empty, none
	}{
		{nil, "no servers"},
		{[]string{"anything, really"}, ""},
		{[]string{"a", "b"}, ""},
		{[]string{"a", "ab", "a-b", "A", "1.2"}, ""},
		{[]string{strings.Repeat("a", 32), "b"}, ""},
		{[]string{strings.Repeat("a", 33), "b"}, "1 to 32"},
		{[]string{"a b", "b"}, "1 to 32"},
		{[]string{"", "b"}, "1 to 32"},
		{[]string{"a\n", "b"}, "1 to 32"},
		{[]string{"a", "a"}, "two servers"},
		{[]string{"a", "a_b"}, "could have the same name"},
		{[]string{"a_b_c", "a_b"}, "could have the same name"},
	} {
		var routes []router.Route
		for _, name := range c.names {
			routes = append(routes, router.Route{Name: name, Handler: &server{}})
		}
		_, err := router.New(routes, router.Options{})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.names, err, c.want)
		}
	}
}

func TestListsAreConcatenatedAcrossPages(t *testing.T) {
	a, b, c := &server{pages: [][]string{{"1"}, {"2"}}}, &server{pages: [][]string{{"3"}, {"4"}, {"5"}}},
		&server{pages: [][]string{{"6"}}}
	r := route(t, nil, a, b, c)
	var pages [][]string
	var cursor *string
	for {
		names, l := tools(t, r, cursor)
		pages = append(pages, names)
		if cursor = l.NextCursor; cursor == nil {
			break
		}
	}
	equal(t, "pages", pages, [][]string{{"a_1"}, {"a_2", "b_3"}, {"b_4"}, {"b_5", "c_6"}})
}

func TestForeignCursorsAreRejected(t *testing.T) {
	a, b := &server{pages: [][]string{{"1"}, {"2"}}}, &server{pages: [][]string{{"3"}}}
	r := route(t, nil, a, b)
	_, l := tools(t, r, nil)
	mine := l.GetNextCursor()
	for _, bad := range []string{
		"", "p1", "!", mine + "=", mine + "A", mine[:len(mine)-1], "YQ", // a
		mine + "\n", "\r" + mine, mine[:3] + "\r\n" + mine[3:],
		"YQBwOQ",       // a\0p9: not a cursor of a
		"eABwMQ",       // x\0p1: unknown server
		"YgBwMQ",       // b\0p1: not a cursor of b
		"AAAA", "_w-8", // bytes
		strings.Repeat("A", 1<<20),
	} {
		_, err := request[*pb.ListToolsResponse](t, r, bridge.ListTools, &pb.ListToolsRequest{Cursor: &bad})
		if code(err) != codes.InvalidArgument {
			t.Errorf("%.40q: %v", bad, err)
		}
	}
	for _, c := range calls[*pb.ListToolsRequest](b) {
		if c.Cursor != nil && c.GetCursor() != "p1" {
			t.Errorf("b received a request for %q", c.GetCursor())
		}
	}
}

func TestCursorsOfServersAreLimited(t *testing.T) {
	for _, n := range []int{8<<10 - 1, 8 << 10, 8<<10 + 1} {
		long := strings.Repeat("c", n)
		a := bridge.HandlerFunc(func(_ context.Context, call *bridge.Call, _ bridge.Emit) (*bridge.Result, error) {
			if r := call.Request.(*pb.ListToolsRequest); r.Cursor != nil {
				if r.GetCursor() != long {
					return nil, bridge.Errorf(codes.InvalidArgument, "not that one")
				}
				return complete(&pb.ListToolsResponse{Tools: []*pb.Tool{{Name: "2"}}})
			}
			return complete(&pb.ListToolsResponse{Tools: []*pb.Tool{{Name: "1"}}, NextCursor: &long})
		})
		var log bytes.Buffer
		r := route(t, &log, a, &server{pages: [][]string{{"3"}}})
		names, l := tools(t, r, nil)
		if n > 8<<10 {
			equal(t, "the only page", names, []string{"a_1", "b_3"})
			if l.NextCursor != nil || !strings.Contains(log.String(), "list is cut") {
				t.Errorf("%d: a next page, or nothing in the log: %s", n, &log)
			}
			continue
		}
		names, _ = tools(t, r, l.NextCursor)
		equal(t, "second page", names, []string{"a_2", "b_3"})
	}
}

func TestMergedListHasTheShortestTTL(t *testing.T) {
	ms := func(n int64) *int64 { return &n }
	for _, ttl := range [][3]*int64{ // of a, of b, and of both
		{},
		{ms(5), ms(3), ms(3)},
		{ms(5), nil, ms(0)},
		{nil, ms(5), ms(0)},
		{ms(0), ms(5), ms(0)},
	} {
		_, l := tools(t, route(t, nil, &server{ttl: ttl[0]}, &server{ttl: ttl[1]}), nil)
		equal(t, fmt.Sprint(ttl), l, &pb.ListToolsResponse{TtlMs: ttl[2], CacheScope: "private"})
	}
}

// All pages of a list have the same cache scope, whichever servers they belong to. The list of a single server has the
// server's scope.
func TestPagesHaveTheSameCacheScope(t *testing.T) {
	public, private := "public", "private"
	open := func() *server { return &server{pages: [][]string{{"1"}, {"2"}}, scope: public} }
	for what, c := range map[string]struct {
		routes []bridge.Handler
		want   string
	}{
		"one":                 {[]bridge.Handler{open()}, public},
		"one without a scope": {[]bridge.Handler{&server{pages: [][]string{{"1"}, {"2"}}}}, ""},
		"both public":         {[]bridge.Handler{open(), open()}, private},
		"a private one":       {[]bridge.Handler{open(), &server{pages: [][]string{{"3"}}, scope: private}}, private},
		"one that fails":      {[]bridge.Handler{open(), &server{err: down}}, private},
		"one without tools": {[]bridge.Handler{
			open(),
			&server{err: bridge.Errorf(codes.Unimplemented, "no tools")},
		}, private},
	} {
		r := route(t, nil, c.routes...)
		for cursor, n := (*string)(nil), 1; ; n++ {
			_, l := tools(t, r, cursor)
			if l.GetCacheScope() != c.want {
				t.Errorf("%s: page %d is %v", what, n, l.GetCacheScope())
			}
			if cursor = l.NextCursor; cursor == nil {
				break
			}
		}
	}
}

func TestListsSkipAnUnavailableServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		a, b := &server{hang: true}, &server{pages: [][]string{{"x"}}, ttl: proto.Int64(1_000), scope: "public"}
		r := route(t, &log, a, b)
		begin := time.Now()
		names, l := tools(t, r, nil)
		equal(t, "tools", names, []string{"b_x"})
		if l.GetTtlMs() != 0 || l.GetCacheScope() != "private" {
			t.Errorf("an incomplete list has a TTL: %v", l)
		}
		if took := time.Since(begin); took != 5*time.Second {
			t.Errorf("took %v", took)
		}
		begin = time.Now()
		for range 10 { // without further waiting
			names, _ = tools(t, r, nil)
			equal(t, "tools", names, []string{"b_x"})
		}
		if took := time.Since(begin); took != 0 || len(calls[*pb.ListToolsRequest](a)) != 1 {
			t.Errorf("took %v, with %d requests", took, len(calls[*pb.ListToolsRequest](a)))
		}
		if n := strings.Count(log.String(), "does not respond;"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, &log)
		}
		a.set(func(s *server) { s.hang, s.err = false, down })
		_, err := request[*pb.CallToolResult](t, r, bridge.CallTool, &pb.CallToolRequest{Name: "a_x"})
		if e := bridge.AsError(err); e.Reason != "BACKEND_UNAVAILABLE" {
			t.Errorf("call of the server: %v", err)
		}
		<-time.After(time.Second) // the next request is due, and fails at once
		if names, _ = tools(t, r, nil); len(names) != 1 || len(calls[*pb.ListToolsRequest](a)) != 2 {
			t.Errorf("%q, with %d requests", names, len(calls[*pb.ListToolsRequest](a)))
		}
		a.set(func(s *server) { s.err, s.pages = nil, [][]string{{"y"}} })
		<-time.After(time.Second)
		names, l = tools(t, r, nil)
		equal(t, "tools", names, []string{"a_y", "b_x"})
		if l.GetTtlMs() != 0 { // a has no TTL, b 1 s
			t.Errorf("%v", l)
		}
		if n := strings.Count(log.String(), "responds again"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, &log)
		}
	})
}

// If a server rejects a caller with too many calls, it is not skipped for others; and a server that is down is not
// considered available.
func TestRejectedCallerDoesNotAffectOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		a, b := &server{pages: [][]string{{"x"}}}, &server{pages: [][]string{{"x"}}}
		r := route(t, &log, a, b)
		refused := bridge.Failed(codes.ResourceExhausted, bridge.OutcomeNotExecuted, bridge.ReasonOverloaded,
			"too many")
		a.set(func(s *server) { s.err = refused })
		names, l := tools(t, r, nil)
		equal(t, "tools of who is refused", names, []string{"b_x"})
		if l.GetTtlMs() != 0 || !strings.Contains(log.String(), "too many") {
			t.Errorf("%v\n%s", l, &log)
		}
		a.set(func(s *server) { s.err = nil })
		names, _ = tools(t, r, nil)
		equal(t, "tools of another one", names, []string{"a_x", "b_x"})

		for _, err := range []error{down, refused} {
			a.set(func(s *server) { s.err = err })
			tools(t, r, nil)
			<-time.After(time.Second)
		}
		if strings.Contains(log.String(), "responds again") {
			t.Errorf("%s", &log)
		}
	})
}

// While one caller checks whether a server is available again, others do not wait for it.
func TestOneCallerWaitsForAnUnavailableServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := &server{hang: true}, &server{pages: [][]string{{"x"}}}
		r := route(t, nil, a, b)
		tools(t, r, nil)
		<-time.After(time.Second)
		var wg sync.WaitGroup
		var mu sync.Mutex
		waited := 0
		for range 20 {
			wg.Go(func() {
				begin := time.Now()
				tools(t, r, nil)
				if took := time.Since(begin); took > 500*time.Millisecond {
					t.Errorf("waited for %v", took)
				} else if took > 0 {
					mu.Lock()
					defer mu.Unlock()
					waited++
				}
			})
		}
		wg.Wait()
		if waited != 1 {
			t.Errorf("%d callers waited", waited)
		}
	})
}

func TestListFailsIfNoServerAnswers(t *testing.T) {
	r := route(t, nil, &server{err: down}, &server{err: down})
	if _, err := request[*pb.ListToolsResponse](t, r, bridge.ListTools, &pb.ListToolsRequest{}); bridge.AsError(err).
		Reason != "BACKEND_UNAVAILABLE" {
		t.Error(err)
	}
	if _, err := request[*pb.DiscoverResponse](t, r, bridge.Discover, &pb.DiscoverRequest{}); bridge.AsError(err).
		Reason != "BACKEND_UNAVAILABLE" {
		t.Error(err)
	}
	none := bridge.Errorf(codes.Unimplemented, "no prompts")
	r = route(t, nil, &server{err: none}, &server{err: none})
	if _, err := request[*pb.ListPromptsResponse](t, r, bridge.ListPrompts,
		&pb.ListPromptsRequest{}); code(err) != codes.Unimplemented {
		t.Error(err)
	}
	r = route(t, nil, &server{err: none}, &server{prompts: []string{"p"}})
	l, err := request[*pb.ListPromptsResponse](t, r, bridge.ListPrompts, &pb.ListPromptsRequest{})
	if err != nil || len(l.GetPrompts()) != 1 {
		t.Errorf("%v %v", l, err)
	}
}

func TestPanicOfOneServerDoesNotAffectOthers(t *testing.T) {
	bug := bridge.HandlerFunc(
		func(context.Context, *bridge.Call, bridge.Emit) (*bridge.Result, error) { panic("a bug") })
	empty := bridge.HandlerFunc(
		func(context.Context, *bridge.Call, bridge.Emit) (*bridge.Result, error) { return nil, nil })
	other := bridge.HandlerFunc(func(context.Context, *bridge.Call, bridge.Emit) (*bridge.Result, error) {
		return complete(&pb.ListPromptsResponse{})
	})
	var log bytes.Buffer
	names, _ := tools(t, route(t, &log, bug, empty, other, &server{pages: [][]string{{"x"}}}), nil)
	equal(t, "tools", names, []string{"d_x"})
	if !strings.Contains(log.String(), "recovered panic") || strings.Count(log.String(), "list is missing") != 3 {
		t.Error(&log)
	}
}

func TestDiscoverMergesAllServers(t *testing.T) {
	yes, no := proto.Bool(true), proto.Bool(false)
	a := &server{about: &pb.DiscoverResponse{
		ServerInfo: &pb.Implementation{Name: "x", Version: "1.0"}, Instructions: proto.String("be kind"),
		TtlMs: proto.Int64(5), CacheScope: "public",
		Capabilities: &pb.ServerCapabilities{
			Tools: &pb.ToolsCapability{ListChanged: no}, Logging: &pb.Capability{}, Tasks: `{}`,
			Extensions:   `{"e/1":{"a":1},"e/2":{}}`,
			Experimental: `[not json`,
		},
		Meta: `{"m":1}`, Limits: &pb.BackendLimits{MaxConcurrentCalls: 1},
	}}
	b := &server{about: &pb.DiscoverResponse{
		ServerInfo: &pb.Implementation{Name: "y"}, TtlMs: proto.Int64(3), CacheScope: "public",
		Capabilities: &pb.ServerCapabilities{
			Tools: &pb.ToolsCapability{ListChanged: yes}, Resources: &pb.ResourcesCapability{Subscribe: yes},
			Extensions:   `{"e/1":{"a":2},"e/3":{}}`,
			Experimental: `{"x":{}}`,
		},
		Meta: `{"m":2,"n":9007199254740993}`,
	}}
	r := route(t, nil, a, b)
	got, err := request[*pb.DiscoverResponse](t, r, bridge.Discover, &pb.DiscoverRequest{})
	if err != nil {
		t.Fatal(err)
	}
	want := &pb.DiscoverResponse{
		ServerInfo: &pb.Implementation{Name: "mcpbridge", Version: "a 1.0, b"},
		Capabilities: &pb.ServerCapabilities{
			Tools:     &pb.ToolsCapability{ListChanged: yes},
			Resources: &pb.ResourcesCapability{Subscribe: yes, ListChanged: yes}, Logging: &pb.Capability{},
			Extensions: `{"e/1":{"a":1},"e/2":{},"e/3":{}}`, Experimental: `{"x":{}}`,
		},
		Instructions: proto.String("# a\n\nWhat begins with a_ is of this server.\n\nbe kind"),
		TtlMs:        proto.Int64(3), CacheScope: "public", Meta: `{"m":1,"n":9007199254740993}`,
	}
	equal(t, "both", got, want)

	// A server that is down keeps its last declaration, and the result has TTL 0.
	b.set(func(s *server) { s.err = down })
	got, err = request[*pb.DiscoverResponse](t, r, bridge.Discover, &pb.DiscoverRequest{})
	if err != nil {
		t.Fatal(err)
	}
	want.TtlMs = proto.Int64(0)
	equal(t, "without b", got, want)

	// A server without a known declaration may support everything.
	got, err = request[*pb.DiscoverResponse](t, route(t, nil, a, &server{err: down}), bridge.Discover,
		&pb.DiscoverRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if c := got.GetCapabilities(); !c.GetTools().GetListChanged() || !c.GetPrompts().GetListChanged() ||
		!c.GetResources().GetSubscribe() || c.GetCompletions() == nil || got.GetTtlMs() != 0 {
		t.Errorf("%v", got)
	}
}

func TestInstructionsAreLimited(t *testing.T) {
	for _, n := range []int{8<<10 - 1, 8 << 10, 8<<10 + 1, 8<<10 + 2} {
		text := strings.Repeat("ä", n/2) + strings.Repeat("x", n%2)
		a := &server{about: &pb.DiscoverResponse{Instructions: &text}}
		got, err := request[*pb.DiscoverResponse](t, route(t, nil, a, &server{}), bridge.Discover,
			&pb.DiscoverRequest{})
		if err != nil {
			t.Fatal(err)
		}
		_, instructions, _ := strings.Cut(got.GetInstructions(), "server.\n\n")
		if len(instructions) > 8<<10 || (instructions == text) != (n <= 8<<10) ||
			!strings.HasSuffix(instructions, "…") != (n <= 8<<10) ||
			strings.ToValidUTF8(instructions, "?") != instructions {
			t.Errorf("%d bytes became %d: …%q", n, len(instructions), instructions[len(instructions)-8:])
		}
	}
}

// Unknown fields pass.
func TestUnknownFieldsAreForwarded(t *testing.T) {
	unknown := protowire.AppendString(protowire.AppendTag(nil, 1000, protowire.BytesType), "later")
	a := &server{}
	req := &pb.CallToolRequest{
		Name: "a_x", Context: &pb.CallContext{Verified: bridge.Verified(bridge.Rev20260728, nil, nil)},
		Arguments: []byte(`{"n":1}`),
	}
	req.ProtoReflect().SetUnknown(unknown)
	if _, err := request[*pb.CallToolResult](t, route(t, nil, a, &server{}), bridge.CallTool, req); err != nil {
		t.Fatal(err)
	}
	got := calls[*pb.CallToolRequest](a)[0]
	want := proto.CloneOf(req)
	want.Name = "x"
	equal(t, "request", got, want)
	if req.GetName() != "a_x" || !bytes.Equal(got.ProtoReflect().GetUnknown(), unknown) {
		t.Errorf("%v became %v", req, got)
	}
}

// While a route is unavailable, clients receive its last declaration for clients of the same era.
func TestUnavailableRouteShowsItsLastDeclarationPerEra(t *testing.T) {
	var unavailable atomic.Bool
	of := map[bridge.Era]*pb.ServerCapabilities{
		bridge.ModernEra: {Prompts: &pb.PromptsCapability{}}, bridge.LegacyEra: {Resources: &pb.ResourcesCapability{}},
	}
	twofold := bridge.HandlerFunc(func(_ context.Context, call *bridge.Call, _ bridge.Emit) (*bridge.Result, error) {
		if unavailable.Load() {
			return nil, down
		}
		return complete(&pb.DiscoverResponse{Capabilities: of[call.Era()]})
	})
	r, err := router.New([]router.Route{{Name: "a", Handler: twofold}, {Name: "b", Handler: &server{}}},
		router.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, is := range []bool{false, true} {
		unavailable.Store(is)
		for era := range bridge.Eras {
			d, err := request[*pb.DiscoverResponse](t, r, bridge.Discover,
				&pb.DiscoverRequest{Context: &pb.CallContext{Verified: bridge.Verified(era.Latest(), nil, nil)}})
			if err != nil {
				t.Fatal(err)
			}
			c := d.GetCapabilities()
			if prompts := c.GetPrompts() != nil; prompts != (era == bridge.ModernEra) ||
				prompts == (c.GetResources() != nil) {
				t.Errorf("unavailable %t, era %d: %v", is, era, c)
			}
		}
	}
}
