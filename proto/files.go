// Package proto has the .proto files from which a backend or a gRPC client in any language generates its stubs: the
// contract, and the services of others beside it.
package proto

import "embed"

// Files has the .proto files, at the paths by which they import one another.
//
//go:embed google grpc mcpbridge/v1/*.proto plugin
var Files embed.FS
