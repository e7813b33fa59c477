package plugin

import (
	"regexp"
	"strings"
)

var (
	nodeError = regexp.MustCompile(`^(Uncaught )?[\w.]*(Error|Exception)\b.*`)
	nodeFrame = regexp.MustCompile(`^\s+at (?:.*\()?(?:file://)?((?:/|[A-Za-z]:\\)[^()]*:\d+):\d+\)?`)
	nodePlace = regexp.MustCompile(`^(?:file://)?((?:/|[A-Za-z]:\\).*:\d+)$`)
)

// nodeAdvice is the fix for errors whose text from Node has none.
var nodeAdvice = map[string]string{
	"import statement outside a module": `name the file .mjs or .mts, or have "type": "module" in package.json`,
	`Unknown file extension ".ts"`:      "Node runs TypeScript from 22.18 on, and before that with: node --import tsx",
	`Unknown file extension ".mts"`:     "Node runs TypeScript from 22.18 on, and before that with: node --import tsx",
}

// nodeTrace returns the error that ended a Node program, and the first line of its stack that is neither Node's nor a
// library's. It is empty if the program did not end by an error.
func nodeTrace(lines []string) string {
	end := len(lines) - 1
	for end >= 0 && strings.TrimSpace(lines[end]) == "" {
		end--
	}
	if end < 0 || !strings.HasPrefix(lines[end], "Node.js v") {
		return ""
	}
	at := end - 1
	for at >= 0 && !nodeError.MatchString(lines[at]) {
		at--
	}
	if at < 0 {
		return ""
	}
	said := lines[at]
	for part, advice := range nodeAdvice {
		if strings.Contains(said, part) {
			said += ": " + advice
		}
	}
	if place := nodeLine(lines[:at], lines[at+1:end]); place != "" {
		said += " at " + place
	}
	return said
}

// nodeLine returns the place of an error: its first frame in a file that is not a library's or, because syntax errors
// have no frames, the line that Node prints before it.
func nodeLine(before, frames []string) string {
	for _, line := range frames {
		if own := ownPlace(nodeFrame, line); own != "" {
			return own
		}
	}
	for i := len(before) - 1; i >= 0; i-- {
		if own := ownPlace(nodePlace, before[i]); own != "" {
			return own
		}
	}
	return ""
}

// ownPlace returns the file and line that pattern matches in text, unless it is a library's.
func ownPlace(pattern *regexp.Regexp, text string) string {
	found := pattern.FindStringSubmatch(text)
	if len(found) < 2 || strings.Contains(found[1], "node_modules") {
		return ""
	}
	return found[1]
}
