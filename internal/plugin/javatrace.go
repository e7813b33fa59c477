package plugin

import "strings"

// javaTrace returns the root exception of the last stack trace of a JVM in lines, and its first line that is not the
// JDK's. It is empty if there is no stack trace.
func javaTrace(lines []string) string {
	for i := len(lines) - 1; i >= 0; i-- {
		cause, ok := strings.CutPrefix(lines[i], "Caused by: ")
		if !ok && !strings.HasPrefix(lines[i], `Exception in thread "`) {
			continue
		}
		for _, frame := range lines[i+1:] {
			frame = strings.TrimSpace(frame)
			if strings.HasPrefix(frame, "at ") && !strings.HasPrefix(frame, "at java.base/") {
				return cause + " " + frame
			}
		}
		return cause
	}
	return ""
}
