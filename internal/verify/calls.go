package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

const (
	maxPages  = 1000    // of a list
	maxEvents = 100_000 // of a call
)

// caller is who we are: a client that can do everything and wants to know everything.
func caller() *pb.CallContext {
	return &pb.CallContext{
		ProtocolVersion: "2026-07-28", ProgressWanted: true, LogLevel: pb.LogLevel_LOG_LEVEL_DEBUG,
		ClientInfo: &pb.Implementation{Name: "verify", Version: "1"},
		ClientCapabilities: &pb.ClientCapabilities{
			Elicitation: &pb.ElicitationCapability{Form: &pb.Capability{}, Url: &pb.Capability{}},
			Sampling:    &pb.SamplingCapability{}, Roots: &pb.RootsCapability{},
		},
	}
}

// An answer is all of what became of a call.
type answer struct {
	progress []*pb.Progress
	logs     []*pb.LogMessage
	result   *pb.CallToolResult
	needs    *pb.InputRequired
}

// text returns the text of a result that is one block of it.
func (a *answer) text() string {
	if c := a.result.GetContent(); len(c) == 1 && c[0].GetText() != nil {
		return c[0].GetText().GetText()
	}
	return rawjson.ShortenTo(a.result.String(), maxShown)
}

// errBreach is that a stream is not one of the contract's.
var errBreach = errors.New("the stream is not as the contract says")

// more changes a request before it is sent.
type more func(*pb.CallToolRequest)

// call calls a tool and reads its stream to the end.
func (b *backend) call(ctx context.Context, name, arguments string, with ...more) (*answer, error) {
	req := &pb.CallToolRequest{Context: caller(), Name: name, Arguments: []byte(arguments)}
	for _, f := range with {
		f(req)
	}
	return b.send(ctx, req)
}

func (b *backend) send(ctx context.Context, req *pb.CallToolRequest) (*answer, error) {
	stream, err := b.mcp.CallTool(ctx, req)
	if err != nil {
		return nil, err
	}
	return collect(stream)
}

func collect(stream grpc.ServerStreamingClient[pb.CallToolResponse]) (*answer, error) {
	a := &answer{}
	for {
		m, err := stream.Recv()
		over := a.result != nil || a.needs != nil
		switch {
		case errors.Is(err, io.EOF) && !over:
			return nil, fmt.Errorf("%w: it ended without a result", errBreach)
		case errors.Is(err, io.EOF):
			return a, nil
		case err != nil && over:
			return nil, fmt.Errorf("%w: after the result came the error %w", errBreach, err)
		case err != nil:
			return nil, err
		case len(a.progress)+len(a.logs) > maxEvents:
			return nil, fmt.Errorf("%w: it has more than %d events", errBreach, maxEvents)
		case over:
			return nil, fmt.Errorf("%w: after the result came %s", errBreach, rawjson.ShortenTo(fmt.Sprint(m.GetEvent()), maxShown))
		}
		switch e := m.GetEvent().(type) {
		case *pb.CallToolResponse_Progress:
			a.progress = append(a.progress, e.Progress)
		case *pb.CallToolResponse_Log:
			a.logs = append(a.logs, e.Log)
		case *pb.CallToolResponse_Result:
			a.result = e.Result
		case *pb.CallToolResponse_InputRequired:
			a.needs = e.InputRequired
		default:
			return nil, fmt.Errorf("%w: an event is empty", errBreach)
		}
	}
}

// says checks that a call returns a text.
func (t *trial) says(tool, arguments, want string) bool {
	a, err := t.call(t.ctx, tool, arguments)
	switch {
	case err != nil:
		t.wrong("%s %s: %s", tool, clip(arguments), problem(err))
	case a.needs != nil:
		t.wrong("%s %s asks something and does not answer", tool, clip(arguments))
	case a.text() != want:
		t.wrong("%s %s says %s, want %s", tool, clip(arguments), clip(a.text()), clip(want))
	default:
		return true
	}
	return false
}

// clip is a part of what is too long to show.
func clip(s string) string {
	if len(s) <= 120 {
		return s
	}
	return fmt.Sprintf("%.100q... (%d bytes)", s, len(s))
}

// problem is an error in words for an author.
func problem(err error) string {
	if errors.Is(err, errBreach) {
		return err.Error()
	}
	s := status.Convert(err)
	return fmt.Sprintf("status %s: %s", names[s.Code()], rawjson.ShortenTo(s.Message(), maxShown))
}

// fails checks that a call fails with a status of one of the codes.
func (t *trial) fails(what string, err error, want ...codes.Code) {
	if err != nil && slices.Contains(want, status.Code(err)) {
		return
	}
	var some []string
	for _, c := range want {
		some = append(some, names[c])
	}
	wanted := strings.Join(some, " or ")
	if err == nil {
		t.wrong("%s is answered as if it were right; want status %s", what, wanted)
		return
	}
	t.wrong("%s: status %s: %s; want %s", what, names[status.Code(err)], rawjson.ShortenTo(status.Convert(err).Message(), maxShown), wanted)
}

// names are the codes as the contract writes them.
var names = map[codes.Code]string{
	codes.OK: "OK", codes.Canceled: "CANCELLED", codes.Unknown: "UNKNOWN", codes.InvalidArgument: "INVALID_ARGUMENT",
	codes.DeadlineExceeded: "DEADLINE_EXCEEDED", codes.NotFound: "NOT_FOUND", codes.AlreadyExists: "ALREADY_EXISTS",
	codes.PermissionDenied: "PERMISSION_DENIED", codes.ResourceExhausted: "RESOURCE_EXHAUSTED",
	codes.FailedPrecondition: "FAILED_PRECONDITION", codes.Aborted: "ABORTED", codes.OutOfRange: "OUT_OF_RANGE",
	codes.Unimplemented: "UNIMPLEMENTED", codes.Internal: "INTERNAL", codes.Unavailable: "UNAVAILABLE", codes.DataLoss: "DATA_LOSS",
	codes.Unauthenticated: "UNAUTHENTICATED",
}

// Questions.

// answering makes a call round by round, with the answers that are given to its questions. It returns the rounds, the last of
// which has the result.
func (t *trial) answering(ctx context.Context, tool, arguments string, reply func(message string, q *pb.InputRequest) *pb.InputResponse, with ...more) ([]*answer, error) {
	var rounds []*answer
	req := &pb.CallToolRequest{Context: caller(), Name: tool, Arguments: []byte(arguments)}
	for _, f := range with {
		f(req)
	}
	for range 10 {
		a, err := t.send(ctx, req)
		if err != nil {
			return rounds, err
		}
		rounds = append(rounds, a)
		if a.needs == nil {
			return rounds, nil
		}
		req = proto.CloneOf(req)
		req.State, req.InputResponses = a.needs.State, map[string]*pb.InputResponse{}
		for _, key := range slices.Sorted(maps.Keys(a.needs.GetRequests())) {
			q := a.needs.GetRequests()[key]
			req.InputResponses[key] = reply(q.GetElicit().GetForm().GetMessage(), q)
		}
	}
	return rounds, fmt.Errorf("%w: it asks on after 10 rounds", errBreach)
}

// fill accepts a form with a value for its only field.
func fill(q *pb.InputRequest, value any) *pb.InputResponse {
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	_ = json.Unmarshal(q.GetElicit().GetForm().GetRequestedSchema(), &schema) // what is not a schema has no field
	content := map[string]any{}
	for field := range schema.Properties {
		content[field] = value
	}
	text, err := json.Marshal(content)
	if err != nil {
		panic(err) // values are those of this package: text, numbers and yes or no
	}
	return acted(pb.ElicitAction_ELICIT_ACTION_ACCEPT, text)
}

// acted is what the user did.
func acted(action pb.ElicitAction, content []byte) *pb.InputResponse {
	return &pb.InputResponse{Response: &pb.InputResponse_Elicit{Elicit: &pb.ElicitResult{Action: action, Content: content}}}
}

// failedInput is why there is no answer.
func failedInput(reason pb.InputError_Reason, message string) *pb.InputResponse {
	return &pb.InputResponse{Response: &pb.InputResponse_Error{Error: &pb.InputError{Reason: reason, Message: message}}}
}

// Listening.

// A listener is a Listen, of which the events come one by one.
type listener struct {
	events chan *pb.ListenResponse
	ended  chan struct{} // closed at its end
	cancel context.CancelFunc
}

// listen opens a Listen.
func (b *backend) listen(ctx context.Context, filter *pb.SubscriptionFilter) *listener {
	ctx, cancel := context.WithCancel(ctx)
	l := &listener{make(chan *pb.ListenResponse, 64), make(chan struct{}), cancel}
	go func() {
		defer close(l.ended)
		stream, err := b.mcp.Listen(ctx, &pb.ListenRequest{Context: caller(), Notifications: filter})
		for err == nil {
			var m *pb.ListenResponse
			if m, err = stream.Recv(); err != nil {
				break
			}
			select {
			case l.events <- m:
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
	}()
	return l
}

// next returns the next event, or nil if there is none soon.
func (l *listener) next() *pb.ListenResponse {
	select {
	case m := <-l.events:
		return m
	case <-l.ended:
		select {
		case m := <-l.events: // it came before the end
			return m
		default:
			return nil
		}
	case <-time.After(change):
		return nil
	}
}

// stop ends it, and waits until it has ended.
func (l *listener) stop() {
	l.cancel()
	<-l.ended
}
