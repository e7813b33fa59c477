package mcpjson

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

const latest = bridge.Rev20260728

func TestDecodeErrors(t *testing.T) {
	for _, tt := range []struct {
		name string
		m    proto.Message
		in   string
		want string
	}{
		{"no object", &pb.Tool{}, `[]`, `must be an object, not []`},
		{"required member missing", &pb.CallToolRequest{}, `{}`, `member "name" is missing`},
		{"null is no member", &pb.CallToolRequest{}, `{"name":null}`, `member "name" is missing`},
		{"wrong case", &pb.CallToolRequest{}, `{"Name":"x"}`, `member "Name" must be written "name"`},
		{
			"required message missing", &pb.CompleteRequest{}, `{"ref":{"type":"ref/prompt","name":"x"}}`,
			`member "argument" is missing`,
		},
		{"number for string", &pb.CallToolRequest{}, `{"name":1}`, `name: must be a string, not 1`},
		{
			"array for object", &pb.CallToolRequest{}, `{"name":"x","arguments":[1]}`,
			`arguments: must be an object, not [1]`,
		},
		{"object for array", &pb.ListToolsResponse{}, `{"tools":{}}`, `tools: must be an array, not {}`},
		{"null in an array", &pb.ListToolsResponse{}, `{"tools":[null]}`, `tools[0]: must be an object, not null`},
		{
			"value of a map", &pb.GetPromptRequest{}, `{"name":"x","arguments":{"a":1}}`,
			`arguments["a"]: must be a string, not 1`,
		},
		{
			"null in a map", &pb.CallToolRequest{}, `{"name":"x","inputResponses":{"k":null}}`,
			`inputResponses["k"]: must be an object, not null`,
		},
		{
			"case of an answer's member", &pb.CallToolRequest{},
			`{"name":"x","inputResponses":{"k":{"Action":"accept"}}}`,
			`inputResponses["k"]: member "Action" must be written "action"`,
		},
		{
			"case of a tag", &pb.CallToolResult{}, `{"content":[{"type":"video","Type":"text"}]}`,
			`content[0]: member "Type" must be written "type"`,
		},
		{
			"wrong case of enum", &pb.LogMessage{}, `{"level":"Debug","data":1}`,
			`level: unknown value "Debug", known are debug, info, notice, warning, error, critical, alert, emergency`,
		},
		{
			"zero enum", &pb.LogMessage{}, `{"level":"unspecified"}`,
			`level: unknown value "unspecified", known are debug, info, notice, warning, error, critical, alert, emergency`,
		},
		{"number for enum", &pb.LogMessage{}, `{"level":1}`, `level: must be a string, not 1`},
		{
			"content without type", &pb.CallToolResult{}, `{"content":[{"text":""}]}`,
			`content[0]: member "type" is missing`,
		},
		{
			"type of content", &pb.CallToolResult{}, `{"content":[{"type":1}]}`,
			`content[0].type: must be a string, not 1`,
		},
		{
			"deep inside", &pb.GetPromptResult{},
			`{"messages":[{"role":"user","content":{"type":"text","text":"x"}},{"role":"user","content":{"type":"text","text":7}}]}`, `messages[1].content.text: must be a string, not 7`,
		},
		{
			"inside a request for input", &pb.InputRequired{},
			`{"inputRequests":{"k":{"method":"elicitation/create","params":{"message":1}}}}`,
			`inputRequests["k"].params.message: must be a string, not 1`,
		},
		{"fraction", &pb.CreateMessageRequest{}, `{"maxTokens":1.5}`, `maxTokens: must be an integer, not 1.5`},
		{
			"tiny fraction", &pb.CreateMessageRequest{}, `{"maxTokens":1e-999999999999}`,
			`maxTokens: must be an integer, not 1e-999999999999`,
		},
		{
			"too big an integer", &pb.CreateMessageRequest{}, `{"maxTokens":9223372036854775808}`,
			`maxTokens: 9223372036854775808 is out of range`,
		},
		{
			"far too big an integer", &pb.CreateMessageRequest{}, `{"maxTokens":1e999999999999}`,
			`maxTokens: 1e999999999999 is out of range`,
		},
		{
			"string for integer", &pb.CreateMessageRequest{}, `{"maxTokens":"1"}`,
			`maxTokens: must be an integer, not "1"`,
		},
		{"string for number", &pb.Progress{}, `{"progress":"1"}`, `progress: must be a number, not "1"`},
		{"too big a number", &pb.Progress{}, `{"progress":1e400}`, `progress: 1e400 is out of range`},
		{"string for bool", &pb.CallToolResult{}, `{"isError":"true"}`, `isError: must be true or false, not "true"`},
		{
			"base64 of URLs", &pb.ContentBlock{}, `{"type":"image","mimeType":"x","data":"-_-_"}`,
			`data: must be base64, not "-_-_"`,
		},
		{
			"base64 without padding", &pb.ContentBlock{}, `{"type":"image","mimeType":"x","data":"YQ"}`,
			`data: must be base64, not "YQ"`,
		},
		{
			"base64 with extra bits", &pb.ContentBlock{}, `{"type":"image","mimeType":"x","data":"YR=="}`,
			`data: must be base64, not "YR=="`,
		},
		{
			"base64 in lines", &pb.ContentBlock{}, `{"type":"image","mimeType":"x","data":"YWFh\nYWFh"}`,
			`data: must be base64, not "YWFh\nYWFh"`,
		},
		{
			"another result", &pb.CallToolResult{}, `{"resultType":"input_required","content":[]}`,
			`resultType: must be "complete", not "input_required"`,
		},
		{
			"null result type", &pb.CallToolResult{}, `{"resultType":null,"content":[]}`,
			`resultType: must be "complete", not null`,
		},
		{
			"text and blob", &pb.ResourceContents{}, `{"uri":"x","text":"a","blob":"YQ=="}`,
			`blob: cannot be there together with "text"`,
		},
		{
			"long values are cut", &pb.CallToolRequest{}, `{"name":[` + strings.Repeat(`"€",`, 99) + `1]}`,
			`name: must be a string, not [` + strings.Repeat(`"€",`, 12) + `"€…`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := rawjson.Check([]byte(tt.in)); err != nil {
				t.Fatal(err)
			}
			if err := Unmarshal([]byte(tt.in), tt.m, latest); err == nil || err.Error() != tt.want {
				t.Errorf("\n got %v\nwant %s", err, tt.want)
			}
		})
	}
}

func rawBlock(text string) *pb.ContentBlock {
	return &pb.ContentBlock{Block: &pb.ContentBlock_Raw{Raw: text}}
}

func roots(key string) *pb.InputRequest {
	return &pb.InputRequest{Key: key, Request: &pb.InputRequest_ListRoots{ListRoots: &pb.ListRootsRequest{}}}
}

var rawMode = &pb.ElicitRequest{Mode: &pb.ElicitRequest_Raw{Raw: `{"mode":"voice"}`}}

func TestEncodeErrors(t *testing.T) {
	tool := func(b *pb.ContentBlock) proto.Message { return &pb.CallToolResult{Content: []*pb.ContentBlock{b}} }
	for _, tt := range []struct {
		name string
		m    proto.Message
		rev  bridge.Revision
		want string
	}{
		{"word that is not set", &pb.PromptMessage{}, latest, `role: is not set`},
		{"raw that is no object", tool(rawBlock(`[1]`)), latest, `content[0]: must be a JSON object, not [1]`},
		{
			"raw that is no JSON", tool(rawBlock(`{"type":}`)), latest,
			`content[0]: is not strict JSON: byte 8: invalid character '}' at start of value`,
		},
		{
			"unknown role", &pb.PromptMessage{Role: "judge"}, bridge.LatestLegacy,
			`role: "judge" is not supported in 2025-11-25`,
		},
		{"unknown mode", rawMode, bridge.LatestLegacy, `another mode than form and url is not supported in 2025-11-25`},
		{
			"a key twice", &pb.InputRequired{InputRequests: []*pb.InputRequest{roots("k"), roots("k")}}, latest,
			`inputRequests["k"]: duplicate key`,
		},
		{
			"unknown input request", &pb.InputRequest{Request: &pb.InputRequest_Raw{Raw: `{"method":"a/b"}`}},
			bridge.LatestLegacy, `another request than those of MCP is not supported in 2025-11-25`,
		},
		{"enum that is not set", &pb.LogMessage{}, latest, `level: is not set`},
		{
			"enum that is not known", &pb.LogMessage{Level: 99}, latest,
			`level: unknown value 99, known are debug, info, notice, warning, error, critical, alert, emergency`,
		},
		{"content of no type", tool(&pb.ContentBlock{}), latest, `content[0]: nothing is set`},
		{"content that is nil", &pb.PromptMessage{Role: "user"}, latest, `content: nothing is set`},
		{
			"no JSON", &pb.CallToolResult{StructuredContent: []byte(`{"a":}`)}, latest,
			`structuredContent: is not strict JSON: byte 5: invalid character '}' at start of value`,
		},
		{
			"a name twice", &pb.CallToolResult{StructuredContent: []byte(`{"a":1,"a":2}`)}, latest,
			`structuredContent: is not strict JSON: byte 7: duplicate name "a"`,
		},
		{"no object", &pb.Tool{InputSchema: `true`}, latest, `inputSchema: must be a JSON object, not true`},
		{"meta that is no object", &pb.CallToolResult{Meta: `1`}, latest, `_meta: must be a JSON object, not 1`},
		{
			"unknown members that are no object", &pb.Tool{Extra: `1`}, latest,
			`unknown members must be a JSON object, not 1`,
		},
		{
			"unknown members that are no JSON", &pb.Tool{Extra: `{"a" 1}`}, latest,
			`unknown members are not strict JSON: byte 5: invalid character '1' after object name (expecting ':')`,
		},
		{"state that is no text", &pb.InputRequired{RequestState: []byte{0xff}}, latest, `requestState: must be UTF-8`},
		{"infinity", &pb.Progress{Progress: inf}, latest, `progress: +Inf is not a number of JSON`},
		{"tools within tools", tool(nested(100)), latest, `nested deeper than 64`},
		{
			"message of another contract", &emptypb.Empty{}, latest,
			`google.protobuf.Empty is not a message of the contract`,
		},
		{
			"tool use", tool(&pb.ContentBlock{Block: &pb.ContentBlock_ToolUse{ToolUse: &pb.ToolUseContent{}}}),
			bridge.Rev20250618, `content[0]: "tool_use" is not supported in 2025-06-18`,
		},
		{
			"URL", &pb.ElicitRequest{Mode: &pb.ElicitRequest_Url{Url: &pb.ElicitUrl{}}}, bridge.Rev20250618,
			`"url" is not supported in 2025-06-18`,
		},
		{
			"multi-select", formOf(`{"type":"object","properties":{"x":{"type":"array"}}}`), bridge.Rev20250618,
			`requestedSchema.properties["x"]: a choice of several values is not supported in 2025-06-18`,
		},
		{"form that is no object", formOf(`5`), bridge.Rev20250618, `requestedSchema: must be a JSON object, not 5`},
		{
			"sampling with tools", &pb.CreateMessageRequest{Tools: []*pb.Tool{{}}}, bridge.Rev20250618,
			`tools: a tool for the model is not supported in 2025-06-18`,
		},
		{
			"sampling with a tool choice", &pb.CreateMessageRequest{ToolChoice: &pb.ToolChoice{}}, bridge.Rev20250618,
			`toolChoice: a tool for the model is not supported in 2025-06-18`,
		},
		{
			"sound for a model", &pb.CreateMessageRequest{
				Messages: []*pb.SamplingMessage{{Role: "user", Content: []*pb.ContentBlock{audio}}},
			}, bridge.Rev20241105,
			`messages[0].content[0]: "audio" is not supported in 2024-11-05`,
		},
		{
			"an answer of an image and text", &pb.CreateMessageResult{Content: []*pb.ContentBlock{audio, audio}},
			bridge.Rev20250618, `content: an answer of 2 blocks is not supported in 2025-06-18`,
		},
		{"input required", &pb.InputRequired{}, bridge.Rev20251125, `InputRequired is not supported in 2025-11-25`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, err := Append([]byte("before"), tt.m, tt.rev)
			if err == nil || !strings.HasSuffix(err.Error(), tt.want) {
				t.Errorf("\n got %v\nwant %s", err, tt.want)
			}
			if string(out) != "before" {
				t.Errorf("wrote %s", out)
			}
		})
	}
}

var audio = &pb.ContentBlock{
	Block: &pb.ContentBlock_Audio{Audio: &pb.AudioContent{Data: []byte("abc"), MimeType: "audio/wav"}},
}

var inf = func() float64 { var zero float64; return 1 / zero }()

func nested(depth int) *pb.ContentBlock {
	b := textBlock("x", nil)
	for range depth {
		b = &pb.ContentBlock{Block: &pb.ContentBlock_ToolResult{
			ToolResult: &pb.ToolResultContent{Content: []*pb.ContentBlock{b}},
		}}
	}
	return b
}

func formOf(schema string) *pb.ElicitRequest {
	return &pb.ElicitRequest{Mode: &pb.ElicitRequest_Form{Form: &pb.ElicitForm{Message: "m", RequestedSchema: schema}}}
}

func TestEncode(t *testing.T) {
	link := &pb.ContentBlock{
		Block: &pb.ContentBlock_ResourceLink{ResourceLink: &pb.Resource{Uri: "file:///a", Name: "a"}},
	}
	titled := &pb.Tool{
		Name: "t", Title: proto.String("T"),
		Annotations: &pb.ToolAnnotations{ReadOnlyHint: proto.Bool(true)},
	}
	outputs := func(schema string) proto.Message { return &pb.Tool{Name: "t", OutputSchema: schema} }
	structured := func(value string, content ...*pb.ContentBlock) proto.Message {
		return &pb.CallToolResult{StructuredContent: []byte(value), Content: content}
	}
	tools := func(content ...*pb.ContentBlock) proto.Message { return &pb.CallToolResult{Content: content} }
	audience := &pb.Annotations{Audience: []string{"judge", "user"}}
	conversation := &pb.CreateMessageRequest{MaxTokens: 9, Messages: []*pb.SamplingMessage{
		{Role: "user", Content: []*pb.ContentBlock{textBlock("a", nil), textBlock("b", nil)}},
		{Role: "assistant", Content: []*pb.ContentBlock{textBlock("c", nil)}},
	}}
	choices := formOf(`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"c":{"type":"string","oneOf":[{"const":"r","title":"Red"},{"const":"g"}],"default":"r"},"b":{"type":"boolean","default":false},"n":{"type":"number","default":1.50},"s":{"type":"string","default":"x","minLength":1}},"required":["c"]}`)
	for _, tt := range []struct {
		name string
		m    proto.Message
		rev  bridge.Revision
		want string
	}{
		{
			"required members, empty", &pb.ListToolsResponse{}, latest,
			`{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"private"}`,
		},
		{
			"the same for an older revision", &pb.ListToolsResponse{TtlMs: proto.Int64(1)}, bridge.Rev20251125,
			`{"tools":[]}`,
		},
		{"empty cursor is a cursor", &pb.ListToolsRequest{Cursor: proto.String("")}, latest, `{"cursor":""}`},
		{"required message, empty", &pb.CompleteResponse{}, bridge.Rev20251125, `{"completion":{"values":[]}}`},
		{
			"discover", &pb.DiscoverResponse{}, latest,
			`{"resultType":"complete","capabilities":{},"supportedVersions":[],"ttlMs":0,"cacheScope":"private"}`,
		},
		{
			"initialize", &pb.DiscoverResponse{SupportedVersions: []string{"x"}}, bridge.Rev20251125,
			`{"capabilities":{}}`,
		},
		{"raw fallback", &pb.Tool{Name: "t"}, latest, `{"name":"t","inputSchema":{"type":"object"}}`},
		{
			"null is a value", structured(`null`), latest,
			`{"resultType":"complete","content":[],"structuredContent":null}`,
		},
		{
			"newlines between tokens go", structured("\n{\"a\":\r\n [1,\n\t2]}\n"), latest,
			`{"resultType":"complete","content":[],"structuredContent":{"a": [1,` + "\t" + `2]}}`,
		},
		{
			"unknown content", tools(rawBlock(`{"type":"video","n":9007199254740993}`)), latest,
			`{"resultType":"complete","content":[{"type":"video","n":9007199254740993}]}`,
		},
		{
			"unknown content as text", tools(rawBlock(`{"type":"video"}`)), bridge.LatestLegacy,
			`{"content":[{"type":"text","text":"{\"type\":\"video\"}"}]}`,
		},
		{
			"unknown audience", textBlock("x", audience), latest,
			`{"type":"text","text":"x","annotations":{"audience":["judge","user"]}}`,
		},
		{
			"unknown audience is omitted", textBlock("x", audience), bridge.LatestLegacy,
			`{"type":"text","text":"x","annotations":{"audience":["user"]}}`,
		},
		{
			"unknown scope", &pb.ListToolsResponse{CacheScope: "team"}, latest,
			`{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"team"}`,
		},
		{"unknown mode", rawMode, latest, `{"mode":"voice"}`},
		{
			"no hint", &pb.ListToolsResponse{}, latest,
			`{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"private"}`,
		},
		{
			"whole numbers", &pb.Progress{Progress: 1e20, Total: proto.Float64(1e21)}, latest,
			`{"progress":100000000000000000000,"total":1e+21}`,
		},
		{"shortest numbers", &pb.Progress{Progress: 0.1}, latest, `{"progress":0.1}`},
		{
			"strings", &pb.CallToolRequest{Name: "\"\\\x01\x7f\u2028é\n"}, latest,
			`{"name":"\"\\\u0001` + "\x7f\u2028é" + `\n"}`,
		},
		{"broken strings", &pb.CallToolRequest{Name: "a\xffb"}, latest, `{"name":"a�b"}`},
		{
			"unknown members", &pb.Tool{
				Name:  "t",
				Extra: "{\"new\":\n1,\"name\":\"evil\",\"NAME\":\"evil\",\"title\":2,\"resultType\":3,\"_meta\":4}",
			},
			bridge.Rev20241105, `{"name":"t","inputSchema":{"type":"object"},"new":1}`,
		},
		{
			"unknown members of a union",
			&pb.ContentBlock{Block: &pb.ContentBlock_Text{
				Text: &pb.TextContent{Extra: `{"type":"image","Type":"image","a":1}`},
			}}, latest,
			`{"type":"text","text":"","a":1}`,
		},
		{
			"map in order", &pb.GetPromptRequest{Name: "p", Arguments: map[string]string{"b": "2", "a": "1"}}, latest,
			`{"name":"p","arguments":{"a":"1","b":"2"}}`,
		},

		{
			"title, latest", titled, bridge.Rev20250618,
			`{"name":"t","title":"T","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`,
		},
		{
			"title among the annotations", titled, bridge.Rev20250326,
			`{"name":"t","inputSchema":{"type":"object"},"annotations":{"title":"T","readOnlyHint":true}}`,
		},
		{"title nowhere", titled, bridge.Rev20241105, `{"name":"t","inputSchema":{"type":"object"}}`},
		{
			"output schema of an array", outputs(`{"type":"array"}`), latest,
			`{"name":"t","inputSchema":{"type":"object"},"outputSchema":{"type":"array"}}`,
		},
		{
			"output schema of an array before", outputs(`{"type":"array"}`), bridge.Rev20251125,
			`{"name":"t","inputSchema":{"type":"object"}}`,
		},
		{
			"output schema of an object", outputs(`{"type":"object"}`), bridge.Rev20250618,
			`{"name":"t","inputSchema":{"type":"object"},"outputSchema":{"type":"object"}}`,
		},
		{
			"output schema long ago", outputs(`{"type":"object"}`), bridge.Rev20250326,
			`{"name":"t","inputSchema":{"type":"object"}}`,
		},
		{"structured object", structured(`{"a":1}`), bridge.Rev20250618, `{"content":[],"structuredContent":{"a":1}}`},
		{"structured array", structured(`[1.0]`), bridge.Rev20251125, `{"content":[{"type":"text","text":"[1.0]"}]}`},
		{
			"structured array with text", structured(`[1]`, textBlock("one", nil)), bridge.Rev20251125,
			`{"content":[{"type":"text","text":"one"}]}`,
		},
		{
			"structured object long ago", structured(`{"a":"b"}`, audio), bridge.Rev20250326,
			`{"content":[{"type":"audio","data":"YWJj","mimeType":"audio/wav"},{"type":"text","text":"{\"a\":\"b\"}"}]}`,
		},
		{
			"sound", audio, bridge.Rev20241105,
			`{"type":"resource","resource":{"uri":"ni:///sha-256;ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0","mimeType":"audio/wav","blob":"YWJj"}}`,
		},
		{"link", link, bridge.Rev20250618, `{"type":"resource_link","uri":"file:///a","name":"a"}`},
		{"link before", link, bridge.Rev20250326, `{"type":"text","text":"a: file:///a"}`},
		{
			"form, latest", formOf(`{"type":"object","properties":{}}`), latest,
			`{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":{}}}`,
		},
		{
			"form of older fields", choices, bridge.Rev20250618,
			`{"message":"m","requestedSchema":{"type":"object","properties":{"c":{"type":"string","enum":["r","g"],"enumNames":["Red","g"]},"b":{"type":"boolean","default":false},"n":{"type":"number"},"s":{"type":"string","minLength":1}},"required":["c"]}}`,
		},
		{
			"form that is odd", formOf(`{"properties":{"a":1,"b":{"oneOf":2}},"x":[]}`), bridge.Rev20250618,
			`{"message":"m","requestedSchema":{"properties":{"a":1,"b":{"oneOf":2}},"x":[]}}`,
		},
		{
			"a tag that is not there",
			&pb.ElicitRequest{Mode: &pb.ElicitRequest_Form{Form: &pb.ElicitForm{Extra: `{"mode":"url","a":1}`}}},
			bridge.Rev20250618, `{"message":"","requestedSchema":{"type":"object","properties":{}},"a":1}`,
		},
		{
			"elicitationId", &pb.ElicitRequest{
				Mode: &pb.ElicitRequest_Url{Url: &pb.ElicitUrl{ElicitationId: proto.String("e")}},
			}, bridge.Rev20251125,
			`{"mode":"url","message":"","url":"","elicitationId":"e"}`,
		},
		{
			"no elicitationId", &pb.ElicitRequest{
				Mode: &pb.ElicitRequest_Url{Url: &pb.ElicitUrl{ElicitationId: proto.String("e")}},
			}, latest,
			`{"mode":"url","message":"","url":""}`,
		},
		{
			"conversation", conversation, bridge.Rev20251125,
			`{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"assistant","content":{"type":"text","text":"c"}}],"maxTokens":9}`,
		},
		{
			"conversation in single blocks", conversation, bridge.Rev20250618,
			`{"messages":[{"role":"user","content":{"type":"text","text":"a"}},{"role":"user","content":{"type":"text","text":"b"}},{"role":"assistant","content":{"type":"text","text":"c"}}],"maxTokens":9}`,
		},
		{
			"execution", &pb.Tool{Name: "t", Execution: &pb.ToolExecution{}}, bridge.Rev20251125,
			`{"name":"t","inputSchema":{"type":"object"},"execution":{}}`,
		},
		{
			"no execution", &pb.Tool{Name: "t", Execution: &pb.ToolExecution{}}, latest,
			`{"name":"t","inputSchema":{"type":"object"}}`,
		},
		{"token of another hop", &pb.Progress{Extra: `{"progressToken":1}`}, latest, `{"progress":0}`},
		{
			"task of another hop", &pb.CallToolRequest{Name: "t", Extra: `{"task":{"ttl":1},"a":1}`},
			bridge.Rev20251125,
			`{"name":"t","a":1}`,
		},
		{
			"completions are cut off", &pb.Completion{Values: make([]string, 101)}, latest,
			`{"values":[` + strings.Repeat(`"",`, 99) + `""],"total":101,"hasMore":true}`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := proto.Clone(tt.m)
			out, err := Append(nil, tt.m, tt.rev)
			if err != nil || string(out) != tt.want {
				t.Errorf("%v\n got %s\nwant %s", err, out, tt.want)
			}
			if !proto.Equal(tt.m, before) {
				t.Error("Append changed the message")
			}
		})
	}
}

func TestMissingElicitationIDIsGenerated(t *testing.T) {
	u := &pb.ElicitUrl{}
	a, err := Append(nil, u, bridge.Rev20251125)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := Append(nil, u, bridge.Rev20251125)
	id, ok := rawjson.String(rawjson.Get(a, "elicitationId"))
	if !ok || id == "" || string(a) == string(b) || u.ElicitationId != nil {
		t.Errorf("got %s and %s", a, b)
	}
}

func TestSetMeta(t *testing.T) {
	k := Member{"k", []byte(`"new"`)}
	for _, tt := range []struct {
		name string
		m    proto.Message
		meta []Member
		want string
	}{
		{"created", &pb.ListChanged{}, []Member{k}, `{"_meta":{"k":"new"}}`},
		{"replaced", &pb.ListChanged{Meta: `{"k":1,"j":2}`}, []Member{k}, `{"_meta":{"j":2,"k":"new"}}`},
		{"removed", &pb.ListChanged{Meta: `{"k":1,"j":2}`}, []Member{{"k", nil}}, `{"_meta":{"j":2}}`},
		{"all removed", &pb.ListChanged{Meta: `{"k":1}`}, []Member{{"k", nil}}, `{}`},
		{
			"of the context", &pb.ListToolsRequest{Context: &pb.CallContext{Meta: `{"j":2}`}},
			[]Member{k},
			`{"_meta":{"j":2,"k":"new"}}`,
		},
		{"without a context", &pb.ListToolsRequest{}, []Member{k}, `{"_meta":{"k":"new"}}`},
		{
			"of a union", &pb.ElicitRequest{Mode: &pb.ElicitRequest_Form{Form: &pb.ElicitForm{}}},
			[]Member{k},
			`{"mode":"form","message":"","requestedSchema":{"type":"object","properties":{}},"_meta":{"k":"new"}}`,
		},
		{
			"of params in a union",
			&pb.InputRequest{Request: &pb.InputRequest_ListRoots{ListRoots: &pb.ListRootsRequest{}}},
			[]Member{k},
			`{"method":"roots/list","params":{"_meta":{"k":"new"}}}`,
		},
		{"where there is no field", &pb.SubscriptionFilter{}, []Member{k}, `{"_meta":{"k":"new"}}`},
		{
			"outermost only", &pb.CallToolResult{Content: []*pb.ContentBlock{textBlock("x", nil)}},
			[]Member{k},
			`{"resultType":"complete","content":[{"type":"text","text":"x"}],"_meta":{"k":"new"}}`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, err := Append(nil, tt.m, latest, tt.meta...)
			if err != nil || string(out) != tt.want {
				t.Errorf("%v\n got %s\nwant %s", err, out, tt.want)
			}
		})
	}
}

func TestDecode(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   string
		rev  bridge.Revision
		want proto.Message
	}{
		{
			"raw text to the digit", `{"name":"t","arguments":{"n": 9007199254740993.10}}`, latest,
			&pb.CallToolRequest{Name: "t", Arguments: []byte(`{"n": 9007199254740993.10}`)},
		},
		{"null arguments", `{"name":"t","arguments":null}`, latest, &pb.CallToolRequest{Name: "t"}},
		{
			"meta of the context", `{"name":"t","_meta":{"a":1}}`, latest,
			&pb.CallToolRequest{Name: "t", Context: &pb.CallContext{Meta: `{"a":1}`}},
		},
		{
			"unknown members", `{"name":"t","a\u0062":[1],"Nam":"u"}`, latest,
			&pb.CallToolRequest{Name: "t", Extra: `{"ab":[1],"Nam":"u"}`},
		},
		{
			"what looks like a member of an answer",
			`{"name":"t","Name":"u","INPUTSCHEMA":{},"_META":{},"inputSchema":{"type":"object"},"a":1}`, latest,
			&pb.Tool{Name: "t", InputSchema: `{"type":"object"}`, Extra: `{"a":1}`},
		},
		{"escaped names are the same names", `{"n\u0061me":"t"}`, latest, &pb.CallToolRequest{Name: "t"}},
		{
			"null that is a value", `{"content":[],"structuredContent":null}`, latest,
			&pb.CallToolResult{StructuredContent: []byte(`null`)},
		},
		{"a list that is missing", `{}`, latest, &pb.CallToolResult{}},
		{"a result type", `{"resultType":"complete"}`, latest, &pb.CallToolResult{}},
		{
			"integers in other forms", `{"messages":[],"maxTokens":1e2}`, latest,
			&pb.CreateMessageRequest{MaxTokens: 100},
		},
		{
			"integers with a point", `{"messages":[],"maxTokens":-100.0}`, latest,
			&pb.CreateMessageRequest{MaxTokens: -100},
		},
		{"integers with both", `{"messages":[],"maxTokens":0.012e+3}`, latest, &pb.CreateMessageRequest{MaxTokens: 12}},
		{"zero", `{"messages":[],"maxTokens":-0e9999999999999999999}`, latest, &pb.CreateMessageRequest{}},
		{
			"the least integer", `{"messages":[],"maxTokens":-9223372036854775808}`, latest,
			&pb.CreateMessageRequest{MaxTokens: -1 << 63},
		},
		{
			"content of one block", `{"role":"user","content":{"type":"text","text":"x"}}`, latest,
			&pb.SamplingMessage{Role: "user", Content: []*pb.ContentBlock{textBlock("x", nil)}},
		},
		{
			"unknown content", `{"content":[{"type":"video","n":9007199254740993}]}`, latest,
			&pb.CallToolResult{Content: []*pb.ContentBlock{rawBlock(`{"type":"video","n":9007199254740993}`)}},
		},
		{
			"unknown words", `{"role":"judge","content":[],"action":1}`, latest,
			&pb.SamplingMessage{Role: "judge", Extra: `{"action":1}`},
		},
		{
			"unknown reference", `{"type":"ref/tool","x":1}`, latest,
			&pb.CompletionReference{Reference: &pb.CompletionReference_Raw{Raw: `{"type":"ref/tool","x":1}`}},
		},
		{"unknown mode", `{"mode":"voice"}`, latest, rawMode},
		{
			"unknown input request", `{"method":"a/b","params":{}}`, latest,
			&pb.InputRequest{Request: &pb.InputRequest_Raw{Raw: `{"method":"a/b","params":{}}`}},
		},
		{
			"input requests in order",
			`{"inputRequests":{"b":{"method":"roots/list","params":{}},"a":{"method":"roots/list","params":{}}}}`,
			latest, &pb.InputRequired{InputRequests: []*pb.InputRequest{roots("b"), roots("a")}},
		},
		{"unknown answer", `{"a":1}`, latest, &pb.InputResponse{Response: &pb.InputResponse_Raw{Raw: `{"a":1}`}}},
		{"content of no block", `{"role":"user","content":[]}`, latest, &pb.SamplingMessage{Role: "user"}},
		{
			"no mode is a form", `{"message":"m","requestedSchema":{}}`, latest,
			&pb.ElicitRequest{Mode: &pb.ElicitRequest_Form{Form: &pb.ElicitForm{Message: "m", RequestedSchema: `{}`}}},
		},
		{
			"a later member that looks right", `{"name":"t","title":"T","inputSchema":{}}`, bridge.Rev20241105,
			&pb.Tool{Name: "t", Title: proto.String("T"), InputSchema: `{}`},
		},
		{
			"a later member that looks wrong", `{"name":"t","title":7,"inputSchema":{}}`, bridge.Rev20241105,
			&pb.Tool{Name: "t", InputSchema: `{}`, Extra: `{"title":7}`},
		},
		{
			"the other side of initialize",
			`{"protocolVersion":"2025-11-25","serverInfo":{"name":"s","version":"1"},"capabilities":{}}`,
			bridge.Rev20251125, &pb.DiscoverResponse{Capabilities: &pb.ServerCapabilities{}},
		},
		{
			"a tool as a task", `{"name":"t","task":{"ttl":1},"a":1}`, bridge.Rev20251125,
			&pb.CallToolRequest{Name: "t", Task: &pb.TaskMetadata{TtlMs: proto.Int64(1)}, Extra: `{"a":1}`},
		},
		{
			"a tool as a task, where `task` is not an object", `{"name":"t","task":1}`, latest,
			&pb.CallToolRequest{Name: "t", Extra: `{"task":1}`},
		},
		{
			"a form as a task", `{"message":"m","requestedSchema":{},"task":{}}`, bridge.Rev20251125,
			&pb.ElicitRequest{Mode: &pb.ElicitRequest_Form{Form: &pb.ElicitForm{Message: "m", RequestedSchema: `{}`}}},
		},
		{
			"a web page as a task", `{"mode":"url","message":"m","url":"u","task":{}}`, bridge.Rev20251125,
			&pb.ElicitRequest{Mode: &pb.ElicitRequest_Url{Url: &pb.ElicitUrl{Message: "m", Url: "u"}}},
		},
		{
			"sampling as a task", `{"messages":[],"maxTokens":1,"task":{}}`, bridge.Rev20251125,
			&pb.CreateMessageRequest{MaxTokens: 1},
		},
		{
			"state is text", `{"name":"t","requestState":"\u00e9"}`, latest,
			&pb.CallToolRequest{Name: "t", RequestState: []byte("é")},
		},
		{
			"empty state is a state", `{"name":"t","requestState":""}`, latest,
			&pb.CallToolRequest{Name: "t", RequestState: []byte{}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := tt.want.ProtoReflect().New().Interface()
			if err := Unmarshal([]byte(tt.in), m, tt.rev); err != nil || !proto.Equal(m, tt.want) {
				t.Errorf("%v\n got %v\nwant %v", err, m, tt.want)
			}
		})
	}
}

// Unmarshal keeps other fields: the front has filled in the context.
func TestDecodeKeepsTheContext(t *testing.T) {
	m := &pb.CallToolRequest{Context: &pb.CallContext{ProtocolVersion: "x"}}
	if err := Unmarshal([]byte(`{"name":"t","_meta":{}}`), m, latest); err != nil {
		t.Fatal(err)
	}
	if m.GetContext().GetProtocolVersion() != "x" || m.GetContext().GetMeta() != `{}` {
		t.Errorf("got %v", m)
	}
}
