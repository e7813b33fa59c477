package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
)

// slowly returns the configuration of two legacy MCP servers, fast and slow. Processes of slow start to respond once
// the file exists.
func slowly(t *testing.T) (config, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "go")
	return writeConfig(t, fmt.Sprintf(`
backends:
  - {name: fast, mcp: {command: [curious]}}
  - {name: slow, mcp: {command: [sh, -c, "while [ ! -e %s ]; do sleep 0.02; done; exec curious"]}}
`, file)), file
}

func touch(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

const (
	introduction = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}}`
	initialized  = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	modernMeta   = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}`
)

// A stdio client gets responses while a server starts; its list requests wait for the server and are complete. The next
// time, the servers' declarations are cached before they start.
func TestStdioAnswersWhileServersStart(t *testing.T) {
	bridgetest.SkipIfShort(t)
	t.Parallel()
	config, file := slowly(t)
	for _, known := range []bool{false, true} {
		os.Remove(file)
		inR, inW := io.Pipe()
		outR, outW := io.Pipe()
		out := bufio.NewScanner(outR)
		answer := func(id string) string {
			for out.Scan() {
				if strings.Contains(out.Text(), `"id":`+id+`,`) {
					return out.Text()
				}
			}
			t.Fatalf("no response to %s", id)
			return ""
		}
		r := start(t, inR, outW, "run", "--stdio", "-c", config)
		go func() { // ends the writer
			<-r.exited
			outW.Close()
		}()
		send := func(line string) { _, _ = io.WriteString(inW, line+"\n") }
		send(introduction)
		if first := answer("1"); strings.Contains(first, `"prompts"`) == known {
			t.Errorf("cached %t: %s", known, first)
		}
		send(`{"jsonrpc":"2.0","id":2,"method":"server/discover","params":{` + modernMeta + `}}`)
		if second := answer("2"); strings.Contains(second, `"prompts"`) == known {
			t.Errorf("cached %t: %s", known, second)
		}
		r.awaitLog(t, "the backend is starting")
		send(initialized)
		send(`{"jsonrpc":"2.0","id":3,"method":"tools/list"}`)
		touch(t, file)
		if tools := answer("3"); !strings.Contains(tools, "fast_ask") || !strings.Contains(tools, "slow_ask") {
			t.Errorf("%s", tools)
		}
		send(`{"jsonrpc":"2.0","id":4,"method":"server/discover","params":{` + modernMeta + `}}`)
		if now := answer("4"); strings.Contains(now, `"prompts"`) {
			t.Errorf("the server has started: %s", now)
		}
		inW.Close()
		for out.Scan() {
			continue
		}
		r.wait(t)
	}
}

// While a caller's connections are being established, its lists are complete, and reported as changed once the
// connections exist. In this test that happens after the response to the list request.
func TestMergedListsContainEveryServer(t *testing.T) {
	bridgetest.SkipIfShort(t)
	t.Parallel()
	config, file := slowly(t)
	touch(t, file)
	r := start(t, nil, nil, "run", "--http", "127.0.0.1:0", "-c", config)
	os.Remove(file)
	lines := func(res *http.Response, text string) {
		t.Helper()
		for in := bufio.NewScanner(res.Body); in.Scan(); {
			if strings.Contains(in.Text(), text) {
				return
			}
		}
		t.Errorf("the stream ended without %s", text)
	}
	res := r.post(t, introduction, "")
	res.Body.Close()
	id := res.Header.Get("Mcp-Session-Id")
	r.post(t, initialized, id).Body.Close()
	get, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	get.Header.Set("Accept", "text/event-stream")
	get.Header.Set("Mcp-Session-Id", id)
	legacy, err := new(http.Client).Do(get)
	if err != nil {
		t.Fatal(err)
	}
	defer legacy.Body.Close()
	modern := r.post(t, `{"jsonrpc":"2.0","id":"s","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},`+modernMeta+`}}`, "",
		"Mcp-Method", "subscriptions/listen")
	defer modern.Body.Close()
	lines(modern, "acknowledged")

	for _, list := range []*http.Response{
		r.post(t, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, id),
		r.post(t, `{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{`+modernMeta+`}}`, "", "Mcp-Method",
			"tools/list"),
	} {
		text, err := io.ReadAll(list.Body)
		list.Body.Close()
		if err != nil || !strings.Contains(string(text), "fast_ask") || !strings.Contains(string(text), "slow_ask") {
			t.Errorf("%s %v", text, err)
		}
		if strings.Contains(string(text), "resultType") && !strings.Contains(string(text), `"ttlMs":0`) {
			t.Errorf("the result may be cached: %s", text)
		}
	}
	touch(t, file)
	lines(legacy, "notifications/tools/list_changed")
	lines(modern, "notifications/tools/list_changed")
}

// A client that does not read does not keep the bridge from exiting, whatever is pending for it.
func TestTerminatesWhenStdoutIsNotRead(t *testing.T) {
	bridgetest.SkipIfShort(t)
	cmd := exec.Command("mcpbridge", "run", "--stdio", "--", echoGo(t))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe() // not read after the first response
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(in, introduction+"\n"+initialized+"\n")
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		t.Fatalf("no response: %v", err)
	}
	for id := range 4 { // their responses exceed the pipe's buffer
		_, _ = fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"a":%q}}}`+"\n", id+2, strings.Repeat("x", 40<<10))
	}
	for err == nil { // until the bridge blocks on the error for a line, and reads no more
		if err = in.(interface{ SetWriteDeadline(t time.Time) error }).
			SetWriteDeadline(time.Now().Add(time.Second)); err == nil {
			_, err = io.WriteString(in, "{\n"+strings.Repeat(" ", 4<<10)+"\n")
		}
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_, _ = cmd.Process.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(60 * time.Second):
		t.Error("still running a minute after SIGTERM")
		_ = cmd.Process.Kill()
		<-ended
	}
	out.Close()
	in.Close()
}
