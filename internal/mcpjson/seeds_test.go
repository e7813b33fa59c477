package mcpjson

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge"
)

// The examples in the pages of older revisions do not change when they are decoded and encoded. One example is left
// out, because its action "reject" is from an early draft, and no revision has it.
func TestExamplesOfOlderRevisionsRoundTrip(t *testing.T) {
	for rev, n := range map[bridge.Revision]int{
		bridge.Rev20241105: 35, bridge.Rev20250618: 15,
		bridge.Rev20251125: 35,
	} {
		data, err := os.ReadFile("testdata/seeds/" + rev.String() + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var examples []struct {
			Method  string
			Message json.RawMessage
		}
		if err := json.Unmarshal(data, &examples); err != nil {
			t.Fatal(err)
		}
		if len(examples) != n {
			t.Errorf("%s: %d examples", rev, len(examples))
		}
		for i, e := range examples {
			t.Run(fmt.Sprintf("%s/%d/%s", rev, i, e.Method), func(t *testing.T) {
				roundTripMessage(t, e.Message, e.Method, rev)
			})
		}
	}
}
