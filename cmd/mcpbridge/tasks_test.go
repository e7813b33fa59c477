package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/problem"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// The commands of tasks work with a bridge over gRPC and over MCP.
func TestTaskCommands(t *testing.T) {
	s, address := startShop(t)
	dir := t.TempDir()
	file, socket := filepath.Join(dir, "mcpbridge.yaml"), "unix://"+filepath.Join(dir, "g")
	config := fmt.Sprintf("version: 1\nbackends: [{name: shop, dial: %q, tasks: {after: always}}]\n"+
		"serve: {http: {addr: 127.0.0.1:0}, grpc: {addr: %q}}\n", address, socket)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	r := start(t, nil, nil, "run", "-c", file)
	expect := func(want string, code int, args ...string) {
		t.Helper()
		got := runCommand(t, "", args...)
		if out := got.stdout + got.stderr; got.code != code || !strings.Contains(out, want) {
			t.Fatalf("%q: got %d %s, want %d and %q", args, got.code, out, code, want)
		}
	}
	detached := func(target, tool string) (id string) {
		t.Helper()
		got := runCommand(t, "", "call", "--detach", target, tool)
		if id = strings.TrimSpace(got.stdout); got.code != problem.ExitOK || len(id) < 26 {
			t.Fatalf("%s: got %+v, want the id of a task", tool, got)
		}
		return id
	}
	for _, target := range []string{socket, r.url} {
		expect(`{"what":"tea"}`, problem.ExitOK, "call", "--task", target, "buy", "what=tea")
		expect("out of", problem.ExitTool, "call", "--task", target, "fail")
		expect(`accept {`, problem.ExitOK, "call", "--task", "--answer", "size=s", "--answer", "count=2", target,
			"order")

		id := detached(target, "order")
		expect("the task waits for input", problem.ExitTool, "tasks", "result", target, id)
		expect("would you like?", problem.ExitOK, "tasks", "get", target, id)
		expect("", problem.ExitOK, "tasks", "answer", "--answer", "size=s", "--answer", "count=2", target, id)
		expect(`"count":2`, problem.ExitOK, "tasks", "result", target, id)
		expect(id+" ", problem.ExitOK, "tasks", "watch", target, id)
		expect("does not wait for input", problem.ExitTool, "tasks", "answer", target, id)

		id = detached(target, "hold")
		expect("the task continues", problem.ExitTimeout, "tasks", "result", "--timeout", "3s", target, id)
		expect("", problem.ExitOK, "tasks", "cancel", target, id)
		expect("the task is cancelled", problem.ExitTool, "tasks", "result", target, id)
		expect(" cancelled", problem.ExitOK, "tasks", "get", target, id)

		expect("keep the ids", problem.ExitTool, "tasks", "list", target)
		expect("no such task", problem.ExitTool, "tasks", "get", target, "none")
	}
	close(s.held)
	expect("start it with mcpbridge run", problem.ExitUsage, "call", "--task", "buy", "--", "true")
	expect("write mcpbridge tasks get", problem.ExitUsage, "tasks", "get", socket)
	expect("write one of", problem.ExitUsage, "tasks", "undo")
}

// lateTasks is a server whose clock is ahead: it reports the deadline of each tasks/get before the client notices it.
type lateTasks struct{ *shop }

func (lateTasks) GetTask(context.Context, *pb.GetTaskRequest) (*pb.GetTaskResponse, error) {
	return nil, status.Error(codes.DeadlineExceeded, "late")
}

// A command has timed out, and the task continues, whichever side notices the deadline first.
func TestServerNoticesTheTimeoutOfTaskCommandsFirst(t *testing.T) {
	target := serveShop(t, lateTasks{newShop()})
	got := runCommand(t, "", "tasks", "result", "--timeout", "1h", target, "id")
	if got.code != problem.ExitTimeout || !strings.Contains(got.stderr, "the task continues") {
		t.Errorf("got %+v, want %d", got, problem.ExitTimeout)
	}
}

// TestTasksPage runs the commands of docs/tasks.md, with its configuration and its tool.
func TestTasksPage(t *testing.T) {
	bridgetest.SkipIfShort(t)
	parts, dir := bridgetest.Fenced(t, "../../docs/tasks.md"), t.TempDir()
	const there = "127.0.0.1:8080"
	for _, name := range []string{"tools.py", "mcpbridge.yaml"} {
		text := strings.Replace(parts[name], there, "127.0.0.1:0", 1)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := start(t, nil, nil, "run", "-c", filepath.Join(dir, "mcpbridge.yaml"))
	wants := []struct{ command, output string }{
		{"call --task", "The report of 2025, signed by Ada."},
		{"call --detach", ""},
		{"tasks get", ""},
		{"tasks answer", ""},
		{"tasks watch", "completed"},
		{"tasks result", "The report of 2025, signed by Ada."},
		{"tasks cancel", ""},
	}
	lines := strings.Split(strings.TrimSpace(parts["use tasks"]), "\n")
	if len(lines) != len(wants) {
		t.Fatalf("the page has the commands %q, want those of %v", lines, wants)
	}
	id := ""
	for i, line := range lines {
		want := wants[i]
		if !strings.HasPrefix(line, "mcpbridge "+want.command+" ") || !strings.Contains(line, "http://"+there+"/mcp") {
			t.Fatalf("got the command %q, want %q", line, want.command)
		}
		line = strings.Replace(strings.Replace(line, "http://"+there+"/mcp", r.url, 1), " ID", " "+id, 1)
		r.await(t, line, func() bool {
			out, err := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", line).CombinedOutput()
			if strings.Contains(string(out), "does not wait for input") && want.command == "tasks answer" {
				return false // not yet
			}
			if err != nil || !strings.Contains(string(out), want.output) {
				t.Fatalf("%s: %v, got %s, want %q", line, err, out, want.output)
			}
			if want.command == "call --detach" {
				id = strings.TrimSpace(string(out))
			}
			return true
		})
	}
}

// A bridge that drains waits for the tool of a task, and the next run has its result.
func TestDrainWaitsForTasks(t *testing.T) {
	bridgetest.SkipIfShort(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "mcpbridge.yaml")
	config := fmt.Sprintf("version: 1\nbackends: [{name: echo, launch: {command: [%s]}, tasks: {after: 100ms}}]\n"+
		"serve: {http: {addr: 127.0.0.1:0}}\nstate: {dir: %s}\n", echoGo(t), filepath.Join(dir, "state"))
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	first := start(t, nil, nil, "run", "-c", file)
	begun := runCommand(t, "", "call", "--detach", first.url, "slow", "ms=3000")
	id := strings.TrimSpace(begun.stdout)
	if begun.code != problem.ExitOK {
		t.Fatalf("got %+v, want the id of a task", begun)
	}
	first.drain()
	if code := first.wait(t); code != problem.ExitOK {
		t.Errorf("exit code %d:\n%s", code, first.stderr)
	}
	second := start(t, nil, nil, "run", "-c", file)
	if got := runCommand(t, "", "tasks", "result", second.url, id); got.code != problem.ExitOK {
		t.Errorf("got %+v, want the result of the task", got)
	}
}
