package main

import (
	"os"

	"golang.org/x/term"
)

// isTerminal reports whether v is a terminal, or a queue that writes to one.
func isTerminal(v any) bool {
	if q, ok := v.(*queue); ok {
		v = q.direct()
	}
	f, ok := v.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
