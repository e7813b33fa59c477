package config

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/internal/problem"
)

// SelectBackend removes all backends but the one of the given name.
func (l *Config) SelectBackend(name string) error {
	for i, b := range l.Backends {
		if b.Name != name {
			continue
		}
		l.Backends = []Backend{b}
		if i > 0 && l.file != nil { // its position differs from its index
			from := "backends." + strconv.Itoa(i)
			places := maps.Clone(l.file.places)
			for path, n := range places {
				if rest, ok := strings.CutPrefix(path, from); ok && (rest == "" || rest[0] == '.') {
					l.file.places["backends.0"+rest] = n
				}
			}
		}
		return nil
	}
	return problem.Usage(name, problem.DidYouMean(name, l.names()), "there is no backend %q in %s", name, l.file.name)
}

// AllowLogin enables OAuth for MCP servers of which only the URL is known, from the command line or a file of another
// MCP client. It has no effect unless a server requires a token. Our own file configures it explicitly.
func (l *Config) AllowLogin() {
	if l.file != nil && !l.file.otherClient {
		return
	}
	for i := range l.Backends {
		m := l.Backends[i].MCP
		if m != nil && m.URL != "" && !HasHeader(m.Headers, "Authorization") && IsConfidential(m.URL) {
			m.Auth = &Auth{OAuth: &OAuth{}}
		}
	}
}

// names returns the names of the backends, for suggestions.
func (l *Config) names() []string {
	names := make([]string, 0, len(l.Backends))
	for _, b := range l.Backends {
		names = append(names, b.Name)
	}
	return slices.Sorted(slices.Values(names))
}

// LogWarnings logs the parts of the file that are ignored.
func (l *Config) LogWarnings(log zerolog.Logger) {
	if l.file == nil {
		return
	}
	for _, w := range l.file.warnings {
		log.Warn().Msg(w)
	}
}
