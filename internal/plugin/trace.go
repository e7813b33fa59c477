package plugin

import (
	"regexp"
	"slices"
	"strings"
)

// A traceFormat describes how the runtime of a language reports the error that ended a program.
type traceFormat struct {
	// report matches the output if it has such an error. Its text is the group error, or thread if a JVM only reports
	// that.
	report *regexp.Regexp
	// places are where the lines of the program are, the most likely ones first.
	places []places
	// advice is the fix for errors whose text has none, by a part of the text.
	advice map[string]string
}

// places are lines that name a place in the source.
type places struct {
	group   string         // the group of the report that has them
	place   *regexp.Regexp // its groups are the file and the line, or both together
	library *regexp.Regexp // matches the places that are not the program's own; nil if all count
	last    bool           // the last one is next to the error
}

var (
	javaTrace = traceFormat{
		report: regexp.MustCompile(`(?s)\A(?:.*\n)?` +
			`(?:Caused by: (?P<error>[^\n]*)|(?P<thread>Exception in thread "[^\n]*))(?P<stack>.*)`),
		places: []places{{
			group: "stack", place: regexp.MustCompile(`(?m)^\s*at (.*\S)`), library: regexp.MustCompile(`^java\.base/`),
		}},
	}
	goTrace = traceFormat{
		report: regexp.MustCompile(`(?s)\A(?:.*\n)?(?P<error>(?:panic|fatal error): [^\n]*)(?P<stack>.*)`),
		places: []places{{
			group: "stack", place: regexp.MustCompile(`(?m)^\t(.*?)(?: \+0x.*)?$`),
			library: regexp.MustCompile(`/src/runtime/|/pkg/mod/`),
		}},
	}
	nodeTrace = traceFormat{
		report: regexp.MustCompile(`(?s)\A(?P<before>(?:.*\n)?)` +
			`(?P<error>(?:Uncaught )?[\w.]*(?:Error|Exception)\b[^\n]*)\n(?P<stack>(?:.*\n)?)Node\.js v[^\n]*\s*\z`),
		places: []places{
			{
				group: "stack", library: nodeLibrary,
				place: regexp.MustCompile(
					`(?m)^[ \t]+at (?:.*\()?(?:file://)?((?:/|[A-Za-z]:\\)[^()\n]*:\d+):\d+\)?`),
			},
			{ // errors of syntax have no stack
				group: "before", library: nodeLibrary, last: true,
				place: regexp.MustCompile(`(?m)^(?:file://)?((?:/|[A-Za-z]:\\).*:\d+)$`),
			},
		},
		advice: map[string]string{
			"import statement outside a module": `name the file .mjs or .mts, or have "type": "module" in package.json`,
			`Unknown file extension ".ts"`:      nodeTypeScript,
			`Unknown file extension ".mts"`:     nodeTypeScript,
		},
	}
	pythonTrace = traceFormat{
		report: regexp.MustCompile(`(?s)\A(?:.*?\n)??` +
			`(?P<stack>(?: [^\n]*\n)*? +File "[^\n]+", line \d+[^\n]*\n(?: [^\n]*\n)*)(?P<error>\t*\S[^\n]*)\s*\z`),
		places: []places{
			{group: "stack", place: pythonFrame, library: regexp.MustCompile(`/lib/python|^<`), last: true},
			{group: "stack", place: pythonFrame, last: true},
		},
	}

	nodeLibrary = regexp.MustCompile(`node_modules`)
	pythonFrame = regexp.MustCompile(`(?m)^ +File "(.+)", line (\d+)`)
)

const nodeTypeScript = "Node runs TypeScript from 22.18 on, and before that with: node --import tsx"

// read returns the last error in the output, and the line of the program's own code next to it. It is empty if there is
// no error.
func (f *traceFormat) read(lines []string) string {
	groups := map[string]string{}
	for i, text := range f.report.FindStringSubmatch(strings.Join(lines, "\n")) {
		groups[f.report.SubexpNames()[i]] = text
	}
	lastError := groups["error"] + groups["thread"]
	if lastError == "" {
		return ""
	}
	for part, advice := range f.advice {
		if strings.Contains(lastError, part) {
			lastError += ": " + advice
		}
	}
	for _, p := range f.places {
		found := p.place.FindAllStringSubmatch(groups[p.group], -1)
		if p.last {
			slices.Reverse(found)
		}
		for _, m := range found {
			if place := strings.Join(m[1:], ":"); p.library == nil || !p.library.MatchString(place) {
				return lastError + " at " + place
			}
		}
	}
	return lastError
}
