package mcpclient_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mcpclient"
	"github.com/mcpbridge/mcpbridge/internal/mcpserver"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// callOf returns a call of a caller with input capabilities.
func callOf(name, args, subject string) *bridge.Call {
	c := toolCall(name, args)
	c.Context().ClientCapabilities = &pb.ClientCapabilities{
		Elicitation: &pb.ElicitationCapability{},
		Roots:       &pb.RootsCapability{},
	}
	c.Context().Verified = &pb.VerifiedCaller{Principal: &pb.Principal{Subject: subject, Issuer: "i"}}
	return c
}

// answers returns the same content as the response to each input request.
func answers(needs *pb.InputRequired, content string) map[string]*pb.InputResponse {
	out := map[string]*pb.InputResponse{}
	for _, q := range needs.GetInputRequests() {
		out[q.GetKey()] = &pb.InputResponse{Response: &pb.InputResponse_Elicit{Elicit: &pb.ElicitResult{
			Action: "accept", Content: content,
		}}}
	}
	return out
}

func ignore(context.Context, bridge.Event) error { return nil }

// requiredInput makes a call that must require input.
func requiredInput(t *testing.T, h bridge.Handler, c *bridge.Call) *pb.InputRequired {
	t.Helper()
	res, err := h.Handle(t.Context(), c, ignore)
	if err != nil || res.InputRequired == nil {
		t.Fatalf("%v %v", res, err)
	}
	return res.InputRequired
}

// keys returns the sorted keys of the input requests.
func keys(needs *pb.InputRequired) (keys []string) {
	for _, q := range needs.GetInputRequests() {
		keys = append(keys, q.GetKey())
	}
	return keys
}

// callText returns the text of a retried call's result, or its error.
func callText(t *testing.T, h bridge.Handler, c *bridge.Call) string {
	t.Helper()
	res, err := h.Handle(t.Context(), c, ignore)
	if err != nil {
		return bridge.AsError(err).Message
	}
	if res.InputRequired != nil {
		return fmt.Sprint(keys(res.InputRequired))
	}
	return res.Complete.(*pb.CallToolResult).GetContent()[0].GetText().GetText()
}

// legacyServers runs each for different transports to a legacy server with input requests.
func legacyServers(t *testing.T, each func(t *testing.T, c *mcpclient.Client)) {
	t.Helper()
	t.Run("program", func(t *testing.T) {
		each(t, run(t, mcpclient.Options{
			Command: []string{os.Args[0]}, Env: []string{serveEnv + "=" + ownHandler},
			Revision: bridge.Rev20251125, MaxSessions: 4,
		}))
	})
	t.Run("http", func(t *testing.T) {
		s := mcpserver.New(bridgetest.New(), mcpserver.Options{})
		srv := httptest.NewServer(s)
		t.Cleanup(func() { s.Close(); srv.Close() })
		each(t, run(t, mcpclient.Options{URL: srv.URL + "/mcp", Revision: bridge.Rev20250618, MaxSessions: 4}))
	})
}

// Each caller's responses reach that caller's call, in whatever order they arrive.
func TestResponsesReachTheirCall(t *testing.T) {
	legacyServers(t, func(t *testing.T, c *mcpclient.Client) {
		t.Helper()
		const callers = 4
		calls := make([]*bridge.Call, callers)
		states := make([]*pb.InputRequired, callers)
		var wg sync.WaitGroup
		for i := range callers {
			calls[i] = callOf("ask", `{"x":1}`, fmt.Sprint("caller", i))
			wg.Go(func() { states[i] = requiredInput(t, c, calls[i]) })
		}
		wg.Wait()
		for i := callers - 1; i >= 0; i-- {
			states[i] = requiredInput(t, c, calls[i].Retry(answers(states[i], fmt.Sprintf(`{"name":"n%d"}`, i)),
				states[i].RequestState))
		}
		for i := range callers {
			want := fmt.Sprintf(`name={"name":"n%d"} {"yes":"%d"}`, i, i)
			if got := callText(t, c, calls[i].Retry(answers(states[i], fmt.Sprintf(`{"yes":"%d"}`, i)),
				states[i].RequestState)); got != want {
				t.Errorf("caller %d got %q, want %q", i, got, want)
			}
		}
	})
}

// A request state is valid once, for the same caller and the same call.
func TestStateIsValidForOneCall(t *testing.T) {
	legacyServers(t, func(t *testing.T, c *mcpclient.Client) {
		t.Helper()
		call := callOf("ask", `{"x":1}`, "a")
		n := requiredInput(t, c, call)
		reply := answers(n, `{"name":"A"}`)
		for what, other := range map[string]*bridge.Call{
			"another caller":   callOf("ask", `{"x":1}`, "b").Retry(reply, n.RequestState),
			"other arguments":  callOf("ask", `{"x":2}`, "a").Retry(reply, n.RequestState),
			"another tool":     callOf("why", `{"x":1}`, "a").Retry(reply, n.RequestState),
			"another state":    call.Retry(reply, append([]byte("A"), n.RequestState...)),
			"the empty state":  call.Retry(reply, []byte{}),
			"a state too long": call.Retry(reply, make([]byte, 1<<20)),
		} {
			_, err := c.Handle(t.Context(), other, ignore)
			if e := bridge.AsError(err); e.Code != codes.InvalidArgument ||
				!strings.Contains(e.Message,
					"may have been executed: make it again, without the state, only if that does no harm") {
				t.Errorf("%s: %v", what, err)
			}
		}
		// Another encoding of the same arguments is the same call.
		again := callOf("ask", ` { "x" : 1 } `, "a").Retry(reply, n.RequestState)
		next := requiredInput(t, c, again)
		_, err := c.Handle(t.Context(), again, ignore)
		if e := bridge.AsError(err); e.Code != codes.InvalidArgument {
			t.Errorf("used twice: %v", err)
		}
		if got := callText(t, c, call.Retry(answers(next, `{"yes":"y"}`), next.RequestState)); !strings.Contains(got,
			`{"name":"A"}`) {
			t.Errorf("%s", got)
		}
	})
}

// If a request state is used twice at the same time, one of the calls continues.
func TestStateCanBeUsedOnce(t *testing.T) {
	legacyServers(t, func(t *testing.T, c *mcpclient.Client) {
		t.Helper()
		call := callOf("ask", `{}`, "a")
		n := requiredInput(t, c, call)
		won := make(chan bool)
		for range 8 {
			go func() {
				_, err := c.Handle(t.Context(), call.Retry(answers(n, `{"name":"A"}`), n.RequestState), ignore)
				won <- err == nil
			}()
		}
		winners := 0
		for range 8 {
			if <-won {
				winners++
			}
		}
		if winners != 1 {
			t.Errorf("%d went on", winners)
		}
	})
}

// startPrograms makes a client of programs that initialize sessions of its revision and respond to pings. do handles
// all else; it is called for each start of a program with its number.
func startPrograms(t *testing.T, o mcpclient.Options,
	do func(me int64) func(m *jsonrpc.Message, send func(lines ...string)),
) *mcpclient.Client {
	t.Helper()
	o.Command = []string{"pipe"}
	var started atomic.Int64
	return run(t, o, func(c *mcpclient.Client) {
		c.Pipe(func(ctx context.Context, in io.Reader, out io.Writer) {
			does := do(started.Add(1))
			s := &script{on: func(m *jsonrpc.Message, send func(...string)) bool {
				does(m, send)
				switch m.Method {
				case "initialize":
					send(strings.Replace(initializeResponse, "2024-11-05", o.Revision.String(), 1))
				case "ping":
					send(emptyResponse)
				}
				return true
			}}
			s.serve(ctx, in, out)
		})
	})
}

// A session belongs to one caller: the state that a server keeps in it is not used for another.
func TestSessionsAreNotShared(t *testing.T) {
	c := startPrograms(t, mcpclient.Options{Revision: bridge.Rev20250618, MaxSessions: 2},
		func(me int64) func(*jsonrpc.Message, func(...string)) {
			return func(m *jsonrpc.Message, send func(...string)) {
				if m.Method == "tools/call" {
					send(strings.Replace(helloResponse, "hello", strconv.FormatInt(me, 10), 1))
				}
			}
		})
	for i, tt := range []struct{ caller, program string }{
		{"a", "2"}, {"a", "2"}, {"b", "3"}, {"a", "2"}, {"b", "3"}, {"c", "4"}, {"b", "3"}, {"a", "5"},
	} {
		if got := callText(t, c, callOf("t", `{}`, tt.caller)); got != tt.program {
			t.Errorf("%d: %s is served by %s, want %s", i, tt.caller, got, tt.program)
		}
	}
	if got := call(t, c, "t", `{}`); got != "1" {
		t.Errorf("a caller without input capabilities is served by %s", got)
	}
}

// rooted makes a client of programs that request the roots after initialization. Their results contain the program's
// number and the roots.
func rooted(t *testing.T) *mcpclient.Client {
	t.Helper()
	return startPrograms(t, mcpclient.Options{Revision: bridge.Rev20250618, MaxSessions: 4},
		func(me int64) func(*jsonrpc.Message, func(...string)) {
			result := "nothing"
			return func(m *jsonrpc.Message, send func(...string)) {
				switch {
				case m.Method == "notifications/initialized" && me > 1: // the first is for calls without input
					send(`{"jsonrpc":"2.0","id":"r","method":"roots/list"}`)
				case m.Method == "" && string(m.ID) == `"r"`:
					result = string(m.Result)
				case m.Method == "tools/call":
					send(strings.Replace(helloResponse, `"hello"`, strconv.Quote(fmt.Sprint(me, " ", result)), 1))
				}
			}
		})
}

// roots returns a response with one root.
func roots(needs *pb.InputRequired, uri string) map[string]*pb.InputResponse {
	out := map[string]*pb.InputResponse{}
	for _, q := range needs.GetInputRequests() {
		out[q.GetKey()] = &pb.InputResponse{
			Response: &pb.InputResponse_ListRoots{ListRoots: &pb.ListRootsResult{Roots: []*pb.Root{{Uri: uri}}}},
		}
	}
	return out
}

// A server receives the caller's capabilities, and no others, even if they contain nothing that it can request.
func TestServersReceiveTheCallersCapabilities(t *testing.T) {
	clients := map[bridge.Revision]*mcpclient.Client{}
	for _, rev := range []bridge.Revision{bridge.Rev20250618, bridge.Rev20251125} {
		clients[rev] = startPrograms(t, mcpclient.Options{Revision: rev},
			func(int64) func(*jsonrpc.Message, func(...string)) {
				result := ""
				return func(m *jsonrpc.Message, send func(...string)) {
					switch m.Method {
					case "initialize":
						result = string(rawjson.Get(m.Params, "capabilities"))
					case "tools/call":
						send(strings.Replace(helloResponse, `"hello"`, strconv.Quote(result), 1))
					}
				}
			})
	}
	elicits := func(form, url *pb.Capability) *pb.ClientCapabilities {
		return &pb.ClientCapabilities{Elicitation: &pb.ElicitationCapability{Form: form, Url: url}}
	}
	for _, tt := range []struct {
		rev          bridge.Revision
		capabilities *pb.ClientCapabilities
		want         string
	}{
		{bridge.Rev20251125, nil, "{}"},
		{
			bridge.Rev20251125, &pb.ClientCapabilities{Extensions: `{"io.modelcontextprotocol/ui":{}}`},
			`{"extensions":{"io.modelcontextprotocol/ui":{}}}`,
		},
		{bridge.Rev20251125, &pb.ClientCapabilities{Experimental: `{"x":{}}`}, `{"experimental":{"x":{}}}`},
		{bridge.Rev20251125, &pb.ClientCapabilities{Roots: &pb.RootsCapability{}}, `{"roots":{}}`},
		{bridge.Rev20251125, nil, "{}"},
		{bridge.Rev20251125, elicits(nil, &pb.Capability{}), `{"elicitation":{"url":{}}}`},
		{bridge.Rev20250618, elicits(nil, &pb.Capability{}), "{}"}, // in this revision, elicitation means forms
		{bridge.Rev20250618, elicits(&pb.Capability{}, &pb.Capability{}), `{"elicitation":{}}`},
		{bridge.Rev20250618, elicits(nil, nil), `{"elicitation":{}}`},
	} {
		call := toolCall("t", `{}`)
		call.Context().ClientCapabilities = tt.capabilities
		if got := callText(t, clients[tt.rev], call); got != tt.want {
			t.Errorf("caller with %v: the server of %v received %s, want %s", tt.capabilities, tt.rev, got, tt.want)
		}
	}
}

// A session in which a server received another caller's input is not reused, even if callers have no principal.
func TestCapabilitiesAreNotSharedBetweenCallers(t *testing.T) {
	c := rooted(t)
	visit := func(session, root string) string {
		t.Helper()
		call := callOf("t", `{}`, "")
		call.Session = session
		res, err := c.Handle(t.Context(), call, ignore)
		if err == nil && res.InputRequired != nil {
			res, err = c.Handle(t.Context(), call.Retry(roots(res.InputRequired, root), res.InputRequired.RequestState),
				ignore)
		}
		if err != nil || res.Complete == nil {
			t.Fatalf("%v %v", res, err)
		}
		return res.Complete.(*pb.CallToolResult).GetContent()[0].GetText().GetText()
	}
	for i, tt := range []struct{ session, root, want string }{
		{"", "file:///a", `2 {"roots":[{"uri":"file:///a"}]}`},
		{"", "file:///b", `3 {"roots":[{"uri":"file:///b"}]}`}, // without a principal, it may be any caller
		{"x", "file:///c", `4 {"roots":[{"uri":"file:///c"}]}`},
		{"y", "file:///d", `5 {"roots":[{"uri":"file:///d"}]}`},
		{"x", "file:///e", `4 {"roots":[{"uri":"file:///c"}]}`}, // no further roots request
	} {
		if got := visit(tt.session, tt.root); got != tt.want {
			t.Errorf("%d: got %s, want %s", i, got, tt.want)
		}
	}
}

// Input without a response is requested again; the other responses are kept.
func TestUnansweredInputIsRequestedAgain(t *testing.T) {
	legacyServers(t, func(t *testing.T, c *mcpclient.Client) {
		t.Helper()
		many := callOf("many", `{}`, "a")
		many.Context().ClientCapabilities.Sampling = &pb.SamplingCapability{}
		n := requiredInput(t, c, many)
		if len(n.GetInputRequests()) != 3 {
			t.Fatalf("requested %v", n)
		}
		all := map[string]*pb.InputResponse{}
		for _, r := range n.GetInputRequests() {
			key := r.GetKey()
			switch r.GetRequest().(type) {
			case *pb.InputRequest_Elicit:
				all[key] = answers(n, `{"a":"b"}`)[key]
			case *pb.InputRequest_CreateMessage:
				all[key] = &pb.InputResponse{
					Response: &pb.InputResponse_CreateMessage{CreateMessage: &pb.CreateMessageResult{
						Role: "assistant", Model: "m", Content: bridgetest.Text("4").GetContent(),
					}},
				}
			case *pb.InputRequest_ListRoots:
				all[key] = &pb.InputResponse{
					Response: &pb.InputResponse_ListRoots{
						ListRoots: &pb.ListRootsResult{Roots: []*pb.Root{{Uri: "file:///a"}}},
					},
				}
			}
		}
		one := slices.Sorted(maps.Keys(all))[1]
		wrong := maps.Clone(all)
		wrong[one] = &pb.InputResponse{} // no response in it
		rest := requiredInput(t, c, many.Retry(wrong, n.RequestState))
		if got := keys(rest); len(got) != 1 || got[0] != one ||
			!slices.ContainsFunc(n.GetInputRequests(),
				func(q *pb.InputRequest) bool { return proto.Equal(q, rest.GetInputRequests()[0]) }) {
			t.Fatalf("requested %v", got)
		}
		if got := callText(t, c, many.Retry(map[string]*pb.InputResponse{one: all[one]},
			rest.RequestState)); got != `form={"a":"b"} model=4 roots=1` {
			t.Errorf("%s", got)
		}
	})
}

// A caller may respond to an input request with an error.
func TestReportedNoAnswerCompletesTheInput(t *testing.T) {
	legacyServers(t, func(t *testing.T, c *mcpclient.Client) {
		t.Helper()
		why := callOf("why", `{}`, "a")
		n := requiredInput(t, c, why)
		reply := map[string]*pb.InputResponse{}
		for _, q := range n.GetInputRequests() {
			reply[q.GetKey()] = &pb.InputResponse{
				Response: &pb.InputResponse_Error{Error: &pb.InputError{
					Reason:  pb.InputError_REASON_REFUSED,
					Message: "no",
				}},
			}
		}
		if got := callText(t, c, why.Retry(reply, n.RequestState)); got != "REASON_REFUSED -1 no" {
			t.Errorf("%s", got)
		}
	})
}

// If the response to an input request cannot be delivered, the call ends with an error, because the server might wait
// forever.
func TestCallsEndWhenTheirResponsesAreLost(t *testing.T) {
	for _, kind := range []string{"Streamable HTTP", "HTTP+SSE"} {
		for _, tt := range []struct {
			name   string
			status int // 0: the connection fails
			want   string
		}{
			{"500", http.StatusInternalServerError, "500 Internal Server Error: no"},
			{"404", http.StatusNotFound, "404 Not Found: no"},
			{"reset", 0, "EOF"},
		} {
			t.Run(kind+" "+tt.name, func(t *testing.T) {
				t.Parallel()
				answer := func(w http.ResponseWriter, r *http.Request, _ *jsonrpc.Message) {
					if kind == "HTTP+SSE" {
						_, _ = io.WriteString(w, question)
						return
					}
					stream(w, "data: "+question+"\n\n")
					<-r.Context().Done()
				}
				f := &fake{answer: answer, cancelled: make(chan struct{}, 100)}
				serve := http.Handler(f)
				if kind == "HTTP+SSE" {
					serve = sseServer(answer)
				}
				f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					r.Body = io.NopCloser(bytes.NewReader(body))
					if m, err := jsonrpc.Parse(body, limits.Defaults()); err != nil || !m.IsResponse() {
						serve.ServeHTTP(w, r)
						return
					}
					if tt.status == 0 {
						panic(http.ErrAbortHandler)
					}
					http.Error(w, "no", tt.status)
				}))
				t.Cleanup(f.Close)
				c := run(t, mcpclient.Options{
					URL:    f.URL + "/?key=secret",
					Limits: limits.Limits{CallTotal: 10 * time.Second}, ProbeTimeout: 50 * time.Millisecond,
				})
				call := callOf("ask", `{}`, "a")
				n := requiredInput(t, c, call)
				_, err := c.Handle(t.Context(), call.Retry(answers(n, `{}`), n.RequestState), ignore)
				e := bridge.AsError(err)
				if e.Reason != "BACKEND_CRASHED" ||
					e.Outcome != bridge.OutcomeUnknown ||
					!strings.Contains(e.Message, "did not receive the response to its request: ") ||
					!strings.Contains(e.Message, tt.want) || strings.Contains(e.Message, "secret") {
					t.Errorf("%v %v", e.Outcome, err)
				}
			})
		}
	}
}

// A serverless is a transport without a network. It returns the body of the response, or nil for the default one.
type serverless func(r *http.Request, m *jsonrpc.Message) io.ReadCloser

func (s serverless) RoundTrip(r *http.Request) (*http.Response, error) {
	res := &http.Response{StatusCode: http.StatusMethodNotAllowed, Header: http.Header{}, Body: http.NoBody, Request: r}
	if r.Method != http.MethodPost {
		return res, nil
	}
	body, _ := io.ReadAll(r.Body)
	m, err := jsonrpc.Parse(body, limits.Defaults())
	if err != nil {
		return nil, err
	}
	res.StatusCode = http.StatusAccepted
	rec := httptest.NewRecorder()
	switch m.Method {
	case "initialize":
		result(rec, &m, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"f","version":"1"}}`)
		return rec.Result(), nil
	case "ping":
		result(rec, &m, `{}`)
		return rec.Result(), nil
	}
	if body := s(r, &m); body != nil {
		res.StatusCode, res.Body = http.StatusOK, body
		res.Header.Set("Content-Type", "text/event-stream")
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return res, nil
}

// A server may take long to acknowledge a response that it has received, for example because its only thread is busy.
// If it cannot be reached, the response is lost.
func TestResponsesMayBeReadSlowly(t *testing.T) {
	for _, got := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			answered := make(chan struct{})
			transport := serverless(func(r *http.Request, m *jsonrpc.Message) io.ReadCloser {
				switch {
				case m.Method == "tools/call":
					out, in := io.Pipe()
					go func() {
						_, _ = io.WriteString(in, "data: "+question+"\n\n")
						select {
						case <-answered:
						case <-r.Context().Done():
							return
						}
						select {
						case <-time.After(time.Minute):
						case <-r.Context().Done():
						}
						_, _ = io.WriteString(in,
							"data: "+string(jsonrpc.AppendResult(nil, m.ID, []byte(hello)))+"\n\n")
					}()
					context.AfterFunc(r.Context(), func() { in.Close() })
					return out
				case m.IsResponse():
					if got {
						close(answered)
						if trace := httptrace.ContextClientTrace(r.Context()); trace != nil {
							trace.WroteRequest(httptrace.WroteRequestInfo{})
						}
					}
					<-r.Context().Done()
				}
				return nil
			})
			c, err := mcpclient.New(
				mcpclient.Options{URL: "http://server/", Transport: transport, Revision: bridge.Rev20251125})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- c.Run(ctx) }()
			call := callOf("ask", `{}`, "a")
			n := requiredInput(t, c, call)
			want := "hello"
			if !got {
				want = `server "http://server/" did not receive the response to its request: it could not be reached within 10s; whether the call was executed is not known`
			}
			if is := callText(t, c, call.Retry(answers(n, `{}`), n.RequestState)); is != want {
				t.Errorf("received by the server: %t: got %s, want %s", got, is, want)
			}
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// A call that is not sent because an earlier response was lost was not executed.
func TestCallsAreNotStartedWithoutAResponseStream(t *testing.T) {
	f := newFake(t, false, func(http.ResponseWriter, *http.Request, *jsonrpc.Message) { t.Error("the call was sent") })
	var requested atomic.Bool
	f.ping = func(w http.ResponseWriter, m *jsonrpc.Message) {
		if !requested.Swap(true) {
			stream(w, `data: {"jsonrpc":"2.0","id":"r","method":"roots/list"}`+"\n\n")
		}
		stream(w, "data: "+string(jsonrpc.AppendResult(nil, m.ID, []byte(`{}`)))+"\n\n")
	}
	c := run(t, mcpclient.Options{URL: f.URL, Transport: network(func(_ context.Context, body []byte) error {
		if bytes.Contains(body, []byte(`"id":"r"`)) {
			return errors.New("the network is down")
		}
		return nil
	})})
	call := callOf("t", `{}`, "ada")
	n := requiredInput(t, c, call)
	_, err := c.Handle(t.Context(), call.Retry(roots(n, "file:///ada"), n.RequestState), ignore)
	e := bridge.AsError(err)
	if e.Outcome != bridge.OutcomeNotExecuted ||
		!strings.Contains(e.Message,
			"did not receive the response to its request: the network is down; the call was not executed") {
		t.Errorf("%v %v", e.Outcome, err)
	}
}

// A call ends if its program does not read and the buffer has no room for the response.
func TestCallsEndWhenTheResponseBufferIsFull(t *testing.T) {
	serve := func(ctx context.Context, in io.Reader, out io.Writer) {
		(&script{on: func(m *jsonrpc.Message, send func(...string)) bool {
			switch m.Method {
			case "initialize":
				send(strings.Replace(initializeResponse, "2024-11-05", "2025-11-25", 1))
			case "tools/call":
				send(question)
				for range 300 {
					send(`{"jsonrpc":"2.0","id":"p","method":"ping"}`)
				}
				<-ctx.Done()
			}
			return true
		}}).serve(ctx, in, out)
	}
	bubble(t, mcpclient.Options{}, serve, func(t *testing.T, c *mcpclient.Client) {
		t.Helper()
		call := callOf("ask", `{}`, "a")
		n := requiredInput(t, c, call)
		synctest.Wait() // the pings take up the buffer
		_, err := c.Handle(t.Context(), call.Retry(answers(n, `{}`), n.RequestState), ignore)
		if e := bridge.AsError(err); e.Outcome != bridge.OutcomeUnknown ||
			!strings.Contains(e.Message, "256 messages are queued") {
			t.Errorf("%v %v", e.Outcome, err)
		}
	})
}

// A caller that does not retry holds a session only until the timeout.
func TestPendingCallsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := bridgetest.New()
		var gone sync.WaitGroup
		c, err := mcpclient.New(mcpclient.Options{
			Command: []string{"pipe"}, Revision: bridge.Rev20251125,
			MaxSessions: 1, Log: zerolog.Nop(),
		})
		if err != nil {
			t.Fatal(err)
		}
		c.Pipe(func(ctx context.Context, in io.Reader, out io.Writer) {
			gone.Add(1)
			defer gone.Done()
			s := mcpserver.New(h, mcpserver.Options{Limits: limits.Limits{AnswerTime: time.Hour}})
			defer s.Close()
			_ = s.ServeStdio(ctx, in, out)
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		if err := c.Ready(ctx); err != nil {
			t.Fatal(err)
		}
		call := callOf("ask", `{}`, "a")
		n := requiredInput(t, c, call)
		// The only session is in use.
		_, err = c.Handle(t.Context(), callOf("echo", `{}`, "b"), ignore)
		if e := bridge.AsError(err); e.Reason != "OVERLOADED" ||
			e.Outcome != bridge.OutcomeNotExecuted {
			t.Errorf("got %v", err)
		}
		// A caller without input capabilities does not need a session.
		if got := callText(t, c, toolCall("echo", `{}`)); got != "{}" {
			t.Errorf("got %s", got)
		}
		time.Sleep(5*time.Minute + 2*time.Second) //nolint:forbidigo // by the bubble's clock
		_, err = c.Handle(t.Context(), call.Retry(answers(n, `{"name":"A"}`), n.RequestState), ignore)
		if e := bridge.AsError(err); e.Code != codes.InvalidArgument {
			t.Errorf("too late: %v", err)
		}
		// The server may still send messages of the earlier call in its session, so there is a new one.
		if got := callText(t, c, callOf("echo", `{}`, "b")); got != "{}" {
			t.Errorf("got %s", got)
		}
		n = requiredInput(t, c, call)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		gone.Wait()
		_, err = c.Handle(t.Context(), call.Retry(answers(n, `{"name":"A"}`), n.RequestState), ignore)
		if e := bridge.AsError(err); e.Code != codes.Unavailable {
			t.Errorf("after Close: %v", err)
		}
	})
}

// Some servers request input on the standalone stream, and drop a request if it is not open.
func TestStandaloneStreamOpensBeforeTheCall(t *testing.T) {
	called := make(chan struct{})
	f := newFake(t, false, func(w http.ResponseWriter, r *http.Request, _ *jsonrpc.Message) {
		close(called)
		stream(w)
		<-r.Context().Done()
	})
	f.get = func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-called:
			t.Error("the call arrived before the standalone stream")
		case <-time.After(100 * time.Millisecond):
		}
		stream(w)
		if r.Header.Get("Mcp-Session-Id") == "s1" { // of callers without input capabilities
			<-r.Context().Done()
			return
		}
		<-called
		stream(w, `data: {"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}`+"\n\n")
		<-r.Context().Done()
	}
	c := run(t, mcpclient.Options{URL: f.URL})
	if n := len(requiredInput(t, c, callOf("ask", `{}`, "a")).GetInputRequests()); n != 1 {
		t.Errorf("got %d input requests, want 1", n)
	}
}

// Callers without input capabilities may receive messages on the standalone stream too.
func TestStandaloneStreamOpensWithoutACall(t *testing.T) {
	var isOpen atomic.Bool
	f := newFake(t, false, func(w http.ResponseWriter, _ *http.Request, m *jsonrpc.Message) {
		if !isOpen.Load() {
			t.Error("the call arrived before the standalone stream")
		}
		result(w, m, hello)
	})
	f.get = func(w http.ResponseWriter, r *http.Request) {
		<-time.After(100 * time.Millisecond) // it is slow
		isOpen.Store(true)
		stream(w)
		<-r.Context().Done()
	}
	c := run(t, mcpclient.Options{URL: f.URL})
	if got := call(t, c, "t", `{}`); got != "hello" {
		t.Errorf("got %q", got)
	}
}
