package catalog

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// noArguments are the default arguments.
var noArguments = []byte("{}")

// checkArguments validates the arguments of a call against the input schema of its tool, and returns the tool, or nil
// if it is unknown. refusal is the result of a call with invalid arguments.
func (c *Catalog) checkArguments(
	ctx context.Context, call *bridge.Call, r *pb.CallToolRequest,
) (t *tool, refusal *bridge.Result, err error) {
	if c.o.SkipArguments && c.o.SkipOutput && call.Header == nil && !c.servesTasks() {
		return nil, nil, nil
	}
	arrived := c.clock.Load()
	who := bridge.AudienceOf(r.GetContext())
	t, seek, changed := c.lookup(who, r.GetName())
	if seek || changed && call.Header != nil { // a header that was not declared before would not be validated
		newer, failed := c.find(ctx, who, call, r.GetName(), 0)
		if failed != nil && ctx.Err() != nil {
			return nil, nil, bridge.Canceled(ctx, false)
		}
		if err = failed; newer != nil {
			t = newer
		}
	}
	if call.Header != nil {
		if err := c.checkHeaders(ctx, call, r, &t, err, arrived); err != nil {
			return nil, nil, err
		}
	}
	if t == nil || c.o.SkipArguments { // the backend reports an unknown tool, or validates itself
		return t, nil, nil
	}
	arguments := r.GetArguments()
	if len(arguments) == 0 {
		arguments = noArguments
	}
	wrong, s, err := c.check(ctx, call, r, &t, input, arguments, arrived)
	switch {
	case err != nil: // the call was canceled
		return nil, nil, bridge.Canceled(ctx, false)
	case wrong == nil:
		return t, nil, nil
	case wrong.undecided:
		return nil, refused("The arguments of the tool %q could not be compared with its input schema, and it was "+
			"not called:%s\n"+
			"Call it with less at a time. If that is not possible, its schema must become simpler, "+
			"or mcpbridge be configured with skipArguments for its backend.", r.GetName(),
			wrong.lines("the arguments")), nil
	}
	return nil, refused("The arguments do not fit the tool %q, and it was not called:%s\nIt is called like this: %s",
		r.GetName(), wrong.lines("the arguments"), s.signature(r.GetName())), nil
}

// checkOutput validates the result of a tool against its output schema, and returns it or an error result. A result
// whose validation is undecidable is withheld, too: otherwise it would depend on the size of a result whether it is
// validated. If t is nil, the tool is unknown.
func (c *Catalog) checkOutput(
	ctx context.Context, call *bridge.Call, r *pb.CallToolRequest, t *tool, result *bridge.Result,
) (*bridge.Result, error) {
	out, ok := result.Complete.(*pb.CallToolResult)
	if !ok || c.o.SkipOutput || t == nil || t.output == nil || out.GetIsError() {
		return result, nil // the result of a failed tool need not conform (U-17)
	}
	returned := c.clock.Load()
	wrong, s, err := c.check(ctx, call, r, &t, output, out.GetStructuredContent(), returned)
	if err != nil {
		return nil, err
	}
	if wrong == nil {
		return result, nil
	}
	lines := wrong.lines("the structured content")
	if wrong.undecided {
		c.o.Log.Error().Str("tool", rawjson.ShortenTo(r.GetName(), c.o.Limits.ToolName)).
			Str("code", "ResourceExhausted").Str("reason", lines).
			Str("fix", "have the tool return less, make its output schema simpler, or set skipOutput for the backend").
			Msg("the result of the backend's tool is withheld: it could not be compared with the tool's output schema")
		return refused("The tool %q was called and did its work. Its result could not be compared with its output "+
			"schema, and is withheld:%s\n"+
			"To call it again does the work again. Have it return less at a time. If that is not possible, its "+
			"schema must become simpler, "+
			"or mcpbridge be configured with skipOutput for its backend.", r.GetName(), lines), nil
	}
	c.o.Log.Error().Str("tool", rawjson.ShortenTo(r.GetName(), c.o.Limits.ToolName)).Str("code", "Internal").
		Str("violation", lines).
		Msg("the backend's tool returned what its own output schema does not allow")
	return refused("The tool %q was called, and returned something that its own output schema does not allow. This "+
		"is a fault of the tool; "+
		"its result is withheld:%s\nIt should return: %s", r.GetName(), lines, s.shape()), nil
}

// A side is the input or the output of a tool.
type side struct {
	schema func(*tool) *schema
	// checked means that the text is known to be valid JSON.
	checked bool
	// maxBytes is the maximum size of the decoded value, in bytes.
	maxBytes int
}

var (
	input  = side{func(t *tool) *schema { return t.input }, true, maxArguments} // fronts reject invalid JSON
	output = side{func(t *tool) *schema { return t.output }, false, maxOutput}
)

// check returns why a value does not conform to a schema of a tool, and the schema. Before it returns a violation of a
// schema that may be outdated, it reads the list again, and sets t to the newer tool. It returns no violation if that
// fails.
func (c *Catalog) check(ctx context.Context, call *bridge.Call, r *pb.CallToolRequest, t **tool, of side, value []byte,
	after uint64,
) (*violation, *schema, error) {
	s := of.schema(*t)
	wrong := s.check(ctx, value, of)
	if wrong != nil && ctx.Err() != nil { // the context may be the cause
		return nil, nil, ctx.Err()
	}
	if wrong == nil || (*t).began > after {
		c.warnOnce(r.GetName(), s)
		return wrong, s, nil
	}
	newer, err := c.find(ctx, bridge.AudienceOf(r.GetContext()), call, r.GetName(), after)
	switch {
	case ctx.Err() != nil:
		return nil, nil, ctx.Err()
	case err != nil || newer == nil || of.schema(newer) == nil:
		return nil, nil, nil //nolint:nilerr // only a current list can reject a value
	}
	*t = newer
	if of.schema(newer) != s {
		s = of.schema(newer)
		if wrong = s.check(ctx, value, of); wrong != nil && ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
	}
	c.warnOnce(r.GetName(), s)
	return wrong, s, nil
}

// warnOnce logs once that a schema is invalid, or that parts of it are not checked.
func (c *Catalog) warnOnce(name string, s *schema) {
	if s.err == nil && s.skipped == nil {
		return
	}
	s.warned.Do(func() {
		if s.err != nil {
			c.warn("tool", name, "tool is not checked: its schema cannot be used", s.err)
			return
		}
		c.warn("tool", name, "tool is not wholly checked", s.skipped)
	})
}

// refused returns an error result of a tool.
func refused(format string, args ...any) *bridge.Result {
	text := fmt.Sprintf(format, args...)
	return &bridge.Result{Complete: &pb.CallToolResult{
		Content: []*pb.ContentBlock{{Block: &pb.ContentBlock_Text{Text: &pb.TextContent{Text: text}}}},
		IsError: proto.Bool(true),
	}}
}
