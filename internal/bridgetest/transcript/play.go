package transcript

import (
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
)

// A Player is the author's side of a conversation.
type Player interface {
	// IsComplete reports whether the lines are complete, so that the next line does not belong to them.
	IsComplete(label string, lines []string) bool
	// Send sends lines with a label.
	Send(label string, lines []string)
	// Happen executes an incident other than the passing of time.
	Happen(incident string)
	// Output returns the lines of the other side since the last call, with their labels and marks.
	Output() []string
	// Expand replaces names in a line to send.
	Expand(line string) string
}

// Incidents are events other than messages, from lines that begin with "* ", by the regular expression of their text.
type Incidents[P Player] map[string]func(p P, name string)

// Happen executes the incident of a line.
func (all Incidents[P]) Happen(t *testing.T, p P, line string) {
	t.Helper()
	for text, do := range all {
		if m := regexp.MustCompile("^" + text + "$").FindStringSubmatch(line); m != nil {
			do(p, strings.Join(m[1:], ""))
			return
		}
	}
	t.Fatalf("unknown incident %q", line)
}

var passes = regexp.MustCompile(`^(\S+) pass(?:es)?$`)

// play sends the author's lines of a conversation and returns the conversation with the actual output.
func play(t *testing.T, p Player, author, text string) string {
	t.Helper()
	authored := regexp.MustCompile(`^([a-z0-9-]*)` + author + ` (.*)$`)
	var out strings.Builder
	var sent []string // incomplete
	label, incident := "", ""
	flush := func() {
		if sent != nil {
			p.Send(label, sent)
		}
		if incident != "" {
			happen(t, p, incident)
		}
		sent, incident = nil, ""
		synctest.Wait()
		for _, line := range p.Output() {
			out.WriteString(wrap(line))
		}
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		from, message, isAuthors := cutLine(authored, line)
		if !isAuthors && outputLine.MatchString(line) {
			continue // replaced by the actual output
		}
		if rest, ok := strings.CutPrefix(message, indent); ok && sent != nil && from == label {
			sent[len(sent)-1] += p.Expand(rest)
			out.WriteString(line + "\n")
			continue
		}
		if rest, ok := strings.CutPrefix(line, "* "+indent); ok && incident != "" {
			incident += rest
			out.WriteString(line + "\n")
			continue
		}
		if incident != "" || sent != nil && (!isAuthors || from != label || p.IsComplete(label, sent)) {
			flush()
		}
		out.WriteString(line + "\n")
		switch {
		case isAuthors:
			label, sent = from, append(sent, p.Expand(message))
		case strings.HasPrefix(line, "* "):
			incident = line[2:]
		case line == "" || strings.HasPrefix(line, "#"):
		default:
			t.Fatalf("invalid line %q", line)
		}
	}
	flush()
	return out.String()
}

// cutLine returns the label and message of a line of the author.
func cutLine(authored *regexp.Regexp, line string) (label, message string, ok bool) {
	m := authored.FindStringSubmatch(line)
	if m == nil {
		return "", "", false
	}
	return m[1], m[2], true
}

// happen executes an incident.
func happen(t *testing.T, p Player, line string) {
	t.Helper()
	m := passes.FindStringSubmatch(line)
	if m == nil {
		p.Happen(line)
		return
	}
	d, err := time.ParseDuration(m[1])
	if err != nil {
		t.Fatal(err)
	}
	bridgetest.Pass(d)
}

// indent precedes the continuation lines of a long message.
const indent = "  "

var outputLine = regexp.MustCompile(`^(?:[a-z0-9-]*[<>]|=) `)

// wrap returns a line of output as lines of at most 120 columns where it has commas of JSON.
func wrap(line string) string {
	const columns = 120
	var out strings.Builder
	prefix := strings.TrimRight(outputLine.FindString(line), " ") + " " + indent
	begin, comma, quoted := 0, 0, false
	for i := range len(line) {
		switch {
		case line[i] == '"' && (i == 0 || line[i-1] != '\\'):
			quoted = !quoted
		case line[i] == ',' && !quoted:
			comma = i + 1
		}
		if width := i + 1 - begin + len(prefix); width > columns && comma > begin {
			out.WriteString(line[begin:comma] + "\n" + prefix)
			begin = comma
		}
	}
	return out.String() + line[begin:] + "\n"
}
