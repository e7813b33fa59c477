package main

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rs/zerolog"
)

// only removes all backends but the one of the given name.
func (l *loaded) only(name string) error {
	for i, b := range l.Backends {
		if b.Name != name {
			continue
		}
		l.Backends = []BackendConfig{b}
		if i > 0 && l.file != nil { // what is said of it has another place than its index has now
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
	return usage(name, didYouMean(name, l.names()), "there is no backend %q in %s", name, l.file.name)
}

// logIn enables OAuth for MCP servers of which only the URL is known, from the command line or a file of another MCP client.
// It has no effect unless a server requires a token. Our own file configures it explicitly.
func (l *loaded) logIn() {
	if l.file != nil && !l.file.foreign {
		return
	}
	for i := range l.Backends {
		m := l.Backends[i].MCP
		if m != nil && m.URL != "" && !hasHeader(m.Headers, "Authorization") && canLogin(m.URL) {
			m.Auth = &AuthConfig{OAuth: &OAuthConfig{}}
		}
	}
}

// names returns the names of the backends, for those who mistype one.
func (l *loaded) names() []string {
	names := make([]string, 0, len(l.Backends))
	for _, b := range l.Backends {
		names = append(names, b.Name)
	}
	return slices.Sorted(slices.Values(names))
}

// tellWarnings logs the parts of the file that are ignored.
func (l *loaded) tellWarnings(log zerolog.Logger) {
	if l.file == nil {
		return
	}
	for _, w := range l.file.warnings {
		log.Warn().Msg(w)
	}
}
