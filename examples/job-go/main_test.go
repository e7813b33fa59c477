package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mcpbridge/mcpbridge/sdkgen/go/mcpbridgetest"
)

func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestDuplicatesAreFound(t *testing.T) {
	dir := folder(t, map[string]string{
		"a": "same", "b/c": "same", "d": "else", "e": "", "f": "", "big": "longer",
		"big2": "longer",
	})
	called := mcpbridgetest.Call(t, newApp(), "find_duplicates", Where{Folder: dir, MinSize: 1})
	var r Report
	called.Structured(t, &r)
	if r.Files != 5 || r.Wasted != 10 || len(r.Duplicates) != 2 || r.Duplicates[0].Size != 6 {
		t.Errorf("got %+v", r)
	}
	if got := r.Duplicates[1].Files; !slices.Equal(got,
		[]string{filepath.Join(dir, "a"), filepath.Join(dir, "b", "c")}) {
		t.Errorf("got %v", got)
	}
	last := called.Progress[len(called.Progress)-1]
	if last.GetProgress() != last.GetTotal() || last.GetTotal() != 4*3+6*2 {
		t.Errorf("the last progress is %v", last)
	}
	called = mcpbridgetest.Call(t, newApp(), "find_duplicates", Where{Folder: filepath.Join(dir, "none"), MinSize: 1})
	if !called.IsError() || !strings.Contains(called.Text(), "give the path of a folder") {
		t.Errorf("got %v", called.Result)
	}
}

// endless makes two files that take hours to read, and no room.
func endless(t *testing.T) string {
	t.Helper()
	dir := folder(t, map[string]string{"a": "", "b": ""})
	for _, name := range []string{"a", "b"} {
		if err := os.Truncate(filepath.Join(dir, name), 1<<42); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestJobEndsWhenItIsCancelled(t *testing.T) {
	folder := endless(t)
	for within := 100 * time.Millisecond; ; within *= 2 { // which a busy machine may take to begin
		ctx, cancel := context.WithTimeout(t.Context(), within)
		called := mcpbridgetest.Call(t, newApp(), "find_duplicates", Where{Folder: folder},
			mcpbridgetest.WithContext(ctx))
		cancel()
		if status.Code(called.Err) != codes.DeadlineExceeded || within > time.Minute {
			t.Fatalf("got %v within %v and %d events", called.Err, within, len(called.Progress))
		}
		if len(called.Progress) > 0 {
			return
		}
	}
}

func TestJobBehindTheBridge(t *testing.T) {
	bin := t.TempDir()
	for name, path := range map[string]string{"mcpbridge": "../../cmd/mcpbridge", "job": "."} {
		if out, err := exec.Command("go", "build", "-o", filepath.Join(bin, name), path).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	c := mcpbridgetest.Start(t, filepath.Join(bin, "mcpbridge"), filepath.Join(bin, "job"))
	long := map[string]any{
		"name": "find_duplicates", "arguments": map[string]any{"folder": endless(t)},
		"_meta": map[string]any{"progressToken": "p"},
	}
	id := c.Send("tools/call", long)
	c.AwaitNotification("notifications/progress")
	c.Notify("notifications/cancelled", map[string]any{"requestId": id})
	got := c.Call("find_duplicates", map[string]any{"folder": folder(t, map[string]string{"a": "same", "b": "same"})})
	if !strings.Contains(got, `"wasted":4`) {
		t.Errorf("got %s", got)
	}
}
