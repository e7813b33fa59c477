package plugin

import "strings"

// goTrace returns the message of the last panic of a Go program in lines, and the first line of the program's own code
// in its stack. It is empty if there is no panic.
func goTrace(lines []string) string {
	for i := len(lines) - 1; i >= 0; i-- {
		said := lines[i]
		if !strings.HasPrefix(said, "panic: ") && !strings.HasPrefix(said, "fatal error: ") {
			continue
		}
		for _, line := range lines[i+1:] {
			frame, ok := strings.CutPrefix(line, "\t")
			if !ok || strings.Contains(frame, "/src/runtime/") || strings.Contains(frame, "/pkg/mod/") {
				continue
			}
			place, _, _ := strings.Cut(frame, " +0x")
			return said + " at " + place
		}
		return said
	}
	return ""
}
