package config

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/mcpbridge/mcpbridge/internal/problem"
)

// A file is a configuration file that has been read: its values by key, and where each of them is.
type file struct {
	name   string
	values map[string]any
	places map[string]*yaml.Node
	// environ has the values of ${env:NAME}.
	environ []string
	secrets Secrets
	// otherClient reports whether it is a file of another MCP client.
	otherClient bool
	// warnings list the parts of the file that are ignored.
	warnings []string
}

// at returns the place of a node: file:line:column.
func (f *file) at(n *yaml.Node) string { return fmt.Sprintf("%s:%d:%d", f.name, n.Line, n.Column) }

// problem returns a problem with a node.
func (f *file) problem(n *yaml.Node, fix, format string, args ...any) *problem.Error {
	return problem.Config(f.at(n), fix, format, args...)
}

// where returns the place of a key, or of the nearest key that encloses it.
func (f *file) where(path string) string {
	for {
		if n, ok := f.places[path]; ok {
			return f.at(n)
		}
		path = path[:max(strings.LastIndexByte(path, '.'), 0)]
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// describe describes a node for people.
func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Tag == "!!null":
		return "empty"
	}
	return strconv.Quote(n.Value)
}

func (f *file) warn(n *yaml.Node, format string, args ...any) {
	f.warnings = append(f.warnings, f.at(n)+": "+fmt.Sprintf(format, args...))
}

// pairs returns the keys and values of a mapping. Of two with the same key the last one counts, as it does in JSON.
func pairs(n *yaml.Node) func(yield func(key, value *yaml.Node) bool) {
	last := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		last[n.Content[i].Value] = i
	}
	return func(yield func(key, value *yaml.Node) bool) {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if key := n.Content[i]; last[key.Value] == i && !yield(key, n.Content[i+1]) {
				return
			}
		}
	}
}
