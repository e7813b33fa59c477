package catalog_test

import (
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/catalog"
)

// A catalog of a handler whose tools are sound is the same handler.
func TestCatalogKeepsTheLaws(t *testing.T) {
	bridgetest.Laws(t, func(_ *testing.T, h bridge.Handler) bridge.Handler { return catalog.New(h, catalog.Options{}) })
}
