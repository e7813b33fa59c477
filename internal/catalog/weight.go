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

// What counts as another schema when a schema is weighed, because the library takes as long for it: about 20 µs.
const (
	// pathOfSchema is how many bytes of the paths to schemas do, over shortPath for each, where a step is bytesOfStep more than its name:
	// the library copies and compares paths again and again.
	pathOfSchema, shortPath, bytesOfStep = 512, 128, 16
	// valuesOfSchema is how many values do that are no schemas, over two for each schema. A number is as much as valuesOfNumber: old
	// drafts compare those of an enum with one another. A reference is as much as valuesOfRef more.
	valuesOfSchema, valuesOfNumber, valuesOfRef = 5, 3, 2
	// bytesOfPattern is how many bytes of a regular expression do, and partsOfPattern how many parts, after those that are repeated
	// are written out.
	bytesOfPattern, partsOfPattern = 24, 32
	// bytesOfClass is how many bytes of a regular expression a class of Unicode stands for, which has hundreds of ranges. A range of
	// more than ASCII whose case does not matter stands for bytesOfFolded: each of its characters is looked up.
	bytesOfClass, bytesOfFolded = 96, 24 * 100
	// shortNumber is how long a number is that takes no time.
	shortNumber = 20
	// weightOfID and weightOfTarget are for a schema that has a name of its own or is referred to. Every other one is compared with the
	// former, and where schemas usually are not, the library copies its tables for the latter.
	weightOfID, weightOfTarget = 4, 4
	// shortID is how long the name of a schema is that takes no time: every reference in it is resolved by it.
	shortID = 128
	// maxWeight is more than any limit.
	maxWeight = 1 << 30
)

// A scale weighs a schema: how many plain schemas take as long to compile. It is not fooled by what a schema is made of, so what is
// light is compiled in a known time, although compiling cannot be interrupted.
type scale struct {
	doc      any
	weight   int // of what neither schemas nor values count for
	schemas  int
	paths    int // bytes of those to schemas that count
	values   int // that are none
	ids      ids
	oldIDs   ids // of draft 4, which calls them otherwise
	draft4   bool
	oldDraft bool // that has no $defs
	refs     []string
	patterns map[string]bool
	// wholly says that data is weighed as schemas are. hidden says that there are schemas in it, wherever references lead.
	wholly, hidden bool
}

// Members of schemas that are data: the library sees no schema in it, nor the name of one, unless a reference leads there. Members of
// what holds schemas by their names are schemas, whatever they are called.
var (
	isData    = map[string]bool{"const": true, "default": true, "enum": true, "examples": true}
	isOfNames = map[string]bool{
		"properties": true, "patternProperties": true, "$defs": true, "definitions": true, "dependentSchemas": true, "dependencies": true,
	}
)

// holdsData reports whether a member of what is called in is data.
func holdsData(in, name string) bool { return isData[name] && !isOfNames[in] }

// ids are the names that schemas have of themselves.
type ids struct {
	weight int
	within int // of schemas within the schema
}

func (n *ids) add(name string, path int) {
	n.weight += weightOfID + max(0, len(name)-shortID)
	if path > 0 {
		n.within++
	}
}

// weigh returns the weight of a schema, or one over most if it is heavier than that.
func weigh(doc any, most int) int {
	s := scale{doc: doc, patterns: map[string]bool{}}
	s.value(doc, 0, "", false)
	if s.hidden || slices.ContainsFunc(s.refs, leadsToData) {
		s = scale{doc: doc, patterns: map[string]bool{}, wholly: true}
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

// located returns the weight of schemas where they are.
func (s *scale) located() int { return s.schemas + s.paths/pathOfSchema }

// schema weighs a schema without what is in it.
func (s *scale) schema(path int) {
	s.schemas++
	s.paths += max(0, path-shortPath)
}

// value weighs a value, and what is in it. The path to it is as long, and the last step of that is its name, if it is a member's. It may be
// data.
func (s *scale) value(v any, path int, called string, data bool) {
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

// member weighs what a member of an object does besides having a value.
func (s *scale) member(name string, value any, path int) {
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

// targets weighs what is referred to by where it is. The library may look at all of it once more for each such reference, and does for
// those to places where schemas usually are not. $defs and definitions are not in one another, so that those together are at most
// the whole.
func (s *scale) targets() int {
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
		case shared && (steps[0] == "definitions" || !s.oldDraft): // where schemas usually are
		case shared:
			n += weightOfTarget
		case base != "":
			n += weightOfTarget + s.located()
		default:
			within := scale{patterns: s.patterns}
			within.value(target, len(pointer)+bytesOfStep*len(steps), "", false)
			n += weightOfTarget + within.located()
		}
	}
	return n
}

// stepsOf returns where a reference begins, and the JSON pointer that it goes on by, with its steps: none, if that is none.
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

// isIndexByAnotherName reports whether the library takes a step of a JSON pointer for the index of an element that has a shorter one.
// It would compile the element once for each of them. RFC 6901 has no such indices.
func isIndexByAnotherName(step string) bool {
	i, err := strconv.Atoi(step)
	return err == nil && strconv.Itoa(i) != step
}

// follow returns what is where the steps of a JSON pointer lead to, or nil. It reports whether it came by an element that it has been given
// another name of, and goes no further.
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

// folding is in regular expressions for which case does not matter.
var folding = regexp.MustCompile(`\(\?[a-zA-Z]*i`)

// weightOfPattern returns the weight of a regular expression. It parses only what is light enough as text.
func weightOfPattern(text string, most int) int {
	size := len(text) + bytesOfClass*(strings.Count(text, `\p`)+strings.Count(text, `\P`))
	if wide := strings.Contains(text, `\x`) || strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII }); wide && folding.MatchString(text) {
		size += bytesOfFolded * strings.Count(text, "-")
	}
	n := 1 + size/bytesOfPattern
	if n > most {
		return n
	}
	if re, err := syntax.Parse(text, syntax.Perl); err == nil { // those that are not of Go are not compiled
		n = max(n, 1+partsOf(re)/partsOfPattern)
	}
	return n
}

// partsOf returns how many parts a regular expression has when what is repeated is written out.
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
