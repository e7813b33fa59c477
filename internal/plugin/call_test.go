package plugin

import (
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A call without arguments is sent with an empty object, which backends can parse. The front's message is not modified.
func TestMissingArgumentsAreAnEmptyObject(t *testing.T) {
	r := attach(t, &fake{call: func(r *pb.CallToolRequest,
		s stream,
	) error {
		return s.Send(saying(string(r.GetArguments())))
	}}, Options{})
	for arguments, want := range map[string]string{"": "{}", "{}": "{}", `{"a":1}`: `{"a":1}`} {
		call := tool("x", arguments)
		res, err := r.Handle(t.Context(), call, ignore)
		if err != nil || textOf(res) != want {
			t.Errorf("%q: %v, %v", arguments, res, err)
		}
		if got := string(call.Request.(*pb.CallToolRequest).GetArguments()); got != arguments {
			t.Errorf("%q is %q afterwards", arguments, got)
		}
	}
}

// A large response is not lost after execution: the default limit is that of upstream servers.
func TestLargeResponses(t *testing.T) {
	large := strings.Repeat("x", 15<<20)
	r := attach(t, &fake{call: func(_ *pb.CallToolRequest, s stream) error { return s.Send(saying(large)) }}, Options{})
	if got := r.text(t, "x", ""); got != large {
		t.Errorf("got %d bytes", len(got))
	}
}

// In other languages, a server resets the stream of a call that panics, without a message. The log contains the call.
func TestAResetStreamIsLogged(t *testing.T) {
	sock := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{
		Protocols: new(http.Protocols),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == bridge.CallTool.GRPC {
				panic(http.ErrAbortHandler) // resets the stream
			}
			w.Header().Set("Content-Type", "application/grpc")
			w.Header().Set("Grpc-Status", "12")
		}),
	}
	server.Protocols.SetUnencryptedHTTP2(true)
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	r := run(t, Options{Address: "unix:" + sock}).ready(t)
	if _, err := r.Handle(t.Context(), tool("parse", ""), ignore); err == nil {
		t.Error("the call succeeded")
	}
	r.log.wait(t, `"call":"tool parse"`)
	r.log.wait(t, "the backend reset the stream of a call")
}
