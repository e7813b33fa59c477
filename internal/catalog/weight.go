package catalog

import (
	"encoding/json"
	"net/url"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// The amounts that cost as much as one more schema: about 20 µs of the library's compilation.
const (
	// pathOfSchema is the number of bytes of paths to schemas, above shortPath for each, where a step has bytesOfStep
	// in addition to its name: the library copies and compares paths repeatedly.
	pathOfSchema, shortPath, bytesOfStep = 512, 128, 16
	// valuesOfSchema is the number of values that are not schemas, above two for each schema. A number costs
	// valuesOfNumber: old drafts compare those of an enum with each other. A reference costs valuesOfRef in addition.
	valuesOfSchema, valuesOfNumber, valuesOfRef = 5, 3, 2
	// bytesOfPattern is the number of bytes of a regular expression, and partsOfPattern the number of its parts, after
	// repetitions are expanded.
	bytesOfPattern, partsOfPattern = 24, 32
	// bytesOfClass is the number of bytes of a regular expression that a Unicode class costs, which has hundreds of
	// ranges. A case-insensitive range beyond ASCII costs bytesOfFolded: each of its characters is looked up.
	bytesOfClass, bytesOfFolded = 96, 24 * 100
	// shortNumber is the length up to which a number has no further cost.
	shortNumber = 20
	// weightOfID and weightOfTarget are the costs of a schema with an id, with which all others are compared, and of
	// one that is referred to outside the usual places, for which the library copies its tables.
	weightOfID, weightOfTarget = 4, 4
	// shortID is the length up to which an id costs nothing: every reference in its schema is resolved against it.
	shortID = 128
	// maxWeight is above any limit.
	maxWeight = 1 << 30
)

// A costModel determines the cost of a schema: the number of simple schemas that take as long to compile. It counts
// everything that takes time, so that a cheap schema compiles in a known time, although compilation cannot be
// interrupted.
type costModel struct {
	doc      any
	weight   int // cost of what the other fields do not count
	schemas  int
	paths    int // bytes of the paths to schemas
	values   int // that are not schemas
	ids      ids
	oldIDs   ids // of draft 4, with another keyword
	draft4   bool
	oldDraft bool // earlier than $defs
	refs     []string
	patterns map[string]bool
	// wholly means that data is counted like schemas. hidden means that references may lead to schemas in data.
	wholly, hidden bool
}

// Members of schemas that are data: the library finds no schema or id in it, unless a reference leads there. Members of
// an object of named schemas are always schemas.
var (
	isData    = map[string]bool{"const": true, "default": true, "enum": true, "examples": true}
	isOfNames = map[string]bool{
		"properties": true, "patternProperties": true, "$defs": true, "definitions": true, "dependentSchemas": true,
		"dependencies": true,
	}
)

// holdsData reports whether a member of a schema is data.
func holdsData(in, name string) bool { return isData[name] && !isOfNames[in] }

// ids has the cost and the number of the ids of schemas.
type ids struct {
	weight int
	within int // number of the ids of subschemas
}

func (n *ids) add(name string, path int) {
	n.weight += weightOfID + max(0, len(name)-shortID)
	if path > 0 {
		n.within++
	}
}

// compileCost returns the cost of a schema, or more than most if it is above that.
func compileCost(doc any, most int) int {
	s := costModel{doc: doc, patterns: map[string]bool{}}
	s.value(doc, 0, "", false)
	if s.hidden || slices.ContainsFunc(s.refs, leadsToData) {
		s = costModel{doc: doc, patterns: map[string]bool{}, wholly: true}
		s.value(doc, 0, "", false)
	}
	if s.draft4 {
		s.ids.weight += s.oldIDs.weight
		s.ids.within += s.oldIDs.within
	}
	n := s.weight + s.ids.weight + s.located() + max(0, s.values-2*s.schemas)/valuesOfSchema
	n += s.targets()
	for text := range s.patterns {
		if n > most {
			break
		}
		n += weightOfPattern(text, most)
	}
	return n
}

// located returns the cost of the locations of schemas.
func (s *costModel) located() int { return s.schemas + s.paths/pathOfSchema }

// schema adds the cost of a schema without its subschemas.
func (s *costModel) schema(path int) {
	s.schemas++
	s.paths += max(0, path-shortPath)
}

// value adds the cost of a value and its elements. path is the length of its path, and called its name if it is a
// member. data means that the value is inside a member that is data.
func (s *costModel) value(v any, path int, called string, data bool) {
	switch v := v.(type) {
	case bool:
		s.schema(path)
	case map[string]any:
		s.schema(path)
		for name, inner := range v {
			if !data || s.wholly {
				s.member(name, inner, path)
			} else if name == "$dynamicAnchor" {
				s.hidden = true
			}
			s.value(inner, path+bytesOfStep+len(name), name, data || holdsData(called, name))
		}
	case []any:
		s.values++
		for i, inner := range v {
			s.value(inner, path+bytesOfStep+len(strconv.Itoa(i)), "", data)
		}
	case json.Number:
		s.values += valuesOfNumber
		if len(v) > shortNumber || strings.ContainsAny(string(v), "eE") {
			s.weight++
		}
	default:
		s.values++
	}
}

// member adds the cost of a member of an object, apart from its value.
func (s *costModel) member(name string, value any, path int) {
	switch value := value.(type) {
	case string:
		switch name {
		case "$schema":
			s.draft4 = s.draft4 || strings.Contains(value, "draft-04")
			s.oldDraft = s.oldDraft || strings.Contains(value, "draft-0")
		case "$id":
			s.ids.add(value, path)
		case "id":
			s.oldIDs.add(value, path)
		case "$ref", "$dynamicRef", "$recursiveRef":
			s.refs = append(s.refs, value)
			s.values += valuesOfRef
		case "$dynamicAnchor":
			s.weight += weightOfTarget
		case "pattern":
			s.patterns[value] = true
		}
	case map[string]any:
		if name != "patternProperties" {
			return
		}
		for text := range value {
			s.patterns[text] = true
		}
	}
}

// targets adds the cost of references by location. For each reference to an unusual place, the library may process the
// whole target again. $defs and definitions are not nested in one another, so that together they are at most the whole.
func (s *costModel) targets() int {
	n := 0
	seen := map[string]bool{}
	for _, ref := range s.refs {
		base, pointer, steps := stepsOf(ref)
		if len(steps) == 0 || seen[ref] && s.ids.within == 0 {
			continue
		}
		seen[ref] = true
		target, aliased := follow(s.doc, steps)
		if s.ids.within > 0 { // it may begin anywhere
			aliased = slices.ContainsFunc(steps, isIndexByAnotherName)
		}
		if aliased {
			return maxWeight
		}
		switch shared := len(steps) == 2 && (steps[0] == "$defs" || steps[0] == "definitions"); {
		case s.ids.within > 0: // it may be relative to any of them
			n += weightOfTarget + s.located()
		case shared && (steps[0] == "definitions" || !s.oldDraft): // the usual places
		case shared:
			n += weightOfTarget
		case base != "":
			n += weightOfTarget + s.located()
		default:
			within := costModel{patterns: s.patterns}
			within.value(target, len(pointer)+bytesOfStep*len(steps), "", false)
			n += weightOfTarget + within.located()
		}
	}
	return n
}

// stepsOf returns the beginning of a reference, and the steps of its JSON pointer, if any.
func stepsOf(ref string) (base, pointer string, steps []string) {
	base, fragment, _ := strings.Cut(ref, "#")
	pointer, err := url.PathUnescape(fragment)
	if err != nil || !strings.HasPrefix(pointer, "/") {
		return base, "", nil
	}
	for step := range strings.SplitSeq(pointer[1:], "/") {
		steps = append(steps, pointerNames.Replace(step))
	}
	return base, pointer, steps
}

// leadsToData reports whether a reference may lead to data, wherever it begins.
func leadsToData(ref string) bool {
	_, _, steps := stepsOf(ref)
	in := ""
	for _, step := range steps {
		if holdsData(in, step) {
			return true
		}
		in = step
	}
	return false
}

// isIndexByAnotherName reports whether the library accepts a step of a JSON pointer as an alias of a shorter index. It
// would compile the element once for each alias. RFC 6901 does not allow such indices.
func isIndexByAnotherName(step string) bool {
	i, err := strconv.Atoi(step)
	return err == nil && strconv.Itoa(i) != step
}

// follow returns the value at the steps of a JSON pointer, or nil. It stops at an alias of an index, and reports that.
func follow(v any, steps []string) (target any, aliased bool) {
	for _, step := range steps {
		switch in := v.(type) {
		case map[string]any:
			v = in[step]
		case []any:
			if isIndexByAnotherName(step) {
				return nil, true
			}
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(in) {
				return nil, false
			}
			v = in[i]
		default:
			return nil, false
		}
	}
	return v, false
}

// folding matches the flag of case-insensitive regular expressions.
var folding = regexp.MustCompile(`\(\?[a-zA-Z]*i`)

// weightOfPattern returns the cost of a regular expression. It parses only one that is short enough.
func weightOfPattern(text string, most int) int {
	size := len(text) + bytesOfClass*(strings.Count(text, `\p`)+strings.Count(text, `\P`))
	if wide := strings.Contains(text, `\x`) ||
		strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII }); wide &&
		folding.MatchString(text) {
		size += bytesOfFolded * strings.Count(text, "-")
	}
	n := 1 + size/bytesOfPattern
	if n > most {
		return n
	}
	if re, err := syntax.Parse(text, syntax.Perl); err == nil { // invalid Go patterns are not compiled
		n = max(n, 1+partsOf(re)/partsOfPattern)
	}
	return n
}

// partsOf returns the number of parts of a regular expression after its repetitions are expanded.
func partsOf(re *syntax.Regexp) int {
	n := 1
	if re.Op == syntax.OpLiteral {
		n = len(re.Rune)
	}
	for _, sub := range re.Sub {
		n += partsOf(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return n
}
