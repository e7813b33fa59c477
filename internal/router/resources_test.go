package router_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// readText returns the text of a resource.
func readText(t *testing.T, h bridge.Handler, uri string) (string, error) {
	t.Helper()
	res, err := request[*pb.ReadResourceResult](t, h, bridge.ReadResource, &pb.ReadResourceRequest{Uri: uri})
	if err != nil {
		return "", err
	}
	return res.GetContents()[0].GetText(), nil
}

func TestResourceIsReadFromItsServer(t *testing.T) {
	a := &server{
		resources: map[string]string{"x://1": "a1", "x://both": "a's"},
		hidden:    map[string]string{"t://a/5": "a5", "u://a": "ua"},
		templates: []string{"t://{all}", "t://b/{no}/{q}"},
	}
	b := &server{
		resources: map[string]string{"x://2": "b2", "x://both": "b's"},
		hidden:    map[string]string{"t://b/5": "b5", "u://b": "ub"}, templates: []string{"t://b/{id}"},
	}
	c := &server{err: bridge.Errorf(codes.Unimplemented, "no resources here")}
	for _, listed := range []bool{true, false} {
		r := route(t, nil, c, a, b)
		if listed {
			for _, m := range []*bridge.Method{bridge.ListResources, bridge.ListResourceTemplates} {
				if _, err := request[proto.Message](t, r, m, m.NewRequest(nil)); err != nil {
					t.Fatal(err)
				}
			}
		}
		for uri, want := range map[string]string{
			"x://1": "a1", "x://2": "b2", "x://both": "a's", "t://b/5": "b5", "t://a/5": "a5", "u://a": "ua",
			"u://b": "ub",
		} {
			for range 2 { // the second time from the memory
				if got, err := readText(t, r, uri); err != nil || got != want {
					t.Errorf("%s: %q %v, want %q", uri, got, err, want)
				}
			}
		}
		for _, uri := range []string{"x://3", "", strings.Repeat("u", 1<<20)} {
			if _, err := readText(t, r, uri); code(err) != codes.NotFound {
				t.Errorf("%.20s: %v", uri, err)
			}
		}
	}
}

// Only the server that lists a resource receives the requests for it.
func TestOnlyTheOwningServerIsCalled(t *testing.T) {
	a, b := &server{}, &server{resources: map[string]string{"x://2": "b2"}}
	r := route(t, nil, a, b)
	if got, err := readText(t, r, "x://2"); err != nil || got != "b2" || len(calls[*pb.ReadResourceRequest](a)) != 0 {
		t.Errorf("%q %v; a received %d requests", got, err, len(calls[*pb.ReadResourceRequest](a)))
	}
}

func TestResourceErrorComesFromItsServer(t *testing.T) {
	broken := bridge.Errorf(codes.PermissionDenied, "not for you")
	a, b := &server{resources: map[string]string{"x://1": ""}},
		&server{hidden: map[string]string{"x://1": "not mine", "u://b": "ub"}}
	r := route(t, nil, a, b)
	if _, err := readText(t, r, "x://1"); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{broken, down, bridge.Errorf(codes.Internal, "broken")} {
		a.set(func(s *server) { s.err = err })
		if _, got := readText(t, r, "x://1"); code(got) != code(err) {
			t.Errorf("%v became %v", err, got)
		}
	}
	if n := len(calls[*pb.ReadResourceRequest](b)); n != 0 {
		t.Errorf("b received %d requests", n)
	}
	// A resource that no server is known to have may belong to any: a server that is down is skipped, and its error is
	// returned if no other has it.
	a.set(func(s *server) { s.err = down })
	if got, err := readText(t, r, "u://b"); err != nil || got != "ub" {
		t.Errorf("%q %v", got, err)
	}
	if _, err := readText(t, r, "u://none"); bridge.AsError(err).Reason != "BACKEND_UNAVAILABLE" {
		t.Error(err)
	}
	a.set(func(s *server) { s.err = broken })
	if _, err := readText(t, r, "u://other"); code(err) != codes.PermissionDenied {
		t.Error(err)
	}
	// A resource that has moved to another server is found.
	a.set(func(s *server) { s.err, s.resources = nil, nil })
	if got, err := readText(t, r, "x://1"); err != nil || got != "not mine" {
		t.Errorf("%q %v", got, err)
	}
}

func TestFirstOfDuplicateURIsIsListed(t *testing.T) {
	var log bytes.Buffer
	a := &server{resources: map[string]string{"x://1": "a", "x://2": "a"}, templates: []string{"t://{x}"}}
	b := &server{resources: map[string]string{"x://2": "b", "x://3": "b"}, templates: []string{"t://{x}", "t://{y}"}}
	r := route(t, &log, a, b)
	for range 2 {
		l, err := request[*pb.ListResourcesResponse](t, r, bridge.ListResources, &pb.ListResourcesRequest{})
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "resources", l.GetResources(),
			[]*pb.Resource{{Uri: "x://1", Name: "a"}, {Uri: "x://2", Name: "a"}, {Uri: "x://3", Name: "b"}})
	}
	l, err := request[*pb.ListResourceTemplatesResponse](t, r, bridge.ListResourceTemplates,
		&pb.ListResourceTemplatesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "templates", l.GetResourceTemplates(),
		[]*pb.ResourceTemplate{{UriTemplate: "t://{x}"}, {UriTemplate: "t://{y}"}})
	if n := strings.Count(log.String(), "resource dropped"); n != 2 {
		t.Errorf("logged %d times:\n%s", n, &log)
	}
}

// A server that hangs does not delay requests for resources of another.
func TestHangingServerDoesNotDelayResources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := &server{hang: true}, &server{hidden: map[string]string{"u://b": "ub", "u://b2": "ub2"}}
		r := route(t, nil, a, b)
		begin := time.Now()
		if got, err := readText(t, r, "u://b"); err != nil || got != "ub" { // reads the lists first
			t.Errorf("%q %v", got, err)
		}
		if took := time.Since(begin); took != 5*time.Second {
			t.Errorf("took %v", took)
		}
		begin = time.Now()
		if got, err := readText(t, r, "u://b2"); err != nil || got != "ub2" || time.Since(begin) != 0 {
			t.Errorf("%q %v, took %v", got, err, time.Since(begin))
		}
		if _, err := readText(t, r, "u://none"); code(err) != codes.DeadlineExceeded {
			t.Error(err)
		}
	})
}

func TestServerMetadataIsPreserved(t *testing.T) {
	a, b := &server{}, &server{templates: []string{"t://b/{x}"}}
	refuse := bridge.HandlerFunc(
		func(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
			if call.Method == bridge.ReadResource {
				return nil, bridge.Errorf(codes.InvalidArgument, "x must be a number")
			}
			return b.Handle(ctx, call, emit)
		})
	if _, err := readText(t, route(t, nil, a, refuse), "t://b/y"); code(err) != codes.InvalidArgument {
		t.Error(err)
	}
}

// Input responses and request states are sent only to the server that they belong to.
func TestInputResponsesReachOnlyTheRequestingServer(t *testing.T) {
	a, b := &server{}, &server{hidden: map[string]string{"u://b": "ask"}}
	continued := func() *pb.ReadResourceRequest {
		return &pb.ReadResourceRequest{
			Uri: "u://b", RequestState: []byte("s"),
			InputResponses: map[string]*pb.InputResponse{"k": {}},
		}
	}
	r := route(t, nil, a, b)
	call := &bridge.Call{Method: bridge.ReadResource, Request: &pb.ReadResourceRequest{Uri: "u://b"}}
	res, err := r.Handle(t.Context(), call, nil)
	if err != nil || res.InputRequired == nil {
		t.Fatalf("%v %v", res, err)
	}
	if got, err := request[*pb.ReadResourceResult](t, r, bridge.ReadResource, continued()); err != nil {
		t.Errorf("%v %v", got, err)
	}
	// Another replica does not know the server: the call starts again there.
	res, err = route(t, nil, a, b).
		Handle(t.Context(), &bridge.Call{Method: bridge.ReadResource, Request: continued()}, nil)
	if err != nil || res.InputRequired == nil {
		t.Errorf("%v %v", res, err)
	}
	// If the server no longer has the resource, no other server receives the responses for it.
	b.set(func(s *server) { s.hidden = nil })
	if _, err := request[*pb.ReadResourceResult](t, r, bridge.ReadResource, continued()); code(err) != codes.NotFound {
		t.Error(err)
	}
	for _, req := range calls[*pb.ReadResourceRequest](a) {
		if bridge.IsRetry(req) {
			t.Errorf("a got %v", req)
		}
	}
}

func TestCompletionIsRoutedByTemplate(t *testing.T) {
	a, b := &server{}, &server{templates: []string{"t://{x}"}}
	req := &pb.CompleteRequest{
		Reference: &pb.CompletionReference{
			Reference: &pb.CompletionReference_Resource{Resource: &pb.ResourceReference{Uri: "t://{x}"}},
		},
	}
	if _, err := request[*pb.CompleteResponse](t, route(t, nil, a, b), bridge.Complete, req); err != nil ||
		len(calls[*pb.CompleteRequest](a)) != 0 {
		t.Errorf("%v; a received %d requests", err, len(calls[*pb.CompleteRequest](a)))
	}
	req = &pb.CompleteRequest{}
	if _, err := request[*pb.CompleteResponse](t, route(t, nil, &server{err: down}, &server{err: down}),
		bridge.Complete,
		req); err == nil {
		t.Error("completion of an empty reference succeeded")
	}
}

// The memory of resources is limited, however many there are and whichever callers list them.
func TestMemoryOfResourcesIsBounded(t *testing.T) {
	bridgetest.SkipIfShort(t)
	var wg sync.WaitGroup
	long := strings.Repeat("x", 4_000)
	a, b := &server{resources: map[string]string{}}, &server{resources: map[string]string{}}
	for i := range 5_000 {
		a.resources[fmt.Sprintf("a://%s/%d", long, i)] = "a"
		b.resources[fmt.Sprintf("b://%d", i)] = "b"
	}
	r := route(t, nil, a, b)
	for range 4 {
		wg.Go(func() {
			if _, err := request[*pb.ListResourcesResponse](t, r, bridge.ListResources,
				&pb.ListResourcesRequest{}); err != nil {
				t.Error(err)
			}
			if got, err := readText(t, r, "b://77"); err != nil || got != "b" {
				t.Errorf("%q %v", got, err)
			}
		})
	}
	wg.Wait()
	if got, err := readText(t, r, fmt.Sprintf("a://%s/%d", long, 0)); err != nil || got != "a" {
		t.Errorf("%q %v", got, err)
	}
}

type listening struct {
	changes chan *pb.ListenResponse
	err     chan error
	cancel  context.CancelFunc
}

func listen(t *testing.T, h bridge.Handler, f *pb.SubscriptionFilter) *listening {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &listening{changes: make(chan *pb.ListenResponse), err: make(chan error, 1), cancel: cancel}
	go func() {
		_, err := h.Handle(ctx, &bridge.Call{Method: bridge.Listen, Request: &pb.ListenRequest{Notifications: f}},
			func(ctx context.Context, e bridge.Event) error {
				select {
				case l.changes <- e.Change:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
		l.err <- err
	}()
	return l
}

// expect checks the next change.
func (l *listening) expect(t *testing.T, want *pb.ListenResponse) {
	t.Helper()
	select {
	case got := <-l.changes:
		equal(t, "change", got, want)
	case err := <-l.err:
		t.Fatalf("the Listen ended: %v", err)
	}
}

// end cancels the Listen and waits for its end.
func (l *listening) end(t *testing.T) {
	t.Helper()
	l.cancel()
	if err := <-l.err; code(err) != codes.Canceled {
		t.Errorf("ended with %v", err)
	}
}

func acknowledged(f *pb.SubscriptionFilter) *pb.ListenResponse { return acked(f).Change }

func toolsChanged() *pb.ListenResponse {
	return &pb.ListenResponse{Event: &pb.ListenResponse_ToolsListChanged{ToolsListChanged: &pb.ListChanged{}}}
}

func updated(uri string) *pb.ListenResponse {
	return &pb.ListenResponse{Event: &pb.ListenResponse_ResourceUpdated{ResourceUpdated: &pb.ResourceUpdated{Uri: uri}}}
}

func TestChangesOfAllServersAreForwarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &server{changes: make(chan *pb.ListenResponse), resources: map[string]string{"x://a": ""}}
		b := &server{changes: make(chan *pb.ListenResponse), resources: map[string]string{"x://b": ""}}
		mute := &server{}
		want := &pb.SubscriptionFilter{
			ToolsListChanged:      proto.Bool(true),
			ResourceSubscriptions: []string{"x://b", "x://a", "x://unknown"},
		}
		l := listen(t, route(t, nil, a, mute, b), want)
		l.expect(t, acknowledged(want))
		for range 3 {
			a.changes <- toolsChanged()
			l.expect(t, toolsChanged())
			b.changes <- updated("x://b")
			l.expect(t, updated("x://b"))
		}
		equal(t, "asked of a", calls[*pb.ListenRequest](a)[0].GetNotifications(),
			&pb.SubscriptionFilter{
				ToolsListChanged:      proto.Bool(true),
				ResourceSubscriptions: []string{"x://a", "x://unknown"},
			})
		equal(t, "asked of b", calls[*pb.ListenRequest](b)[0].GetNotifications(),
			&pb.SubscriptionFilter{
				ToolsListChanged:      proto.Bool(true),
				ResourceSubscriptions: []string{"x://b", "x://unknown"},
			})
		<-time.After(time.Hour)
		if n := len(calls[*pb.ListenRequest](mute)); n != 1 {
			t.Errorf("the server without Listen received %d requests", n)
		}
		l.end(t)
	})
}

// All changes of a server during a disconnect are unknown.
func TestReconnectedServerCountsAsChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := &server{changes: make(chan *pb.ListenResponse)},
			&server{err: down, changes: make(chan *pb.ListenResponse)}
		want := &pb.SubscriptionFilter{ToolsListChanged: proto.Bool(true), PromptsListChanged: proto.Bool(false)}
		begin := time.Now()
		l := listen(t, route(t, nil, a, b), want)
		l.expect(t, acknowledged(&pb.SubscriptionFilter{ToolsListChanged: proto.Bool(true)}))
		if took := time.Since(begin); took != 5*time.Second {
			t.Errorf("acknowledged after %v", took)
		}
		b.set(func(s *server) { s.err = nil })
		l.expect(t, toolsChanged()) // b is reachable
		close(a.changes)
		synctest.Wait()
		a.set(func(s *server) { s.changes = make(chan *pb.ListenResponse) })
		l.expect(t, toolsChanged()) // a is reachable again
		b.changes <- toolsChanged()
		l.expect(t, toolsChanged())
		l.end(t)
	})
}

func TestListenEndsWithoutAnyListChangedSupport(t *testing.T) {
	l := listen(t, route(t, nil, &server{}, &server{}),
		&pb.SubscriptionFilter{ResourceSubscriptions: []string{"u://x"}})
	if err := <-l.err; code(err) != codes.Unimplemented {
		t.Error(err)
	}
	l.cancel()
	// The Router itself reports changes of lists when a missing part is available.
	for _, f := range []*pb.SubscriptionFilter{{}, {ToolsListChanged: proto.Bool(true)}} {
		l = listen(t, route(t, nil, &server{}, &server{}), f)
		l.expect(t, acknowledged(f))
		l.end(t)
	}
}

// If a server fails for a resource of another server, its other changes are still sent.
func TestUnknownSupportDoesNotDropOtherChanges(t *testing.T) {
	picky := &server{changes: make(chan *pb.ListenResponse)}
	a := bridge.HandlerFunc(func(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
		if r, ok := call.Request.(*pb.ListenRequest); ok && len(r.GetNotifications().GetResourceSubscriptions()) > 0 {
			return nil, bridge.Errorf(codes.NotFound, "there is no such resource")
		}
		return picky.Handle(ctx, call, emit)
	})
	b := &server{changes: make(chan *pb.ListenResponse)}
	want := &pb.SubscriptionFilter{ToolsListChanged: proto.Bool(true), ResourceSubscriptions: []string{"u://b"}}
	l := listen(t, route(t, nil, a, b), want)
	l.expect(t, acknowledged(want))
	picky.changes <- toolsChanged()
	l.expect(t, toolsChanged())
	b.changes <- updated("u://b")
	l.expect(t, updated("u://b"))
	l.end(t)
}

// Repeated acknowledgments and empty changes of a server are dropped. Simultaneous changes of several servers are
// reported once.
func TestUnrequestedChangesAreDropped(t *testing.T) {
	noisy := func(changes ...*pb.ListenResponse) bridge.Handler {
		return bridge.HandlerFunc(
			func(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
				f := call.Request.(*pb.ListenRequest).GetNotifications()
				for range 100 {
					for _, e := range []bridge.Event{
						acked(f),
						{},
						{Change: &pb.ListenResponse{}},
						{Progress: &pb.Progress{}},
					} {
						if err := emit(ctx, e); err != nil {
							return nil, err
						}
					}
				}
				for _, c := range changes {
					if err := emit(ctx, bridge.Event{Change: c}); err != nil {
						return nil, err
					}
				}
				<-ctx.Done()
				return nil, ctx.Err()
			})
	}
	synctest.Test(t, func(t *testing.T) {
		want := &pb.SubscriptionFilter{ToolsListChanged: proto.Bool(true), ResourceSubscriptions: []string{"u://a"}}
		l := listen(t, route(t, nil, noisy(toolsChanged()), noisy(toolsChanged(), updated("u://a"))), want)
		synctest.Wait()
		l.expect(t, acknowledged(want))
		l.expect(t, toolsChanged())
		l.expect(t, updated("u://a"))
		l.end(t)
	})
}
