package catalog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A backend's URL elicitation may contain URLs of web pages only.
func TestURLElicitationAllowsWebPagesOnly(t *testing.T) {
	for page, good := range map[string]bool{
		"https://example.com/in": true, "HTTP://localhost:1/in?a=b#c": true,
		"javascript:alert(1)": false, "JavaScript://example.com/%0aalert(1)": false, "data:text/html,<script>": false,
		"file:///etc/passwd": false,
		"vscode://a/b":       false, "//example.com": false, "https:": false, "https:///in": false,
		"https:alert(1)":       false,
		" https://example.com": false, "": false,
		"https://example.com/\n": false,
	} {
		inputRequired := &bridge.Result{InputRequired: &pb.InputRequired{InputRequests: []*pb.InputRequest{
			{Key: "form", Request: &pb.InputRequest_Elicit{
				Elicit: &pb.ElicitRequest{Mode: &pb.ElicitRequest_Form{Form: &pb.ElicitForm{}}},
			}},
			{Key: "page", Request: &pb.InputRequest_Elicit{
				Elicit: &pb.ElicitRequest{Mode: &pb.ElicitRequest_Url{Url: &pb.ElicitUrl{Url: page}}},
			}},
		}}}
		data := append(rawjson.AppendString(
			[]byte(`{"elicitations":[{"mode":"url","url":"https://example.com"},5,{"url":`), page), "}]}"...)
		fails := &bridge.Error{
			Code: codes.FailedPrecondition, Message: "visit it",
			RPC: &pb.JsonRpcError{Code: -32042, Data: string(data)},
		}
		for _, m := range []struct {
			method  *bridge.Method
			request bridge.Request
		}{
			{bridge.CallTool, &pb.CallToolRequest{Context: as("x"), Name: "t"}},
			{bridge.ReadResource, &pb.ReadResourceRequest{}},
			{bridge.GetPrompt, &pb.GetPromptRequest{}},
		} {
			answer := func(res *bridge.Result, err error) (*bridge.Result, error) {
				c := New(bridge.HandlerFunc(func(context.Context, *bridge.Call, bridge.Emit) (*bridge.Result,
					error,
				) {
					return res, err
				}), Options{SkipArguments: true, SkipOutput: true})
				return c.Handle(t.Context(), &bridge.Call{Method: m.method, Request: m.request}, nil)
			}
			refused := func(err error) bool {
				e := bridge.AsError(err)
				return e != nil && e.Reason == bridge.ReasonProtocolViolation &&
					strings.Contains(e.Message, fmt.Sprintf("has the user visit %q, which is no web page", page))
			}
			if res, err := answer(inputRequired, nil); good && (res != inputRequired || err != nil) || !good &&
				!refused(err) {
				t.Errorf("%s with the URL elicitation %q: %v %v", m.method.Name, page, res, err)
			}
			if _, err := answer(nil, fails); good && !errors.Is(err, fails) || !good && !refused(err) {
				t.Errorf("%s with the required URL elicitation %q: %v", m.method.Name, page, err)
			}
		}
	}
}
