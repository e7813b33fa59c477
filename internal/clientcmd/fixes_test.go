package clientcmd

import (
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// If the client lacks a capability that a server requires, the error names the option that adds it.
func TestMissingCapabilityHints(t *testing.T) {
	for required, want := range map[string]string{
		`{"elicitation":{}}`:            "--answer FIELD=VALUE",
		`{"elicitation":{},"roots":{}}`: "--root DIR",
		`{"sampling":{"tools":{}}}`:     "--sample FILE",
		`{"experimental":{"dance":{}}}`: "",
		`"elicitation"`:                 "",
	} {
		rpc := &pb.JsonRpcError{Code: bridge.CodeMissingCapability, Data: `{"requiredCapabilities":` + required + `}`}
		if got := capabilityFix(&bridge.Error{RPC: rpc}); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: the advice is %q", required, got)
		}
		rpc.Code++
		if got := capabilityFix(&bridge.Error{RPC: rpc}); got != "" {
			t.Errorf("%s: the advice for another error is %q", required, got)
		}
	}
}
