package config

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Secrets maps values from the environment to the names of their variables. They are never printed, because a server
// may repeat its token in an error.
type Secrets map[string]string

// minSecret is the minimum length of a value that is hidden. A shorter one is no secret, and a log in which every "1"
// is hidden is useless.
const minSecret = 6

func (s Secrets) add(name, value string) {
	if len(value) >= minSecret {
		s[value] = name
	}
}

// Hide returns a writer to w that replaces values by their variables. Each Write must be of whole lines, as a logger's
// are.
func (s Secrets) Hide(w io.Writer) io.Writer {
	if len(s) == 0 {
		return w
	}
	return &secretWriter{w: w, replace: s.replacer()}
}

func (s Secrets) replacer() *strings.Replacer {
	values := make([]string, 0, len(s))
	for value := range s {
		values = append(values, value)
	}
	// A value may be part of another one: the longer one comes first.
	slices.SortFunc(values, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, value := range values {
		name := "${env:" + s[value] + "}"
		pairs = append(pairs, value, name)
		if quoted := strings.Trim(fmt.Sprintf("%q", value), `"`); quoted != value {
			pairs = append(pairs, quoted, name)
		}
	}
	return strings.NewReplacer(pairs...)
}

// A secretWriter writes to w with secrets replaced.
type secretWriter struct {
	w       io.Writer
	replace *strings.Replacer
}

func (h *secretWriter) Write(p []byte) (int, error) {
	if _, err := h.replace.WriteString(h.w, string(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}
