package mcpserver_test

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	"golang.org/x/tools/txtar"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/config"
	"github.com/mcpbridge/mcpbridge/internal/lifecycle"
	"github.com/mcpbridge/mcpbridge/internal/mcpjson"
	"github.com/mcpbridge/mcpbridge/internal/mcpserver"
	"github.com/mcpbridge/mcpbridge/internal/tasks"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

var update = flag.Bool("update", false, "write the output of the server into the transcripts")

const transcripts = "testdata/transcripts"

// TestTranscripts runs the conversations in testdata/transcripts, whose README describes the format.
func TestTranscripts(t *testing.T) {
	err := filepath.WalkDir(transcripts, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".txtar" {
			return err
		}
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.ToSlash(path), transcripts+"/"), ".txtar")
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { playFile(t, path) })
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// playFile runs the conversation of a file and compares the server's output with the file.
func playFile(t *testing.T, path string) {
	t.Helper()
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(archive.Comment), "20") {
		t.Errorf("%s does not begin with its subject and the clause of a revision", path)
	}
	files := map[string]*txtar.File{}
	for i := range archive.Files {
		files[archive.Files[i].Name] = &archive.Files[i]
	}
	text := func(name string) string {
		file := files[name]
		delete(files, name)
		if file == nil {
			return ""
		}
		return string(file.Data)
	}
	conversation := files["conversation"]
	if conversation == nil {
		t.Fatalf("%s has no conversation", path)
	}
	delete(files, "conversation")
	server := settings(t, text("server"))
	rule, withTasks := server["tasks"]
	delete(server, "tasks")
	options, backend := serverOptions(t, server), scriptedBackend(t, text("backend"))
	var policy tasks.Policy
	if withTasks {
		var err error
		if options.Tasks, err = tasks.New(tasks.Options{Log: options.Log}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { options.Tasks.Close() })
		policy = (&config.Tasks{After: strings.TrimPrefix(rule, "declared")}).Policy()
	}
	c := newConversation(t, options, backend, policy, settings(t, text("client")))
	for name := range files {
		t.Errorf("%s: unknown section %q", path, name)
	}
	got := c.play(string(conversation.Data))
	if *update {
		conversation.Data = []byte(got)
		if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(conversation.Data), got); diff != "" {
		t.Errorf("the conversation differs (-file +server); to accept it: go test ./internal/mcpserver -run "+
			"TestTranscripts -update\n%s", diff)
	}
}

// settings parses lines of the form "name: value". An indented line continues the previous value.
func settings(t *testing.T, text string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for line := range strings.Lines(strings.ReplaceAll(text, "\n"+indent, "")) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok {
			t.Fatalf("invalid setting %q, want \"name: value\"", line)
		}
		all[name] = value
	}
	return all
}

// serverOptions parses limits, by their keys in the configuration, and pollAfter.
func serverOptions(t *testing.T, set map[string]string) mcpserver.Options {
	t.Helper()
	o := mcpserver.Options{Log: zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel)}
	options := map[string]reflect.Value{"pollAfter": reflect.ValueOf(&o.PollAfter).Elem()}
	for field, value := range reflect.ValueOf(&o.Limits).Elem().Fields() {
		options[field.Tag.Get("koanf")] = value
	}
	for name, text := range set {
		option, ok := options[name]
		if !ok {
			t.Fatalf("unknown option %q", name)
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if option.Type() == reflect.TypeFor[time.Duration]() {
			var d time.Duration
			d, err = time.ParseDuration(text)
			n = int64(d)
		}
		if err != nil {
			t.Fatal(err)
		}
		option.SetInt(n)
	}
	return o
}

// A backend is a bridgetest.Handler with scripted results.
type backend struct {
	*bridgetest.Handler

	// results are by method, or by method and name: a result as JSON, or "error" and an error as JSON.
	results map[string]string
}

// scriptedBackend parses lines of the form "method: result" or "method name: result", where name is that of a tool,
// prompt, resource or page.
func scriptedBackend(t *testing.T, text string) *backend {
	t.Helper()
	return &backend{bridgetest.New(), settings(t, text)}
}

func (b *backend) Handle(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
	script, ok := b.results[call.Method.Name+" "+describeCall(call)]
	if !ok {
		script, ok = b.results[call.Method.Name]
	}
	if !ok {
		return b.Handler.Handle(ctx, call, emit)
	}
	if failure, fails := strings.CutPrefix(script, "error "); fails {
		e := &pb.JsonRpcError{}
		if err := mcpjson.Unmarshal([]byte(failure), e, bridge.Rev20260728); err != nil {
			return nil, err
		}
		return nil, bridge.FromJSONRPC(e, bridge.Rev20260728, call.Method)
	}
	if strings.HasPrefix(script, `{"inputRequests"`) {
		needs := &pb.InputRequired{}
		if err := mcpjson.Unmarshal([]byte(script), needs, bridge.Rev20260728); err != nil {
			return nil, err
		}
		return &bridge.Result{InputRequired: needs}, nil
	}
	res := call.Method.NewResult()
	if err := mcpjson.Unmarshal([]byte(script), res, bridge.Rev20260728); err != nil {
		return nil, err
	}
	return &bridge.Result{Complete: res}, nil
}

// describeCall returns the tool, prompt, resource or page of tools that a call refers to.
func describeCall(call *bridge.Call) string {
	switch r := call.Request.(type) {
	case *pb.CallToolRequest:
		if len(r.GetInputResponses()) > 0 {
			return r.GetName() + " answered"
		}
		return r.GetName()
	case *pb.GetPromptRequest:
		return r.GetName()
	case *pb.ReadResourceRequest:
		return r.GetUri()
	case *pb.ListToolsRequest:
		return r.GetCursor()
	}
	return ""
}

// An incident is an event other than a message, from a line that begins with "* ".
type incident struct {
	text *regexp.Regexp
	do   func(c *conversation, name string)
}

var incidents = []incident{
	{regexp.MustCompile(`^(\S+) pass(?:es)?$`), func(c *conversation, after string) {
		d, err := time.ParseDuration(after)
		if err != nil {
			c.t.Fatal(err)
		}
		bridgetest.Pass(d)
	}},
	{regexp.MustCompile(`^the client closes stdin$`), func(c *conversation, _ string) { c.stdin.Close() }},
	{
		regexp.MustCompile(`^the client disconnects(?: (\S+))?$`),
		func(c *conversation, label string) { c.exchange(label).cancel() },
	},
	{regexp.MustCompile(`^another client opens a session$`), func(c *conversation, _ string) { c.initialize() }},
	{
		regexp.MustCompile(`^the backend adds the tool (\S+)$`),
		func(c *conversation, name string) { c.backend.Add(name) },
	},
	{regexp.MustCompile(`^the backend adds the tool (\S+) with tasks$`), func(c *conversation, name string) {
		c.backend.AddTool(&pb.Tool{
			Name: name, InputSchema: `{"type":"object"}`,
			Execution: &pb.ToolExecution{TaskSupport: proto.String("optional")},
		})
	}},
	{
		regexp.MustCompile(`^the backend removes the tool (\S+)$`),
		func(c *conversation, name string) { c.backend.Remove(name) },
	},
	{regexp.MustCompile(`^the backend updates (\S+)$`), func(c *conversation, uri string) { c.backend.Update(uri) }},
	{regexp.MustCompile(`^the backend restarts$`), func(c *conversation, _ string) { c.backend.Drop() }},
	{regexp.MustCompile(`^the user completes the elicitation (\S+)$`), func(c *conversation, id string) {
		completed := &pb.ElicitationCompleted{ElicitationId: c.names.expand(id)}
		c.backend.Notify(&pb.ListenResponse{
			Event: &pb.ListenResponse_ElicitationCompleted{ElicitationCompleted: completed},
		})
	}},
	{regexp.MustCompile(`^the server drains$`), func(c *conversation, _ string) { c.life.Advance(lifecycle.Draining) }},
}

// happen executes an incident.
func (c *conversation) happen(line string) {
	c.t.Helper()
	for _, i := range incidents {
		if m := i.text.FindStringSubmatch(line); m != nil {
			i.do(c, strings.Join(m[1:], ""))
			return
		}
	}
	c.t.Fatalf("unknown incident %q", line)
}

// play sends the client's messages of a conversation and returns the conversation with the server's.
func (c *conversation) play(text string) string {
	c.t.Helper()
	var out strings.Builder
	var sent []string // lines of an incomplete request
	label := ""
	flush := func() {
		if sent != nil {
			c.send(label, sent)
		}
		sent = nil
		synctest.Wait()
		for _, line := range c.unplayed() {
			out.WriteString(wrap(line))
		}
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if serverLine.MatchString(line) || strings.HasPrefix(line, "= ") {
			continue // replaced by the actual output
		}
		from, message, isClient := cutClientLine(line)
		if rest, ok := strings.CutPrefix(message, indent); ok && sent != nil && from == label {
			sent[len(sent)-1] += c.names.expand(rest)
			out.WriteString(line + "\n")
			continue
		}
		if sent != nil && (!isClient || from != label || c.complete(sent)) {
			flush()
		}
		out.WriteString(line + "\n")
		switch {
		case isClient:
			label, sent = from, append(sent, c.names.expand(message))
		case strings.HasPrefix(line, "* "):
			c.happen(line[2:])
			flush()
		case line == "" || strings.HasPrefix(line, "#"):
		default:
			c.t.Fatalf("invalid line %q", line)
		}
	}
	flush()
	return out.String()
}

// indent precedes the continuation lines of a long message.
const indent = "  "

// wrap returns a line of the server as lines of at most 120 columns where it has commas of JSON.
func wrap(line string) string {
	const columns = 120
	var out strings.Builder
	prefix := strings.TrimRight(serverLine.FindString(line), " ") + " " + indent
	begin, comma, quoted := 0, 0, false
	for i := range len(line) {
		switch {
		case line[i] == '"' && (i == 0 || line[i-1] != '\\'):
			quoted = !quoted
		case line[i] == ',' && !quoted:
			comma = i + 1
		}
		if width := i + 1 - begin + len(prefix); width > columns && comma > begin {
			out.WriteString(line[begin:comma] + "\n" + prefix)
			begin = comma
		}
	}
	return out.String() + line[begin:] + "\n"
}

var (
	clientLine = regexp.MustCompile(`^([a-z0-9-]*)> (.*)$`)
	serverLine = regexp.MustCompile(`^([a-z0-9-]*)< `)
)

func cutClientLine(line string) (label, message string, ok bool) {
	m := clientLine.FindStringSubmatch(line)
	if m == nil {
		return "", "", false
	}
	return m[1], m[2], true
}

// Names are the short names, such as $session, of long or random texts.
type names struct {
	text map[string]string // by name
	name map[string]string // by text
}

var (
	randomText = regexp.MustCompile(
		`(?i)(?:(session|elicitation|task)Id"?[=:]"?|mcp-(session)-id: |"request(state)":")([A-Za-z0-9+/_=-]{26,})`)
	eventTag   = regexp.MustCompile(`^(id: )([A-Z2-7]{6})\.`)
	nameInText = regexp.MustCompile(`\$[a-zA-Z]+[0-9]*`)
)

// shorten replaces random texts in a line of the server by their names.
func (n *names) shorten(line string) string {
	for _, m := range randomText.FindAllStringSubmatch(line, -1) {
		n.add(strings.ToLower(m[1]+m[2]+m[3]), m[4])
	}
	if m := eventTag.FindStringSubmatch(line); m != nil {
		n.add("stream", m[2])
	}
	for text, name := range n.name {
		line = strings.ReplaceAll(line, text, name)
	}
	return line
}

// add assigns a name to a text unless it has one.
func (n *names) add(name, text string) {
	if n.name[text] != "" {
		return
	}
	unique := "$" + name
	for i := 2; n.text[unique] != ""; i++ {
		unique = fmt.Sprint("$", name, i)
	}
	n.text[unique], n.name[text] = text, unique
}

// expand replaces names by their texts.
func (n *names) expand(line string) string {
	return nameInText.ReplaceAllStringFunc(line, func(name string) string {
		if text, ok := n.text[name]; ok {
			return text
		}
		return name
	})
}
