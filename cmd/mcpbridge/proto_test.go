package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/internal/clientcmd"
)

// The command writes all imports of the contract except those that protoc includes.
func TestProtoWritesItsImports(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "proto")
	long := time.Unix(1, 0)
	for range 2 { // the second time, the files exist
		var out, errs bytes.Buffer
		p := &Program{Env: clientcmd.Env{
			Args: []string{"proto", dir}, Stdin: strings.NewReader(""), Stdout: &out,
			Stderr: &errs,
		}}
		if code := p.Run(t.Context()); code != 0 {
			t.Fatalf("exit code %d: %s", code, errs.String())
		}
		if err := os.Chtimes(filepath.Join(dir, "plugin", "grpc_controller.proto"), long, long); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "plugin", "grpc_controller.proto")); err != nil ||
		!info.ModTime().Equal(long) {
		t.Errorf("an unchanged file is written again: %v, %v", info, err)
	}
	for path, has := range map[string]string{
		"mcpbridge/v1/service.proto": "service McpService", "mcpbridge/v1/error.proto": "message JsonRpcError",
		"grpc/health/v1/health.proto": "service Health", "plugin/grpc_controller.proto": "service GRPCController",
		"google/rpc/status.proto": "message Status", "google/rpc/error_details.proto": "message ErrorInfo",
		"buf.gen.ruby.yaml": "plugins:",
	} {
		text, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil || !strings.Contains(string(text), has) {
			t.Errorf("%s: %v, lacks %q", path, err, has)
		}
		for _, name := range regexp.MustCompile(`(?m)^import "(.*)";`).FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(dir, name[1])); err != nil &&
				!strings.HasPrefix(name[1], "google/protobuf/") {
				t.Errorf("%s imports %s: %v", path, name[1], err)
			}
		}
	}
	var errs bytes.Buffer
	p := &Program{Env: clientcmd.Env{
		Args:  []string{"proto", filepath.Join(dir, "buf.gen.ruby.yaml")},
		Stdin: strings.NewReader(""), Stdout: &errs, Stderr: &errs,
	}}
	if code := p.Run(t.Context()); code == 0 ||
		!strings.Contains(errs.String(), "name a directory that can be written to") {
		t.Errorf("a file in place of the directory: exit code %d: %s", code, errs.String())
	}
}
