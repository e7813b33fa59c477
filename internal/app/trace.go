package app

import "strings"

// traceMembers are what the SDKs, and other logs, call the trace in a record.
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
