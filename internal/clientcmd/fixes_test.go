package clientcmd

import (
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// If a tool needs an input capability that the command lacks, the error contains the flag for it.
func TestMissingCapabilityHints(t *testing.T) {
	for required, want := range map[string]string{
		`{"elicitation":{}}`:            "--answer FIELD=VALUE",
		`{"elicitation":{},"roots":{}}`: "--root DIR",
		`{"sampling":{"tools":{}}}`:     "--sample FILE",
		`{"experimental":{"dance":{}}}`: "",
		`"elicitation"`:                 "",
	} {
		rpc := &pb.JsonRpcError{Code: bridge.CodeMissingCapability, Data: `{"requiredCapabilities":` + required + `}`}
		if got := lacking(&bridge.Error{RPC: rpc}); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: got hint %q", required, got)
		}
		rpc.Code++
		if got := lacking(&bridge.Error{RPC: rpc}); got != "" {
			t.Errorf("%s: got hint %q for another error", required, got)
		}
	}
}
