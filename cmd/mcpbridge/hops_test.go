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
	"strconv"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/internal/app"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/clientcmd"
)

// A tools/call passes at most ten functions from the socket to the backend: the nine that docs/architecture.md lists
// for its era, and the router if there are several backends.
func TestHops(t *testing.T) {
	doc, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed [][]string // for each era
	for _, row := range regexp.MustCompile("(?m)^\\| (\\d+) \\| `(.+?)` \\| `(.+?)` \\|").
		FindAllStringSubmatch(string(doc), -1) {
		if row[1] == "1" {
			listed = append(listed, nil)
		}
		last := &listed[len(listed)-1]
		*last = append(*last, row[3]+" "+row[2])
	}
	if len(listed) != 2 {
		t.Fatalf("docs/architecture.md has %d lists of hops, not one for each of 2 eras", len(listed))
	}
	for i, revision := range []string{"2026-07-28", "2025-11-25"} {
		t.Run(revision, func(t *testing.T) {
			stack := hops(t, revision)
			if !slices.Equal(stack, listed[i]) {
				t.Errorf("docs/architecture.md lists\n%s\nbut the stack is\n%s", strings.Join(listed[i], "\n"),
					strings.Join(stack, "\n"))
			}
			if len(stack) > 9 {
				t.Errorf("%d hops, more than 9", len(stack))
			}
		})
	}
}

// hops returns the bridge's functions on the stack of a call of a revision, outermost first.
func hops(t *testing.T, revision string) []string {
	t.Helper()
	ctx, drain := context.WithCancel(t.Context())
	ready, exited := make(chan string, 1), make(chan struct{})
	p := &Program{
		Env: clientcmd.Env{
			Args:  append([]string{"run", "--http", "127.0.0.1:0", "--"}, bridgetest.Programs()[0].Command(t)...),
			Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard, Environ: os.Environ(),
			Abort: t.Context(),
		},
		Started: func(a *app.App) { ready <- a.URL() },
	}
	go func() { defer close(exited); p.Run(ctx) }()
	defer func() { drain(); <-exited }()
	c := &hopper{url: <-ready, Client: http.Client{Transport: &http.Transport{}}, header: http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
	}}
	defer c.CloseIdleConnections()
	if revision == "2026-07-28" {
		c.header["Mcp-Protocol-Version"], c.header["Mcp-Method"] = []string{revision}, []string{"tools/call"}
		c.meta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	} else {
		c.initialize(t, revision)
	}
	waiting, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); c.call(waiting, t, 1, "wait") }()
	defer func() {
		cancel()
		if c.meta == "" { // a lost connection does not cancel a call of a session
			c.post(t.Context(), t, `"method":"notifications/cancelled","params":{"requestId":1}`)
		}
		<-ended
	}()
	c.call(t.Context(), t, 2, "started") // returns once wait runs
	return stackOf(t, "(*httpFront).ServeHTTP")
}

// A hopper is an HTTP client of one revision.
type hopper struct {
	http.Client
	url    string
	header http.Header
	meta   string // the last member of params
}

// initialize starts a session.
func (c *hopper) initialize(t *testing.T, revision string) {
	t.Helper()
	_, header := c.post(t.Context(), t, `"id":0,"method":"initialize","params":{"protocolVersion":"`+revision+
		`","capabilities":{},"clientInfo":{"name":"test","version":"1"}}`)
	c.header["Mcp-Session-Id"] = header["Mcp-Session-Id"]
	c.post(t.Context(), t, `"method":"notifications/initialized"`)
}

// call calls a tool, which must succeed unless ctx is canceled first.
func (c *hopper) call(ctx context.Context, t *testing.T, id int, tool string) {
	t.Helper()
	header := c.header.Clone()
	if c.meta != "" {
		header["Mcp-Name"] = []string{tool}
	}
	with := hopper{c.Client, c.url, header, c.meta}
	text, _ := with.post(ctx, t,
		`"id":`+strconv.Itoa(id)+`,"method":"tools/call","params":{"name":"`+tool+`","arguments":{"n":1}`+c.meta+`}`)
	if ctx.Err() == nil && (strings.Contains(text, `"isError":true`) || !strings.Contains(text, `"result":`)) {
		t.Errorf("%s: %s", tool, text)
	}
}

// post sends the members of a message and returns the response, which is empty if ctx is canceled first.
func (c *hopper) post(ctx context.Context, t *testing.T, message string) (body string, header http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url,
		strings.NewReader(`{"jsonrpc":"2.0",`+message+`}`))
	if err != nil {
		t.Error(err)
		return "", nil
	}
	req.Header = c.header
	res, err := c.Do(req)
	if err != nil {
		if ctx.Err() == nil {
			t.Error(err)
		}
		return "", nil
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil && ctx.Err() == nil {
		t.Error(err)
	}
	return string(text), res.Header
}

// stackOf returns the bridge's functions on the stack of the goroutine that waits for a result below a function,
// outermost first. The backend may run the call before that goroutine waits, so stackOf yields until it does.
func stackOf(t *testing.T, function string) []string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	const module = "github.com/mcpbridge/mcpbridge/"
	all := make([]byte, 8<<20)
	for ; ; runtime.Gosched() {
		for goroutine := range strings.SplitSeq(string(all[:runtime.Stack(all, true)]), "\n\n") {
			lines := strings.Split(goroutine, "\n")
			if !strings.Contains(lines[0], "[select") || !strings.Contains(goroutine, function) {
				continue
			}
			var stack []string
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
	}
}
