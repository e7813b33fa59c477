package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// A file is a configuration file that has been read: its values by key, and where each of them is.
type file struct {
	name   string
	values map[string]any
	places map[string]*yaml.Node
}

// readFile reads a configuration file. It is strict: a key that Config does not have is an error.
func readFile(name string) (*file, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		fix := "give the file's name with -c"
		if errors.Is(err, fs.ErrPermission) {
			fix = "let this user read the file"
		}
		reason := err
		if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
			reason = pathErr.Err
		}
		return nil, &problem{
			Exit: exitConfig, Code: "config", What: fmt.Sprintf("cannot read the configuration file %s: %v", name, reason),
			Fix: fix, Cause: err,
		}
	}
	return parseFile(name, text)
}

// parseFile is readFile for a text that has been read.
func parseFile(name string, text []byte) (*file, error) {
	f := &file{name: name, values: map[string]any{}, places: map[string]*yaml.Node{}}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, &problem{
			Exit: exitConfig, Code: "config", What: "the configuration is not YAML", Where: name,
			Why: err.Error(), Fix: "mend the file; docs/configuration.md has a whole one", Cause: err,
		}
	}
	if len(doc.Content) == 0 {
		return nil, usage(name, "write `version: 1` and a backend; docs/configuration.md has a whole one",
			"the configuration file is empty")
	}
	root := doc.Content[0]
	v, err := f.read(root, reflect.TypeFor[Config](), "")
	if err != nil {
		return nil, err
	}
	f.values, _ = v.(map[string]any)
	if _, ok := f.values["version"]; !ok {
		return nil, usage(f.at(root), "write `version: 1` as its first line", "the configuration does not say its version")
	}
	return f, nil
}

// read returns the value of a node that is to be of type t.
func (f *file) read(n *yaml.Node, t reflect.Type, path string) (any, error) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	f.places[path] = n
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	wrong := func() error {
		what := path
		if what == "" {
			what = "the configuration"
		}
		return usage(f.at(n), "write "+kindOf(t)+" here", "%s is %s and has to be %s", what, describe(n), kindOf(t))
	}
	switch t.Kind() {
	case reflect.Struct:
		if n.Kind != yaml.MappingNode {
			return nil, wrong()
		}
		return f.readStruct(n, t, path)
	case reflect.Map:
		if n.Kind != yaml.MappingNode {
			return nil, wrong()
		}
		return f.readMap(n, t, path)
	case reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			return nil, wrong()
		}
		list := make([]any, 0, len(n.Content))
		for i, item := range n.Content {
			v, err := f.read(item, t.Elem(), join(path, strconv.Itoa(i)))
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	}
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return nil, wrong()
	}
	v, err := parseScalar(t, n.Value)
	if err != nil {
		return nil, wrong()
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
		}
		return nil, usage(f.at(k), didYouMean(k.Value, names), "there is no key %q in %s", k.Value, in)
	})
}

// readMap returns the value of a mapping with any keys.
func (f *file) readMap(n *yaml.Node, t reflect.Type, path string) (map[string]any, error) {
	return f.readPairs(n, path, func(*yaml.Node) (reflect.Type, error) { return t.Elem(), nil })
}

// readPairs returns the value of a mapping; typeOf says of what type the value of a key is.
func (f *file) readPairs(n *yaml.Node, path string, typeOf func(k *yaml.Node) (reflect.Type, error)) (map[string]any, error) {
	values := map[string]any{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		if _, ok := values[k.Value]; ok {
			return nil, usage(f.at(k), "keep one of the two", "the key %q is there twice", k.Value)
		}
		t, err := typeOf(k)
		if err != nil {
			return nil, err
		}
		v, err := f.read(n.Content[i+1], t, join(path, k.Value))
		if err != nil {
			return nil, err
		}
		values[k.Value] = v
	}
	return values, nil
}

// at returns the place of a node: file:line:column.
func (f *file) at(n *yaml.Node) string { return fmt.Sprintf("%s:%d:%d", f.name, n.Line, n.Column) }

// where returns the place of a key, or of the nearest thing around it.
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

// describe says what a node is, for people.
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
