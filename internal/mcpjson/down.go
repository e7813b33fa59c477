package mcpjson

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// The table lists the members that a revision lacks. This file converts what an older revision expresses differently,
// and rejects what it cannot express.

// A downFunc converts a message to a revision. It returns the message itself if there is nothing to convert, and does
// not modify it, because it may be cached.
type downFunc func(m proto.Message, rev bridge.Revision) (proto.Message, error)

var downs = map[protoreflect.FullName]downFunc{
	"mcpbridge.v1.Tool":                      down(downTool),
	"mcpbridge.v1.CallToolResult":            down(downCallToolResult),
	"mcpbridge.v1.ToolResultContent":         down(downToolResultContent),
	"mcpbridge.v1.ContentBlock":              down(downContentBlock),
	"mcpbridge.v1.Annotations":               down(downAnnotations),
	"mcpbridge.v1.PromptMessage":             down(downPromptMessage),
	"mcpbridge.v1.Completion":                down(downCompletion),
	"mcpbridge.v1.InputRequest":              down(downInputRequest),
	"mcpbridge.v1.ElicitRequest":             down(downElicitRequest),
	"mcpbridge.v1.ElicitForm":                down(downElicitForm),
	"mcpbridge.v1.ElicitUrl":                 down(downElicitURL),
	"mcpbridge.v1.CreateMessageRequest":      down(downCreateMessageRequest),
	"mcpbridge.v1.CreateMessageResult":       down(downCreateMessageResult),
	"mcpbridge.v1.SamplingMessage":           down(downSamplingMessage),
	"mcpbridge.v1.InputRequired":             modernOnly,
	"mcpbridge.v1.ListenRequest":             modernOnly,
	"mcpbridge.v1.SubscriptionsAcknowledged": modernOnly,
}

// down makes a downFunc from a function for one message type.
func down[M proto.Message](f func(M, bridge.Revision) (M, error)) downFunc {
	return func(m proto.Message, rev bridge.Revision) (proto.Message, error) { return f(m.(M), rev) }
}

func unsupported(what string, rev bridge.Revision) error {
	return fmt.Errorf("%s is not supported in %s", what, rev)
}

// modernOnly rejects messages that legacy revisions do not have.
func modernOnly(m proto.Message, rev bridge.Revision) (proto.Message, error) {
	if !rev.Modern() {
		return nil, unsupported(string(m.ProtoReflect().Descriptor().Name()), rev)
	}
	return m, nil
}

// downTool moves the title to where the revision has it (2025-03-26: ToolAnnotations.title), and drops an output
// schema that is not an object schema where it has to be.
func downTool(t *pb.Tool, rev bridge.Revision) (*pb.Tool, error) {
	if t.Title != nil && !rev.HasToolTitle() && t.GetAnnotations().GetTitle() == "" {
		t = bridge.ShallowCopy(t)
		a := &pb.ToolAnnotations{}
		if t.GetAnnotations() != nil {
			a = bridge.ShallowCopy(t.Annotations)
		}
		a.Title = t.Title
		t.Annotations = a
	}
	if _, anyValue := rev.HasStructuredContent(); !anyValue && len(t.GetOutputSchema()) > 0 {
		if typ, _ := rawjson.String(rawjson.Get(rawjson.AsBytes(t.OutputSchema), "type")); typ != "object" {
			t = bridge.ShallowCopy(t)
			t.OutputSchema = ""
		}
	}
	return t, nil
}

// downCallToolResult converts structured content to text where the revision lacks it, unless there is text already
// (2025-06-18 and later: server/tools, structured content).
func downCallToolResult(r *pb.CallToolResult, rev bridge.Revision) (*pb.CallToolResult, error) {
	content, keep, err := downStructured(r.GetStructuredContent(), r.GetContent(), rev)
	if keep || err != nil {
		return r, err
	}
	r = bridge.ShallowCopy(r)
	r.Content, r.StructuredContent = content, nil
	return r, nil
}

func downToolResultContent(r *pb.ToolResultContent, rev bridge.Revision) (*pb.ToolResultContent, error) {
	content, keep, err := downStructured(rawjson.AsBytes(r.GetStructuredContent()), r.GetContent(), rev)
	if keep || err != nil {
		return r, err
	}
	r = bridge.ShallowCopy(r)
	r.Content, r.StructuredContent = content, ""
	return r, nil
}

// downStructured reports whether structured content can stay. If not, it returns the content to send.
func downStructured(
	structured []byte, content []*pb.ContentBlock, rev bridge.Revision,
) (_ []*pb.ContentBlock, keep bool, _ error) {
	has, anyValue := rev.HasStructuredContent()
	if len(structured) == 0 || has && (anyValue || rawjson.IsObject(structured)) {
		return nil, true, nil
	}
	isText := func(b *pb.ContentBlock) bool { return b.GetText() != nil }
	if slices.ContainsFunc(content, isText) {
		return content, false, nil
	}
	text, err := rawjson.AppendChecked(nil, structured)
	if err != nil {
		return nil, false, at(fmt.Errorf("is not strict JSON: %w", err), "structuredContent")
	}
	return append(slices.Clip(content), textBlock(rawjson.AsString(text), nil)), false, nil
}

// downContentBlock converts a block whose type the revision lacks: older clients reject a message with an unknown
// type.
func downContentBlock(b *pb.ContentBlock, rev bridge.Revision) (*pb.ContentBlock, error) {
	if !rev.HasAudio() && b.GetAudio() != nil {
		audio := b.GetAudio()
		return &pb.ContentBlock{Block: &pb.ContentBlock_Resource{Resource: &pb.EmbeddedResource{
			Resource: &pb.ResourceContents{
				Uri:      contentURI(audio.GetData()),
				MimeType: &audio.MimeType,
				Body:     &pb.ResourceContents_Blob{Blob: audio.GetData()},
			},
			Annotations: audio.GetAnnotations(),
		}}}, nil
	}
	if b.GetRaw() != "" && !rev.Modern() {
		return textBlock(b.GetRaw(), nil), nil
	}
	if link := b.GetResourceLink(); link != nil && !rev.HasResourceLinks() {
		return textBlock(link.GetName()+": "+link.GetUri(), link.GetAnnotations()), nil
	}
	return b, nil
}

// downAnnotations omits unknown roles: older clients reject a message with one.
func downAnnotations(a *pb.Annotations, rev bridge.Revision) (*pb.Annotations, error) {
	if !slices.ContainsFunc(a.GetAudience(), func(role string) bool { return downRole(role, rev) != nil }) {
		return a, nil
	}
	a = bridge.ShallowCopy(a)
	a.Audience = slices.DeleteFunc(slices.Clone(a.GetAudience()),
		func(role string) bool { return downRole(role, rev) != nil })
	return a, nil
}

// downRole returns an error if a revision lacks a role.
func downRole(role string, rev bridge.Revision) error {
	if rev.Modern() || role == "user" || role == "assistant" || role == "" {
		return nil
	}
	return at(unsupported(rawjson.Shorten(quote(role)), rev), "role")
}

func downPromptMessage(m *pb.PromptMessage, rev bridge.Revision) (*pb.PromptMessage, error) {
	return m, downRole(m.GetRole(), rev)
}

func textBlock(text string, a *pb.Annotations) *pb.ContentBlock {
	return &pb.ContentBlock{Block: &pb.ContentBlock_Text{Text: &pb.TextContent{Text: text, Annotations: a}}}
}

// contentURI returns the RFC 6920 URI of data, its hash.
func contentURI(data []byte) string {
	hash := sha256.Sum256(data)
	return "ni:///sha-256;" + base64.RawURLEncoding.EncodeToString(hash[:])
}

// maxCompletions is the maximum number of values of a completion (every revision: server/utilities/completion).
const maxCompletions = 100

// downCompletion truncates the values.
func downCompletion(c *pb.Completion, _ bridge.Revision) (*pb.Completion, error) {
	if len(c.GetValues()) <= maxCompletions {
		return c, nil
	}
	c = bridge.ShallowCopy(c)
	if c.Total == nil {
		c.Total = proto.Int64(int64(len(c.Values)))
	}
	c.Values, c.HasMore = c.Values[:maxCompletions], proto.Bool(true)
	return c, nil
}

// downInputRequest rejects requests that legacy clients cannot have declared support for.
func downInputRequest(r *pb.InputRequest, rev bridge.Revision) (*pb.InputRequest, error) {
	if r.GetRaw() != "" && !rev.Modern() {
		return nil, unsupported("another request than those of MCP", rev)
	}
	return r, nil
}

func downElicitRequest(r *pb.ElicitRequest, rev bridge.Revision) (*pb.ElicitRequest, error) {
	if r.GetRaw() != "" && !rev.Modern() {
		return nil, unsupported("another mode than form and url", rev)
	}
	return r, nil
}

// downElicitForm converts the form's schema to a revision with fewer types of fields.
func downElicitForm(f *pb.ElicitForm, rev bridge.Revision) (*pb.ElicitForm, error) {
	schema := rawjson.AsBytes(f.GetRequestedSchema())
	if rev.HasTitledEnums() && rev.HasMultiSelect() && rev.HasFormDefaults() || !rawjson.IsObject(schema) {
		return f, nil
	}
	if err := rawjson.Check(schema); err != nil {
		return nil, at(fmt.Errorf("is not strict JSON: %w", err), "requestedSchema")
	}
	schema, err := downFormSchema(schema, rev)
	if err != nil {
		return nil, at(err, "requestedSchema")
	}
	f = bridge.ShallowCopy(f)
	f.RequestedSchema = rawjson.AsString(schema)
	return f, nil
}

// downFormSchema returns the schema of a form without `$schema`, and with converted properties.
func downFormSchema(schema []byte, rev bridge.Revision) ([]byte, error) {
	out := encoder{dst: []byte{'{'}}
	for name, value := range rawjson.Members(schema) {
		switch {
		case string(name) == "$schema":
		case string(name) == "properties" && rawjson.IsObject(value):
			fields := encoder{dst: []byte{'{'}}
			for name, property := range rawjson.Members(value) {
				property, err := downFormField(property, rev)
				if err != nil {
					return nil, at(at(err, entry(string(name))), "properties")
				}
				fields.member(string(name), property)
			}
			out.member(string(name), append(fields.dst, '}'))
		default:
			out.member(string(name), value)
		}
	}
	return append(out.dst, '}'), nil
}

// downFormField converts the schema of a form field: titled choices to `enumNames`, and no default except of
// booleans, as in 2025-06-18.
func downFormField(field []byte, rev bridge.Revision) ([]byte, error) {
	if !rawjson.IsObject(field) {
		return field, nil
	}
	typ, _ := rawjson.String(rawjson.Get(field, "type"))
	if typ == "array" && !rev.HasMultiSelect() {
		return nil, unsupported("a choice of several values", rev)
	}
	out := encoder{dst: []byte{'{'}}
	for name, value := range rawjson.Members(field) {
		switch {
		case string(name) == "oneOf" && rawjson.IsArray(value) && !rev.HasTitledEnums():
			enum, names := []byte{'['}, []byte{'['}
			for choice := range rawjson.Elements(value) {
				constant, title := rawjson.Get(choice, "const"), rawjson.Get(choice, "title")
				if constant == nil {
					return nil, at(unsupported("a choice without const", rev), "oneOf")
				}
				if title == nil {
					title = constant
				}
				enum, names = appendElement(enum, constant), appendElement(names, title)
			}
			out.member("enum", append(enum, ']'))
			out.member("enumNames", append(names, ']'))
		case string(name) == "default" && typ != "boolean" && !rev.HasFormDefaults():
		default:
			out.member(string(name), value)
		}
	}
	return append(out.dst, '}'), nil
}

func appendElement(array, value []byte) []byte {
	if len(array) > 1 {
		array = append(array, ',')
	}
	return append(array, value...)
}

// downElicitURL generates the required elicitationId (2025-11-25: client/elicitation, URL mode).
func downElicitURL(u *pb.ElicitUrl, rev bridge.Revision) (*pb.ElicitUrl, error) {
	if u.ElicitationId != nil || !rev.HasElicitationID() {
		return u, nil
	}
	u = bridge.ShallowCopy(u)
	u.ElicitationId = proto.String(rand.Text())
	return u, nil
}

// downCreateMessageRequest splits messages into messages of one block each, where a message has one.
func downCreateMessageRequest(r *pb.CreateMessageRequest, rev bridge.Revision) (*pb.CreateMessageRequest, error) {
	if !rev.HasSamplingTools() {
		if len(r.GetTools()) > 0 {
			return nil, at(unsupported("a tool for the model", rev), "tools")
		}
		if r.GetToolChoice() != nil {
			return nil, at(unsupported("a tool for the model", rev), "toolChoice")
		}
	}
	one := func(m *pb.SamplingMessage) bool { return len(m.GetContent()) == 1 }
	several := func(m *pb.SamplingMessage) bool { return !one(m) }
	if rev.HasSamplingLists() || !slices.ContainsFunc(r.GetMessages(), several) {
		return r, nil
	}
	var messages []*pb.SamplingMessage
	for _, m := range r.GetMessages() {
		for _, b := range m.GetContent() {
			single := bridge.ShallowCopy(m)
			single.Content = []*pb.ContentBlock{b}
			messages = append(messages, single)
		}
	}
	r = bridge.ShallowCopy(r)
	r.Messages = messages
	return r, nil
}

func downSamplingMessage(m *pb.SamplingMessage, rev bridge.Revision) (*pb.SamplingMessage, error) {
	if !rev.HasSamplingLists() && len(m.GetContent()) != 1 {
		return nil, at(unsupported(fmt.Sprintf("a message of %d blocks", len(m.GetContent())), rev), "content")
	}
	return m, cmp.Or(downRole(m.GetRole(), rev), downSamplingContent(m.GetContent(), rev))
}

// downCreateMessageResult joins text blocks where a result has one block.
func downCreateMessageResult(r *pb.CreateMessageResult, rev bridge.Revision) (*pb.CreateMessageResult, error) {
	err := cmp.Or(downRole(r.GetRole(), rev), downSamplingContent(r.GetContent(), rev))
	if err != nil || rev.HasSamplingLists() || len(r.GetContent()) == 1 {
		return r, err
	}
	var texts []string
	for _, b := range r.GetContent() {
		if b.GetText() == nil {
			return nil, at(unsupported(fmt.Sprintf("an answer of %d blocks", len(r.GetContent())), rev), "content")
		}
		texts = append(texts, b.GetText().GetText())
	}
	r = bridge.ShallowCopy(r)
	r.Content = []*pb.ContentBlock{textBlock(strings.Join(texts, "\n"), nil)}
	return r, nil
}

// downSamplingContent rejects audio where sampling lacks it. The conversion to an embedded resource is not possible,
// as sampling lacks those, too.
func downSamplingContent(content []*pb.ContentBlock, rev bridge.Revision) error {
	for i, b := range content {
		if b.GetAudio() != nil && !rev.HasAudio() {
			return at(at(unsupported(`"audio"`, rev), index(i)), "content")
		}
	}
	return nil
}
