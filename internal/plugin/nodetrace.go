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

// nodeAdvice is what to do about errors that Node words as if one knew.
var nodeAdvice = map[string]string{
	"import statement outside a module": `name the file .mjs or .mts, or have "type": "module" in package.json`,
	`Unknown file extension ".ts"`:      "Node runs TypeScript from 22.18 on, and before that with: node --import tsx",
	`Unknown file extension ".mts"`:     "Node runs TypeScript from 22.18 on, and before that with: node --import tsx",
}

// nodeTrace returns what the error that ended a Node program says, and the first line that is neither Node's own nor a
// library's. It is empty if no error has ended one.
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

// nodeLine returns where an error was: its first frame in a file that is not a library's or, as errors of syntax have
// none, the line that Node shows before.
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

// ownPlace returns the file and the line that pattern finds in text, if it is not a library's.
func ownPlace(pattern *regexp.Regexp, text string) string {
	found := pattern.FindStringSubmatch(text)
	if len(found) < 2 || strings.Contains(found[1], "node_modules") {
		return ""
	}
	return found[1]
}
