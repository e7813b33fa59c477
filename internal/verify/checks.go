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
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/yosida95/uritemplate/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/mtls"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// Where the clauses are.
const (
	inStart   = "docs/verify.md: Starting"
	inService = "proto/mcpbridge/v1/service.proto: "
	inInput   = "proto/mcpbridge/v1/input.proto: "
	inTool    = "proto/mcpbridge/v1/tool.proto: "
	inErrors  = "docs/errors.md"
)

// rows are the checks, in the order they are made in.
func rows() []row { return slices.Concat(starting(), listing(), calling(), ending()) }

// What is launched and listens.

func starting() []row {
	return []row{
		{
			name: "handshake", does: "says in one line where it listens, and how", clause: inStart, launch: true,
			why: "a host dials what this line says, and trusts only the certificate in it", fix: "use an SDK's run, or write the line as docs/verify.md says",
			run: func(t *trial) {
				for _, fault := range t.proc.faults(true) {
					t.wrong("%s", fault)
				}
			},
		},
		{
			name: "mutual-tls", does: "admits nobody but the bridge that started it", clause: inStart, launch: true,
			why: "whoever else is on this machine could call the tools", fix: "require and verify client certificates, and trust exactly those signed by " + clientCert,
			run: mutualTLS,
		},
		{
			name: "health", does: `answers health checks for "" and "plugin"`, clause: inStart,
			why: "the bridge takes a backend that does not for broken, and starts it anew", fix: `register grpc.health.v1.Health, and set "" and "plugin" to SERVING`,
			run: func(t *trial) {
				services := []string{""}
				if t.proc != nil {
					services = append(services, "plugin") // of which a host of go-plugin asks
				}
				for _, service := range services {
					res, err := t.health.Check(t.ctx, &grpc_health_v1.HealthCheckRequest{Service: service})
					if err != nil {
						t.wrong("health of %q: %s", service, problem(err))
					} else if res.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
						t.wrong("health of %q is %v and not SERVING", service, res.GetStatus())
					}
				}
				_, err := t.health.Check(t.ctx, &grpc_health_v1.HealthCheckRequest{Service: "mcpbridge-verify-no-such-service"})
				t.fails("health of a service that does not exist", err, codes.NotFound)
			},
		},
		{
			name: "by-hand", does: "tells a person who starts it by hand what to do, and ends", clause: inStart, launch: true,
			why: "without " + cookie + " nobody reads a handshake", fix: "write a friendly line to standard error and exit with 1 if " + cookie + " is not mcpbridge.v1",
			run: func(t *trial) { t.refuses(cookie) },
		},
		{
			name: "versions", does: "refuses a host whose version it does not speak", clause: inStart, launch: true,
			why: "a version that was not offered is one the host does not understand", fix: "compare " + versions + " with the versions of the contract you speak; if there is none, say so on standard error and exit with 1",
			run: func(t *trial) { t.refuses(versions + "=97,98") },
		},
		{
			name: "tcp", does: "listens at 127.0.0.1 where it is to use TCP", clause: inStart, launch: true,
			why: "not every system has unix sockets, and another address than 127.0.0.1 can be reached from the network", fix: "choose from " + transports + "; for tcp listen at 127.0.0.1, port 0",
			run: func(t *trial) {
				t.launched([]string{transports + "=tcp"}, func(b *backend) {
					if network := b.proc.fields()[2]; network != "tcp" {
						t.wrong("it listens at %s although %s=tcp", network, transports)
					}
					t.faultless(b, true)
				})
			},
		},
		{
			name: "stock-host", does: "makes its own certificate for a host that gives it none", clause: inStart, launch: true,
			why: "other hosts of go-plugin do not know " + keyPair, fix: "generate an ECDSA P-256 key and a self-signed certificate for localhost, or say on standard error what is missing and exit with 1",
			run: func(t *trial) {
				t.launchedOrRefused([]string{keyPair}, func(b *backend) { t.faultless(b, true) })
			},
		},
		{
			name: "plaintext", does: "serves without TLS where the host wants none", clause: inStart, launch: true,
			why: "a host without TLS cannot use a certificate, and some crash on one", fix: "without " + clientCert + " serve plaintext, and leave field 6 empty",
			run: func(t *trial) {
				t.launched([]string{clientCert, keyPair}, func(b *backend) { t.faultless(b, false) })
			},
		},
		{
			name: "multiplex", does: "says whether it does go-plugin's multiplexing", clause: inStart, launch: true,
			why: "a host that offers it waits for field 7 of the handshake", fix: "if " + multiplex + " is set, add field 7 to the handshake: false",
			run: func(t *trial) {
				p, err := t.d.start(t.ctx, multiplex+"=true")
				if err != nil {
					t.failedStart([]string{multiplex + "=true"}, err)
					return
				}
				defer p.stop()
				if f := p.fields(); len(f) < 7 || f[6] != "false" && f[6] != "true" {
					t.wrong("field 7 of the handshake is missing: %s", strings.Join(f[:5], "|"))
				}
			},
		},
	}
}

// mutualTLS tries to get in without the bridge's certificate.
func mutualTLS(t *trial) {
	f := t.proc.fields()
	cert, _ := certificate(f[5]) // what is wrong with it, the handshake's check says
	stranger, err := mtls.New()
	if err != nil {
		t.wrong("a key pair: %v", err)
		return
	}
	for _, try := range []struct {
		who    string
		dialer func() *backend
	}{
		{"a client without TLS", func() *backend { return dial(f[2], f[3], nil) }},
		{"a client without a certificate", func() *backend { return dial(f[2], f[3], pinned(cert)) }},
		{"a client with another certificate", func() *backend { return dial(f[2], f[3], pinned(cert, stranger.Client)) }},
	} {
		b := try.dialer()
		ctx, cancel := context.WithTimeout(t.ctx, 5*time.Second)
		_, err := b.mcp.Discover(ctx, &pb.DiscoverRequest{Context: caller()})
		cancel()
		_ = b.conn.Close()
		if err == nil {
			t.wrong("%s was let in", try.who)
		}
	}
}

// launched launches the program in another way, and dials it.
func (t *trial) launched(with []string, look func(*backend)) {
	p, err := t.d.start(t.ctx, with...)
	if err != nil {
		t.failedStart(with, err)
		return
	}
	b, err := p.connect(t.ctx)
	if err != nil {
		p.stop()
		t.failedStart(with, err)
		return
	}
	defer b.close()
	look(b)
}

// launchedOrRefused is launched for what a program may refuse, if it says why.
func (t *trial) launchedOrRefused(with []string, look func(*backend)) {
	p, err := t.d.spawn(with...)
	if err != nil {
		t.failedStart(with, err)
		return
	}
	select {
	case <-p.Context().Done():
		p.Finish()
		switch {
		case p.crashed():
			t.wrong("started with %s it crashed: %s", spelled(with), p.ExitReason())
		case p.ExitReason() == "exit status 0" || !p.spoke():
			t.wrong("started with %s it ended (%s) and did not say why on standard error", spelled(with), p.ExitReason())
		}
		p.stop()
		return
	case <-p.shaken:
		p.stop()
		t.launched(with, look)
	case <-time.After(t.d.o.StartTimeout):
		p.stop()
		t.wrong("started with %s it neither said where it listens nor ended", spelled(with))
	}
}

func (t *trial) failedStart(with []string, err error) {
	d := Defect{What: fmt.Sprintf("started with %s: %v", spelled(with), err)}
	if s, ok := err.(*StartError); ok { //nolint:errorlint // it is made here, and not wrapped
		d.Why = t.row.why + "\n" + s.Why
	}
	t.defect(d)
}

// spelled says how an environment differs from the usual one.
func spelled(with []string) string {
	var words []string
	for _, kv := range with {
		if !strings.Contains(kv, "=") {
			kv = "no " + kv
		}
		words = append(words, kv)
	}
	return strings.Join(words, " and ")
}

// faultless checks the handshake of another launch.
func (t *trial) faultless(b *backend, tlsWanted bool) {
	for _, fault := range b.proc.faults(tlsWanted) {
		t.wrong("%s", fault)
	}
}

// refuses checks that the program ends where it cannot serve, and says why.
func (t *trial) refuses(with string) {
	p, err := t.d.spawn(with)
	if err != nil {
		t.failedStart([]string{with}, err)
		return
	}
	defer p.stop()
	select {
	case <-p.Context().Done():
		p.Finish()
	case <-p.shaken:
		t.wrong("started with %s it says that it listens", spelled([]string{with}))
		return
	case <-time.After(t.d.o.StartTimeout):
		t.wrong("started with %s it goes on running", spelled([]string{with}))
		return
	}
	switch {
	case p.crashed():
		t.wrong("started with %s it crashes: %s", spelled([]string{with}), p.ExitReason())
	case p.ExitReason() == "exit status 0":
		t.wrong("started with %s it exits with 0, as if all were well", spelled([]string{with}))
	}
	if !p.spoke() {
		t.wrong("started with %s it says nothing on standard error", spelled([]string{with}))
	}
}

// spoke reports whether anything was printed to standard error.
func (p *process) spoke() bool {
	_, n := p.stderr.Read()
	return n > 0
}

// What there is.

// A list is a list method.
type list struct{ *bridge.Method }

var lists = []list{{bridge.ListTools}, {bridge.ListResources}, {bridge.ListResourceTemplates}, {bridge.ListPrompts}}

func (l list) name() string { return path.Base(l.GRPC) }

// page returns the entries of a page, and the cursor of the next one.
func (l list) page(ctx context.Context, b *backend, cursor *string) (entries []proto.Message, next *string, err error) {
	req, res := l.NewRequest(caller()), l.NewResult()
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

// whole reads a list to its end.
func (t *trial) whole(l list) []proto.Message {
	var all []proto.Message
	size := 0
	seen := map[string]bool{}
	var cursor *string
	for range maxPages {
		items, next, err := l.page(t.ctx, t.backend, cursor)
		if err != nil {
			if cursor == nil {
				t.wrong("%s: %s", l.name(), problem(err))
			} else {
				t.wrong("%s at cursor %q, which it said itself: %s", l.name(), *cursor, problem(err))
			}
			return nil
		}
		all = append(all, items...)
		for _, m := range items {
			size += proto.Size(m)
		}
		if size > maxMessage {
			t.wrong("%s has more than %d bytes", l.name(), maxMessage)
			return nil
		}
		if next == nil {
			return all
		}
		if seen[*next] {
			t.wrong("%s says the cursor %q twice, so the list has no end", l.name(), *next)
			return nil
		}
		seen[*next], cursor = true, next
	}
	t.wrong("%s has more than %d pages", l.name(), maxPages)
	return nil
}

// offered are the lists that the backend says it has. One that is UNIMPLEMENTED is empty.
func (t *trial) offered() []list {
	d, err := t.mcp.Discover(t.ctx, &pb.DiscoverRequest{Context: caller()})
	if err != nil {
		t.wrong("Discover: %s", problem(err))
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

func listing() []row {
	return []row{
		{
			name: "discover", does: "says what it is and what it has", clause: inService + "DiscoverResponse",
			why: "clients ask for nothing that it does not say it has", fix: "answer Discover with server_info and capabilities, the same every time",
			run: discovering,
		},
		{
			name: "lists", does: "lists what it has, page by page, the same every time", clause: inService + "ListToolsResponse",
			why: "clients read lists to the end, and keep them", fix: "next_cursor is absent on the last page and a new cursor on each other one; the order stays",
			run: func(t *trial) {
				for _, l := range t.offered() {
					first, again := t.whole(l), t.whole(l)
					if !slices.EqualFunc(first, again, proto.Equal) {
						t.wrong("%s is not the same twice", l.name())
					}
				}
			},
		},
		{
			name: "bad-cursor", does: "refuses a cursor that it has not said", clause: inService + "ListToolsRequest", why: "a list that begins anew has no end for the client",
			fix: "fail with INVALID_ARGUMENT for a cursor that is not yours; a list of one page has none",
			run: func(t *trial) {
				for _, l := range t.offered() {
					cursor := "mcpbridge-verify-no-such-cursor"
					_, _, err := l.page(t.ctx, t.backend, &cursor)
					t.fails(l.name()+" at a cursor that does not exist", err, codes.InvalidArgument)
				}
			},
		},
		{
			name: "definitions", does: "has names, URIs and schemas that clients can use", clause: inTool + "Tool",
			why: "clients refuse what is not valid, often all of the list", fix: "correct it where it is defined",
			run: func(t *trial) {
				for _, l := range t.offered() {
					seen := map[string]bool{}
					for _, m := range t.whole(l) {
						id := t.definition(m)
						if seen[id] {
							t.wrong("%s has %s twice", l.name(), id)
						}
						seen[id] = true
					}
				}
			},
		},
		{
			name: "acknowledges", does: "acknowledges a Listen at once if it declares changes", clause: inService + "Listen",
			why: "subscribers wait for it, and nobody knows from when on changes are sent",
			fix: "send the event `acknowledged`, with the notifications that will be sent, as soon as Listen is called",
			run: acknowledging,
		},
		{
			name: "unknown-names", does: "refuses what does not exist", clause: inErrors, why: "clients tell from the code what is wrong",
			fix: "fail with NOT_FOUND for a name or a URI that does not exist, and with UNIMPLEMENTED for a method",
			run: unknownNames,
		},
	}
}

// acknowledging listens to all that the backend declares.
func acknowledging(t *trial) {
	d, err := t.mcp.Discover(t.ctx, &pb.DiscoverRequest{Context: caller()})
	if err != nil {
		return // which another check says
	}
	c, yes := d.GetCapabilities(), true
	if !c.GetTools().GetListChanged() && !c.GetPrompts().GetListChanged() && !c.GetResources().GetListChanged() && !c.GetResources().GetSubscribe() {
		return
	}
	l := t.listen(t.ctx, &pb.SubscriptionFilter{ToolsListChanged: &yes, PromptsListChanged: &yes, ResourcesListChanged: &yes})
	defer l.stop()
	if m := l.next(); m.GetAcknowledged() == nil {
		t.wrong("the first event of Listen is not the acknowledgement but %v", m)
	}
}

func discovering(t *trial) {
	first, err := t.mcp.Discover(t.ctx, &pb.DiscoverRequest{Context: caller()})
	if err != nil {
		t.wrong("Discover: %s", problem(err))
		return
	}
	again, err := t.mcp.Discover(t.ctx, &pb.DiscoverRequest{Context: caller()})
	if err != nil || !proto.Equal(first, again) {
		t.wrong("Discover is not the same twice")
	}
	if first.GetServerInfo().GetName() == "" {
		t.wrong("server_info has no name")
	}
	if first.GetCapabilities() == nil {
		t.wrong("there are no capabilities")
	}
	if len(first.GetSupportedVersions()) > 0 {
		t.wrong("supported_versions is %v; the bridge says it, so leave it empty", first.GetSupportedVersions())
	}
	t.object("_meta of Discover", first.GetMeta())
}

// object checks that JSON that may be missing is an object.
func (t *trial) object(what string, text []byte) {
	if len(text) == 0 {
		return
	}
	var v map[string]json.RawMessage
	if err := json.Unmarshal(text, &v); err != nil {
		t.wrong("%s is not a JSON object: %s", what, clip(string(text)))
	}
}

var toolName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

// definition checks one entry of a list, and returns what it is.
func (t *trial) definition(m proto.Message) string {
	var id string
	switch m := m.(type) {
	case *pb.Tool:
		id = fmt.Sprintf("tool %q", m.GetName())
		defer t.at(id)()
		if !toolName.MatchString(m.GetName()) {
			t.wrong("its name is not 1 to 128 letters, digits, '_', '-' and '.'")
		}
		t.schema("input schema", m.GetInputSchema(), true)
		t.schema("output schema", m.GetOutputSchema(), false)
		t.object("_meta", m.GetMeta())
	case *pb.Resource:
		id = fmt.Sprintf("resource %q", m.GetUri())
		defer t.at(id)()
		if u, err := url.Parse(m.GetUri()); err != nil || u.Scheme == "" {
			t.wrong("its URI has no scheme, such as file: or weather:")
		}
		if m.GetName() == "" {
			t.wrong("it has no name")
		}
		t.object("_meta", m.GetMeta())
	case *pb.ResourceTemplate:
		id = fmt.Sprintf("resource template %q", m.GetUriTemplate())
		defer t.at(id)()
		if _, err := uritemplate.New(m.GetUriTemplate()); err != nil {
			t.wrong("its URI template is not one of RFC 6570: %v", err)
		}
		if m.GetName() == "" {
			t.wrong("it has no name")
		}
		t.object("_meta", m.GetMeta())
	case *pb.Prompt:
		id = fmt.Sprintf("prompt %q", m.GetName())
		defer t.at(id)()
		if m.GetName() == "" {
			t.wrong("it has no name")
		}
		var names []string
		for _, a := range m.GetArguments() {
			if a.GetName() == "" || slices.Contains(names, a.GetName()) {
				t.wrong("an argument has no name, or that of another: %q", a.GetName())
			}
			names = append(names, a.GetName())
		}
		t.object("_meta", m.GetMeta())
	}
	return id
}

// schema checks a schema of a tool: of its input, which there must be and which is of an object, or of its output.
func (t *trial) schema(what string, text []byte, input bool) {
	if len(text) == 0 {
		if input {
			t.wrong(`its %s is missing; a tool without arguments has {"type":"object"}`, what)
		}
		return
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.wrong("its %s is not JSON: %v", what, err)
		return
	}
	switch o, ok := v.(map[string]any); {
	case !ok:
		t.wrong("its %s is not a JSON object: %s", what, clip(string(text)))
		return
	case input && o["type"] != "object":
		t.wrong(`its %s does not have "type": "object": %s`, what, clip(string(text)))
		return
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	const at = "tool:schema"
	if err = c.AddResource(at, v); err == nil {
		_, err = c.Compile(at)
	}
	if err != nil {
		t.wrong("its %s is not a JSON Schema: %s", what, strings.ReplaceAll(err.Error(), at, ""))
	}
}

// noLoader loads nothing: a schema holds all it needs.
type noLoader struct{}

// Load implements jsonschema.URLLoader.
func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s is elsewhere; a schema must hold all it needs", url)
}

func unknownNames(t *trial) {
	const nothing = "mcpbridge-verify-nothing"
	d, err := t.mcp.Discover(t.ctx, &pb.DiscoverRequest{Context: caller()})
	if err != nil {
		t.wrong("Discover: %s", problem(err))
		return
	}
	can := d.GetCapabilities()
	if can.GetTools() != nil {
		_, err := t.call(t.ctx, nothing, `{}`)
		t.fails("a tool that does not exist", err, codes.NotFound)
	}
	if can.GetResources() != nil {
		s, err := t.mcp.ReadResource(t.ctx, &pb.ReadResourceRequest{Context: caller(), Uri: nothing + "://x"})
		if err == nil {
			_, err = s.Recv()
		}
		t.fails("a resource that does not exist", err, codes.NotFound)
	}
	if can.GetPrompts() != nil {
		s, err := t.mcp.GetPrompt(t.ctx, &pb.GetPromptRequest{Context: caller(), Name: nothing})
		if err == nil {
			_, err = s.Recv()
		}
		t.fails("a prompt that does not exist", err, codes.NotFound)
	}
	if can.GetCompletions() != nil {
		ref := &pb.CompletionReference{Reference: &pb.CompletionReference_Prompt{Prompt: &pb.PromptReference{Name: nothing}}}
		_, err := t.mcp.Complete(t.ctx, &pb.CompleteRequest{Context: caller(), Ref: ref, Argument: &pb.CompletionArgument{Name: "x"}})
		t.fails("completion for a prompt that does not exist", err, codes.NotFound, codes.InvalidArgument)
	}
	err = t.conn.Invoke(t.ctx, "/mcpbridge.v1.McpService/"+"NoSuchMethod", &emptypb.Empty{}, &emptypb.Empty{})
	t.fails("a method that does not exist", err, codes.Unimplemented)
}
