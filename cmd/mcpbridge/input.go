package main

import (
	"io"
	"os"
)

// isClientInput reports whether an MCP client seems to be at the other end of stdin: a pipe, a socket or a file. A
// terminal is a person, and /dev/null is a service manager or a container runtime.
func isClientInput(stdin io.Reader) bool {
	f, ok := stdin.(*os.File)
	if !ok {
		return stdin != nil
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice == 0
}
