package mcpjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// as returns what makes a message of a type.
func as[M any, P interface {
	*M
	proto.Message
}]() func() proto.Message {
	return func() proto.Message { return P(new(M)) }
}

// messages are the messages for params and results, by method.
var messages = map[string]struct{ params, result func() proto.Message }{
	"server/discover": {as[pb.DiscoverRequest](), as[pb.DiscoverResponse]()},
	"initialize":      {as[pb.ListChanged](), as[pb.DiscoverResponse]()},
	"tools/list":      {as[pb.ListToolsRequest](), as[pb.ListToolsResponse]()},
	"tools/call":      {as[pb.CallToolRequest](), as[pb.CallToolResult]()},
	"resources/list":  {as[pb.ListResourcesRequest](), as[pb.ListResourcesResponse]()},
	"resources/templates/list": {
		as[pb.ListResourceTemplatesRequest](),
		as[pb.ListResourceTemplatesResponse](),
	},
	"resources/read":                           {as[pb.ReadResourceRequest](), as[pb.ReadResourceResult]()},
	"prompts/list":                             {as[pb.ListPromptsRequest](), as[pb.ListPromptsResponse]()},
	"prompts/get":                              {as[pb.GetPromptRequest](), as[pb.GetPromptResult]()},
	"completion/complete":                      {as[pb.CompleteRequest](), as[pb.CompleteResponse]()},
	"subscriptions/listen":                     {as[pb.ListenRequest](), as[pb.ListenResult]()},
	"elicitation/create":                       {as[pb.ElicitRequest](), as[pb.ElicitResult]()},
	"sampling/createMessage":                   {as[pb.CreateMessageRequest](), as[pb.CreateMessageResult]()},
	"roots/list":                               {as[pb.ListRootsRequest](), as[pb.ListRootsResult]()},
	"notifications/progress":                   {params: as[pb.Progress]()},
	"notifications/message":                    {params: as[pb.LogMessage]()},
	"notifications/resources/updated":          {params: as[pb.ResourceUpdated]()},
	"notifications/resources/list_changed":     {params: as[pb.ListChanged]()},
	"notifications/tools/list_changed":         {params: as[pb.ListChanged]()},
	"notifications/prompts/list_changed":       {params: as[pb.ListChanged]()},
	"notifications/subscriptions/acknowledged": {params: as[pb.SubscriptionsAcknowledged]()},
}

// definitions are the messages for the definitions of the schema that are neither params nor results nor messages of
// JSON-RPC.
var definitions = map[string]func() proto.Message{
	"AudioContent": as[pb.ContentBlock](), "ImageContent": as[pb.ContentBlock](), "TextContent": as[pb.ContentBlock](),
	"EmbeddedResource": as[pb.ContentBlock](), "ResourceLink": as[pb.ContentBlock](),
	"ToolUseContent":    as[pb.ContentBlock](),
	"ToolResultContent": as[pb.ContentBlock](), "BlobResourceContents": as[pb.ResourceContents](),
	"TextResourceContents": as[pb.ResourceContents](), "ClientCapabilities": as[pb.ClientCapabilities](),
	"ServerCapabilities": as[pb.ServerCapabilities](), "ModelPreferences": as[pb.ModelPreferences](),
	"Resource": as[pb.Resource](), "Root": as[pb.Root](), "SamplingMessage": as[pb.SamplingMessage](),
	"Tool":                  as[pb.Tool](),
	"CallToolRequestParams": as[pb.CallToolRequest](), "CallToolResult": as[pb.CallToolResult](),
	"CompleteRequestParams": as[pb.CompleteRequest](), "CompleteResult": as[pb.CompleteResponse](),
	"CreateMessageRequest": as[pb.InputRequest](), "CreateMessageRequestParams": as[pb.CreateMessageRequest](),
	"CreateMessageResult": as[pb.CreateMessageResult](), "DiscoverResult": as[pb.DiscoverResponse](),
	"ElicitRequest": as[pb.InputRequest](), "ElicitRequestFormParams": as[pb.ElicitRequest](),
	"ElicitRequestURLParams": as[pb.ElicitRequest](), "ElicitResult": as[pb.ElicitResult](),
	"GetPromptRequestParams": as[pb.GetPromptRequest](), "GetPromptResult": as[pb.GetPromptResult](),
	"InputRequiredResult": as[pb.InputRequired](), "InputResponses": as[pb.CallToolRequest](),
	"ListPromptsResult":           as[pb.ListPromptsResponse](),
	"ListResourceTemplatesResult": as[pb.ListResourceTemplatesResponse](),
	"ListResourcesResult":         as[pb.ListResourcesResponse](), "ListRootsRequest": as[pb.InputRequest](),
	"ListRootsResult": as[pb.ListRootsResult](), "ListToolsResult": as[pb.ListToolsResponse](),
	"LoggingMessageNotificationParams": as[pb.LogMessage](), "PaginatedRequestParams": as[pb.ListToolsRequest](),
	"ProgressNotificationParams": as[pb.Progress](), "ReadResourceResult": as[pb.ReadResourceResult](),
	"ResourceUpdatedNotificationParams": as[pb.ResourceUpdated](), "SubscriptionsListenResult": as[pb.ListenResult](),
}

// wrappers put examples that are part of something into what they are part of.
var wrappers = map[string]string{
	"InputRequests":  `{"resultType":"input_required","inputRequests":%s}`,
	"InputResponses": `{"name":"x","inputResponses":%s}`,
	"ParseError":     rpcError, "InternalError": rpcError,
	"InvalidParamsError": rpcError, "MethodNotFoundError": rpcError,
	// The schemas of a form's fields are not looked at: they pass as they are.
	"StringSchema": form, "NumberSchema": form, "BooleanSchema": form, "TitledMultiSelectEnumSchema": form,
	"TitledSingleSelectEnumSchema": form, "UntitledMultiSelectEnumSchema": form, "UntitledSingleSelectEnumSchema": form,
}

const rpcError = `{"jsonrpc":"2.0","id":1,"error":%s}`

const form = `{"mode":"form","message":"x","requestedSchema":{"type":"object","properties":{"x":%s}}}`

func TestOfficialExamplesRoundTrip(t *testing.T) {
	paths, err := filepath.Glob("testdata/examples/*/*.json")
	if err != nil || len(paths) != 129 {
		t.Fatalf("%d examples, %v", len(paths), err)
	}
	for _, path := range paths {
		name := filepath.Base(filepath.Dir(path))
		t.Run(strings.TrimPrefix(path, "testdata/examples/"), func(t *testing.T) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if wrapper := wrappers[name]; wrapper != "" {
				data = fmt.Appendf(nil, wrapper, data)
			}
			if rawjson.Get(data, "jsonrpc") != nil {
				roundTripMessage(t, data, methodOf(name), bridge.Rev20260728)
				return
			}
			if strings.HasPrefix(name, "CancelledNotification") { // the front's own
				return
			}
			newMessage := definitions[name]
			switch wrappers[name] {
			case form:
				newMessage = as[pb.ElicitRequest]()
			}
			if name == "InputRequests" {
				newMessage = as[pb.InputRequired]()
			}
			if newMessage == nil {
				t.Fatal("no message for it")
			}
			roundTrip(t, data, newMessage(), bridge.Rev20260728)
		})
	}
}

// methodOf returns the method that a definition of a result is the answer to.
func methodOf(definition string) string {
	return map[string]string{
		"CallToolResultResponse": "tools/call", "CompleteResultResponse": "completion/complete",
		"DiscoverResultResponse": "server/discover", "GetPromptResultResponse": "prompts/get",
		"ListPromptsResultResponse": "prompts/list", "ListResourceTemplatesResultResponse": "resources/templates/list",
		"ListResourcesResultResponse": "resources/list", "ListToolsResultResponse": "tools/list",
		"ReadResourceResultResponse": "resources/read", "SubscriptionsListenResultResponse": "subscriptions/listen",
	}[definition]
}

// roundTripMessage takes a whole message of JSON-RPC through Parse, its params or result through the contract, and
// back.
func roundTripMessage(t *testing.T, data []byte, method string, rev bridge.Revision) {
	t.Helper()
	msg, err := jsonrpc.Parse(data, limits.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	var out []byte
	switch {
	case msg.Error != nil:
		out = jsonrpc.AppendError(nil, msg.ID, msg.Error, true)
	case msg.Result != nil:
		result := msg.Result
		if m := messages[method].result; m != nil {
			result = roundTrip(t, result, m(), rev)
		}
		out = jsonrpc.AppendResult(nil, msg.ID, result)
	default:
		params := msg.Params
		if m := messages[msg.Method].params; m != nil && params != nil {
			params = roundTrip(t, params, m(), rev)
		}
		if msg.IsRequest() {
			out = jsonrpc.AppendRequest(nil, msg.ID, msg.Method, params)
		} else {
			out = jsonrpc.AppendNotification(nil, msg.Method, params)
		}
	}
	sameJSON(t, data, out)
}

// roundTrip takes data to m, over a wire, and back.
func roundTrip(t *testing.T, data []byte, m proto.Message, rev bridge.Revision) []byte {
	t.Helper()
	if err := rawjson.Check(data); err != nil {
		t.Fatal(err)
	}
	if err := Unmarshal(data, m, rev); err != nil {
		t.Fatal(err)
	}
	wire, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	again := m.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(wire, again); err != nil {
		t.Fatal(err)
	}
	out, err := Append(nil, again, rev)
	if err != nil {
		t.Fatal(err)
	}
	if err := rawjson.Check(out); err != nil || bytes.ContainsAny(out, "\r\n") {
		t.Fatalf("not JSON in a line: %v\n%s", err, out)
	}
	// The transport handles the members of a hop.
	if p := planOf(m); p.union == nil {
		for _, name := range p.hop {
			if value := rawjson.Get(data, name); value != nil {
				out = fmt.Appendf(nil, `{%q:%s,%s`, name, value, out[1:])
			}
		}
	}
	sameJSON(t, data, out)
	return out
}

// sameJSON fails unless two texts mean the same, to the last digit.
func sameJSON(t *testing.T, want, got []byte) {
	t.Helper()
	w, g := tree(t, want), tree(t, got)
	addDefaults(w, g)
	if !reflect.DeepEqual(w, g) {
		t.Errorf("\n in %s\nout %s", compact(want), got)
	}
}

// defaults are members that are always written, and may be absent in an example.
var defaults = map[string]any{"mode": "form", "ttlMs": "0", "cacheScope": "private", "params": map[string]any{}}

// addDefaults adds to w the defaults that only g contains. It drops the id of a request inside a result: some examples
// have one, which the schema does not define.
func addDefaults(w, g any) {
	switch w := w.(type) {
	case map[string]any:
		g, _ := g.(map[string]any)
		if w["jsonrpc"] == nil && w["method"] != nil {
			delete(w, "id")
		}
		for k, v := range defaults {
			if _, has := w[k]; !has && g != nil && reflect.DeepEqual(g[k], v) {
				w[k] = v
			}
		}
		for k := range w {
			addDefaults(w[k], g[k])
		}
	case []any:
		g, _ := g.([]any)
		for i := range min(len(w), len(g)) {
			addDefaults(w[i], g[i])
		}
	}
}

func compact(data []byte) []byte {
	var b bytes.Buffer
	_ = json.Compact(&b, data)
	return b.Bytes()
}

// tree returns a JSON value with numbers as exact fractions.
func tree(t *testing.T, data []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	return exact(v)
}

func exact(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = exact(v[k])
		}
	case []any:
		for i := range v {
			v[i] = exact(v[i])
		}
	case json.Number:
		r, ok := new(big.Rat).SetString(v.String())
		if !ok {
			return v
		}
		return r.RatString()
	}
	return v
}
