package interop

import (
	"bufio"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A server is a row of test/interop/servers/servers.json: a server of others with its features. Missing ones are nil.
type server struct {
	Command []string          `json:"command"`
	Env     map[string]string `json:"env,omitempty"`
	Path    string            `json:"path"` // of its URL, if it supports HTTP, at the port in PORT
	Tool    string            `json:"tool"`
	Call    call              `json:"call"`

	Progress *struct {
		call
		Steps []float64 `json:"steps"`
	} `json:"progress"`
	Ask *struct {
		call
		Answer    map[string]any `json:"answer"`
		Needs     string         `json:"needs"`
		Otherwise string         `json:"otherwise"`
	} `json:"ask"`
	Think  *call `json:"think"`
	Read   *struct{ URI, Contains string }
	Prompt *struct {
		Name      string
		Arguments map[string]string
		Contains  string
	}
	Complete *struct {
		Prompt, Argument, Value string
		Values                  []string
	}
}

type call struct {
	Name      string
	Arguments map[string]any
	Contains  string
}

// Servers of others work through the bridge with this SDK in every revision, over every transport.
func TestServers(t *testing.T) {
	servers, config := prepare(t)
	url, _ := listening(t, bridgeRun(t, "-c", config, "--http", "127.0.0.1:0"))
	for name, s := range servers {
		for _, r := range revisions {
			t.Run(name+"/"+r.revision+"/http", func(t *testing.T) {
				useServer(t, connect(t, r.revision, &mcp.StreamableClientTransport{Endpoint: url + "/" + name}), s)
			})
			t.Run(name+"/"+r.revision+"/stdio", func(t *testing.T) {
				cmd := bridgeRun(t, "-c", config, "--stdio", name)
				useServer(t, connect(t, r.revision, &mcp.CommandTransport{Command: cmd}), s)
				gone(t, []int{cmd.Process.Pid})
			})
			if r.era == "legacy" {
				t.Run(name+"/"+r.revision+"/sse", func(t *testing.T) {
					useServer(t, connect(t, r.revision, &mcp.SSEClientTransport{Endpoint: url + "/" + name}), s)
				})
			}
		}
	}
}

// The reference file server serves files below the roots of its client, which it requests when a session starts. Each
// client of the bridge reads its own files, from its first call on, and no others.
func TestRoots(t *testing.T) {
	servers, _ := prepare(t)
	command := servers["filesystem"].Command
	work := t.TempDir()
	for _, dir := range []string{"elsewhere", "a", "b"} {
		if err := os.Mkdir(filepath.Join(work, dir), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(work, dir, "file"), []byte("the file of "+dir), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	command[len(command)-1] = filepath.Join(work, "elsewhere")
	url, _ := listening(t, bridgeRun(t, append([]string{"--http", "127.0.0.1:0", "--mcp", "--"}, command...)...))
	for _, r := range revisions {
		t.Run(r.revision, func(t *testing.T) {
			for _, own := range []string{"a", "b", "a"} {
				client := mcp.NewClient(&mcp.Implementation{Name: "reader-of-" + own, Version: "1"}, nil)
				client.AddRoots(&mcp.Root{URI: "file://" + filepath.Join(work, own)}) //nolint:staticcheck // deprecated, and served all the same
				session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url},
					&mcp.ClientSessionOptions{ProtocolVersion: r.revision})
				if err != nil {
					t.Fatal(err)
				}
				for _, dir := range []string{"a", "b", "elsewhere"} {
					res, err := session.CallTool(t.Context(), &mcp.CallToolParams{
						Name: "read_text_file", Arguments: map[string]any{"path": filepath.Join(work, dir, "file")},
					})
					if err != nil {
						t.Fatal(err)
					}
					want := "Access denied"
					if dir == own {
						want = "the file of " + own
					}
					contains(t, resultText(res), want)
				}
				if err := session.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// prepare makes a directory for the servers, and a configuration of the bridge with all of them.
func prepare(t *testing.T) (map[string]server, string) {
	t.Helper()
	here, err := filepath.Abs("../servers")
	if err != nil {
		t.Fatal(err)
	}
	work := t.TempDir()
	table, err := os.ReadFile(filepath.Join(here, "servers.json"))
	if err != nil {
		t.Fatal(err)
	}
	servers := map[string]server{}
	if err := json.Unmarshal([]byte(strings.NewReplacer("{here}", here, "{work}", work).Replace(string(table))),
		&servers); err != nil {
		t.Fatal(err)
	}
	type backend struct {
		Name string         `json:"name"`
		MCP  map[string]any `json:"mcp"`
	}
	var backends []backend
	for name, s := range servers {
		mcp := map[string]any{"command": s.Command}
		if s.Env != nil {
			mcp["env"] = s.Env
		}
		if s.Path != "" {
			mcp = map[string]any{"url": "http://" + serve(t, s.Command) + s.Path}
		}
		backends = append(backends, backend{name, mcp})
	}
	config, err := json.Marshal(map[string]any{"version": 1, "backends": backends}) // JSON is YAML
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"mcpbridge.yaml": string(config),
		"hello.txt":      "Hello from a file",
		"memory.jsonl":   `{"type":"entity","name":"Ada","entityType":"person","observations":["wrote programs"]}`,
	} {
		if err := os.WriteFile(filepath.Join(work, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return servers, filepath.Join(work, "mcpbridge.yaml")
}

// freeAddress returns a free loopback address.
func freeAddress(t *testing.T) string {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	return free.Addr().String()
}

// serve starts an HTTP server with the port in PORT, and returns its address when it is ready.
func serve(t *testing.T, command []string) string {
	t.Helper()
	address := freeAddress(t)
	_, port, _ := net.SplitHostPort(address)
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "PORT="+port)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	endpoint := regexp.MustCompile(`(listening|running) on .*\b` + port + `\b`)
	listens, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		lines := bufio.NewScanner(stderr)
		for once := sync.OnceFunc(func() { close(listens) }); lines.Scan(); {
			if endpoint.MatchString(lines.Text()) {
				once()
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		_ = cmd.Wait()
	})
	select {
	case <-listens:
	case <-ended:
		t.Fatalf("%s does not listen", command)
	}
	return address
}

// useServer uses every feature that the server and the client's revision have.
func useServer(t *testing.T, v *visitor, s server) {
	t.Helper()
	defer v.session.Close()
	tools, err := v.session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(tools.Tools, func(tool *mcp.Tool) bool { return tool.Name == s.Tool }) {
		t.Errorf("%s is not among the tools", s.Tool)
	}
	contains(t, resultText(v.call(t, s.Call.Name, s.Call.Arguments)), s.Call.Contains)
	if p := s.Progress; p != nil {
		reports := v.progress(t.Name())
		params := &mcp.CallToolParams{Name: p.Name, Arguments: p.Arguments}
		params.SetProgressToken(t.Name())
		if _, err := v.callParams(t.Context(), params); err != nil {
			t.Fatal(err)
		}
		for _, want := range p.Steps {
			if got := soon(t, reports, "no progress"); got.Progress != want {
				t.Errorf("progress %v, want %v", got.Progress, want)
			}
		}
	}
	if a := s.Ask; a != nil {
		v.answer(&mcp.ElicitResult{Action: "accept", Content: a.Answer})
		result, err := v.callParams(t.Context(), &mcp.CallToolParams{Name: a.Name, Arguments: a.Arguments})
		switch {
		case err != nil:
			matches(t, a.Otherwise, err.Error())
		case result.IsError:
			matches(t, a.Otherwise, resultText(result))
		default:
			contains(t, resultText(result), a.Contains)
		}
		if asked := err == nil && !result.IsError; asked != v.canBeAsked(a.Needs) {
			t.Errorf("asked: %v", asked)
		}
	}
	if c := s.Think; c != nil {
		contains(t, resultText(v.call(t, c.Name, c.Arguments)), strings.TrimSuffix(c.Contains, "I do not know"))
	}
	if r := s.Read; r != nil {
		got, err := v.session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: r.URI})
		if err != nil {
			t.Fatal(err)
		}
		contains(t, got.Contents[0].Text, r.Contains)
	}
	if p := s.Prompt; p != nil {
		got, err := v.session.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: p.Name, Arguments: p.Arguments})
		if err != nil {
			t.Fatal(err)
		}
		text, _ := got.Messages[0].Content.(*mcp.TextContent)
		contains(t, text.Text, p.Contains)
	}
	if c := s.Complete; c != nil {
		got, err := v.session.Complete(t.Context(), &mcp.CompleteParams{
			Ref:      &mcp.CompleteReference{Type: "ref/prompt", Name: c.Prompt},
			Argument: mcp.CompleteParamsArgument{Name: c.Argument, Value: c.Value},
		})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.Completion.Values, c.Values) {
			t.Errorf("completed to %v, want %v", got.Completion.Values, c.Values)
		}
	}
}

func contains(t *testing.T, text, part string) {
	t.Helper()
	matches(t, regexp.QuoteMeta(part), text)
}

// canBeAsked reports whether the client can answer an input request. The SDK supports elicitation in every revision,
// but not every revision supports every input request.
func (v *visitor) canBeAsked(needs string) bool {
	return needs != "choices" || v.session.InitializeResult().ProtocolVersion >= "2025-11-25"
}

// A tool that runs as a task only can be called by clients without tasks, in every revision.
func TestToolThatRequiresTask(t *testing.T) {
	program, err := filepath.Abs("../servers/node_modules/@modelcontextprotocol/server-everything/dist/index.js")
	if err != nil {
		t.Fatal(err)
	}
	url, _ := listening(t, bridgeRun(t, "--http", "127.0.0.1:0", "--mcp", "--", "node", program))
	for _, r := range revisions {
		t.Run(r.revision, func(t *testing.T) {
			v := connect(t, r.revision, &mcp.StreamableClientTransport{Endpoint: url})
			res := v.call(t, "simulate-research-query", map[string]any{"topic": "tides", "ambiguous": false})
			contains(t, resultText(res), "# Research Report: tides")
		})
	}
}
