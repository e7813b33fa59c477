package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mcphttp"
	"github.com/mcpbridge/mcpbridge/internal/mcpjson"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

const (
	// maxKnown is the maximum number of cached tools of all callers, maxCallers that of callers, and maxText that of
	// bytes of their schemas. Above them, the least recently used caller is evicted.
	maxKnown   = 65_536
	maxCallers = 4_096
	maxText    = 16 << 20
	// searchInterval is the minimum interval between requests for a caller's unknown tools.
	searchInterval = 5 * time.Second
)

// entries describes the entries of each kind of list: the field of the list that contains them, and the field that
// identifies one.
var entries = [kinds]struct {
	method     *bridge.Method
	what       string
	field, key protoreflect.Name
}{
	kindTools:     {bridge.ListTools, "tool", "tools", "name"},
	kindPrompts:   {bridge.ListPrompts, "prompt", "prompts", "name"},
	kindResources: {bridge.ListResources, "resource", "resources", "uri"},
	kindTemplates: {bridge.ListResourceTemplates, "template", "resource_templates", "uri_template"},
}

// clean returns a list without the entries that would break clients, and the names of the remaining tools. prior are
// the pages before it. Some clients reject a whole list because of one entry.
func (c *Catalog) clean(k listKind, who bridge.Audience, l proto.Message, prior []*page) (proto.Message, []string) {
	l = withoutNegativeTTL(l)
	rev, _ := bridge.ParseRevision(who.Version)
	seen := map[string]bool{}
	for _, p := range prior {
		for _, name := range p.names {
			seen[name] = true
		}
	}
	row := entries[k]
	field := l.ProtoReflect().Descriptor().Fields().ByName(row.field)
	all := l.ProtoReflect().Get(field).List()
	kept := l.ProtoReflect().NewField(field).List()
	var names []string
	changed := false
	for i := range all.Len() {
		m := all.Get(i).Message()
		key := m.Get(m.Descriptor().Fields().ByName(row.key)).String()
		if len(seen) >= c.o.Limits.Tools {
			c.warn(row.what, key, "tools dropped from here on", fmt.Errorf("there are more than %d", c.o.Limits.Tools))
			changed = true
			break
		}
		good, err := m.Interface(), error(nil)
		t, isTool := good.(*pb.Tool)
		switch {
		case isTool:
			if good, err = c.cleanTool(t); err == nil && seen[key] {
				err = errors.New("there is another tool of the same name before it")
			}
		case key == "":
			err = fmt.Errorf("it has no %s", row.key)
		}
		if err == nil {
			err = c.checkEncodable(good, rev)
		}
		if err != nil {
			c.warn(row.what, key, row.what+" dropped", err)
			changed = true
			continue
		}
		if isTool {
			seen[key], names = true, append(names, key)
		}
		changed = changed || good != m.Interface()
		kept.Append(protoreflect.ValueOfMessage(good.ProtoReflect()))
	}
	if !changed {
		return l, names
	}
	short := bridge.ShallowCopy(l) // the cached list is shared
	short.ProtoReflect().Set(field, protoreflect.ValueOfList(kept))
	return short, names
}

// checkEncodable returns why an entry cannot be encoded in a revision.
func (c *Catalog) checkEncodable(m proto.Message, rev bridge.Revision) error {
	if _, err := mcpjson.AppendWithin(nil, m, rev, &c.o.Limits); err != nil {
		return fmt.Errorf("its %w", err)
	}
	return nil
}

// cleanTool returns a tool without its invalid parts, or why it must be dropped.
func (c *Catalog) cleanTool(t *pb.Tool) (*pb.Tool, error) {
	if !goodName(t.GetName(), c.o.Limits.ToolName) {
		switch name := t.GetName(); {
		case name == "":
			return nil, errors.New("it has no name")
		case len(name) > c.o.Limits.ToolName:
			return nil, fmt.Errorf("its name has %d bytes, and %d are the most", len(name), c.o.Limits.ToolName)
		case strings.ContainsFunc(name, isHidden):
			return nil, errors.New("its name has invisible characters, or ones that change how others are displayed")
		}
		c.warn("tool", t.GetName(), "tool's name is not for every client",
			fmt.Errorf("it should be 1 to %d of letters, digits, '_', '-' and '.'", c.o.Limits.ToolName))
	}
	if text := rawjson.AsBytes(t.GetInputSchema()); len(text) > 0 {
		if err := c.checkSchema(text); err != nil {
			return nil, fmt.Errorf("its input schema is %w", err)
		}
		if typ, _ := rawjson.String(rawjson.Get(text, "type")); typ != "object" {
			return nil, errors.New("its input schema has not the type object")
		}
		if err := c.external(text); err != nil {
			return nil, fmt.Errorf("its input schema cannot be used: %w", err)
		}
	}
	if text := rawjson.AsBytes(t.GetOutputSchema()); len(text) > 0 {
		if err := c.checkSchema(text); err != nil {
			return nil, fmt.Errorf("its output schema is %w", err)
		}
		if err := c.external(text); err != nil {
			return nil, fmt.Errorf("its output schema cannot be used: %w", err)
		}
	}
	clean, errs := mcphttp.CleanSchema(rawjson.AsBytes(t.GetInputSchema()))
	for _, err := range errs {
		c.warn("tool", t.GetName(), "annotation dropped", err)
	}
	if len(errs) > 0 {
		t = proto.CloneOf(t)
		t.InputSchema = rawjson.AsString(clean)
	}
	return c.withTaskSupport(t), nil
}

// checkSchema returns why a text cannot be a schema of a tool.
func (c *Catalog) checkSchema(text []byte) error {
	if len(text) > c.o.Limits.Schema {
		return fmt.Errorf("too large: %d bytes, and at most %d are taken", len(text), c.o.Limits.Schema)
	}
	if err := rawjson.CheckWithin(text, &c.o.Limits); err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	if !rawjson.IsObject(text) {
		return errors.New("not a JSON object")
	}
	return checkSize(text, c.o.Limits.SchemaValues)
}

// external returns an error if a schema refers to another document. Such a tool is dropped (2026-07-28: an external
// reference that is not resolved should be rejected, TL-7). Few schemas must be compiled for this check.
func (c *Catalog) external(text []byte) error {
	if !mayBeExternal(text) {
		return nil
	}
	s := &schema{text: text, maxSubschemas: c.o.Limits.Subschemas}
	if s.compile(); errors.Is(s.err, errExternal) {
		return s.err
	}
	return nil
}

var references = []string{"$ref", "$dynamicRef", "$recursiveRef"}

// mayBeExternal reports whether a schema has a reference that does not begin with '#'.
func mayBeExternal(text []byte) bool {
	if !bytes.Contains(text, []byte("Ref")) && !bytes.Contains(text, []byte("$ref")) &&
		bytes.IndexByte(text, '\\') < 0 {
		return false
	}
	found := false
	each(text, func(name, value []byte, _ int) {
		n, _ := rawjson.Bytes(name)
		if s, ok := rawjson.String(value); ok && slices.Contains(references, string(n)) {
			found = found || s == "" || s[0] != '#'
		}
	})
	return found
}

// isHidden reports whether a character could make a name look like another one: a control character, a joiner, a change
// of direction, or a line end.
func isHidden(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co) || r == utf8.RuneError
}

// goodName reports whether every client accepts a name (2025-11-25: tool names).
func goodName(name string, most int) bool {
	for i := range len(name) {
		c := name[i]
		letter := c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9'
		if !letter && c != '_' && c != '-' && c != '.' {
			return false
		}
	}
	return name != "" && len(name) <= most
}

// tools are the known tools of a caller.
type tools struct {
	byName map[string]*tool // guarded by the Catalog's lock
	used   atomic.Uint64
	// nextSearch is the earliest time of the next search for an unknown tool, unless the tools have changed since
	// changes. Both are guarded by the Catalog's lock.
	nextSearch time.Time
	changes    uint64
}

// A tool has the schemas of a listed tool.
type tool struct {
	input, output *schema // output is nil if there is none
	execution     *pb.ToolExecution
	// began is when the list with the tool was requested, and changes are those of the list at that time.
	began, changes uint64
}

// recordTools records the tools of a page for a caller.
func (c *Catalog) recordTools(who bridge.Audience, l *pb.ListToolsResponse, p *page) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.known[who]
	if k == nil {
		k = &tools{byName: map[string]*tool{}}
		c.known[who] = k
	}
	k.used.Store(c.clock.Add(1))
	for _, t := range l.GetTools() {
		old := k.byName[t.GetName()]
		if old != nil && old.began > p.began {
			continue
		}
		if old == nil {
			if len(k.byName) >= c.o.Limits.Tools {
				c.count -= len(k.byName)
				clear(k.byName) // the backend's tools change all the time; called ones are found again
			}
			c.count++
		}
		k.byName[t.GetName()] = c.toolOf(t, old, p)
	}
	for (c.count > maxKnown || len(c.known) > maxCallers) && len(c.known) > 1 {
		c.evictCaller(who)
	}
	if c.text > maxText {
		// Schemas are shared between callers, so all are dropped together. Calls in flight keep theirs.
		c.schemas, c.text, c.count = map[string]*schema{}, 0, 0
		c.known = map[bridge.Audience]*tools{}
	}
}

// evictCaller evicts the least recently used caller, except one. The caller holds mu.
func (c *Catalog) evictCaller(but bridge.Audience) {
	var oldest bridge.Audience
	var least uint64
	for who, k := range c.known {
		if used := k.used.Load(); who != but && (least == 0 || used < least) {
			oldest, least = who, used
		}
	}
	c.count -= len(c.known[oldest].byName)
	delete(c.known, oldest)
}

// toolOf returns the tool of a list entry. The caller holds mu.
func (c *Catalog) toolOf(t *pb.Tool, old *tool, p *page) *tool {
	text := rawjson.AsBytes(t.GetInputSchema())
	if len(text) == 0 {
		text = anyObject
	}
	n := &tool{execution: t.GetExecution(), began: p.began, changes: p.changes}
	if old != nil && bytes.Equal(old.input.text, text) {
		n.input = old.input
	} else {
		n.input = c.schema(text)
	}
	if text = rawjson.AsBytes(t.GetOutputSchema()); len(text) > 0 {
		if old != nil && old.output != nil && bytes.Equal(old.output.text, text) {
			n.output = old.output
		} else {
			n.output = c.schema(text)
		}
	}
	return n
}

// schema returns the schema of a text. The caller holds mu.
func (c *Catalog) schema(text []byte) *schema {
	s := c.schemas[string(text)]
	if s == nil {
		s = &schema{text: text, maxSubschemas: c.o.Limits.Subschemas}
		c.schemas[string(text)] = s
		c.text += len(text)
	}
	return s
}

// lookup returns a cached tool, even if outdated, and whether the list should be requested: to find the tool, or
// because the list has changed since.
func (c *Catalog) lookup(who bridge.Audience, name string) (t *tool, seek, changed bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	k, changes := c.known[who], c.kinds[kindTools].changes
	if k == nil {
		return nil, true, false
	}
	k.used.Store(c.clock.Load())
	if known := k.byName[name]; known != nil {
		return known, false, known.changes != changes
	}
	return nil, !time.Now().Before(k.nextSearch) || k.changes != changes, false
}

// find searches for a tool, on behalf of a call, in pages that were requested after the given time, or if that is 0, in
// valid pages. It returns nil if the tool does not exist.
func (c *Catalog) find(ctx context.Context, who bridge.Audience, caller *bridge.Call, name string,
	after uint64,
) (*tool, error) {
	ctx, cancel := context.WithTimeout(ctx, limits.FindTimeout)
	defer cancel()
	cc := caller.Context()
	asker := &pb.CallContext{
		ProtocolVersion: cc.GetProtocolVersion(), ClientInfo: cc.GetClientInfo(),
		ClientCapabilities: cc.GetClientCapabilities(), Verified: cc.GetVerified(),
	}
	key := pageKey{kind: kindTools, caller: who}
	call := caller.With(bridge.ListTools, &pb.ListToolsRequest{Context: asker})
	seen := 0
	for range limits.ListPages {
		if err := ctx.Err(); err != nil { // cached pages do not check it
			return nil, err
		}
		p, err := c.page(ctx, key, call, after, func(context.Context, bridge.Event) error { return nil })
		if err != nil {
			return nil, err
		}
		if slices.Contains(p.names, name) {
			return c.toolOn(p, name), nil
		}
		if seen += len(p.names); p.next == nil || seen >= c.o.Limits.Tools || key.later && *p.next == key.cursor {
			break // the end, or a cursor that leads to itself
		}
		key = p.nextKey()
		call = caller.With(bridge.ListTools, &pb.ListToolsRequest{Context: asker, Cursor: p.next})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.known[who]; k != nil {
		k.nextSearch, k.changes = time.Now().Add(searchInterval), c.kinds[kindTools].changes
	}
	return nil, nil //nolint:nilnil // there is no such tool
}

// toolOn returns the tool on a page.
func (c *Catalog) toolOn(p *page, name string) *tool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.known[p.key.caller]; k != nil && k.byName[name] != nil && k.byName[name].began >= p.began {
		return k.byName[name]
	}
	for _, t := range p.answer.(*pb.ListToolsResponse).GetTools() {
		if t.GetName() == name {
			return c.toolOf(t, nil, p)
		}
	}
	return nil
}
