// Package interop runs the official Go SDK's client against the Python example behind the bridge: in both eras, over
// HTTP and stdio, with real processes. It also runs the bridge's client against servers of the SDK. It is a module of
// its own so that the SDK is not in the bridge's go.mod. ../ts does the same with TypeScript clients.
package interop
