package config

import (
	"reflect"
	"strconv"
	"strings"
	"time"
)

// A key is a setting of Settings.
type key struct {
	path string
	typ  reflect.Type
}

// keysOf returns the settings of a struct, those of structs in it included. Lists are settings as a whole.
func keysOf(t reflect.Type, prefix string) []key {
	var keys []key
	for f := range t.Fields() {
		path := prefix + f.Tag.Get("koanf")
		if f.Type.Kind() == reflect.Struct {
			keys = append(keys, keysOf(f.Type, path+".")...)
			continue
		}
		keys = append(keys, key{path, f.Type})
	}
	return keys
}

// parse reads the value of a setting from the text of an environment variable. Lists are separated by commas.
func (k key) parse(text string) (any, error) {
	if k.typ.Kind() == reflect.Slice {
		list := []string{}
		for item := range strings.SplitSeq(text, ",") {
			if item = strings.TrimSpace(item); item != "" {
				list = append(list, item)
			}
		}
		return list, nil
	}
	return parseScalar(k.typ, text)
}

var durationType = reflect.TypeFor[time.Duration]()

// parseScalar reads a value of type t from text.
func parseScalar(t reflect.Type, text string) (any, error) {
	switch {
	case t == durationType:
		return time.ParseDuration(text)
	case t.Kind() == reflect.Bool:
		return strconv.ParseBool(text)
	case t.Kind() == reflect.Int:
		return strconv.Atoi(text)
	}
	return text, nil
}

// kind describes the values of the setting for people.
func (k key) kind() string { return kindOf(k.typ) }

func kindOf(t reflect.Type) string {
	switch {
	case t == durationType:
		return "a time"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Int:
		return "a whole number"
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.String:
		return "a list of strings"
	case t.Kind() == reflect.Slice:
		return "a list"
	case t.Kind() == reflect.Struct || t.Kind() == reflect.Map || t.Kind() == reflect.Pointer:
		return "a mapping"
	}
	return "a string"
}

// example returns a value that the setting could have.
func (k key) example() string {
	switch k.kind() {
	case "a time":
		return "30s or 500ms"
	case "a whole number":
		return "1"
	}
	return k.kind()
}
