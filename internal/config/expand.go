package config

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/mcpbridge/mcpbridge/internal/problem"
)

// Expand replaces the variables in text, ${env:NAME}, by their values in the environment.
func (l *Config) Expand(text string) (string, *problem.Error) {
	return expandText(text, envVariable, l.environ, l.Secrets)
}

// A variable in a text is ${env:NAME}; $${env:NAME} stands for that text itself. Files of other MCP clients also have
// ${NAME}, ${NAME:-default}, and variables of an editor.
var (
	envVariable    = regexp.MustCompile(`\$?\$\{env:([^}]*)\}?`)
	clientVariable = regexp.MustCompile(`\$?\$\{(?:env:)?([^}]*)\}`)
)

// expand returns the text of a node, with variables replaced by their values in the environment. A variable that is not
// set is an error: a request without its token would fail for a less obvious reason.
func (f *file) expand(n *yaml.Node, form *regexp.Regexp) (string, error) {
	text, p := expandText(n.Value, form, f.environ, f.secrets)
	if p != nil {
		p.Where = f.at(n)
		return "", p
	}
	return text, nil
}

// expandText is expand for a text that is not in a file.
func expandText(text string, form *regexp.Regexp, environ []string, hidden Secrets) (string, *problem.Error) {
	var failed *problem.Error
	text = form.ReplaceAllStringFunc(text, func(found string) string {
		if strings.HasPrefix(found, "$$") {
			return found[1:]
		}
		if !strings.HasSuffix(found, "}") { // sent unchanged, it would fail for a less obvious reason
			failed = cmp.Or(failed,
				problem.Config("", "write ${env:NAME}; $${env: is the text ${env:", "${env: has no closing }"))
			return found
		}
		name, def, hasDefault := strings.Cut(form.FindStringSubmatch(found)[1], ":-")
		value, ok := Lookup(environ, name)
		switch {
		case ok:
			hidden.add(name, value)
			return value
		case hasDefault:
			return def
		case failed != nil:
		case variableName.MatchString(name):
			failed = problem.Config("",
				"set it, or write the value itself; $${env:"+name+"} is the text ${env:"+name+"}",
				"environment variable %s is not set", name)
		default:
			failed = problem.Config("", "write ${env:NAME}, or the value itself",
				"unsupported variable %s", found)
		}
		return found
	})
	return text, failed
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Lookup returns the value of a variable of an environment.
func Lookup(environ []string, name string) (string, bool) {
	for _, entry := range slices.Backward(environ) {
		if n, value, _ := strings.Cut(entry, "="); n == name {
			return value, true
		}
	}
	return "", false
}
