package catalog_test

import (
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/catalog"
)

// With valid tools, a catalog of a handler keeps the handler's laws.
func TestCatalogKeepsTheLaws(t *testing.T) {
	bridgetest.Laws(t, func(_ *testing.T, h bridge.Handler) bridge.Handler { return catalog.New(h, catalog.Options{}) })
}
