package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/tailscale/hujson"
	"go.yaml.in/yaml/v4"

	"github.com/mcpbridge/mcpbridge/internal/problem"
)

// readFile reads a configuration file of mcpbridge or of another MCP client. In a file of mcpbridge, a key that
// Settings does not have is an error.
func readFile(name string, environ []string) (*file, error) {
	text, info, err := ReadText(name)
	if err != nil {
		fix := "correct the name of the file"
		if errors.Is(err, fs.ErrPermission) {
			fix = "let this user read the file"
		}
		reason := err
		if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
			reason = pathErr.Err
		}
		return nil, &problem.Error{
			Exit: problem.ExitConfig, Code: "config",
			What: fmt.Sprintf("cannot read the configuration file %s: %v", name, reason),
			Fix:  fix, Cause: err,
		}
	}
	if err := checkOwner(name, info); err != nil {
		return nil, err
	}
	return parseFile(name, text, environ)
}

// tabIndented finds a line that is indented with a tab, and errorLine the line that an error of YAML or JSON is about.
var (
	tabIndented = regexp.MustCompile(`(?m)^ *\t`)
	errorLine   = regexp.MustCompile(`line (\d+)`)
)

// lineOf returns the line that an error of YAML or JSON is about, in the form that follows the name of the file, or "".
func lineOf(err error) string {
	if m := errorLine.FindStringSubmatch(err.Error()); m != nil {
		return ":" + m[1]
	}
	return ""
}

// maxFile is the maximum size of a configuration file in bytes.
const maxFile = 4 << 20

// ReadText reads a file of at most maxFile bytes.
func ReadText(name string) ([]byte, fs.FileInfo, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("it is longer than %d MiB", maxFile>>20)
	}
	return text, info, err
}

// secondDocument reports whether something follows the first document of a YAML text, and on which line if that can be
// read.
func secondDocument(text []byte) (line string, ok bool) {
	documents := yaml.NewDecoder(bytes.NewReader(text))
	var first, second yaml.Node
	if documents.Decode(&first) != nil {
		return "", false // another check reports it
	}
	if err := documents.Decode(&second); err != nil {
		return "", !errors.Is(err, io.EOF)
	}
	if len(second.Content) == 0 || second.Content[0].ShortTag() == "!!null" {
		return "", false
	}
	return fmt.Sprintf(":%d", second.Content[0].Line), true
}

// parseFile is readFile for a text that has been read.
func parseFile(name string, text []byte, environ []string) (*file, error) {
	f := &file{
		name: name, values: map[string]any{}, places: map[string]*yaml.Node{}, environ: environ, secrets: Secrets{},
	}
	var doc yaml.Node
	if filepath.Ext(name) == ".json" {
		plain, err := hujson.Standardize(text) // comments become spaces, so that places stay
		if err != nil {
			return nil, &problem.Error{
				Exit: problem.ExitConfig, Code: "config", What: "the configuration is not JSON",
				Where: name + lineOf(err), Why: err.Error(), Fix: "correct the file", Cause: err,
			}
		}
		text = surrogates.ReplaceAllFunc(plain, asYAML)
	}
	if err := yaml.Unmarshal(text, &doc); err != nil {
		fix := "correct the file; docs/configuration.md has a complete one"
		if tabIndented.Match(text) {
			fix = "indent with spaces: YAML takes no tabs there"
		}
		return nil, &problem.Error{
			Exit: problem.ExitConfig, Code: "config", What: "the configuration is not YAML", Where: name + lineOf(err),
			Why: err.Error(), Fix: fix, Cause: err,
		}
	}
	if where, ok := secondDocument(text); ok {
		return nil, problem.Config(name+where,
			"make it one document, without ---; with several files, start one mcpbridge for each",
			"the configuration is two documents, and only the first would be read")
	}
	if len(doc.Content) == 0 {
		return nil, problem.Config(name, "write `version: 1` and a backend; docs/configuration.md has a complete one",
			"the configuration file is empty")
	}
	root := doc.Content[0]
	if key := serversKey(root); key != "" {
		if err := f.readServers(root, key); err != nil {
			return nil, err
		}
		return f, nil
	}
	v, err := f.read(root, reflect.TypeFor[Settings](), "")
	f.values, _ = v.(map[string]any)
	if _, ok := f.values["version"]; !ok && f.values != nil {
		err = problem.Join(err,
			f.problem(root, "write `version: 1` as its first line",
				"the configuration has no version"))
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// surrogates matches the escapes of JSON that YAML lacks: two of them for a character that takes two units in UTF-16.
// It also matches every other escape, so that an escaped backslash does not count as the beginning of one.
var surrogates = regexp.MustCompile(`\\u[dD][89abAB][[:xdigit:]]{2}\\u[dD][c-fC-F][[:xdigit:]]{2}|\\.`)

// asYAML returns an escape of JSON in the syntax of YAML.
func asYAML(escape []byte) []byte {
	if len(escape) < len(`\ud83d\ude00`) {
		return escape
	}
	units := strings.Split(string(escape), `\u`) // "", high, low
	high, _ := strconv.ParseUint(units[1], 16, 16)
	low, _ := strconv.ParseUint(units[2], 16, 16)
	return fmt.Appendf(nil, `\U%08x`, utf16.DecodeRune(rune(high), rune(low)))
}

// read returns the value of a node, which must be of type t.
func (f *file) read(n *yaml.Node, t reflect.Type, path string) (any, error) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	f.places[path] = n
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	typeError := func() error {
		what := path
		if what == "" {
			what = "the configuration"
		}
		return f.problem(n, fixFor(n, t, path), "%s is %s and has to be %s", what, describe(n), kindOf(t))
	}
	switch t.Kind() {
	case reflect.Struct:
		if n.Kind != yaml.MappingNode {
			return nil, typeError()
		}
		return f.readStruct(n, t, path)
	case reflect.Map:
		if n.Kind != yaml.MappingNode {
			return nil, typeError()
		}
		return f.readMap(n, t, path)
	case reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			return nil, typeError()
		}
		list := make([]any, 0, len(n.Content))
		var errs []error
		for i, item := range n.Content {
			v, err := f.read(item, t.Elem(), join(path, strconv.Itoa(i)))
			errs, list = append(errs, err), append(list, v)
		}
		return list, problem.Join(errs...)
	}
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return nil, typeError()
	}
	text, err := f.expand(n, envVariable)
	if err != nil {
		return nil, err
	}
	v, err := parseScalar(t, text)
	if err != nil {
		return nil, typeError()
	}
	return v, nil
}

// readStruct returns the value of a mapping whose keys are the fields of t.
func (f *file) readStruct(n *yaml.Node, t reflect.Type, path string) (map[string]any, error) {
	fields := map[string]reflect.Type{}
	names := []string{}
	for field := range t.Fields() {
		fields[field.Tag.Get("koanf")] = field.Type
		names = append(names, field.Tag.Get("koanf"))
	}
	return f.readPairs(n, path, func(k *yaml.Node) (reflect.Type, error) {
		if t, ok := fields[k.Value]; ok {
			return t, nil
		}
		in := path
		if in == "" {
			in = "the configuration"
			if filepath.Ext(f.name) == ".json" {
				names = append(names, "mcpServers", "servers") // perhaps it is a file of another client
			}
		}
		return nil, f.problem(k, problem.DidYouMean(k.Value, names), "there is no key %q in %s", k.Value, in)
	})
}

// readMap returns the value of a mapping with any keys.
func (f *file) readMap(n *yaml.Node, t reflect.Type, path string) (map[string]any, error) {
	return f.readPairs(n, path, func(*yaml.Node) (reflect.Type, error) { return t.Elem(), nil })
}

// readPairs returns the value of a mapping. typeOf returns the type of the value of a key.
func (f *file) readPairs(
	n *yaml.Node, path string, typeOf func(k *yaml.Node) (reflect.Type, error),
) (map[string]any, error) {
	values := map[string]any{}
	var errs []error
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		if _, ok := values[k.Value]; ok {
			errs = append(errs,
				f.problem(k, "keep one of the two", "duplicate key %q", k.Value))
			continue
		}
		t, err := typeOf(k)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		v, err := f.read(n.Content[i+1], t, join(path, k.Value))
		errs, values[k.Value] = append(errs, err), v
	}
	return values, problem.Join(errs...)
}

// fixFor returns what to write in place of a node that is not of type t.
func fixFor(n *yaml.Node, t reflect.Type, path string) string {
	key := path[strings.LastIndexByte(path, '.')+1:]
	scalar := n.Kind == yaml.ScalarNode && n.Tag != "!!null"
	switch {
	case t == durationType:
		return "write a time such as 30s or 500ms"
	case scalar && t == reflect.TypeFor[MCP]() && IsURL(n.Value):
		return fmt.Sprintf("write `%s: {url: %s}`", key, n.Value)
	case scalar && (t == reflect.TypeFor[Launch]() || t == reflect.TypeFor[MCP]()):
		return fmt.Sprintf("write `%s: {command: [%s]}`", key, strings.Join(strings.Fields(n.Value), ", "))
	case scalar && t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.String:
		return fmt.Sprintf("write `%s: [%s]`", key, strings.Join(strings.Fields(n.Value), ", "))
	case n.Kind == yaml.MappingNode && t.Kind() == reflect.Slice:
		return "write a list here: - before its first key, and the other keys below that one"
	}
	return "write " + kindOf(t) + " here"
}

// IsURL reports whether an argument is the URL of an MCP server.
func IsURL(arg string) bool {
	return strings.HasPrefix(arg, "http://") || strings.HasPrefix(arg, "https://")
}
