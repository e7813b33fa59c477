package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
)

// A tools/call passes at most ten functions from the socket to the backend, those that docs/architecture.md lists.
func TestHops(t *testing.T) {
	doc, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| \\d+ \\| `(.+?)` \\| `(.+?)` \\|").FindAllStringSubmatch(string(doc), -1) {
		listed = append(listed, row[2]+" "+row[1])
	}
	stack := hops(t)
	if !slices.Equal(stack, listed) {
		t.Errorf("docs/architecture.md lists\n%s\nand the stack is\n%s", strings.Join(listed, "\n"), strings.Join(stack, "\n"))
	}
	if len(stack) > 10 {
		t.Errorf("%d hops, more than 10", len(stack))
	}
}

// hops returns our functions on the stack of a call that a backend executes, the first one first.
func hops(t *testing.T) []string {
	t.Helper()
	ctx, drain := context.WithCancel(t.Context())
	ready, exited := make(chan string, 1), make(chan struct{})
	p := &Program{
		Env: Env{
			Args:  append([]string{"run", "--http", "127.0.0.1:0", "--"}, bridgetest.Programs()[0].Command(t)...),
			Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard, Environ: os.Environ(), Now: t.Context(),
		},
		Started: func(a *App) { ready <- a.URL() },
	}
	go func() { defer close(exited); p.Run(ctx) }()
	defer func() { drain(); <-exited }()
	url := <-ready
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()

	call := func(ctx context.Context, tool string) {
		body := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":{"n":1},` +
			`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
		if err != nil {
			t.Error(err)
			return
		}
		req.Header = http.Header{
			"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
			"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {tool},
		}
		res, err := client.Do(req)
		if err != nil {
			return // canceled
		}
		defer res.Body.Close()
		if text, err := io.ReadAll(res.Body); ctx.Err() == nil && (err != nil || strings.Contains(string(text), `"isError":true`)) {
			t.Errorf("%s: %v %s", tool, err, text)
		}
	}
	waiting, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); call(waiting, "wait") }()
	defer func() { cancel(); <-ended }()
	call(t.Context(), "started") // answers when wait is being executed

	all := make([]byte, 8<<20)
	all = all[:runtime.Stack(all, true)]
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	const module = "github.com/mcpbridge/mcpbridge/"
	for goroutine := range strings.SplitSeq(string(all), "\n\n") {
		if !strings.Contains(goroutine, "(*httpFront).ServeHTTP") {
			continue
		}
		var stack []string
		lines := strings.Split(goroutine, "\n")
		for i := 1; i+1 < len(lines); i += 2 {
			name, ours := strings.CutPrefix(lines[i], module)
			if !ours || strings.HasPrefix(lines[i], "created by") {
				continue
			}
			_, name, _ = strings.Cut(name[strings.LastIndex(name[:strings.LastIndex(name, "(")], "/")+1:], ".")
			file, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(lines[i+1]), root+"/"), ":")
			stack = append(stack, file+" "+name[:strings.LastIndex(name, "(")])
		}
		slices.Reverse(stack)
		return stack
	}
	t.Fatalf("no goroutine serves the call:\n%s", all)
	return nil
}
