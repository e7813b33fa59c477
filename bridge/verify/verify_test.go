package verify_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
	"github.com/mcpbridge/mcpbridge/bridge/verify"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The kit in every language passes every check: one row of bridgetest.Programs for each.
func TestKitsPass(t *testing.T) {
	for _, program := range bridgetest.Programs() {
		t.Run(program.Language, func(t *testing.T) {
			checks, err := verify.Run(t.Context(), verify.Options{Command: program.Command(t), Env: os.Environ()})
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range checks {
				if c.Outcome != verify.Passed {
					t.Errorf("%s %s: %+v", c.Name, c.Outcome, c.Defects)
				}
				t.Log(c.Name, c.Took)
			}
		})
	}
}
