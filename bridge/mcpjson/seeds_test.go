package mcpjson

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/bridge/rawjson"
)

// The examples in the pages of older revisions, each with the method it belongs to.
func TestExamplesOfOlderRevisionsRoundTrip(t *testing.T) {
	for _, rev := range bridge.Revisions() {
		data, err := os.ReadFile("testdata/seeds/" + rev.String() + ".json")
		if err != nil {
			continue // no page of that revision
		}
		var examples []struct {
			Method  string
			Message json.RawMessage
		}
		if err := json.Unmarshal(data, &examples); err != nil {
			t.Fatal(err)
		}
		for i, e := range examples {
			t.Run(fmt.Sprintf("%s/%d/%s", rev, i, e.Method), func(t *testing.T) {
				if e.Method == "elicitation/create" && string(rawjson.Get(rawjson.Get(e.Message, "result"), "action")) == `"reject"` {
					t.Skip("an early draft said reject; no revision does")
				}
				roundTripMessage(t, e.Message, e.Method, rev)
			})
		}
	}
}
