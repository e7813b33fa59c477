package mcpbridge

import (
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A listener is one Listen call. Repeated changes of a list or a resource are combined.
type listener struct {
	filter          kinds
	resources       []string
	urlElicitations bool
	wake            chan struct{} // holds one

	mu      sync.Mutex // guards the rest
	lists   kinds
	changes map[string]bool // URIs
	done    []string        // visits
}

// changed notifies subscribers that lists have changed. The caller holds mu of the app. It returns true.
func (a *App) changed(k kinds) bool {
	if d := a.discover.GetCapabilities(); d != nil {
		if k.tools && d.GetTools() == nil || k.resources && d.GetResources() == nil || k.prompts &&
			d.GetPrompts() == nil {
			logger().Warn("the server declared nothing of this kind to its clients, and they will not list it; give " +
				"mcpbridge.New the option Declares")
		}
	}
	for l := range a.listeners {
		l.changed(k)
	}
	return true
}

func (l *listener) changed(k kinds) {
	k = kinds{k.tools && l.filter.tools, k.resources && l.filter.resources, k.prompts && l.filter.prompts}
	if k == (kinds{}) {
		return
	}
	l.mu.Lock()
	l.lists = kinds{l.lists.tools || k.tools, l.lists.resources || k.resources, l.lists.prompts || k.prompts}
	l.mu.Unlock()
	l.notify()
}

func (l *listener) updated(uri string) {
	for _, wanted := range l.resources {
		part, ok := strings.CutPrefix(uri, wanted)
		if !ok || part != "" && !strings.HasSuffix(wanted, "/") && !strings.ContainsAny(part[:1], "/?#") {
			continue
		}
		l.mu.Lock()
		if l.changes == nil {
			l.changes = map[string]bool{}
		}
		l.changes[uri] = true
		l.mu.Unlock()
		l.notify()
		return
	}
}

// maxVisits is the maximum number of pending visits of a listener. Other changes are bounded by its subscriptions.
const maxVisits = 10_000

func (l *listener) visited(id string) {
	if !l.urlElicitations {
		return
	}
	l.mu.Lock()
	if len(l.done) < maxVisits {
		l.done = append(l.done, id)
	}
	l.mu.Unlock()
	l.notify()
}

func (l *listener) notify() {
	select {
	case l.wake <- struct{}{}:
	default: // A wakeup is pending.
	}
}

// take removes and returns the pending changes.
func (l *listener) take() (kinds, map[string]bool, []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lists, changes, done := l.lists, l.changes, l.done
	l.lists, l.changes, l.done = kinds{}, nil, nil
	return lists, changes, done
}

// Listen implements the contract.
func (s *service) Listen(req *pb.ListenRequest, stream grpc.ServerStreamingServer[pb.ListenResponse]) error {
	f := req.GetNotifications()
	l := &listener{
		filter:          kinds{f.GetToolsListChanged(), f.GetResourcesListChanged(), f.GetPromptsListChanged()},
		resources:       f.GetResourceSubscriptions(),
		urlElicitations: f.GetElicitationsCompleted(),
		wake:            make(chan struct{}, 1),
	}
	s.app.mu.Lock()
	s.app.listeners[l] = struct{}{}
	s.app.mu.Unlock()
	defer func() {
		s.app.mu.Lock()
		defer s.app.mu.Unlock()
		delete(s.app.listeners, l)
	}()
	acknowledged := proto.CloneOf(f)
	if acknowledged == nil {
		acknowledged = &pb.SubscriptionFilter{}
	}
	acknowledged.Extra = ""
	ack := &pb.ListenResponse_Acknowledged{Acknowledged: &pb.SubscriptionsAcknowledged{Notifications: acknowledged}}
	if err := stream.Send(&pb.ListenResponse{Event: ack}); err != nil {
		return err
	}
	for {
		select {
		case <-s.stopping:
			return nil
		case <-stream.Context().Done():
			return contextStatus(stream.Context())
		case <-l.wake:
		}
		lists, changes, done := l.take()
		var events []*pb.ListenResponse
		if lists.tools {
			events = append(events, &pb.ListenResponse{
				Event: &pb.ListenResponse_ToolsListChanged{ToolsListChanged: &pb.ListChanged{}},
			})
		}
		if lists.resources {
			events = append(events, &pb.ListenResponse{
				Event: &pb.ListenResponse_ResourcesListChanged{ResourcesListChanged: &pb.ListChanged{}},
			})
		}
		if lists.prompts {
			events = append(events, &pb.ListenResponse{
				Event: &pb.ListenResponse_PromptsListChanged{PromptsListChanged: &pb.ListChanged{}},
			})
		}
		for uri := range changes {
			events = append(events, &pb.ListenResponse{
				Event: &pb.ListenResponse_ResourceUpdated{ResourceUpdated: &pb.ResourceUpdated{Uri: uri}},
			})
		}
		for _, id := range done {
			events = append(events, &pb.ListenResponse{
				Event: &pb.ListenResponse_ElicitationCompleted{
					ElicitationCompleted: &pb.ElicitationCompleted{ElicitationId: id},
				},
			})
		}
		for _, e := range events {
			if err := stream.Send(e); err != nil {
				return err
			}
		}
	}
}
