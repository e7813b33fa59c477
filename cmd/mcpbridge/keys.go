package main

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A key is a setting that the typed struct knows.
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

// parse reads the value of a setting from text, as the environment has it. Lists are separated by commas.
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

// kind says what a value of the setting is, for people.
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

// didYouMean returns what to write instead of a name that is not known: the nearest of those that are, or all of them.
func didYouMean(name string, known []string) string {
	if best := nearest(name, known); best != "" {
		return "did you mean " + best + "?"
	}
	known = slices.Sorted(slices.Values(known))
	if len(known) > maxKnown {
		known = append(known[:maxKnown], "and more")
	}
	return "known are: " + strings.Join(known, ", ")
}

// The limits of guesses: how many names are told, and how long one may be that is compared.
const (
	maxKnown   = 30
	maxCompare = 256
)

// nearest returns the name that name is most likely a misspelling of, or "". Of a name of up to three letters, more than half have to
// be right: else it would be as near to any other that is short.
func nearest(name string, known []string) string {
	best, bestDistance := "", len(name)/3+2
	for _, k := range known {
		if len(k) > maxCompare || len(name) > maxCompare {
			continue
		}
		d := distance(strings.ToLower(name), strings.ToLower(k))
		if d < bestDistance && (len(name) > 3 || 2*d < max(len(name), len(k))) {
			best, bestDistance = k, d
		}
	}
	return best
}

// distance returns how many letters must be inserted, deleted or replaced to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
