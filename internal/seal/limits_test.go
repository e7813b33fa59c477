package seal

import (
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A requestState of 64 KiB, or of as much as is configured, is opened, and none that is longer, although we had sealed
// it. In base64 there is none of 65,537 bytes.
func TestRequestStateAtSizeLimit(t *testing.T) {
	call := &bridge.Call{Method: bridge.CallTool, Request: &pb.CallToolRequest{Name: "x"}}
	for _, most := range []int{limits.MaxState, 2 << 10} {
		s := New(nil, time.Minute, most)
		for length, opens := range map[int]bool{s.maxSize - 1: true, s.maxSize: true, s.maxSize + 2: false} {
			sealed := s.seal(call, make([]byte,
				length*3/4-len(s.ids[0])-s.aeads[0].NonceSize()-s.aeads[0].Overhead()-headerLen), 1)
			if len(sealed) != length {
				t.Fatalf("%d bytes, want %d", len(sealed), length)
			}
			if _, _, err := s.open(call, []byte(sealed)); (err == nil) != opens {
				t.Errorf("%d bytes: %v", length, err)
			}
		}
		// A backend's state has half of that, so that what is sealed can be opened.
		for n := s.maxSize/2 - 1; n <= s.maxSize/2+1; n++ {
			out, err := s.Seal(call, &pb.InputRequired{RequestState: make([]byte, n)}, 1)
			if (err == nil) != (n <= s.maxSize/2) {
				t.Errorf("a state of %d bytes: %v", n, err)
			}
			if err != nil {
				continue
			}
			if state, _, err := s.open(call, out.GetRequestState()); err != nil || len(state) != n {
				t.Errorf("a state of %d bytes: %d, %v", n, len(state), err)
			}
		}
	}
}
