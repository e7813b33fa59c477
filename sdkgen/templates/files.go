// Package templates has the templates of `buf generate` for languages without an SDK.
package templates

import "embed"

// Files has one template for each language.
//
//go:embed *.yaml
var Files embed.FS
