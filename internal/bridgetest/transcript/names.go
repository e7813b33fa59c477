package transcript

import (
	"fmt"
	"regexp"
	"strings"
)

// Names are the short names, such as $session, of long or random texts.
type Names struct {
	Text map[string]string // by name
	name map[string]string // by text
	find func(line string, add func(name, text string))
}

// NewNames returns no names. find adds those of the texts that a line of output is the first to contain.
func NewNames(find func(line string, add func(name, text string))) *Names {
	return &Names{Text: map[string]string{}, name: map[string]string{}, find: find}
}

var nameInText = regexp.MustCompile(`\$[a-zA-Z]+\d*`)

// Shorten replaces texts in a line of output by their names.
func (n *Names) Shorten(line string) string {
	n.find(line, n.Add)
	for text, name := range n.name {
		line = strings.ReplaceAll(line, text, name)
	}
	return line
}

// Add assigns a name to a text unless it has one.
func (n *Names) Add(name, text string) {
	if n.name[text] != "" {
		return
	}
	unique := "$" + name
	for i := 2; n.Text[unique] != ""; i++ {
		unique = fmt.Sprint("$", name, i)
	}
	n.Text[unique], n.name[text] = text, unique
}

// Expand replaces names by their texts.
func (n *Names) Expand(line string) string {
	return nameInText.ReplaceAllStringFunc(line, func(name string) string {
		if text, ok := n.Text[name]; ok {
			return text
		}
		return name
	})
}
