package plugin

import (
	"regexp"
	"strings"
)

// pythonFrame is the line of a traceback that names a file and a line.
var pythonFrame = regexp.MustCompile(`^ +File "(.+)", line (\d+)`)

// pythonTrace returns the exception of the traceback at the end of lines, and its last line that is not a library's. It
// is empty if there is no traceback.
func pythonTrace(lines []string) string {
	end := len(lines) - 1
	for end >= 0 && strings.TrimSpace(lines[end]) == "" {
		end--
	}
	if end < 0 || strings.HasPrefix(lines[end], " ") {
		return ""
	}
	library := ""
	for i := end - 1; i >= 0; i-- {
		if m := pythonFrame.FindStringSubmatch(lines[i]); m != nil {
			place := m[1] + ":" + m[2]
			if !strings.Contains(m[1], "/lib/python") && !strings.HasPrefix(m[1], "<") {
				return lines[end] + " at " + place
			}
			if library == "" {
				library = lines[end] + " at " + place
			}
		} else if !strings.HasPrefix(lines[i], " ") {
			break // its first line, or output before it
		}
	}
	return library
}
