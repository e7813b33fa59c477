package mcpserver

import (
	"bytes"
	"context"
	"slices"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/feed"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/mcpjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// notification returns the notification of a change.
func (s *Server) notification(change *pb.ListenResponse, rev bridge.Revision, meta ...mcpjson.Member) ([]byte, error) {
	method, params := feed.Notification(change, rev)
	data, err := s.encode(nil, params, rev, meta...)
	if err != nil {
		return nil, bridge.Errorf(codes.Internal, "%s: %w", method, err)
	}
	return jsonrpc.AppendNotification(nil, method, data), nil
}

// newPending returns the queue of changes for a client.
func (s *Server) newPending(want func() *pb.SubscriptionFilter) *feed.Pending {
	return feed.NewPending(s.opts.Limits.Changes, s.opts.Limits.ChangesBytes, want)
}

// listen handles subscriptions/listen: it sends changes until one side ends the subscription (2026-07-28:
// basic/patterns/subscriptions).
func (s *Server) listen(ctx context.Context, x *exchange, msg *jsonrpc.Message, call *bridge.Call, d *declaration) {
	filter := call.Request.(*pb.ListenRequest).GetNotifications()
	err := feed.CheckListen(msg.Size)
	if err == nil {
		err = feed.CheckSubscriptions(slices.Concat(filter.GetResourceSubscriptions(), filter.GetTaskIds()))
	}
	if err != nil {
		x.refuse(bridge.Listen, err)
		return
	}
	done, err := s.opts.Streams.Open(call.Context().GetVerified().GetPrincipal())
	if err != nil {
		x.refuse(bridge.Listen, err)
		return
	}
	want := feed.Supported(filter, d.GetCapabilities(), false)
	wants := func() *pb.SubscriptionFilter { return want }
	changes := s.newPending(wants)
	sub := &feed.Subscriber{Want: wants, Report: changes.Add}
	honored, err := s.hub.Subscribe(ctx, sub)
	if err != nil {
		done()
		x.refuse(bridge.Listen, err)
		return
	}
	want = honored // changes that were not acknowledged are not sent
	_, _ = s.hub.Update(sub)
	var unwatch func()
	honored.TaskIds, unwatch = s.opts.Tasks.Changes(call, filter.GetTaskIds(), changes.Add)
	until := s.accessExpiry(call.Context().GetVerified().GetPrincipal())
	caller := &pb.CallContext{Verified: call.Context().GetVerified()} // without the text of the request
	leave := func() {
		unwatch()
		s.hub.Remove(sub)
		done()
	}
	x.id, x.token = bytes.Clone(x.id), bytes.Clone(x.token)
	// the message is kept for as long as the subscription, without the rest of its text
	*msg = jsonrpc.Message{ID: x.id}
	acknowledged, err := s.notification(feed.Acknowledgment(honored), x.rev, x.subscription())
	if err == nil {
		err = sendThenServe(ctx, x.out, acknowledged, func(ctx context.Context) {
			defer leave()
			s.streamChanges(ctx, x, caller, changes, d, until)
		})
	}
	if err != nil {
		leave()
		x.endSubscription(err)
	}
}

// streamChanges sends changes until one side ends the subscription, or the client's access ends.
func (s *Server) streamChanges(
	ctx context.Context, x *exchange, caller *pb.CallContext, changes *feed.Pending, d *declaration, until time.Time,
) {
	expired, stop := s.accessContext(until)
	defer stop()
	var err error
	for err == nil {
		select {
		case <-changes.Ready():
			err = x.sendChanges(changes.Take(), caller)
		case <-ctx.Done():
			err = ctx.Err()
		case <-expired.Done():
			// The graceful end is a result (2026-07-28: basic/patterns/subscriptions), not notifications/cancelled.
			result, encodeErr := s.encode(nil, &pb.ListenResult{}, x.rev, x.subscription(), d.serverInfo())
			if encodeErr == nil {
				x.finishRaw(result)
				return
			}
			err = encodeErr
		}
	}
	x.endSubscription(err)
}

// sendChanges sends changes on a subscription.
func (x *exchange) sendChanges(changes []*pb.ListenResponse, caller *pb.CallContext) error {
	for _, c := range changes {
		c, ok := x.s.opts.Tasks.Current(c, caller)
		if !ok {
			continue
		}
		msg, err := x.s.notification(c, x.rev, x.subscription())
		if err == nil {
			err = x.out.send(msg)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// subscription returns the subscription id of the request.
func (x *exchange) subscription() mcpjson.Member {
	return mcpjson.Member{Name: metaSubscriptionID, Value: x.id}
}

// endSubscription ends a subscription whose client cannot be notified.
func (x *exchange) endSubscription(err error) {
	x.s.log.Debug().Err(err).Msg("a subscription ended")
	x.end(head{}, nil)
}
