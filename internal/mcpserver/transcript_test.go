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

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/lifecycle"
	"github.com/mcpbridge/mcpbridge/internal/mcpjson"
	"github.com/mcpbridge/mcpbridge/internal/mcpserver"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

var update = flag.Bool("update", false, "write what the server says into the transcripts")

const transcripts = "testdata/transcripts"

// TestTranscripts plays the conversations below testdata/transcripts, whose README describes the format.
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

// playFile plays the conversation of one file, and compares what the server says with what the file says.
func playFile(t *testing.T, path string) {
	t.Helper()
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(archive.Comment), "20") {
		t.Errorf("%s does not begin with what it shows, and the clause of which revision that is", path)
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
	options, backend := serverOptions(t, settings(t, text("server"))), scriptedBackend(t, text("backend"))
	c := newConversation(t, options, backend, settings(t, text("client")))
	for name := range files {
		t.Errorf("%s: there is no file %q in a transcript", path, name)
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

// settings reads lines of the form "name: value". A line that is indented goes on with the value before.
func settings(t *testing.T, text string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for line := range strings.Lines(strings.ReplaceAll(text, "\n"+indent, "")) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok {
			t.Fatalf("a setting is %q, not \"name: value\"", line)
		}
		all[name] = value
	}
	return all
}

// serverOptions reads limits, by their keys in the configuration, and pollAfter.
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
			t.Fatalf("there is no option %q", name)
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

// A backend is a bridgetest.Handler, some of whose results are those of a transcript.
type backend struct {
	*bridgetest.Handler

	// results are by method, or by method and name: a result in JSON, or "error" and an error in JSON.
	results map[string]string
}

// scriptedBackend reads lines of the form "method: result" or "method name: result": of a tool, prompt, resource, or
// page.
func scriptedBackend(t *testing.T, text string) *backend {
	t.Helper()
	return &backend{bridgetest.New(), settings(t, text)}
}

// Handle implements bridge.Handler.
func (b *backend) Handle(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
	script, ok := b.results[call.Method.Name+" "+about(call)]
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

// about returns which tool, prompt or resource a call is about, or which page of the tools.
func about(call *bridge.Call) string {
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

// An incident is something that happens besides messages: what a line that begins with "* " says.
type incident struct {
	says *regexp.Regexp
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
	{
		regexp.MustCompile(`^the backend removes the tool (\S+)$`),
		func(c *conversation, name string) { c.backend.Remove(name) },
	},
	{regexp.MustCompile(`^the backend updates (\S+)$`), func(c *conversation, uri string) { c.backend.Update(uri) }},
	{regexp.MustCompile(`^the backend restarts$`), func(c *conversation, _ string) { c.backend.Drop() }},
	{regexp.MustCompile(`^the user completes the elicitation (\S+)$`), func(c *conversation, id string) {
		completed := &pb.ElicitationCompleted{ElicitationId: c.names.expand(id)}
		c.backend.Tell(&pb.ListenResponse{
			Event: &pb.ListenResponse_ElicitationCompleted{ElicitationCompleted: completed},
		})
	}},
	{regexp.MustCompile(`^the server drains$`), func(c *conversation, _ string) { c.life.Advance(lifecycle.Draining) }},
}

// happen has happen what a line says.
func (c *conversation) happen(line string) {
	c.t.Helper()
	for _, i := range incidents {
		if m := i.says.FindStringSubmatch(line); m != nil {
			i.do(c, strings.Join(m[1:], ""))
			return
		}
	}
	c.t.Fatalf("%q is nothing that can happen", line)
}

// play has the client send what a conversation says, and returns the conversation with what the server answers.
func (c *conversation) play(text string) string {
	c.t.Helper()
	var out strings.Builder
	var sent []string // the lines of a request that is not complete
	label := ""
	flush := func() {
		if sent != nil {
			c.send(label, sent)
		}
		sent = nil
		synctest.Wait()
		for _, line := range c.news() {
			out.WriteString(wrap(line))
		}
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if serverLine.MatchString(line) || strings.HasPrefix(line, "= ") {
			continue // it is said anew
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
			c.t.Fatalf("%q is no line of a conversation", line)
		}
	}
	flush()
	return out.String()
}

// indent begins the further lines of a long message.
const indent = "  "

// wrap returns a line of the server as lines of at most 120 columns where it can be broken: after commas of its JSON.
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

// Names are the short names, such as $session, of texts that are long or random.
type names struct {
	text map[string]string // by name
	name map[string]string // by text
}

var (
	randomText = regexp.MustCompile(
		`(?i)(?:(session|elicitation)Id"?[=:]"?|mcp-(session)-id: |"request(state)":")([A-Za-z0-9+/_=-]{26,})`)
	eventTag   = regexp.MustCompile(`^(id: )([A-Z2-7]{6})\.`)
	nameInText = regexp.MustCompile(`\$[a-zA-Z]+[0-9]*`)
)

// shorten names what is random in a line of the server, and puts its names in.
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

// add names a text unless it has a name.
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

// expand puts in the texts for their names.
func (n *names) expand(line string) string {
	return nameInText.ReplaceAllStringFunc(line, func(name string) string {
		if text, ok := n.text[name]; ok {
			return text
		}
		return name
	})
}
