package mcpbridge

import (
	"cmp"
	"encoding/base64"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"mime"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/google/jsonschema-go/jsonschema"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// The messages of the contract that handlers return and receive. Set further fields directly.
type (
	// Content is one block of a tool's result or a prompt, created by Text, Image, Audio, Embedded or Link.
	Content = pb.ContentBlock
	// Result is the whole result of a tool, for exact control.
	Result = pb.CallToolResult
	// Contents is the content of a resource, for exact control.
	Contents = pb.ResourceContents
	// Message is one message of a prompt, created by User or Assistant.
	Message = pb.PromptMessage
)

// Text returns text content.
func Text(s string) *Content {
	return &pb.ContentBlock{Block: &pb.ContentBlock_Text{Text: &pb.TextContent{Text: text(s)}}}
}

// Image returns an image, of a media type such as "image/png".
func Image(data []byte, mimeType string) *Content {
	return &pb.ContentBlock{Block: &pb.ContentBlock_Image{Image: &pb.ImageContent{Data: data, MimeType: mimeType}}}
}

// ImageFile returns the image in a file.
func ImageFile(name string) (*Content, error) {
	data, err := os.ReadFile(name)
	return Image(data, mediaType(name, "image/png")), err
}

// Audio returns audio, of a media type such as "audio/wav".
func Audio(data []byte, mimeType string) *Content {
	return &pb.ContentBlock{Block: &pb.ContentBlock_Audio{Audio: &pb.AudioContent{Data: data, MimeType: mimeType}}}
}

// AudioFile returns the audio in a file.
func AudioFile(name string) (*Content, error) {
	data, err := os.ReadFile(name)
	return Audio(data, mediaType(name, "audio/wav")), err
}

func mediaType(name, otherwise string) string {
	if t := mime.TypeByExtension(filepath.Ext(name)); t != "" {
		return t
	}
	return otherwise
}

// Embedded returns an embedded resource: text, bytes, or any JSON value. If mimeType is empty, it depends on the value.
func Embedded(uri string, data any, mimeType string) (*Content, error) {
	contents, err := contentsOf(data, uri, mimeType)
	resource := &pb.EmbeddedResource{Resource: contents}
	return &pb.ContentBlock{Block: &pb.ContentBlock_Resource{Resource: resource}}, err
}

// Link returns a link to a resource, which clients may read. If name is empty, the last part of the URI is used.
func Link(uri, name string) *Content {
	if name == "" {
		name = path.Base(uri)
	}
	return &pb.ContentBlock{Block: &pb.ContentBlock_ResourceLink{ResourceLink: &pb.Resource{Uri: uri, Name: name}}}
}

// User returns a message of the user in a prompt: text, or Content.
func User[T string | *Content](content T) *Message { return message("user", content) }

// Assistant returns a message of the model in a prompt: text, or Content.
func Assistant[T string | *Content](content T) *Message { return message("assistant", content) }

func message(role string, content any) *Message {
	block, ok := content.(*Content)
	if !ok {
		block = Text(content.(string))
	}
	return &pb.PromptMessage{Role: role, Content: block}
}

// None is the result type of a tool without a result.
type None struct{}

// Tools.

// failure returns an error result for the model.
func failure(message string) *Result {
	failed := true
	return &pb.CallToolResult{Content: []*pb.ContentBlock{Text(message)}, IsError: &failed}
}

// resultOf returns the result of a tool that returned v, whose type has no schema.
func resultOf(v any) (*Result, error) {
	switch v := v.(type) {
	case string:
		return &pb.CallToolResult{Content: []*pb.ContentBlock{Text(v)}}, nil
	case *Result:
		if v == nil {
			return nil, errors.New("the tool returned a nil *Result and no error")
		}
		return v, nil
	case *Content:
		return &pb.CallToolResult{Content: []*pb.ContentBlock{v}}, nil
	case []*Content:
		return &pb.CallToolResult{Content: v}, nil
	case nil, None, struct{}:
		return &pb.CallToolResult{}, nil
	}
	text, err := marshal(v)
	if err != nil {
		return nil, notRepresentable(err)
	}
	return structured(text, text[0] != '{'), nil
}

// structured returns a result of JSON. Structured content is an object in MCP, with its text as content for clients
// that do not support it.
func structured(value []byte, wrap bool) *Result {
	r := &pb.CallToolResult{Content: []*pb.ContentBlock{Text(string(value))}, StructuredContent: value}
	if wrap {
		r.StructuredContent = append(append([]byte(`{"result":`), value...), '}')
	}
	return r
}

// notRepresentable returns the error of a value that JSON cannot represent, with its path.
func notRepresentable(err error) error {
	e, ok := errors.AsType[*json.SemanticError](err)
	if !ok {
		return err
	}
	what, why := "of no Go type", ""
	if e.GoType != nil {
		what = e.GoType.String()
	}
	if e.Err != nil {
		if value, ok := strings.CutPrefix(e.Err.Error(), "unsupported value: "); ok {
			what = cmp.Or(map[string]string{"+Inf": "Infinity", "-Inf": "-Infinity"}[value], value)
		} else {
			why = ": " + e.Err.Error()
		}
	}
	at := strings.ReplaceAll(strings.TrimPrefix(string(e.JSONPointer), "/"), "/", ".")
	return fmt.Errorf("%s is %s, which JSON cannot represent%s", shorten([]byte(cmp.Or(at, "the value"))), what, why)
}

// An output converts a T to a result.
type output[T any] struct {
	schema string // empty if there is none
	wrap   bool
	limits *node // constraints of the values besides the type; may be nil
}

func outputOf[T any]() (output[T], error) {
	var o output[T]
	t := reflect.TypeFor[T]()
	switch t {
	case reflect.TypeFor[string](), reflect.TypeFor[*Result](), reflect.TypeFor[*Content](),
		reflect.TypeFor[[]*Content](),
		reflect.TypeFor[None](), reflect.TypeFor[struct{}](), reflect.TypeFor[any]():
		return o, nil
	case reflect.TypeFor[[]byte]():
		return o, errors.New("a tool cannot return bytes: return Image(data, mimeType), Audio(data, mimeType) or text")
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	s, err := schemaOf(t, nil)
	if err != nil {
		return o, fmt.Errorf("it returns %s, which JSON cannot represent: %w", t, err)
	}
	n, err := compile(s)
	if err != nil {
		return o, err
	}
	if n.limits() {
		o.limits = n
	}
	if o.wrap = s.Type != "object"; o.wrap {
		s = &jsonschema.Schema{
			Type: "object", Properties: map[string]*jsonschema.Schema{"result": s}, Required: []string{"result"},
		}
	}
	o.schema, err = schemaText(s)
	return o, err
}

func schemaText(s *jsonschema.Schema) (string, error) {
	text, err := stdjson.Marshal(s)
	return string(text), err
}

func (o *output[T]) write(v T) (*Result, error) {
	if o.schema == "" {
		return resultOf(v)
	}
	text, err := marshal(v)
	switch {
	case err != nil:
		return nil, notRepresentable(err)
	case !o.wrap && text[0] != '{':
		return nil, fmt.Errorf("the tool returned %s and no error, and its results are objects", text)
	}
	if o.limits != nil {
		if _, wrong := o.limits.check(text); wrong != nil {
			return nil, fmt.Errorf("the tool returned what its return type does not allow:\n%s",
				strings.Join(wrong, "\n"))
		}
	}
	return structured(text, o.wrap), nil
}

// Resources.

// contentsOf returns the contents of a resource that returned v: text, bytes, or JSON.
func contentsOf(v any, uri, mimeType string) (*Contents, error) {
	c := &pb.ResourceContents{Uri: uri}
	usual := ""
	switch v := v.(type) {
	case *Contents:
		c = v
		if c.GetUri() == "" {
			c.Uri = uri
		}
	case string:
		c.Body, usual = &pb.ResourceContents_Text{Text: text(v)}, "text/plain"
	case []byte:
		c.Body, usual = &pb.ResourceContents_Blob{Blob: v}, "application/octet-stream"
	case nil:
		return nil, errors.New("a resource cannot be nil: return ErrNotFound if there is no such resource")
	default:
		content, err := marshal(v)
		if err != nil {
			return nil, notRepresentable(err)
		}
		c.Body, usual = &pb.ResourceContents_Text{Text: string(content)}, "application/json"
	}
	if mimeType == "" {
		mimeType = usual
	}
	if mimeType != "" && c.MimeType == nil {
		c.MimeType = &mimeType
	}
	return c, nil
}

// DataURI returns a data URI for an icon: Icon(DataURI(png, "image/png")).
func DataURI(data []byte, mimeType string) string {
	return "data:" + mimeType + ";base64," + base64.StdEncoding.EncodeToString(data)
}
