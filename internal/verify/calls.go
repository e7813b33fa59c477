package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

const (
	maxEvents = 100_000 // of a call
)

// testContext returns the context of a client with all capabilities, progress and logs.
func testContext() *pb.CallContext {
	return &pb.CallContext{
		ProgressWanted: true, LogLevel: pb.LogLevel_LOG_LEVEL_DEBUG,
		Verified:   bridge.Verified(bridge.Rev20260728, nil, nil),
		ClientInfo: &pb.Implementation{Name: "verify", Version: "1"},
		ClientCapabilities: &pb.ClientCapabilities{
			Elicitation: &pb.ElicitationCapability{Form: &pb.Capability{}, Url: &pb.Capability{}},
			Sampling:    &pb.SamplingCapability{}, Roots: &pb.RootsCapability{},
		},
	}
}

// A response is the complete stream of a call.
type response struct {
	progress      []*pb.Progress
	logs          []*pb.LogMessage
	result        *pb.CallToolResult
	inputRequired *pb.InputRequired
	taskStarted   bool
}

// text returns the text of a result with a single text block.
func (a *response) text() string {
	if c := a.result.GetContent(); len(c) == 1 && c[0].GetText() != nil {
		return c[0].GetText().GetText()
	}
	return rawjson.ShortenTo(a.result.String(), maxShown)
}

// errViolation means that a stream violates the contract.
var errViolation = errors.New("the stream violates the contract")

// An option changes a request before it is sent.
type option func(*pb.CallToolRequest)

// call calls a tool and reads its stream to the end.
func (b *backend) call(ctx context.Context, name, arguments string, with ...option) (*response, error) {
	req := &pb.CallToolRequest{Context: testContext(), Name: name, Arguments: []byte(arguments)}
	for _, f := range with {
		f(req)
	}
	return b.send(ctx, req)
}

func (b *backend) send(ctx context.Context, req *pb.CallToolRequest) (*response, error) {
	stream, err := b.mcp.CallTool(ctx, req)
	if err != nil {
		return nil, err
	}
	return collect(stream)
}

func collect(stream grpc.ServerStreamingClient[pb.CallToolResponse]) (*response, error) {
	a := &response{}
	for {
		m, err := stream.Recv()
		done := a.result != nil || a.inputRequired != nil
		switch {
		case errors.Is(err, io.EOF) && !done:
			return nil, fmt.Errorf("%w: no result", errViolation)
		case errors.Is(err, io.EOF):
			return a, nil
		case err != nil && done:
			return nil, fmt.Errorf("%w: error after the result: %w", errViolation, err)
		case err != nil:
			return nil, err
		case len(a.progress)+len(a.logs) > maxEvents:
			return nil, fmt.Errorf("%w: more than %d events", errViolation, maxEvents)
		case done:
			event := rawjson.ShortenTo(fmt.Sprint(m.GetEvent()), maxShown)
			return nil, fmt.Errorf("%w: event after the result: %s", errViolation, event)
		}
		switch e := m.GetEvent().(type) {
		case *pb.CallToolResponse_Progress:
			a.progress = append(a.progress, e.Progress)
		case *pb.CallToolResponse_Log:
			a.logs = append(a.logs, e.Log)
		case *pb.CallToolResponse_TaskStarted:
			if a.taskStarted {
				return nil, fmt.Errorf("%w: task_started twice", errViolation)
			}
			a.taskStarted = true
		case *pb.CallToolResponse_Result:
			a.result = e.Result
		case *pb.CallToolResponse_InputRequired:
			a.inputRequired = e.InputRequired
		default:
			return nil, fmt.Errorf("%w: empty event", errViolation)
		}
	}
}

// checkText checks that a call returns a text.
func (t *trial) checkText(tool, arguments, want string) bool {
	a, err := t.call(t.ctx, tool, arguments)
	switch {
	case err != nil:
		t.failf("%s %s: %s", tool, clip(arguments), errorText(err))
	case a.inputRequired != nil:
		t.failf("%s %s requires input, want a result", tool, clip(arguments))
	case a.text() != want:
		t.failf("%s %s returns %s, want %s", tool, clip(arguments), clip(a.text()), clip(want))
	default:
		return true
	}
	return false
}

// clip shortens a text for a defect.
func clip(s string) string {
	if len(s) <= 120 {
		return s
	}
	return fmt.Sprintf("%.100q... (%d bytes)", s, len(s))
}

// errorText returns the text of an error for a defect.
func errorText(err error) string {
	if errors.Is(err, errViolation) {
		return err.Error()
	}
	s := status.Convert(err)
	return fmt.Sprintf("status %s: %s", codeNames[s.Code()], rawjson.ShortenTo(s.Message(), maxShown))
}

// checkCode checks that a call fails with one of the codes.
func (t *trial) checkCode(what string, err error, want ...codes.Code) {
	if err != nil && slices.Contains(want, status.Code(err)) {
		return
	}
	var names []string
	for _, c := range want {
		names = append(names, codeNames[c])
	}
	wanted := strings.Join(names, " or ")
	if err == nil {
		t.failf("%s: no error; want status %s", what, wanted)
		return
	}
	t.failf("%s: %s; want %s", what, errorText(err), wanted)
}

// codeNames has the codes as in the contract.
var codeNames = map[codes.Code]string{
	codes.OK: "OK", codes.Canceled: "CANCELLED", codes.Unknown: "UNKNOWN", codes.InvalidArgument: "INVALID_ARGUMENT",
	codes.DeadlineExceeded: "DEADLINE_EXCEEDED", codes.NotFound: "NOT_FOUND", codes.AlreadyExists: "ALREADY_EXISTS",
	codes.PermissionDenied: "PERMISSION_DENIED", codes.ResourceExhausted: "RESOURCE_EXHAUSTED",
	codes.FailedPrecondition: "FAILED_PRECONDITION", codes.Aborted: "ABORTED", codes.OutOfRange: "OUT_OF_RANGE",
	codes.Unimplemented: "UNIMPLEMENTED", codes.Internal: "INTERNAL", codes.Unavailable: "UNAVAILABLE",
	codes.DataLoss: "DATA_LOSS", codes.Unauthenticated: "UNAUTHENTICATED",
}

// Input requests.

// A replier returns the response to an input request with a message.
type replier func(message string, q *pb.InputRequest) *pb.InputResponse

// callRounds calls a tool until it requires no more input. It returns the rounds, the last of which has the result.
func (t *trial) callRounds(
	ctx context.Context, tool, arguments string, reply replier, with ...option,
) ([]*response, error) {
	var rounds []*response
	req := &pb.CallToolRequest{Context: testContext(), Name: tool, Arguments: []byte(arguments)}
	for _, f := range with {
		f(req)
	}
	for range 10 {
		a, err := t.send(ctx, req)
		if err != nil {
			return rounds, err
		}
		rounds = append(rounds, a)
		if a.inputRequired == nil {
			return rounds, nil
		}
		req = proto.CloneOf(req)
		req.RequestState, req.InputResponses = a.inputRequired.RequestState, map[string]*pb.InputResponse{}
		for _, q := range a.inputRequired.GetInputRequests() {
			req.InputResponses[q.GetKey()] = reply(q.GetElicit().GetForm().GetMessage(), q)
		}
	}
	return rounds, fmt.Errorf("%w: still requires input after 10 rounds", errViolation)
}

// fill accepts a form with a value for its only field.
func fill(q *pb.InputRequest, value any) *pb.InputResponse {
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	_ = json.Unmarshal([]byte(q.GetElicit().GetForm().GetRequestedSchema()), &schema) // an invalid schema has no field
	content := map[string]any{}
	for field := range schema.Properties {
		content[field] = value
	}
	text, err := json.Marshal(content)
	if err != nil {
		panic(err) // callers pass only text, numbers and booleans
	}
	return elicitResponse("accept", string(text))
}

func elicitResponse(action, content string) *pb.InputResponse {
	return &pb.InputResponse{
		Response: &pb.InputResponse_Elicit{Elicit: &pb.ElicitResult{Action: action, Content: content}},
	}
}

func errorResponse(reason pb.InputError_Reason, message string) *pb.InputResponse {
	return &pb.InputResponse{Response: &pb.InputResponse_Error{Error: &pb.InputError{Reason: reason, Message: message}}}
}

// Subscriptions.

// A subscription is a Listen stream.
type subscription struct {
	events chan *pb.ListenResponse
	ended  chan struct{} // closed after the stream
	cancel context.CancelFunc
}

func (b *backend) listen(ctx context.Context, filter *pb.SubscriptionFilter) *subscription {
	ctx, cancel := context.WithCancel(ctx)
	l := &subscription{make(chan *pb.ListenResponse, 64), make(chan struct{}), cancel}
	go func() {
		defer close(l.ended)
		stream, err := b.mcp.Listen(ctx, &pb.ListenRequest{Context: testContext(), Notifications: filter})
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

// next returns the next event, or nil after changeTimeout.
func (l *subscription) next() *pb.ListenResponse {
	select {
	case m := <-l.events:
		return m
	case <-l.ended:
		select {
		case m := <-l.events: // received before the end
			return m
		default:
			return nil
		}
	case <-time.After(changeTimeout):
		return nil
	}
}

// stop cancels the stream and waits for its end.
func (l *subscription) stop() {
	l.cancel()
	<-l.ended
}
