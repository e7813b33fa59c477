package interop

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A server of 2026-07-28 requests a choice of several values. A client with elicitation receives the request; one
// whose revision lacks such forms gets a failure of the tool, and one of 2026-07-28 without elicitation gets -32021.
func TestChoiceOfSeveralValues(t *testing.T) {
	server, err := filepath.Abs("../servers/choices.mjs")
	if err != nil {
		t.Fatal(err)
	}
	url, _ := listening(t, bridgeRun(t, "--http", "127.0.0.1:0", "--mcp", "--", "node", server))
	const chosen = "^You like red and blue$"
	for _, row := range []struct {
		revision string
		form     bool   // the client declares elicitation
		want     string // the result
		fails    bool   // the result is a tool's failure
		code     int64  // of the error instead of a result
	}{
		{revision: "2026-07-28", form: true, want: chosen},
		{revision: "2025-11-25", form: true, want: chosen},
		{
			revision: "2025-06-18", form: true,
			want: `an answer from the user \(elicitation\), which MCP 2025-06-18 cannot request: .*a choice of several values`, fails: true,
		},
		{revision: "2026-07-28", code: -32021},
		{
			revision: "2025-11-25", want: `an answer from the user \(elicitation\), which this client does not support`,
			fails: true,
		},
		{
			revision: "2025-06-18", want: `an answer from the user \(elicitation\), which this client does not support`,
			fails: true,
		},
	} {
		asked := 0
		var o mcp.ClientOptions
		if row.form {
			o.ElicitationHandler = func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				asked++
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"colors": []any{"red", "blue"}}}, nil
			}
		}
		client := mcp.NewClient(&mcp.Implementation{Name: "choices", Version: "1"}, &o)
		session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url},
			&mcp.ClientSessionOptions{ProtocolVersion: row.revision})
		if err != nil {
			t.Fatal(err)
		}
		res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "choose"})
		e, _ := errors.AsType[*jsonrpc.Error](err)
		switch {
		case row.code != 0:
			if e == nil || e.Code != row.code {
				t.Errorf("%s, form %t: %v, %v", row.revision, row.form, res, err)
			}
		case err != nil:
			t.Errorf("%s, form %t: %v", row.revision, row.form, err)
		default:
			matches(t, row.want, resultText(res))
			if res.IsError != row.fails {
				t.Errorf("%s, form %t: a failure: %t", row.revision, row.form, res.IsError)
			}
		}
		if isAsked := row.want == chosen; (asked == 1) != isAsked {
			t.Errorf("%s, form %t: asked %d times", row.revision, row.form, asked)
		}
		if err := session.Close(); err != nil {
			t.Error(err)
		}
	}
}
