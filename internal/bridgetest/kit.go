package bridgetest

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// kit are the tools of the contract kit, which the laws and `mcpbridge verify` call. Each SDK has a program with the
// same tools, and docs/verify.md describes them.
var kit = map[string]tool{
	// echo returns its arguments.
	"echo": func(_ context.Context, _ *Handler, r *pb.CallToolRequest, _ bridge.Emit) (*bridge.Result, error) {
		return done(Text("%s", r.GetArguments()))
	},
	// structured returns its arguments as JSON.
	"structured": func(_ context.Context, _ *Handler, r *pb.CallToolRequest, _ bridge.Emit) (*bridge.Result, error) {
		return done(&pb.CallToolResult{StructuredContent: r.GetArguments(), Content: []*pb.ContentBlock{}})
	},
	// unknown sends an input request of a type that MCP does not define, and returns the answer, with content of a type
	// and for a role that MCP does not define.
	"unknown": func(_ context.Context, _ *Handler, r *pb.CallToolRequest, _ bridge.Emit) (*bridge.Result, error) {
		answer := r.GetInputResponses()["new"]
		if answer == nil {
			return requireInput("", &pb.InputRequest{Key: "new", Request: &pb.InputRequest_Raw{
				Raw: `{"method":"acme/ask","params":{"n":9007199254740993}}`,
			}})
		}
		return done(&pb.CallToolResult{Content: []*pb.ContentBlock{
			{Block: &pb.ContentBlock_Raw{Raw: `{"type":"acme","n":9007199254740993}`}},
			{Block: &pb.ContentBlock_Text{Text: &pb.TextContent{
				Text:        answer.GetRaw(),
				Annotations: &pb.Annotations{Audience: []string{"judge"}},
			}}},
		}})
	},
	// who returns the context of the call.
	"who": func(_ context.Context, _ *Handler, r *pb.CallToolRequest, _ bridge.Emit) (*bridge.Result, error) {
		c := r.GetContext()
		text := fmt.Sprintf("%s %s progress=%v log=%v forms=%v", c.GetVerified().GetProtocolVersion(),
			c.GetClientInfo().GetName(), c.GetProgressWanted(), c.GetLogLevel(),
			bridge.ElicitsForms(c.GetClientCapabilities()))
		if extensions := c.GetClientCapabilities().GetExtensions(); extensions != "" {
			text += " extensions=" + extensions
		}
		return done(Text("%s", text))
	},
	// count sends progress that does not always increase, and logs at two levels.
	"count": func(ctx context.Context, _ *Handler, _ *pb.CallToolRequest, emit bridge.Emit) (*bridge.Result, error) {
		for _, e := range []bridge.Event{
			{Progress: &pb.Progress{Progress: 0, Total: proto.Float64(2), Message: proto.String("begin")}},
			{Log: &pb.LogMessage{Level: pb.LogLevel_LOG_LEVEL_DEBUG, Data: `"detail"`}},
			{Progress: &pb.Progress{Progress: 1, Total: proto.Float64(2)}},
			{Progress: &pb.Progress{Progress: 1, Total: proto.Float64(2)}},
			{Log: &pb.LogMessage{
				Level: pb.LogLevel_LOG_LEVEL_WARNING, Logger: proto.String("l"),
				Data: `{"n":9007199254740993}`,
			}},
			{Progress: &pb.Progress{Progress: 2, Total: proto.Float64(2)}},
		} {
			if err := emit(ctx, e); err != nil {
				return nil, err
			}
		}
		return done(Text("counted"))
	},
	// ask requests a name, then its confirmation, and keeps the name in its state.
	"ask": func(ctx context.Context, _ *Handler, r *pb.CallToolRequest, emit bridge.Emit) (*bridge.Result, error) {
		if err := emit(ctx, bridge.Event{Progress: &pb.Progress{Progress: 1}}); err != nil {
			return nil, err
		}
		if len(r.GetRequestState()) == 0 {
			a := r.GetInputResponses()["name"].GetElicit()
			if a.GetAction() != "accept" {
				if a != nil {
					return done(Text("the user said %v", a.GetAction()))
				}
				return requireInput("", Form("name", "who are you?", "name"))
			}
			return requireInput("name="+a.GetContent(), Form("right", "is that right?", "yes"))
		}
		return done(Text("%s %s", r.GetRequestState(), r.GetInputResponses()["right"].GetElicit().GetContent()))
	},
	// many requests all kinds of input at once.
	"many": func(_ context.Context, _ *Handler, r *pb.CallToolRequest, _ bridge.Emit) (*bridge.Result, error) {
		in := r.GetInputResponses()
		if len(in) == 0 {
			return requireInput("",
				Form("form", "q", "a"),
				&pb.InputRequest{
					Key: "model",
					Request: &pb.InputRequest_CreateMessage{CreateMessage: &pb.CreateMessageRequest{
						MaxTokens: 10, Messages: []*pb.SamplingMessage{{
							Role:    "user",
							Content: Text("2+2?").GetContent(),
						}},
					}},
				},
				&pb.InputRequest{Key: "roots", Request: &pb.InputRequest_ListRoots{ListRoots: &pb.ListRootsRequest{}}},
			)
		}
		return done(Text("form=%s model=%s roots=%d", in["form"].GetElicit().GetContent(),
			in["model"].GetCreateMessage().GetContent()[0].GetText().GetText(),
			len(in["roots"].GetListRoots().GetRoots())))
	},
	// wait waits for the end of its context.
	"wait": func(ctx context.Context, h *Handler, r *pb.CallToolRequest, _ bridge.Emit) (*bridge.Result, error) {
		w := h.waiting(r)
		h.Started <- string(r.GetArguments())
		w.start()
		<-ctx.Done()
		h.Ended <- string(r.GetArguments())
		w.end()
		return nil, ctx.Err()
	},
	// started returns when the call of wait with the same n has started.
	"started": func(ctx context.Context, h *Handler, r *pb.CallToolRequest, _ bridge.Emit) (*bridge.Result, error) {
		select {
		case <-h.waiting(r).started:
			return done(Text("started"))
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	},
	// ended returns when the call of wait with the same n has ended.
	"ended": func(ctx context.Context, h *Handler, r *pb.CallToolRequest, _ bridge.Emit) (*bridge.Result, error) {
		select {
		case <-h.waiting(r).ended:
			return done(Text("ended"))
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	},
	// fail returns a result with isError.
	"fail": func(context.Context, *Handler, *pb.CallToolRequest, bridge.Emit) (*bridge.Result, error) {
		res := Text("it does not work")
		res.IsError = proto.Bool(true)
		return done(res)
	},
	// exact fails with an exact JSON-RPC error.
	"exact": func(context.Context, *Handler, *pb.CallToolRequest, bridge.Emit) (*bridge.Result, error) {
		return nil, &bridge.Error{
			Code: codes.Unknown, Message: "no luck",
			RPC: &pb.JsonRpcError{Code: -7, Message: "no luck", Data: `{"n":[1]}`},
		}
	},
	// steps sends n progress notifications.
	"steps": func(ctx context.Context, _ *Handler, r *pb.CallToolRequest, emit bridge.Emit) (*bridge.Result, error) {
		n, err := strconv.Atoi(string(rawjson.Get(r.GetArguments(), "n")))
		if err != nil {
			return nil, bridge.Errorf(codes.InvalidArgument, "n is not a number: %w", err)
		}
		for i := range n {
			if err := emit(ctx, bridge.Event{Progress: &pb.Progress{Progress: float64(i)}}); err != nil {
				return nil, err
			}
		}
		return done(Text("%d steps", n))
	},
	// blob returns n bytes.
	"blob": func(_ context.Context, _ *Handler, r *pb.CallToolRequest, _ bridge.Emit) (*bridge.Result, error) {
		data := make([]byte, intArgument(r, "size"))
		for i := range data {
			data[i] = byte(i % 251)
		}
		image := &pb.ImageContent{Data: data, MimeType: "application/octet-stream"}
		return done(&pb.CallToolResult{Content: []*pb.ContentBlock{{Block: &pb.ContentBlock_Image{Image: image}}}})
	},
	// levels logs at every level.
	"levels": func(ctx context.Context, _ *Handler, r *pb.CallToolRequest, emit bridge.Emit) (*bridge.Result, error) {
		minLevel := r.GetContext().GetLogLevel()
		for l := pb.LogLevel_LOG_LEVEL_DEBUG; l <= pb.LogLevel_LOG_LEVEL_EMERGENCY; l++ {
			if minLevel == pb.LogLevel_LOG_LEVEL_UNSPECIFIED || l < minLevel {
				continue
			}
			name := strings.ToLower(strings.TrimPrefix(l.String(), "LOG_LEVEL_"))
			if err := emit(ctx, bridge.Event{Log: &pb.LogMessage{Level: l, Data: strconv.Quote(name)}}); err != nil {
				return nil, err
			}
		}
		return done(Text("logged"))
	},
	// meta returns the request's _meta and its unknown members.
	"meta": func(_ context.Context, _ *Handler, r *pb.CallToolRequest, _ bridge.Emit) (*bridge.Result, error) {
		res := Text("meta")
		res.Meta, res.Extra = r.GetContext().GetMeta(), r.GetExtra()
		return done(res)
	},
	// noise prints to the standard files, except in this Handler.
	"noise": func(context.Context, *Handler, *pb.CallToolRequest, bridge.Emit) (*bridge.Result, error) {
		return done(Text("quiet"))
	},
	// sleep sleeps.
	"sleep": func(ctx context.Context, _ *Handler, r *pb.CallToolRequest, _ bridge.Emit) (*bridge.Result, error) {
		select {
		case <-time.After(time.Duration(intArgument(r, "ms")) * time.Millisecond):
			return done(Text("slept"))
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	},
	// add adds a tool.
	"add": func(_ context.Context, h *Handler, r *pb.CallToolRequest, _ bridge.Emit) (*bridge.Result, error) {
		h.Add(stringArgument(r, "name"))
		return done(Text("added"))
	},
	// remove removes a tool.
	"remove": func(_ context.Context, h *Handler, r *pb.CallToolRequest, _ bridge.Emit) (*bridge.Result, error) {
		h.Remove(stringArgument(r, "name"))
		return done(Text("removed"))
	},
	// update notifies subscribers of a resource update.
	"update": func(_ context.Context, h *Handler, r *pb.CallToolRequest, _ bridge.Emit) (*bridge.Result, error) {
		h.Update(stringArgument(r, "uri"))
		return done(Text("updated"))
	},
	// tell sends one input request, and returns its outcome.
	"tell": func(_ context.Context, _ *Handler, r *pb.CallToolRequest, _ bridge.Emit) (*bridge.Result, error) {
		if !bridge.ElicitsForms(r.GetContext().GetClientCapabilities()) {
			return done(Text("unsupported"))
		}
		in, ok := r.GetInputResponses()["answer"]
		if !ok {
			return requireInput("asked", Form("answer", "Say something.", "value"))
		}
		return done(Text("%s", describe(in)))
	},
	// survey sends two input requests, then one that depends on the answers, and keeps a number of the first round.
	"survey": survey,
}

// describe describes an input response.
func describe(in *pb.InputResponse) string {
	switch in.GetError().GetReason() {
	case pb.InputError_REASON_UNSUPPORTED:
		return "unsupported"
	case pb.InputError_REASON_NO_ANSWER:
		return "no answer"
	case pb.InputError_REASON_REFUSED:
		return "refused"
	case pb.InputError_REASON_UNSPECIFIED: // there is no error
	}
	switch a := in.GetElicit(); a.GetAction() {
	case "accept":
		var form struct {
			Value *string `json:"value"`
		}
		if json.Unmarshal([]byte(a.GetContent()), &form) != nil || form.Value == nil {
			return "invalid"
		}
		return "accepted: " + *form.Value
	case "decline":
		return "declined"
	default:
		return "cancelled"
	}
}

// surveyState is the request state of the tool "survey".
type surveyState struct {
	Serial int64
	Name   string
	Age    int
}

func survey(_ context.Context, h *Handler, r *pb.CallToolRequest, _ bridge.Emit) (*bridge.Result, error) {
	in := r.GetInputResponses()
	answer := func(key string, to any) error {
		var form struct {
			Value json.RawMessage `json:"value"`
		}
		if err := json.Unmarshal([]byte(in[key].GetElicit().GetContent()), &form); err != nil {
			return bridge.Errorf(codes.InvalidArgument, "the answer %s: %w", key, err)
		}
		return json.Unmarshal(form.Value, to)
	}
	if r.RequestState == nil {
		state, err := json.Marshal(surveyState{Serial: h.serial.Add(1)})
		if err != nil {
			return nil, err
		}
		return requireInput(string(state),
			formOf("name", "What is your name?", `{"type":"string"}`),
			formOf("age", "How old are you?", `{"type":"integer"}`))
	}
	var s surveyState
	if err := json.Unmarshal(r.GetRequestState(), &s); err != nil {
		return nil, bridge.Errorf(codes.InvalidArgument, "the state is not ours: %w", err)
	}
	if s.Name == "" {
		if err := answer("name", &s.Name); err != nil {
			return nil, err
		}
		if err := answer("age", &s.Age); err != nil {
			return nil, err
		}
		state, err := json.Marshal(s)
		if err != nil {
			return nil, err
		}
		return requireInput(string(state),
			formOf("right", fmt.Sprintf("%s is %d, right?", s.Name, s.Age), `{"type":"boolean"}`))
	}
	var right bool
	if err := answer("right", &right); err != nil {
		return nil, err
	}
	return done(Text("%s is %d: %v, %d", s.Name, s.Age, right, s.Serial))
}

// formOf returns a form elicitation for one value.
func formOf(key, message, of string) *pb.InputRequest {
	return &pb.InputRequest{
		Key: key,
		Request: &pb.InputRequest_Elicit{Elicit: &pb.ElicitRequest{Mode: &pb.ElicitRequest_Form{Form: &pb.ElicitForm{
			Message: message, RequestedSchema: `{"type":"object","properties":{"value":` + of +
				`},"required":["value"]}`,
		}}}},
	}
}

func intArgument(r *pb.CallToolRequest, name string) int {
	n, _ := strconv.Atoi(string(rawjson.Get(r.GetArguments(), name)))
	return n
}

func stringArgument(r *pb.CallToolRequest, name string) string {
	var s string
	_ = json.Unmarshal(rawjson.Get(r.GetArguments(), name), &s) // an argument of another type is empty
	return s
}

// waiting is the state of the calls of the tool "wait" with one n.
type waiting struct {
	started, ended chan struct{}
	start, end     func()
}

func (h *Handler) waiting(r *pb.CallToolRequest) *waiting {
	n := string(rawjson.Get(r.GetArguments(), "n"))
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.waits[n]
	if w == nil {
		w = &waiting{started: make(chan struct{}), ended: make(chan struct{})}
		w.start = sync.OnceFunc(func() { close(w.started) })
		w.end = sync.OnceFunc(func() { close(w.ended) })
		h.waits[n] = w
	}
	return w
}
