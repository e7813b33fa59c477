package router_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/router"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A router with one route passes calls unchanged.
func TestSingleRoutePassesCallsUnchanged(t *testing.T) {
	bridgetest.Laws(t, func(t *testing.T, h bridge.Handler) bridge.Handler {
		t.Helper()
		r, err := router.New([]router.Route{{Name: "any name at all", Handler: h}}, router.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return r
	})
}
