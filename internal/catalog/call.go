package catalog

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// noArguments are the arguments of a call that has none.
var noArguments = []byte("{}")

// checkArguments holds the arguments of a call against the input schema of its tool, and returns the tool, or nil if it is
// not known. A refusal is the result of a call whose arguments do not conform.
func (c *Catalog) checkArguments(
	ctx context.Context, call *bridge.Call, r *pb.CallToolRequest,
) (t *tool, refusal *bridge.Result, err error) {
	if c.o.SkipArguments && c.o.SkipOutput && call.Header == nil {
		return nil, nil, nil
	}
	arrived := c.clock.Load()
	who := bridge.AudienceOf(r.GetContext())
	t, seek, changed := c.lookup(who, r.GetName())
	if seek || changed && call.Header != nil { // a header that was not declared before would go unchecked
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
	if t == nil || c.o.SkipArguments { // the backend says that there is no such tool, or knows better
		return t, nil, nil
	}
	arguments := r.GetArguments()
	if len(arguments) == 0 {
		arguments = noArguments
	}
	wrong, s, err := c.check(ctx, call, r, &t, input, arguments, arrived)
	switch {
	case err != nil: // it was not to wait any longer
		return nil, nil, bridge.Canceled(ctx, false)
	case wrong == nil:
		return t, nil, nil
	case wrong.undecided:
		return nil, refused("The arguments of the tool %q could not be compared with its input schema, and it was not called:%s\n"+
			"Call it with less at a time. If that is not possible, its schema must become simpler, "+
			"or mcpbridge be configured with skipArguments for its backend.", r.GetName(), wrong.lines("the arguments")), nil
	}
	return nil, refused("The arguments do not fit the tool %q, and it was not called:%s\nIt is called like this: %s",
		r.GetName(), wrong.lines("the arguments"), s.signature(r.GetName())), nil
}

// checkOutput returns the result of a tool, if it conforms to the tool's output schema. One that could not be compared is
// withheld, too: whether results are checked is known of a tool from its first call on, and does not depend on how much it
// returns. If t is nil, the tool is not known.
func (c *Catalog) checkOutput(
	ctx context.Context, call *bridge.Call, r *pb.CallToolRequest, t *tool, result *bridge.Result,
) (*bridge.Result, error) {
	out, ok := result.Complete.(*pb.CallToolResult)
	if !ok || c.o.SkipOutput || t == nil || t.output == nil || out.GetIsError() {
		return result, nil // what a tool that failed returns need not conform (U-17)
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
		c.o.Log.Error().Str("tool", rawjson.ShortenTo(r.GetName(), c.o.Limits.ToolName)).Str("code", "ResourceExhausted").Str("reason", lines).
			Str("fix", "have the tool return less, make its output schema simpler, or set skipOutput for the backend").
			Msg("the result of the backend's tool is withheld: it could not be compared with the tool's output schema")
		return refused("The tool %q was called and did its work. Its result could not be compared with its output schema, and is withheld:%s\n"+
			"To call it again does the work again. Have it return less at a time. If that is not possible, its schema must become simpler, "+
			"or mcpbridge be configured with skipOutput for its backend.", r.GetName(), lines), nil
	}
	c.o.Log.Error().Str("tool", rawjson.ShortenTo(r.GetName(), c.o.Limits.ToolName)).Str("code", "Internal").Str("violation", lines).
		Msg("the backend's tool returned what its own output schema does not allow")
	return refused("The tool %q was called, and returned something that its own output schema does not allow. This is a fault of the tool; "+
		"its result is withheld:%s\nIt should return: %s", r.GetName(), lines, s.shape()), nil
}

// A side is what of a tool is checked.
type side struct {
	schema func(*tool) *schema
	// checked says that the text is known to be JSON.
	checked bool
	// most is how many bytes it may take decoded.
	most int
}

var (
	input  = side{func(t *tool) *schema { return t.input }, true, maxArguments} // fronts refuse what is not JSON
	output = side{func(t *tool) *schema { return t.output }, false, maxOutput}
)

// check returns why a value does not conform to a schema of a tool, and which schema that is; nil if it does, or if that is
// not known for sure. If the schema may be old, it looks for the tool anew, and leaves the newer one in t.
func (c *Catalog) check(ctx context.Context, call *bridge.Call, r *pb.CallToolRequest, t **tool, of side, value []byte, after uint64) (*violation, *schema, error) {
	s := of.schema(*t)
	wrong := s.check(ctx, value, of)
	if wrong != nil && ctx.Err() != nil { // it may be why
		return nil, nil, ctx.Err()
	}
	if wrong == nil || (*t).began > after {
		c.tell(r.GetName(), s)
		return wrong, s, nil
	}
	newer, err := c.find(ctx, bridge.AudienceOf(r.GetContext()), call, r.GetName(), after)
	switch {
	case ctx.Err() != nil:
		return nil, nil, ctx.Err()
	case err != nil || newer == nil || of.schema(newer) == nil:
		return nil, nil, nil //nolint:nilerr // without a list that is new there is no refusal
	}
	*t = newer
	if of.schema(newer) != s {
		s = of.schema(newer)
		if wrong = s.check(ctx, value, of); wrong != nil && ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
	}
	c.tell(r.GetName(), s)
	return wrong, s, nil
}

// tell logs once that a schema cannot be used.
func (c *Catalog) tell(name string, s *schema) {
	if s.err == nil && s.skipped == nil {
		return
	}
	s.told.Do(func() {
		if s.err != nil {
			c.warn("tool", name, "tool is not checked: its schema cannot be used", s.err)
			return
		}
		c.warn("tool", name, "tool is not wholly checked", s.skipped)
	})
}

// refused returns a tool's result that says why there is no other one.
func refused(format string, args ...any) *bridge.Result {
	text := fmt.Sprintf(format, args...)
	return &bridge.Result{Complete: &pb.CallToolResult{
		Content: []*pb.ContentBlock{{Block: &pb.ContentBlock_Text{Text: &pb.TextContent{Text: text}}}},
		IsError: proto.Bool(true),
	}}
}
