package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/yosida95/uritemplate/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

var listRows = []row{
	{
		name: "discover", does: "declares its name, version, capabilities and contract version",
		clause: inService + "DiscoverResponse",
		why:    "clients use no features that it does not declare",
		fix:    "answer Discover with server_info, capabilities and contract_version, the same every time",
		run:    checkDiscover,
	},
	{
		name: "lists", does: "lists what it has, page by page, the same every time",
		clause: inService + "ListToolsResponse",
		why:    "clients read lists to the end, and cache them",
		fix:    "omit next_cursor on the last page, return a new cursor on every other page, and keep the order",
		run: func(t *trial) {
			for _, l := range t.supported() {
				first, again := t.readAll(l), t.readAll(l)
				if !slices.EqualFunc(first, again, proto.Equal) {
					t.failf("%s differs between two calls", l.name())
				}
			}
		},
	},
	{
		name: "bad-cursor", does: "rejects unknown cursors", clause: inService + "ListToolsRequest",
		why: "a list that starts again has no end for the client",
		fix: "fail with INVALID_ARGUMENT for an unknown cursor; a list of one page has none",
		run: func(t *trial) {
			for _, l := range t.supported() {
				cursor := "mcpbridge-verify-no-such-cursor"
				_, _, err := l.page(t.ctx, t.backend, &cursor)
				t.checkCode(l.name()+" with an unknown cursor", err, codes.InvalidArgument)
			}
		},
	},
	{
		name: "definitions", does: "has names, URIs and schemas that clients can use", clause: inTool + "Tool",
		why: "clients reject invalid entries, often with the whole list",
		fix: "correct the definition",
		run: func(t *trial) {
			for _, l := range t.supported() {
				seen := map[string]bool{}
				for _, m := range t.readAll(l) {
					id := t.checkDefinition(m)
					if seen[id] {
						t.failf("%s has %s twice", l.name(), id)
					}
					seen[id] = true
				}
			}
		},
	},
	{
		name: "acknowledges", does: "acknowledges Listen at once if it declares changes", clause: inService + "Listen",
		why: "subscribers wait for it: changes before it may be lost",
		fix: "send the event `acknowledged`, with the notifications that will be sent, as soon as Listen is called",
		run: checkAcknowledgment,
	},
	{
		name: "unknown-names", does: "rejects unknown names, URIs and methods", clause: inErrors,
		why: "clients handle errors by their code",
		fix: "fail with NOT_FOUND for an unknown name or URI, and with UNIMPLEMENTED for an unknown method",
		run: checkUnknownNames,
	},
}

// A list is a list method.
type list struct{ *bridge.Method }

var lists = []list{{bridge.ListTools}, {bridge.ListResources}, {bridge.ListResourceTemplates}, {bridge.ListPrompts}}

func (l list) name() string { return path.Base(l.GRPC) }

// page returns the entries of a page, and the cursor of the next one.
func (l list) page(ctx context.Context, b *backend, cursor *string) (entries []proto.Message, next *string, err error) {
	req, res := l.NewRequest(testContext()), l.NewResult()
	*bridge.Cursor(req) = cursor
	if err := b.conn.Invoke(ctx, l.GRPC, req, res); err != nil {
		return nil, nil, err
	}
	res.ProtoReflect().Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		for i := 0; fd.IsList() && i < v.List().Len(); i++ {
			entries = append(entries, v.List().Get(i).Message().Interface())
		}
		return true
	})
	return entries, *bridge.PageOf(res).NextCursor, nil
}

// readAll reads a list to its end.
func (t *trial) readAll(l list) []proto.Message {
	var all []proto.Message
	size := 0
	seen := map[string]bool{}
	var cursor *string
	for range limits.ListPages {
		items, next, err := l.page(t.ctx, t.backend, cursor)
		if err != nil {
			if cursor == nil {
				t.failf("%s: %s", l.name(), errorText(err))
			} else {
				t.failf("%s with its own cursor %q: %s", l.name(), *cursor, errorText(err))
			}
			return nil
		}
		all = append(all, items...)
		for _, m := range items {
			size += proto.Size(m)
		}
		if size > limits.MaxMessage {
			t.failf("%s has more than %d bytes", l.name(), limits.MaxMessage)
			return nil
		}
		if next == nil {
			return all
		}
		if seen[*next] {
			t.failf("%s returns the cursor %q twice, so the list has no end", l.name(), *next)
			return nil
		}
		seen[*next], cursor = true, next
	}
	t.failf("%s has more than %d pages", l.name(), limits.ListPages)
	return nil
}

// supported returns the lists that the backend declares and implements.
func (t *trial) supported() []list {
	d, err := t.mcp.Discover(t.ctx, &pb.DiscoverRequest{Context: testContext()})
	if err != nil {
		t.failf("Discover: %s", errorText(err))
		return nil
	}
	return slices.DeleteFunc(slices.Clone(lists), func(l list) bool {
		if !l.SupportedBy(d.GetCapabilities()) {
			return true
		}
		_, _, err := l.page(t.ctx, t.backend, nil)
		return status.Code(err) == codes.Unimplemented
	})
}

// checkAcknowledgment subscribes to all declared changes.
func checkAcknowledgment(t *trial) {
	d, err := t.mcp.Discover(t.ctx, &pb.DiscoverRequest{Context: testContext()})
	if err != nil {
		return // the check "discover" reports it
	}
	c, yes := d.GetCapabilities(), true
	if !c.GetTools().GetListChanged() && !c.GetPrompts().GetListChanged() &&
		!c.GetResources().GetListChanged() && !c.GetResources().GetSubscribe() {
		return
	}
	l := t.listen(t.ctx, &pb.SubscriptionFilter{
		ToolsListChanged: &yes, PromptsListChanged: &yes, ResourcesListChanged: &yes,
	})
	defer l.stop()
	if m := l.next(); m.GetAcknowledged() == nil {
		t.failf("the first event of Listen is %v, want acknowledged", m)
	}
}

func checkDiscover(t *trial) {
	first, err := t.mcp.Discover(t.ctx, &pb.DiscoverRequest{Context: testContext()})
	if err != nil {
		t.failf("Discover: %s", errorText(err))
		return
	}
	again, err := t.mcp.Discover(t.ctx, &pb.DiscoverRequest{Context: testContext()})
	if err != nil || !proto.Equal(first, again) {
		t.failf("Discover differs between two calls")
	}
	if v := first.GetContractVersion(); v != bridge.ContractVersion {
		t.failf("contract_version is %d, want %d: the bridge refuses a backend with another version", v,
			bridge.ContractVersion)
	}
	if first.GetServerInfo().GetName() == "" {
		t.failf("server_info has no name")
	}
	if first.GetCapabilities() == nil {
		t.failf("capabilities are missing")
	}
	if len(first.GetSupportedVersions()) > 0 {
		t.failf("supported_versions is %v; the bridge sets it, so leave it empty", first.GetSupportedVersions())
	}
	t.checkObject("_meta of Discover", []byte(first.GetMeta()))
}

// checkObject checks that optional JSON is an object.
func (t *trial) checkObject(what string, text []byte) {
	if len(text) == 0 {
		return
	}
	var v map[string]json.RawMessage
	if err := json.Unmarshal(text, &v); err != nil {
		t.failf("%s is not a JSON object: %s", what, clip(string(text)))
	}
}

var toolName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

// checkDefinition checks one entry of a list, and returns its kind and name.
func (t *trial) checkDefinition(m proto.Message) string {
	var id string
	switch m := m.(type) {
	case *pb.Tool:
		id = fmt.Sprintf("tool %q", m.GetName())
		defer t.setWhere(id)()
		if !toolName.MatchString(m.GetName()) {
			t.failf("name must be 1 to 128 letters, digits, '_', '-' and '.'")
		}
		t.checkSchema("input schema", []byte(m.GetInputSchema()), true)
		t.checkSchema("output schema", []byte(m.GetOutputSchema()), false)
		t.checkTaskSupport(m.GetExecution().GetTaskSupport())
		t.checkObject("_meta", []byte(m.GetMeta()))
	case *pb.Resource:
		id = fmt.Sprintf("resource %q", m.GetUri())
		defer t.setWhere(id)()
		if u, err := url.Parse(m.GetUri()); err != nil || u.Scheme == "" {
			t.failf("URI has no scheme, such as file: or weather:")
		}
		if m.GetName() == "" {
			t.failf("name is missing")
		}
		t.checkObject("_meta", []byte(m.GetMeta()))
	case *pb.ResourceTemplate:
		id = fmt.Sprintf("resource template %q", m.GetUriTemplate())
		defer t.setWhere(id)()
		if _, err := uritemplate.New(m.GetUriTemplate()); err != nil {
			t.failf("URI template is not one of RFC 6570: %v", err)
		}
		if m.GetName() == "" {
			t.failf("name is missing")
		}
		t.checkObject("_meta", []byte(m.GetMeta()))
	case *pb.Prompt:
		id = fmt.Sprintf("prompt %q", m.GetName())
		defer t.setWhere(id)()
		if m.GetName() == "" {
			t.failf("name is missing")
		}
		var names []string
		for _, a := range m.GetArguments() {
			if a.GetName() == "" || slices.Contains(names, a.GetName()) {
				t.failf("name of an argument is missing or a duplicate: %q", a.GetName())
			}
			names = append(names, a.GetName())
		}
		t.checkObject("_meta", []byte(m.GetMeta()))
	}
	return id
}

// checkTaskSupport checks the support of a tool for tasks, which the backend must declare.
func (t *trial) checkTaskSupport(support string) {
	switch support {
	case "", "forbidden":
	case "optional", "required":
		d, err := t.mcp.Discover(t.ctx, &pb.DiscoverRequest{Context: testContext()})
		if err == nil && !bridge.ServesTasks(d.GetCapabilities()) {
			t.failf("task_support is %q, and Discover does not declare the extension %s", support,
				bridge.TasksExtension)
		}
	default:
		t.failf(`task_support is %q, want "forbidden", "optional" or "required"`, support)
	}
}

// checkSchema checks a schema of a tool. An input schema is required, and its type must be object.
func (t *trial) checkSchema(what string, text []byte, input bool) {
	if len(text) == 0 {
		if input {
			t.failf(`%s is missing; for a tool without arguments, it is {"type":"object"}`, what)
		}
		return
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.failf("%s is not JSON: %v", what, err)
		return
	}
	switch o, ok := v.(map[string]any); {
	case !ok:
		t.failf("%s is not a JSON object: %s", what, clip(string(text)))
		return
	case input && o["type"] != "object":
		t.failf(`%s does not have "type": "object": %s`, what, clip(string(text)))
		return
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	const at = "tool:schema"
	if err = c.AddResource(at, v); err == nil {
		_, err = c.Compile(at)
	}
	if err != nil {
		t.failf("%s is not a JSON Schema: %s", what, strings.ReplaceAll(err.Error(), at, ""))
	}
}

// noLoader rejects references to other documents.
type noLoader struct{}

// Load implements jsonschema.URLLoader.
func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s is another document; a schema must be self-contained", url)
}

func checkUnknownNames(t *trial) {
	const unknown = "mcpbridge-verify-nothing"
	d, err := t.mcp.Discover(t.ctx, &pb.DiscoverRequest{Context: testContext()})
	if err != nil {
		t.failf("Discover: %s", errorText(err))
		return
	}
	c := d.GetCapabilities()
	if c.GetTools() != nil {
		_, err := t.call(t.ctx, unknown, `{}`)
		t.checkCode("an unknown tool", err, codes.NotFound)
	}
	if c.GetResources() != nil {
		s, err := t.mcp.ReadResource(t.ctx, &pb.ReadResourceRequest{Context: testContext(), Uri: unknown + "://x"})
		if err == nil {
			_, err = s.Recv()
		}
		t.checkCode("an unknown resource", err, codes.NotFound)
	}
	if c.GetPrompts() != nil {
		s, err := t.mcp.GetPrompt(t.ctx, &pb.GetPromptRequest{Context: testContext(), Name: unknown})
		if err == nil {
			_, err = s.Recv()
		}
		t.checkCode("an unknown prompt", err, codes.NotFound)
	}
	if c.GetCompletions() != nil {
		prompt := &pb.CompletionReference_Prompt{Prompt: &pb.PromptReference{Name: unknown}}
		_, err := t.mcp.Complete(t.ctx, &pb.CompleteRequest{
			Context: testContext(), Reference: &pb.CompletionReference{Reference: prompt},
			Argument: &pb.CompletionArgument{Name: "x"},
		})
		t.checkCode("completion for an unknown prompt", err, codes.NotFound, codes.InvalidArgument)
	}
	err = t.conn.Invoke(t.ctx, "/mcpbridge.v1.McpService/"+"NoSuchMethod", &emptypb.Empty{}, &emptypb.Empty{})
	t.checkCode("an unknown method", err, codes.Unimplemented)
}
