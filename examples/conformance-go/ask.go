package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A tool requires input by returning input requests, and is called again with the answers. It stores everything else
// that it needs then in the state. Answers are not trusted: a missing one, or one of another type, is requested again.
// The bridge checks that the client supports the requests.

// inputRequired returns input requests to the client. The state is absent if it is empty.
func inputRequired(state string, requests ...*pb.InputRequest) *pb.InputRequired {
	n := &pb.InputRequired{InputRequests: requests}
	if state != "" {
		n.RequestState = []byte(state)
	}
	return n
}

func keyed(key string, r *pb.InputRequest) *pb.InputRequest {
	r.Key = key
	return r
}

func form(message, schema string) *pb.InputRequest {
	f := &pb.ElicitForm{Message: message, RequestedSchema: schema}
	return &pb.InputRequest{
		Request: &pb.InputRequest_Elicit{Elicit: &pb.ElicitRequest{Mode: &pb.ElicitRequest_Form{Form: f}}},
	}
}

func model(prompt string, maxTokens int64) *pb.InputRequest {
	m := &pb.SamplingMessage{Role: "user", Content: []*pb.ContentBlock{text(prompt)}}
	r := &pb.CreateMessageRequest{Messages: []*pb.SamplingMessage{m}, MaxTokens: maxTokens}
	return &pb.InputRequest{Request: &pb.InputRequest_CreateMessage{CreateMessage: r}}
}

func roots() *pb.InputRequest {
	return &pb.InputRequest{Request: &pb.InputRequest_ListRoots{ListRoots: &pb.ListRootsRequest{}}}
}

const (
	nameForm     = `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`
	colorForm    = `{"type":"object","properties":{"color":{"type":"string"}},"required":["color"]}`
	confirmForm  = `{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]}`
	addressForm  = `{"type":"object","properties":{"username":{"type":"string","description":"User's response"},"email":{"type":"string","description":"User's email address"}},"required":["username","email"]}`
	defaultsForm = `{"type":"object","properties":{
		"name":{"type":"string","description":"User name","default":"John Doe"},
		"age":{"type":"integer","description":"User age","default":30},
		"score":{"type":"number","description":"User score","default":95.5},
		"status":{"type":"string","description":"User status",
			"enum":["active","inactive","pending"],"default":"active"},
		"verified":{"type":"boolean","description":"Verification status","default":true}},"required":[]}`
	enumsForm = `{"type":"object","properties":{
		"untitledSingle":{"type":"string","enum":["option1","option2","option3"]},
		"titledSingle":{"type":"string","oneOf":[{"const":"value1","title":"First Option"},
			{"const":"value2","title":"Second Option"},{"const":"value3","title":"Third Option"}]},
		"legacyEnum":{"type":"string","enum":["opt1","opt2","opt3"],
			"enumNames":["Option One","Option Two","Option Three"]},
		"untitledMulti":{"type":"array","items":{"type":"string","enum":["option1","option2","option3"]}},
		"titledMulti":{"type":"array","items":{"anyOf":[{"const":"value1","title":"First Choice"},{"const":"value2","title":"Second Choice"},{"const":"value3","title":"Third Choice"}]}}},"required":[]}`
)

// refusalText returns why the client did not answer an input request, or "". Only older revisions have such answers.
func refusalText(answers map[string]*pb.InputResponse) string {
	for key, a := range answers {
		if e := a.GetError(); e != nil {
			return fmt.Sprintf("The client did not answer %q: %s", key, e.GetMessage())
		}
	}
	return ""
}

// answerText describes the user's answer to a form.
func answerText(e *pb.ElicitResult) string {
	content := e.GetContent()
	if content == "" {
		content = "{}"
	}
	return "action=" + e.GetAction() + ", content=" + content
}

// field returns a member of the form that the user filled in, if it is a text.
func field(e *pb.ElicitResult, name string) (value string, ok bool) {
	var content map[string]json.RawMessage
	if e.GetAction() != "accept" || json.Unmarshal([]byte(e.GetContent()), &content) != nil {
		return "", false
	}
	return value, json.Unmarshal(content[name], &value) == nil
}

// modelText returns the text of the model's answer.
func modelText(m *pb.CreateMessageResult) string {
	var out strings.Builder
	for _, block := range m.GetContent() {
		out.WriteString(block.GetText().GetText())
	}
	return out.String()
}

// formTool returns a tool that requests a form with the given key, and returns the answer. If key is empty, it is
// "form".
func formTool(key, schema string) func(*call) error {
	if key == "" {
		key = "form"
	}
	return func(c *call) error {
		if e := c.GetInputResponses()[key].GetElicit(); e != nil {
			return c.finish(text("Elicitation completed: " + answerText(e)))
		}
		return c.requireInput(inputRequired("", keyed(key, form("Please fill in this form", schema))))
	}
}

func elicitation(c *call) error {
	if e := c.GetInputResponses()["user"].GetElicit(); e != nil {
		return c.finish(text("User response: <" + answerText(e) + ">"))
	}
	var args struct{ Message string }
	if err := c.arguments(&args); err != nil {
		return err
	}
	return c.requireInput(inputRequired("", keyed("user", form(args.Message, addressForm))))
}

func sampling(c *call) error {
	if m := c.GetInputResponses()["model"].GetCreateMessage(); m != nil {
		return c.finish(text("LLM response: " + modelText(m)))
	}
	var args struct{ Prompt string }
	if err := c.arguments(&args); err != nil {
		return err
	}
	return c.requireInput(inputRequired("", keyed("model", model(args.Prompt, 100))))
}

func greet(c *call) error {
	e := c.GetInputResponses()["user_name"].GetElicit()
	if e == nil {
		return c.requireInput(inputRequired("", keyed("user_name", form("What is your name?", nameForm))))
	}
	name, ok := field(e, "name")
	if !ok {
		return c.finish(text("Then not: " + answerText(e)))
	}
	return c.finish(text("Hello, " + name + "!"))
}

func capital(c *call) error {
	m := c.GetInputResponses()["capital_question"].GetCreateMessage()
	if m == nil {
		return c.requireInput(inputRequired("",
			keyed("capital_question", model("What is the capital of France?", 100))))
	}
	return c.finish(text("The model says: " + modelText(m)))
}

func folders(c *call) error {
	r := c.GetInputResponses()["client_roots"].GetListRoots()
	if r == nil {
		return c.requireInput(inputRequired("", keyed("client_roots", roots())))
	}
	return c.finish(text("The client works in: " + uris(r)))
}

func uris(r *pb.ListRootsResult) string {
	var all []string
	for _, root := range r.GetRoots() {
		all = append(all, root.GetUri())
	}
	return strings.Join(all, ", ")
}

// confirm requires its state with the answer. The bridge rejects a modified state.
func confirm(c *call) error {
	const asked = "asked to confirm"
	e := c.GetInputResponses()["confirm"].GetElicit()
	if e == nil || c.RequestState == nil {
		return c.requireInput(inputRequired(asked, keyed("confirm", form("Please confirm", confirmForm))))
	}
	if string(c.GetRequestState()) != asked {
		return status.Errorf(codes.InvalidArgument, "the state is %q, and was %q", c.GetRequestState(), asked)
	}
	return c.finish(text("state-ok: " + answerText(e)))
}

func askAll(c *call) error {
	name, ok := field(c.GetInputResponses()["user_name"].GetElicit(), "name")
	greeting := c.GetInputResponses()["greeting"].GetCreateMessage()
	where := c.GetInputResponses()["client_roots"].GetListRoots()
	if !ok || greeting == nil || where == nil || c.RequestState == nil {
		return c.requireInput(inputRequired("asked all", keyed("user_name", form("What is your name?", nameForm)),
			keyed("greeting", model("Generate a greeting", 50)), keyed("client_roots", roots())))
	}
	return c.finish(text(fmt.Sprintf("%s %s, you work in %s", modelText(greeting), name, uris(where))))
}

// A progressState is the state of askTwice: the step, and the answers of earlier rounds.
type progressState struct {
	Step int
	Name string
}

func askTwice(c *call) error {
	var j progressState
	if c.RequestState != nil {
		if err := json.Unmarshal(c.GetRequestState(), &j); err != nil {
			return status.Errorf(codes.InvalidArgument, "state: %v", err)
		}
	}
	name, named := field(c.GetInputResponses()["step1"].GetElicit(), "name")
	color, colored := field(c.GetInputResponses()["step2"].GetElicit(), "color")
	switch {
	case j.Step == 1 && named:
		return c.nextStep(progressState{Step: 2, Name: name}, "step2",
			form("Step 2: What is your favorite color?", colorForm))
	case j.Step == 2 && colored:
		return c.finish(text(j.Name + " likes " + color))
	case j.Step == 2:
		return c.nextStep(j, "step2", form("Step 2: What is your favorite color?", colorForm))
	}
	return c.nextStep(progressState{Step: 1}, "step1", form("Step 1: What is your name?", nameForm))
}

// nextStep requests the input of the next step.
func (c *call) nextStep(j progressState, key string, r *pb.InputRequest) error {
	state, err := json.Marshal(j)
	if err != nil {
		return err
	}
	return c.requireInput(inputRequired(string(state), keyed(key, r)))
}

func askPossible(c *call) error {
	can := c.GetContext().GetClientCapabilities()
	var all []*pb.InputRequest
	if can.GetElicitation() != nil {
		all = append(all, keyed("user_name", form("What is your name?", nameForm)))
	}
	if can.GetSampling() != nil {
		all = append(all, keyed("capital_question", model("What is the capital of France?", 100)))
	}
	if can.GetRoots() != nil {
		all = append(all, keyed("client_roots", roots()))
	}
	all = slices.DeleteFunc(all, func(r *pb.InputRequest) bool { return c.GetInputResponses()[r.GetKey()] != nil })
	if len(all) == 0 {
		return c.finish(text(fmt.Sprintf("The client answered %d questions.", len(c.GetInputResponses()))))
	}
	return c.requireInput(inputRequired("", all...))
}
