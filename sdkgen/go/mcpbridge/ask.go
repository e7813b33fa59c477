package mcpbridge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// Questions. A call can have several rounds: a question without an answer returns Pending, which the handler must
// return. With the answer, the handler runs again from the top, and the question returns the answer. Work before a
// question is therefore repeated in each round; put work that must happen only once into Once.
//
// If the message or the form of a question changes between rounds, it is asked again. To ask several questions in one
// round, do not return after the first:
//
//	name, err1 := mcpbridge.Elicit[string](ctx, "Who are you?")
//	roots, err2 := mcpbridge.Roots(ctx)
//	if err := errors.Join(err1, err2); err != nil {
//		return Out{}, err
//	}
//
// or use an errgroup: all functions may be called concurrently.

// maxState is the maximum size of the state of a call. The bridge rejects a larger one.
const maxState = 32 << 10

// An AskOption is an option of a question: Key, OneOf, Titles, FormSchema.
type AskOption func(*ask)

type ask struct {
	key    string
	oneOf  []string
	titles []string
	schema string
}

// Key identifies a question whose message differs between rounds, such as by the time.
func Key(key string) AskOption { return func(a *ask) { a.key = key } }

// OneOf lets the user choose one value, with Elicit[string], or several, with Elicit[[]string].
func OneOf(choices ...string) AskOption { return func(a *ask) { a.oneOf = choices } }

// Titles sets the displayed titles of the choices of OneOf, in the same order.
func Titles(titles ...string) AskOption { return func(a *ask) { a.titles = titles } }

// FormSchema sets the JSON Schema of the form, for types such as Elicit[map[string]any].
func FormSchema(schema string) AskOption { return func(a *ask) { a.schema = schema } }

func options(opts []AskOption) ask {
	var a ask
	for _, o := range opts {
		o(&a)
	}
	return a
}

// An Action is the user's action.
type Action string

// The actions of a user.
const (
	Accept  Action = "accept"
	Decline Action = "decline"
	Cancel  Action = "cancel" // closed without an answer
)

// An Answer is the user's answer to a question.
type Answer[T any] struct {
	Action Action
	Data   T // the content of the form, if the user accepted
	asked  string
}

// Accepted reports whether the user answered, or agreed to visit the page. The answer to a yes-or-no question is in
// Data.
func (a Answer[T]) Accepted() bool { return a.Action == Accept }

// Declined reports whether the user declined.
func (a Answer[T]) Declined() bool { return a.Action == Decline }

// Cancelled reports whether the user closed the question without an answer.
func (a Answer[T]) Cancelled() bool { return a.Action == Cancel }

// Get returns Data, or ErrDeclined or ErrCancelled, which the model reads if the handler returns them.
func (a Answer[T]) Get() (T, error) {
	switch a.Action {
	case Accept:
		return a.Data, nil
	case Decline:
		return a.Data, &askError{ErrDeclined, "the user declined: " + a.asked}
	default:
		return a.Data, &askError{ErrCancelled, "the user closed the question without an answer: " + a.asked}
	}
}

// Elicit asks the user to fill in a form: a struct of simple fields, or one simple value.
func Elicit[T any](ctx context.Context, message string, opts ...AskOption) (Answer[T], error) {
	can := ClientCapabilities(ctx).GetElicitation()
	// No mode means form, as in 2025-06-18.
	if can == nil || can.GetUrl() != nil && can.GetForm() == nil {
		return Answer[T]{}, unsupported("show a form to its user", message)
	}
	a := options(opts)
	f, err := formOf[T](a)
	if err != nil {
		return Answer[T]{}, err
	}
	form := &pb.ElicitForm{Message: text(message), RequestedSchema: f.schema}
	request := &pb.ElicitRequest{Mode: &pb.ElicitRequest_Form{Form: form}}
	return elicit(ctx, message, a.key, request, f.read)
}

// ElicitURL asks the user to visit a web page. Accepted means that they agreed, not that they have completed it.
func ElicitURL(ctx context.Context, message, url string, opts ...AskOption) (Answer[struct{}], error) {
	if ClientCapabilities(ctx).GetElicitation().GetUrl() == nil {
		return Answer[struct{}]{}, unsupported("open a web page for its user", message+" "+url)
	}
	page := &pb.ElicitUrl{Message: text(message), Url: text(url)}
	request := &pb.ElicitRequest{Mode: &pb.ElicitRequest_Url{Url: page}}
	return elicit(ctx, message, options(opts).key, request, func([]byte) (struct{}, error) { return struct{}{}, nil })
}

func elicit[T any](
	ctx context.Context, message, key string, request *pb.ElicitRequest, read func([]byte) (T, error),
) (Answer[T], error) {
	a := Answer[T]{asked: message}
	response, err := from(ctx).ask(key, &pb.InputRequest{Request: &pb.InputRequest_Elicit{Elicit: request}})
	if err != nil {
		return a, err
	}
	switch result := response.GetElicit(); result.GetAction() {
	case "accept":
		a.Action = Accept
		if a.Data, err = read([]byte(result.GetContent())); err != nil {
			return a, &askError{ErrInvalidAnswer, fmt.Sprintf("the answer does not fit the form:\n%v", err)}
		}
	case "decline":
		a.Action = Decline
	default:
		a.Action = Cancel
	}
	return a, nil
}

// Sample asks the client's model.
//
// Deprecated: MCP 2026-07-28 deprecates it. Call the API of a model instead.
func Sample(ctx context.Context, request *pb.CreateMessageRequest, opts ...AskOption) (*pb.CreateMessageResult, error) {
	can := ClientCapabilities(ctx).GetSampling()
	switch {
	case can == nil:
		return nil, &askError{
			ErrUnsupported,
			"This client does not let tools ask its model. Answer this yourself and go on without the tool.",
		}
	case len(request.GetTools()) > 0 && can.GetTools() == nil:
		return nil, &askError{
			ErrUnsupported,
			"This client does not give its model tools. Answer this yourself and go on without the tool.",
		}
	}
	create := &pb.InputRequest_CreateMessage{CreateMessage: request}
	response, err := from(ctx).ask(options(opts).key, &pb.InputRequest{Request: create})
	return response.GetCreateMessage(), err
}

// ToolCalls returns the tool calls of the client's model. Answer each with ToolResult.
func ToolCalls(message *pb.CreateMessageResult) (calls []*pb.ToolUseContent) {
	for _, block := range message.GetContent() {
		if call := block.GetToolUse(); call != nil {
			calls = append(calls, call)
		}
	}
	return calls
}

// ToolResult returns the result or failure of a tool call of the client's model, for the next turn of the conversation.
func ToolResult(call *pb.ToolUseContent, value any, err error) *Content {
	var result *Result
	if err == nil {
		result, err = resultOf(value)
	}
	if err != nil {
		result = failure(err.Error())
	}
	return &pb.ContentBlock{Block: &pb.ContentBlock_ToolResult{ToolResult: &pb.ToolResultContent{
		ToolUseId: call.GetId(), Content: result.GetContent(), StructuredContent: string(result.GetStructuredContent()),
		IsError: result.IsError,
	}}}
}

// SampleText sends one prompt to the client's model, and returns the text of its answer.
//
// Deprecated: see Sample.
func SampleText(ctx context.Context, prompt string, maxTokens int, opts ...AskOption) (string, error) {
	message := &pb.SamplingMessage{Role: "user", Content: []*pb.ContentBlock{Text(prompt)}}
	request := &pb.CreateMessageRequest{Messages: []*pb.SamplingMessage{message}, MaxTokens: int64(maxTokens)}
	result, err := Sample(ctx, request, opts...)
	var answer strings.Builder
	for _, block := range result.GetContent() {
		answer.WriteString(block.GetText().GetText())
	}
	return answer.String(), err
}

// Roots requests the root directories of the client.
//
// Deprecated: MCP 2026-07-28 deprecates it. Take them as arguments instead.
func Roots(ctx context.Context, opts ...AskOption) ([]*pb.Root, error) {
	if ClientCapabilities(ctx).GetRoots() == nil {
		return nil, unsupported("tell which folders it works in", "Which folder is meant?")
	}
	list := &pb.InputRequest_ListRoots{ListRoots: &pb.ListRootsRequest{}}
	response, err := from(ctx).ask(options(opts).key, &pb.InputRequest{Request: list})
	return response.GetListRoots().GetRoots(), err
}

// Once calls fn in the first round only, and returns its result in every round. The result must survive conversion to
// JSON and back. It is not stored if fn failed or asked a question.
func Once[T any](ctx context.Context, key string, fn func(context.Context) (T, error)) (T, error) {
	var v T
	c := from(ctx)
	if c == nil {
		return fn(ctx)
	}
	step, err := c.step(key)
	if err != nil {
		return v, err
	}
	step.mu.Lock()
	defer step.mu.Unlock()
	if step.value != nil {
		if err := unmarshal(step.value, &v); err != nil {
			return v, fmt.Errorf("mcpbridge.Once(%q) has stored %s, which is no longer of type %T: %w", key,
				shorten(step.value), v, err)
		}
		return v, nil
	}
	if v, err = fn(ctx); err != nil {
		return v, err
	}
	value, err := marshal(v)
	if err != nil {
		return v, fmt.Errorf("mcpbridge.Once(%q) can store only what JSON can represent: %w", key, err)
	}
	step.value = value
	// The same value in every round: convert it to JSON and back in the first round too.
	var again T
	err = unmarshal(value, &again)
	return again, err
}

// Require ends the round with input requests, in messages of the contract, and a state. The handler must return the
// error. In the next round, State returns the state, and Responses the answers. Elicit and the other questions do this
// automatically.
func Require(ctx context.Context, needs *pb.InputRequired) error {
	c := from(ctx)
	if c == nil {
		return errors.New("the context is not that of a call: pass on the context of the handler")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inputs == nil {
		c.inputs = &inputRound{}
	}
	c.inputs.own = needs
	return Pending
}

// State returns the state passed to Require in the previous round. It is nil in the first round.
func State(ctx context.Context) []byte {
	if c := from(ctx); c != nil {
		return c.state
	}
	return nil
}

// Responses returns the answers to the input requests of Require.
func Responses(ctx context.Context) map[string]*pb.InputResponse {
	if c := from(ctx); c != nil {
		return c.responses
	}
	return nil
}

func unsupported(cannot, question string) error {
	return &askError{
		ErrUnsupported,
		fmt.Sprintf("This client cannot %s. Ask the user yourself: %q, and call the tool again with the answer.",
			cannot, question),
	}
}

// The questions of a call.

// inputRound has the state of earlier rounds, and the questions of this one.
type inputRound struct {
	err     error // the state is not the SDK's
	answers map[string]*pb.InputResponse
	asked   map[string]bool // the keys of all questions so far, which may be in the state
	steps   map[string]*step
	counts  map[string]int
	open    map[string]*pb.InputRequest
	order   []string          // the keys of open, in order
	own     *pb.InputRequired // set by Require
}

// A step is a result of Once.
type step struct {
	mu    sync.Mutex // guards value, and is held while fn runs
	value stdjson.RawMessage
}

// storedState is the state of a call between its rounds.
type storedState struct {
	Answers map[string][]byte             `json:"answers"`
	Asked   []string                      `json:"asked"`
	Once    map[string]stdjson.RawMessage `json:"once"`
}

// load returns the questions of the call, and reads those of earlier rounds from its state. The caller holds mu.
func (c *call) load() *inputRound {
	if c.inputs != nil && c.inputs.open != nil {
		return c.inputs
	}
	a := &inputRound{
		answers: map[string]*pb.InputResponse{}, asked: map[string]bool{}, steps: map[string]*step{},
		counts: map[string]int{}, open: map[string]*pb.InputRequest{},
	}
	if c.inputs != nil {
		a.own = c.inputs.own
	}
	c.inputs = a
	if len(c.state) > 0 {
		var r storedState
		if err := unmarshal(c.state, &r); err != nil {
			a.err = &Error{Code: -32602, Message: "the request's state is not one that this tool returned"}
			return a
		}
		for key, text := range r.Answers {
			answer := &pb.InputResponse{}
			if err := proto.Unmarshal(text, answer); err != nil {
				a.err = &Error{Code: -32602, Message: "the request's state is not one that this tool returned"}
				return a
			}
			a.answers[key], a.asked[key] = answer, true
		}
		for key, value := range r.Once {
			a.steps[key] = &step{value: value}
		}
		for _, key := range r.Asked {
			a.asked[key] = true
		}
	}
	maps.Copy(a.answers, c.responses)
	return a
}

// step returns the stored result of Once for key.
func (c *call) step(key string) (*step, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.load()
	if a.steps[key] == nil {
		a.steps[key] = &step{}
	}
	return a.steps[key], a.err
}

// ask returns the answer to a question, or Pending.
func (c *call) ask(key string, request *pb.InputRequest) (*pb.InputResponse, error) {
	question := "elicit"
	switch request.GetRequest().(type) {
	case *pb.InputRequest_CreateMessage:
		question = "create_message"
	case *pb.InputRequest_ListRoots:
		question = "list_roots"
	}
	wire, err := proto.MarshalOptions{Deterministic: true}.Marshal(request)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.load()
	if a.err != nil {
		return nil, a.err
	}
	if key == "" {
		digest := sha256.Sum256(wire)
		key = question + "-" + hex.EncodeToString(digest[:6])
		a.counts[key]++
		if n := a.counts[key]; n > 1 {
			key += "-" + strconv.Itoa(n)
		}
	}
	a.asked[key] = true
	answer := a.answers[key]
	c.repeated = c.repeated || c.sent && answer != nil
	if e := answer.GetError(); e != nil {
		return nil, failedAnswer(e)
	}
	answered := false // An answer of another kind is ignored: the question is asked again.
	switch request.GetRequest().(type) {
	case *pb.InputRequest_Elicit:
		answered = answer.GetElicit() != nil
	case *pb.InputRequest_CreateMessage:
		answered = answer.GetCreateMessage() != nil
	case *pb.InputRequest_ListRoots:
		answered = answer.GetListRoots() != nil
	}
	if answered {
		return answer, nil
	}
	if a.open[key] == nil {
		a.order = append(a.order, key)
	}
	a.open[key] = request
	return nil, Pending
}

func failedAnswer(e *pb.InputError) error {
	message := func(otherwise string) string {
		if e.GetMessage() != "" {
			return e.GetMessage()
		}
		return otherwise
	}
	switch e.GetReason() {
	case pb.InputError_REASON_UNSUPPORTED:
		return &askError{
			ErrUnsupported,
			fmt.Sprintf("This client cannot be asked this: %s. Ask the user yourself and call again.", e.GetMessage()),
		}
	case pb.InputError_REASON_NO_ANSWER:
		return &askError{ErrNoAnswer, message(ErrNoAnswer.Error())}
	default:
		return &askError{ErrRefused, message(ErrRefused.Error())}
	}
}

// required returns the input requests of the round, or nil. It does not depend on what the handler did with Pending.
func (c *call) required() (*pb.InputRequired, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.inputs
	switch {
	case a == nil:
		return nil, nil //nolint:nilnil // no input is required
	case len(a.open) == 0:
		return a.own, nil
	}
	r := storedState{Answers: map[string][]byte{}, Once: map[string]stdjson.RawMessage{}, Asked: []string{}}
	largest, size := "", -1
	for key, answer := range a.answers {
		// Do not keep answers to questions that were not asked.
		if !a.asked[key] || a.open[key] != nil {
			continue
		}
		wire, err := proto.Marshal(answer)
		if err != nil {
			return nil, err
		}
		r.Answers[key] = wire
		if len(wire)*4/3 > size {
			largest, size = "the answer "+key, len(wire)*4/3
		}
	}
	for key, s := range a.steps {
		if !s.mu.TryLock() {
			continue // A goroutine that outlives the handler may still run, and may hold the lock.
		}
		value := s.value
		s.mu.Unlock()
		if value == nil {
			continue
		}
		r.Once[key] = value
		if len(value) > size {
			largest, size = fmt.Sprintf("mcpbridge.Once(%q)", key), len(value)
		}
	}
	r.Asked = append(r.Asked, a.order...)
	state, err := marshal(r)
	if err != nil {
		return nil, err
	}
	if len(state) > maxState {
		return nil, ToolError("the request state has %d bytes, more than the maximum of %d; the largest part is "+
			"%s, %d bytes",
			len(state), maxState, largest, size)
	}
	return &pb.InputRequired{InputRequests: a.questions(), RequestState: state}, nil
}
