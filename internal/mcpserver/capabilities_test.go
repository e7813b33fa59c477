package mcpserver_test

import (
	"context"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/mcpserver"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// declaring returns a front whose backend declares extensions.
func declaring(t *testing.T, extensions string) *front {
	t.Helper()
	return newFrontOf(t, mcpserver.Options{}, func(h bridge.Handler) bridge.Handler {
		return bridge.HandlerFunc(
			func(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
				res, err := h.Handle(ctx, call, emit)
				if d, ok := res.Complete.(*pb.DiscoverResponse); ok {
					d = proto.CloneOf(d)
					d.Capabilities.Extensions, d.Capabilities.Experimental = extensions, extensions
					res = &bridge.Result{Complete: d}
				}
				return res, err
			})
	})
}

// The bridge does not declare tasks, whatever the backend declares, because it does not support them. Other extensions
// are passed on.
func TestTasksAreNotDeclared(t *testing.T) {
	for extensions, left := range map[string]string{
		`{"io.modelcontextprotocol/tasks":{}}`:                         "null",
		`{"com.example/x":{"a":1},"io.modelcontextprotocol/tasks":{}}`: `{"com.example/x":{"a":1}}`,
		`{"com.example/x":{}}`:                                         `{"com.example/x":{}}`,
	} {
		f := declaring(t, extensions)
		body, h := modern(1, "server/discover", "", noCaps)
		want(t, read(t, f.post(body, h)).next(), "result.capabilities.extensions", left,
			"result.capabilities.tools.listChanged", "true")
	}
}

// In both eras, the error names the backend as the cause.
func TestBackendWhoseDiscoverFails(t *testing.T) {
	f := declaring(t, "[")
	body, h := modern(1, "server/discover", "", noCaps)
	want(t, read(t, f.post(body, h)).next(), "error.data.reason", `"BACKEND_MISBEHAVED"`)
	initialize := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	want(t, read(t, f.post(initialize, nil)).next(), "error.data.reason", `"BACKEND_MISBEHAVED"`)
}
