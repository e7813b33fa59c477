package app

import "strings"

// traceMembers are the names of the trace in log records of the SDKs and of other libraries.
var traceMembers = []string{"traceback", "stack", "trace", "stack_trace", "exc_info", "exception"}

// Trace returns the stack trace in a record of a backend's log, or "".
func Trace(members map[string]any) string {
	for _, name := range traceMembers {
		if text, ok := members[name].(string); ok && text != "" {
			return strings.Trim(text, "\n")
		}
	}
	return ""
}
