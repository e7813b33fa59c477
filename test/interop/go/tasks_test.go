package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A taskServer is a server with tools that run as tasks.
type taskServer struct {
	era     string // of its tasks, or empty for a backend of the bridge
	command []string
	calls   []taskCall
	// direct are the clients that can use its tasks directly. If nil, they are those of its era.
	direct []string
}

// A taskCall is the call of a tool as a task, with its expected end.
type taskCall struct {
	Tool      string         `json:"tool"`
	Arguments map[string]any `json:"arguments"`
	Answer    map[string]any `json:"answer,omitempty"`
	Cancel    bool           `json:"cancel,omitempty"`

	text   string // a part of the result
	failed bool
}

// A taskClient is a program that calls tools as tasks. It receives a list of taskVisit, and writes one of taskReport.
type taskClient struct {
	era     string
	command []string
	lists   bool // it has tasks/list

	rows    []string // the names of visits
	visits  []taskVisit
	reports []taskReport
	err     error
}

type taskVisit struct {
	URL   string     `json:"url"`
	Calls []taskCall `json:"calls"`
}

type taskReport struct {
	Outcomes []taskOutcome `json:"outcomes"`
	Unknown  int           `json:"unknown"` // the code of the error for an unknown task
}

// A taskOutcome is the end of a task for a client.
type taskOutcome struct {
	Task   bool            `json:"task"`
	Listed bool            `json:"listed"`
	Status string          `json:"status"`
	Error  string          `json:"error"`
	Result json.RawMessage `json:"result"`
}

func taskServers(t *testing.T) map[string]taskServer {
	t.Helper()
	here := absolute(t, "../servers")
	python := filepath.Join(here, ".venv", "bin", "python")
	work := taskCall{Tool: "work", Arguments: map[string]any{"text": "it"}, text: "did it"}
	ask := taskCall{
		Tool: "ask", Arguments: map[string]any{}, Answer: map[string]any{"name": "Ada"}, text: "hi Ada",
	}
	fail := taskCall{Tool: "fail", Arguments: map[string]any{}, text: "no luck", failed: true}
	linger := taskCall{Tool: "linger", Arguments: map[string]any{}, Cancel: true}
	research := taskCall{
		Tool: "simulate-research-query", Arguments: map[string]any{"topic": "python", "ambiguous": true},
		Answer: map[string]any{"interpretation": "programming"}, text: "# Research Report: python (programming)",
	}
	abandoned := taskCall{Tool: research.Tool, Arguments: map[string]any{"topic": "tides"}, Cancel: true}
	return map[string]taskServer{
		"backend": {
			command: []string{
				fromEnv("MCPBRIDGE_PYTHON", absolute(t, "../../../.venv/bin/python")),
				filepath.Join(here, "tasks", "backend.py"),
			},
			calls: []taskCall{work, ask, fail, linger},
		},
		"everything": {
			era: "legacy",
			command: []string{
				"node",
				filepath.Join(here, "node_modules", "@modelcontextprotocol", "server-everything", "dist", "index.js"),
			},
			calls: []taskCall{research, abandoned},
		},
		"fastmcp-2": {
			era: "legacy",
			command: []string{
				filepath.Join(here, "2025", ".venv", "bin", "python"), filepath.Join(here, "tasks", "fast2025.py"),
			},
			calls:  []taskCall{work, fail, linger},
			direct: []string{}, // no task in the response to tools/call, which only the client of FastMCP 2 expects
		},
		"fastmcp-4": {
			era:     "modern",
			command: []string{python, filepath.Join(here, "tasks", "fast.py")},
			calls:   []taskCall{work, ask, fail, linger},
		},
		"rmcp": {
			era:     "modern",
			command: []string{filepath.Join(here, "both", "rust", "target", "debug", "tasks")},
			calls:   []taskCall{work, ask, fail, linger},
			direct:  []string{"sdk-2-modern", "mcp-2"}, // rmcp requires Mcp-Name, which FastMCP 4 does not send
		},
	}
}

func taskClients(t *testing.T) map[string]*taskClient {
	t.Helper()
	here, node := absolute(t, "../servers"), absolute(t, "../ts/tasks.mjs")
	python := filepath.Join(here, ".venv", "bin", "python")
	older := filepath.Join(here, "2025", ".venv", "bin", "python")
	program := func(name string) string { return filepath.Join(here, "tasks", name) }
	return map[string]*taskClient{
		"sdk-1":        {era: "legacy", command: []string{"node", node, "sdk-1"}, lists: true},
		"sdk-2-legacy": {era: "legacy", command: []string{"node", node, "sdk-2-legacy"}},
		"sdk-2-modern": {era: "modern", command: []string{"node", node, "sdk-2-modern"}},
		"mcp-1":        {era: "legacy", command: []string{older, program("mcp1.py")}, lists: true},
		"mcp-2":        {era: "modern", command: []string{python, program("mcp2.py")}},
		"fastmcp-4":    {era: "modern", command: []string{python, program("fastmcp4.py")}},
	}
}

// Clients of other libraries call tools as tasks, of servers of both eras and of a backend. They get the same results
// directly, if they have the server's era, and through the bridge, which launches the server or connects to it.
func TestTasksOfOthers(t *testing.T) {
	servers := taskServers(t)
	direct, bridged := map[string]string{}, map[string]string{}
	var backends []map[string]any
	for name, s := range servers {
		if s.era == "" {
			backends = append(backends, map[string]any{"name": name, "launch": map[string]any{"command": s.command}})
			bridged[name] = name
			continue
		}
		command := s.command
		if name == "everything" {
			command = append(slices.Clone(command), "streamableHttp")
		}
		direct[name] = "http://" + serve(t, command) + "/mcp"
		// Otherwise, legacy clients of a server of both eras are served in their era, in which it has no tasks.
		backends = append(backends,
			map[string]any{"name": name + "-stdio", "mcp": map[string]any{"command": s.command, "revision": s.era}},
			map[string]any{"name": name + "-http", "mcp": map[string]any{"url": direct[name], "revision": s.era}})
		bridged[name+"-stdio"], bridged[name+"-http"] = name, name
	}
	url, _ := listening(t, bridgeRun(t, "-c", configOf(t, backends), "--http", "127.0.0.1:0"))
	clients := taskClients(t)
	var all sync.WaitGroup
	defer all.Wait()
	for name, client := range clients {
		for _, server := range slices.Sorted(maps.Keys(direct)) {
			if s := servers[server]; s.direct == nil && s.era == client.era || slices.Contains(s.direct, name) {
				client.add(server, direct[server], s)
			}
		}
		for _, backend := range slices.Sorted(maps.Keys(bridged)) {
			client.add(backend+" through the bridge", url+"/"+backend, servers[bridged[backend]])
		}
		all.Go(func() { client.visit(t.Context()) }) // all at once: they mostly wait for tasks
	}
	all.Wait()
	for name, client := range clients {
		t.Run(name, func(t *testing.T) {
			if client.err != nil {
				t.Fatal(client.err)
			}
			for i, report := range client.reports {
				client.check(t, client.rows[i], client.visits[i].Calls, report)
			}
		})
	}
}

func (c *taskClient) add(row, url string, s taskServer) {
	c.rows, c.visits = append(c.rows, row), append(c.visits, taskVisit{url, s.calls})
}

// visit runs the program.
func (c *taskClient) visit(ctx context.Context) {
	in, err := json.Marshal(c.visits)
	if err != nil {
		c.err = err
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.command[0], append(slices.Clone(c.command[1:]), string(in))...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		c.err = fmt.Errorf("%w: %s", err, stderr.String())
		return
	}
	if c.err = json.Unmarshal(out, &c.reports); c.err == nil && len(c.reports) != len(c.visits) {
		c.err = fmt.Errorf("%d reports of %d visits", len(c.reports), len(c.visits))
	}
}

// check compares the outcomes with the expected ones, which are those of every server.
func (c *taskClient) check(t *testing.T, row string, calls []taskCall, report taskReport) {
	t.Helper()
	if report.Unknown != -32602 {
		t.Errorf("%s: the error for an unknown task has the code %d", row, report.Unknown)
	}
	for i, call := range calls {
		got := report.Outcomes[i]
		want := taskOutcome{Task: true, Listed: c.lists, Status: "completed"}
		switch {
		case call.Cancel:
			want.Status = "cancelled"
		case call.failed && c.era == "legacy": // 2026-07-28 has this status for JSON-RPC errors only
			want.Status = "failed"
		}
		var result struct {
			Content []struct{ Text string }
			IsError bool
		}
		if len(got.Result) > 0 {
			if err := json.Unmarshal(got.Result, &result); err != nil {
				t.Fatal(err)
			}
		}
		got.Result = nil
		var text string
		if len(result.Content) == 1 {
			text = result.Content[0].Text
		}
		if !reflect.DeepEqual(got, want) || !strings.Contains(text, call.text) || result.IsError != call.failed {
			t.Errorf("%s: %s: %+v with %q, want %+v with %q", row, call.Tool, got, text, want, call.text)
		}
	}
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
