package mcpjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A schema is the official JSON Schema of a revision.
type schema struct {
	rev      bridge.Revision
	defs     map[string]any
	place    string // where the definitions are: the name changed with the dialect
	compiler *jsonschema.Compiler
}

func loadSchema(t *testing.T, rev bridge.Revision) *schema {
	t.Helper()
	data, err := os.ReadFile("testdata/schema/" + rev.String() + ".json")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	s := &schema{rev: rev, compiler: jsonschema.NewCompiler()}
	for _, s.place = range []string{"definitions", "$defs"} {
		if defs, ok := doc.(map[string]any)[s.place].(map[string]any); ok {
			s.defs = defs
			break
		}
	}
	if err := s.compiler.AddResource("mcp.json", doc); err != nil {
		t.Fatal(err)
	}
	return s
}

// check fails unless a text conforms to the definition, without additional members.
func (s *schema) check(t *testing.T, definition string, text []byte) {
	t.Helper()
	compiled, err := s.compiler.Compile("mcp.json#/" + s.place + "/" + definition)
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if err := compiled.Validate(value); err != nil {
		t.Errorf("%s is not valid: %v\n%s", definition, err, text)
	}
	for _, l := range s.leaks(s.defs[definition], value, definition) {
		t.Errorf("%s leaks: %s", s.rev, l)
	}
}

// leaks returns the members of a value that its definition does not have. The schemas are open, so that validation
// alone does not find them.
func (s *schema) leaks(definition, value any, path string) []string {
	d, ok := definition.(map[string]any)
	if !ok {
		return nil
	}
	if ref, ok := d["$ref"].(string); ok {
		return s.leaks(s.defs[ref[strings.LastIndex(ref, "/")+1:]], value, path)
	}
	for _, union := range []string{"anyOf", "oneOf"} {
		if alternatives, ok := d[union].([]any); ok {
			var best []string
			found := false
			for _, a := range alternatives {
				if l := s.leaks(a, value, path); s.fits(a, value) && (!found || len(l) < len(best)) {
					best, found = l, true
				}
			}
			if !found {
				return []string{path + " is none of its union"}
			}
			return best
		}
	}
	switch v := value.(type) {
	case []any:
		var all []string
		for i, e := range v {
			all = append(all, s.leaks(d["items"], e, fmt.Sprintf("%s[%d]", path, i))...)
		}
		return all
	case map[string]any:
		properties, _ := d["properties"].(map[string]any)
		more, open := d["additionalProperties"]
		if properties == nil {
			open = true
		}
		var all []string
		for name, member := range v {
			at := path + "." + name
			switch p, known := properties[name]; {
			case name == "taskIds": // of the extension tasks
			case known:
				all = append(all, s.leaks(p, member, at)...)
			case open:
				all = append(all, s.leaks(more, member, at)...)
			case name == "x" || name == "x-unknown" || strings.HasSuffix(path, "_meta") || tolerated(at):
			default:
				all = append(all, at)
			}
		}
		return all
	}
	return nil
}

// tolerated reports whether a member is meant to be where the schema does not have it.
func tolerated(path string) bool {
	switch path {
	case "ClientCapabilities.extensions", "ServerCapabilities.extensions", // in use before
		"InitializeResult.capabilities.extensions":
		return true
	case "ElicitResult._meta", "ListRootsResult._meta", "CreateMessageResult._meta": // 2026-07-28: of the client
		return true
	}
	if strings.Contains(path, ".inputResponses.") && strings.HasSuffix(path, "._meta") { // the same
		return true
	}
	return strings.HasSuffix(path, ".params._meta") // every revision: JSONRPCRequest and JSONRPCNotification
}

// fits reports whether a value can be of a definition, by its constants and its required members.
func (s *schema) fits(definition, value any) bool {
	d := definition.(map[string]any)
	if ref, ok := d["$ref"].(string); ok {
		return s.fits(s.defs[ref[strings.LastIndex(ref, "/")+1:]], value)
	}
	if alternatives, ok := d["anyOf"].([]any); ok {
		return slices.ContainsFunc(alternatives, func(a any) bool { return s.fits(a, value) })
	}
	m, isObject := value.(map[string]any)
	if !isObject {
		return d["type"] != "object"
	}
	if d["type"] != "object" {
		return false
	}
	required, _ := d["required"].([]any)
	for _, name := range required {
		if _, ok := m[name.(string)]; !ok {
			return false
		}
	}
	properties, _ := d["properties"].(map[string]any)
	for name, p := range properties {
		c, ok := p.(map[string]any)["const"]
		if got, has := m[name]; ok && has && got != c {
			return false
		}
	}
	return true
}

// everyBlock is one block of each type that is not for sampling only.
func everyBlock() []*pb.ContentBlock {
	return []*pb.ContentBlock{
		{Block: &pb.ContentBlock_Text{Text: full(&pb.TextContent{}).(*pb.TextContent)}},
		{Block: &pb.ContentBlock_Image{Image: full(&pb.ImageContent{}).(*pb.ImageContent)}},
		{Block: &pb.ContentBlock_Audio{Audio: full(&pb.AudioContent{}).(*pb.AudioContent)}},
		{Block: &pb.ContentBlock_Resource{Resource: full(&pb.EmbeddedResource{}).(*pb.EmbeddedResource)}},
		{Block: &pb.ContentBlock_ResourceLink{ResourceLink: full(&pb.Resource{}).(*pb.Resource)}},
	}
}

// Every message of the contract, with all of its fields, has in each revision only the members of that revision.
func TestNewerMembersAreNotSentToOlderClients(t *testing.T) {
	toolResult := full(&pb.CallToolResult{}).(*pb.CallToolResult)
	toolResult.Content = everyBlock()
	prompt := full(&pb.GetPromptResult{}).(*pb.GetPromptResult)
	prompt.Messages = nil
	for _, b := range everyBlock() {
		prompt.Messages = append(prompt.Messages, &pb.PromptMessage{Role: "user", Content: b})
	}
	results := map[string]proto.Message{
		"ListToolsResult": full(&pb.ListToolsResponse{}), "CallToolResult": toolResult,
		"ListResourcesResult":         full(&pb.ListResourcesResponse{}),
		"ListResourceTemplatesResult": full(&pb.ListResourceTemplatesResponse{}),
		"ReadResourceResult":          full(&pb.ReadResourceResult{}),
		"ListPromptsResult":           full(&pb.ListPromptsResponse{}),
		"GetPromptResult":             prompt, "CompleteResult": full(&pb.CompleteResponse{}),
		"CreateMessageResult": full(&pb.CreateMessageResult{}), "ElicitResult": full(&pb.ElicitResult{}),
		"ListRootsResult": full(&pb.ListRootsResult{}), "InitializeResult": full(&pb.DiscoverResponse{}),
		"DiscoverResult": full(&pb.DiscoverResponse{}), "Implementation": full(&pb.Implementation{}),
		"ClientCapabilities": full(&pb.ClientCapabilities{}), "ServerCapabilities": full(&pb.ServerCapabilities{}),
		"InputRequiredResult": full(&pb.InputRequired{}),
	}
	params := map[string]struct {
		method string
		m      proto.Message
	}{
		"CallToolRequest":             {"tools/call", full(&pb.CallToolRequest{})},
		"ListToolsRequest":            {"tools/list", full(&pb.ListToolsRequest{})},
		"ReadResourceRequest":         {"resources/read", full(&pb.ReadResourceRequest{})},
		"GetPromptRequest":            {"prompts/get", full(&pb.GetPromptRequest{})},
		"CompleteRequest":             {"completion/complete", full(&pb.CompleteRequest{})},
		"SubscriptionsListenRequest":  {"subscriptions/listen", full(&pb.ListenRequest{})},
		"ElicitRequest":               {"elicitation/create", full(&pb.ElicitRequest{})},
		"CreateMessageRequest":        {"sampling/createMessage", full(&pb.CreateMessageRequest{})},
		"ListRootsRequest":            {"roots/list", full(&pb.ListRootsRequest{})},
		"ProgressNotification":        {"notifications/progress", full(&pb.Progress{})},
		"LoggingMessageNotification":  {"notifications/message", full(&pb.LogMessage{})},
		"ResourceUpdatedNotification": {"notifications/resources/updated", full(&pb.ResourceUpdated{})},
		"ToolListChangedNotification": {"notifications/tools/list_changed", full(&pb.ListChanged{})},
	}
	for _, rev := range bridge.Revisions() {
		s := loadSchema(t, rev)
		n := 0
		for definition, m := range results {
			if s.defs[definition] == nil {
				continue
			}
			n++
			t.Run(rev.String()+"/"+definition, func(t *testing.T) {
				before := proto.Clone(m)
				out, err := Append(nil, m, rev)
				if err != nil {
					t.Fatal(err)
				}
				if !proto.Equal(before, m) {
					t.Error("Append changed the message")
				}
				if definition == "InitializeResult" { // the front writes the rest
					out = fmt.Appendf(nil, `{"protocolVersion":%q,"serverInfo":{"name":"s","version":"1"},%s`, rev,
						out[1:])
				}
				s.check(t, definition, out)
				again := m.ProtoReflect().New().Interface()
				if err := Unmarshal(out, again, rev); err != nil {
					t.Errorf("cannot be read again: %v", err)
				}
			})
		}
		for definition, p := range params {
			if s.defs[definition] == nil {
				continue
			}
			n++
			t.Run(rev.String()+"/"+definition, func(t *testing.T) {
				m := proto.Clone(p.m)
				if c, ok := m.(*pb.CreateMessageRequest); ok && !rev.HasSamplingTools() {
					if _, err := Append(nil, m, rev); err == nil {
						t.Error("sampling with tools must be refused")
					}
					c.Tools, c.ToolChoice = nil, nil
				}
				out, err := Append(nil, m, rev, requestMeta(rev, definition)...)
				if err != nil {
					t.Fatal(err)
				}
				if definition == "ProgressNotification" { // the front knows the token
					out = fmt.Appendf(nil, `{"progressToken":1,%s`, out[1:])
				}
				text := jsonrpc.AppendRequest(nil, []byte(`1`), p.method, out)
				if strings.HasSuffix(definition, "Notification") {
					text = jsonrpc.AppendNotification(nil, p.method, out)
				}
				s.check(t, definition, drop(t, text, s.defs[definition]))
			})
		}
		if n < 20 {
			t.Errorf("%s: only %d messages", rev, n)
		}
	}
}

// requestMeta returns the members of `_meta` in every request of a modern revision.
func requestMeta(rev bridge.Revision, definition string) []Member {
	if !rev.Modern() || strings.HasSuffix(definition, "Notification") {
		return nil
	}
	return []Member{
		{"io.modelcontextprotocol/protocolVersion", []byte(quote(rev.String()))},
		{"io.modelcontextprotocol/clientInfo", []byte(`{"name":"c","version":"1"}`)},
		{"io.modelcontextprotocol/clientCapabilities", []byte(`{}`)},
	}
}

// drop returns text without the members of JSON-RPC's envelope that its definition leaves to another one.
func drop(t *testing.T, text []byte, definition any) []byte {
	t.Helper()
	properties := definition.(map[string]any)["properties"].(map[string]any)
	out := encoder{dst: []byte{'{'}}
	for name, value := range rawjson.Members(text) {
		if properties[string(name)] != nil {
			out.member(string(name), value)
		}
	}
	text = append(out.dst, '}')
	if !json.Valid(text) {
		t.Fatalf("%s", text)
	}
	return text
}
