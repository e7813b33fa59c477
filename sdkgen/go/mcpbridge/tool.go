package mcpbridge

import (
	"context"
	"errors"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/proto"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A tool is a function that a model can call.
type tool struct {
	definition
	message *pb.Tool
	schema  string // its own input schema, if it is not that of its type
	output  string // its own output schema
	ui      string // the URI of its user interface, if it has one
	call    func(context.Context, []byte) (*pb.CallToolResult, error)
	err     error // of an option
}

// Tool adds a tool. In is a struct, whose fields are the arguments, or a map. Out is the type of the result:
//
//   - string is text; *Content and []*Content are content; *Result is the whole result; None is empty.
//   - any other JSON value is structured content, with an output schema.
//
// The text of an error becomes an error result for the model; the error is also logged, unless it is a ToolError.
// *Error is returned as exactly that JSON-RPC error. The context is canceled when the call is canceled.
func Tool[In, Out any](a *App, name, description string, fn func(context.Context, In) (Out, error),
	opts ...ToolOption,
) {
	t := &tool{definition: define(a, "tool", name), message: &pb.Tool{Name: name}}
	if description != "" {
		t.message.Description = &description
	}
	for _, o := range opts {
		o.toTool(t)
	}
	if !t.checkName() {
		return
	}
	if t.err = errors.Join(t.err, t.setUI()); t.err != nil {
		t.wrong("%w", t.err)
		return
	}
	in, err := inputOf[In](name, t.schema)
	if err != nil {
		t.wrong("its arguments: %w", err)
		return
	}
	out, err := outputOf[Out]()
	if err != nil {
		t.wrong("%w", err)
		return
	}
	t.message.InputSchema, t.message.OutputSchema = in.schema, out.schema
	if t.output != "" {
		t.message.OutputSchema = t.output
	}
	t.call = func(ctx context.Context, arguments []byte) (*pb.CallToolResult, error) {
		v, err := in.readArguments(name, arguments)
		if err != nil {
			return nil, err
		}
		result, err := fn(ctx, v)
		if err != nil {
			return nil, err
		}
		return out.write(result)
	}
	add(t.definition, &a.tools, t, func(t *tool) string { return t.at }, kinds{tools: true})
}

type toolOption func(*tool)

func (o toolOption) toTool(t *tool) { o(t) }

func hint(set func(*pb.ToolAnnotations)) ToolOption {
	return toolOption(func(t *tool) {
		if t.message.Annotations == nil {
			t.message.Annotations = &pb.ToolAnnotations{}
		}
		set(t.message.GetAnnotations())
	})
}

// Hints for clients. By default, clients assume a destructive tool in an open world.

// ReadOnly declares that the tool has no side effects.
func ReadOnly() ToolOption {
	return hint(func(a *pb.ToolAnnotations) { a.ReadOnlyHint = proto.Bool(true) })
}

// Destructive declares whether the tool may destroy something.
func Destructive(may bool) ToolOption {
	return hint(func(a *pb.ToolAnnotations) { a.DestructiveHint = &may })
}

// Idempotent declares that the tool is idempotent.
func Idempotent() ToolOption {
	return hint(func(a *pb.ToolAnnotations) { a.IdempotentHint = proto.Bool(true) })
}

// OpenWorld declares whether the tool interacts with external systems.
func OpenWorld(does bool) ToolOption {
	return hint(func(a *pb.ToolAnnotations) { a.OpenWorldHint = &does })
}

// OutputSchema sets the schema of a tool's structured content, if the type cannot express it. The bridge validates
// results against it.
func OutputSchema(schema string) ToolOption {
	return toolOption(func(t *tool) {
		if t.output = schema; !jsontext.Value(schema).IsValid() {
			t.err = errors.New("its output schema is not JSON")
		}
	})
}

// InputSchema sets the schema of a tool's arguments, if the type cannot express it. Arguments are validated against it
// before they are decoded; a map[string]any or json.RawMessage accepts any arguments.
func InputSchema(schema string) ToolOption {
	return toolOption(func(t *tool) { t.schema = schema })
}
