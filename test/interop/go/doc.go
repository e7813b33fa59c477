// Package interop takes the official Go SDK's client on a tour of the Python example behind the bridge: both eras, over
// HTTP and over stdio, with real processes. It is a module of its own so that the SDK stays out of the bridge's go.mod.
// The same tour for the TypeScript clients is in ../ts. The other way round, the bridge's client visits servers of the SDK.
package interop
