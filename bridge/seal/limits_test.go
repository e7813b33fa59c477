package seal

import (
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A requestState of 64 KiB is opened, and none that is longer, although we had sealed it. In base64 there is none of 65,537 bytes.
func TestStatesOfClientsAtTheirLimit(t *testing.T) {
	s := New(nil, 0)
	call := &bridge.Call{Method: bridge.CallTool, Request: &pb.CallToolRequest{Name: "x"}}
	for length, opens := range map[int]bool{64<<10 - 1: true, 64 << 10: true, 64<<10 + 2: false} {
		sealed := s.seal(call, make([]byte, length*3/4-len(s.ids[0])-s.aeads[0].NonceSize()-s.aeads[0].Overhead()-headerLen), 1)
		if len(sealed) != length {
			t.Fatalf("%d bytes, want %d", len(sealed), length)
		}
		if _, _, err := s.open(call, []byte(sealed)); (err == nil) != opens {
			t.Errorf("%d bytes: %v", length, err)
		}
	}
}
