// Package terminal reads and writes the standard streams: safe text, progress, prompts, and output that never blocks.
package terminal

import (
	"os"

	"golang.org/x/term"
)

// IsTerminal reports whether v is a terminal, or a queue that writes to one.
func IsTerminal(v any) bool {
	if q, ok := v.(*Queue); ok {
		v = q.Direct()
	}
	f, ok := v.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
