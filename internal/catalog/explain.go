package catalog

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	"github.com/mcpbridge/mcpbridge/internal/signature"
)

// The limits of an explanation.
const (
	maxProblems  = 12
	maxProblem   = 300
	maxSignature = 1_500
	maxListed    = 10 // of alternatives and names
	// maxExplained is the maximum number of errors that are examined.
	maxExplained = 1_000
)

// A violation explains why a value does not conform to a schema.
type violation struct {
	// problems are ordered by location.
	problems []problem
	// more means that there are further errors.
	more bool
	// undecided means that the validation is undecidable, for the reason in problems.
	undecided bool
}

// A problem is an error at one location.
type problem struct {
	// at is a JSON pointer. If empty, it is the whole value.
	at string
	// text has the expected and the actual value.
	text string
}

// refusal returns a violation of the whole value.
func refusal(text string) *violation { return &violation{problems: []problem{{"", text}}} }

// undecided returns the violation of a value that cannot be validated.
func undecided(at, format string, args ...any) *violation {
	return &violation{problems: []problem{{at, fmt.Sprintf(format, args...)}}, undecided: true}
}

// lines returns one line per problem.
func (v *violation) lines(whole string) string {
	var b strings.Builder
	for i, p := range v.problems {
		if i == maxProblems {
			than := ""
			if v.more {
				than = "more than "
			}
			fmt.Fprintf(&b, "\n- and %s%d more", than, len(v.problems)-i)
			break
		}
		at := whole
		if p.at != "" {
			at = rawjson.ShortenTo(p.at, maxProblem)
		}
		fmt.Fprintf(&b, "\n- %s: %s", at, rawjson.ShortenTo(p.text, maxProblem))
	}
	return b.String()
}

// english is the language of the library's messages.
var english = message.NewPrinter(language.English)

// explain converts the library's errors.
func (s *schema) explain(value any, found *jsonschema.ValidationError) *violation {
	e := explainer{
		schema: s, value: value,
		shown: map[uintptr]string{}, shapes: map[*jsonschema.Schema]string{}, names: map[*jsonschema.Schema]string{},
		parts: map[part]*jsonschema.Schema{},
	}
	e.error(found)
	slices.SortFunc(e.problems,
		func(a, b problem) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.text, b.text)) })
	e.problems = slices.Compact(e.problems)
	return &e.violation
}

type explainer struct {
	violation
	*schema
	value any
	// root is the schema for display, parsed when a type is displayed for the first time.
	root signature.Schema
	// explained is the number of examined errors.
	explained int
	// shown and shapes cache the text of large values, by address, and of schemas, because there may be many errors.
	shown  map[uintptr]string
	shapes map[*jsonschema.Schema]string
	// names caches the text of declared names.
	names map[*jsonschema.Schema]string
	// parts caches the subschemas at locations: schemas with many branches have many errors at one location.
	parts map[part]*jsonschema.Schema
}

// A part is a property or an item of a schema.
type part struct {
	of   *jsonschema.Schema
	name string
}

// limitReached counts an examined error, and reports whether the limit is reached: the library reports all errors.
func (e *explainer) limitReached() bool {
	e.explained++
	e.more = e.more || e.explained > maxExplained
	return e.more
}

func (e *explainer) add(at []string, format string, args ...any) {
	e.problems = append(e.problems, problem{pointer(at), fmt.Sprintf(format, args...)})
}

func pointer(at []string) string {
	var b strings.Builder
	for _, name := range at {
		b.WriteString("/" + pointerEscapes.Replace(name))
	}
	return b.String()
}

// error adds the problems of one of the library's errors.
func (e *explainer) error(err *jsonschema.ValidationError) {
	if e.limitReached() {
		return
	}
	at := err.InstanceLocation
	switch k := err.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
		if len(err.Causes) > 0 {
			for _, cause := range err.Causes {
				e.error(cause)
			}
			return
		}
	case *kind.AnyOf:
		e.choice(err)
		return
	case *kind.OneOf:
		if len(k.Subschemas) == 0 {
			e.choice(err)
			return
		}
		e.add(at, "expected exactly one of several forms to fit, and more than one does; got %s", e.got(at))
		return
	case *kind.Required:
		e.missing(at, k.Missing, "")
		return
	case *kind.Dependency:
		e.missing(at, k.Missing, k.Prop)
		return
	case *kind.DependentRequired:
		e.missing(at, k.Missing, k.Prop)
		return
	case *kind.AdditionalProperties:
		known := e.unknown(at)
		for _, name := range k.Properties {
			if e.limitReached() {
				break
			}
			e.add(append(slices.Clone(at), name), "%s", known)
		}
		return
	case *kind.RefCycle:
		e.undecided = true
		e.add(at, "it cannot be compared with a schema that refers to itself without end")
		return
	case *kind.FalseSchema:
		e.add(at, "expected nothing here, got %s", e.got(at))
		return
	case *kind.PropertyNames:
		e.add(at, "%q is not a name that is allowed here", rawjson.ShortenTo(k.Property, maxProblem))
		return
	}
	if want := e.expected(err.ErrorKind); want != "" {
		e.add(at, "expected %s, got %s", want, e.got(at))
		return
	}
	e.add(at, "%s", err.ErrorKind.LocalizedString(english))
}

// expected returns the expected type at the location of an error, or "".
func (e *explainer) expected(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return alternatives(k.Want)
	case *kind.Enum:
		return "one of " + list(k.Want, e.show)
	case *kind.Const:
		return e.show(k.Want)
	case *kind.MinLength:
		return fmt.Sprintf("at least %s", count(k.Want, "character"))
	case *kind.MaxLength:
		return fmt.Sprintf("at most %s", count(k.Want, "character"))
	case *kind.Pattern:
		return "text that matches " + rawjson.ShortenTo(k.Want, maxProblem/3)
	case *kind.Minimum:
		return "at least " + decimal(k.Want)
	case *kind.Maximum:
		return "at most " + decimal(k.Want)
	case *kind.ExclusiveMinimum:
		return "more than " + decimal(k.Want)
	case *kind.ExclusiveMaximum:
		return "less than " + decimal(k.Want)
	case *kind.MultipleOf:
		return "a multiple of " + decimal(k.Want)
	case *kind.MinItems:
		return fmt.Sprintf("at least %s", count(k.Want, "item"))
	case *kind.MaxItems:
		return fmt.Sprintf("at most %s", count(k.Want, "item"))
	case *kind.MinProperties:
		return fmt.Sprintf("at least %s", count(k.Want, "property"))
	case *kind.MaxProperties:
		return fmt.Sprintf("at most %s", count(k.Want, "property"))
	case *kind.UniqueItems:
		return fmt.Sprintf("different items, and items %d and %d are the same", k.Duplicates[0], k.Duplicates[1])
	case *kind.AdditionalItems:
		return fmt.Sprintf("%s less", count(k.Count, "item"))
	case *kind.Not:
		return "something else"
	case *kind.Contains:
		return "at least one item of a certain form"
	}
	return ""
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + strings.Replace(what, "property", "propertie", 1) + "s"
}

// decimal returns a number in decimal notation.
func decimal(r *big.Rat) string {
	if r.IsInt() {
		return rawjson.ShortenTo(r.Num().String(), 40)
	}
	text, exact := r.FloatPrec()
	if !exact || text > 20 {
		text = 20
	}
	return r.FloatString(text)
}

// missing adds a problem with the type for each missing property.
func (e *explainer) missing(at, names []string, with string) {
	for _, name := range names {
		if e.limitReached() {
			break
		}
		want := "a value"
		if s := e.schemaAt(at); s != nil {
			if p := e.declared(s, name); p != nil {
				if e.shapes[p] == "" {
					e.shapes[p] = e.shape(p)
				}
				if w := e.shapes[p]; w != "any" {
					want = w
				}
			}
		}
		because := ""
		if with != "" {
			because = fmt.Sprintf(" because %q is there", rawjson.ShortenTo(with, maxProblem/3))
		}
		e.add(append(slices.Clone(at), name), "expected %s%s, got nothing: it is required", want, because)
	}
}

// unknown returns the text for an undeclared property, which lists the allowed ones.
func (e *explainer) unknown(at []string) string {
	s := resolve(e.schemaAt(at))
	if s == nil || len(s.Properties) == 0 {
		return "there is no such property"
	}
	if e.names[s] == "" {
		names := slices.Sorted(maps.Keys(s.Properties))
		more := ""
		if len(names) > maxListed {
			names, more = names[:maxListed], ", …"
		}
		e.names[s] = "there is no such property; there is " + strings.Join(names, ", ") + more
	}
	return e.names[s]
}

// choice explains why no alternative matches: by the errors of the intended one, if it can be determined.
func (e *explainer) choice(err *jsonschema.ValidationError) {
	at := err.InstanceLocation
	var want []string
	var intended []*jsonschema.ValidationError
	for _, cause := range err.Causes {
		if e.limitReached() {
			break
		}
		if misfit := whole(cause, err.InstanceLocation); misfit != nil {
			if len(misfit.InstanceLocation) > len(at) {
				at, want = misfit.InstanceLocation, nil // the discriminator rather than the whole value
			}
			if w := e.expected(misfit.ErrorKind); w != "" && len(misfit.InstanceLocation) == len(at) &&
				!slices.Contains(want, w) {
				want = append(want, w)
			}
			continue
		}
		intended = append(intended, cause)
	}
	switch {
	case len(intended) == 1:
		e.error(intended[0])
	case len(intended) > 1:
		e.add(err.InstanceLocation,
			"expected one of several forms, and none of them fits; each of these is wrong for one of them; got %s",
			e.got(err.InstanceLocation))
		for _, m := range intended[:min(len(intended), maxListed)] {
			e.error(m)
		}
	case len(want) > 0:
		e.add(at, "expected %s, got %s", strings.Join(want, ", or "), e.got(at))
	default:
		e.add(err.InstanceLocation, "%s", err.ErrorKind.LocalizedString(english))
	}
}

// whole returns the error by which an alternative rejects the value as a whole: its type, const or enum.
func whole(err *jsonschema.ValidationError, at []string) *jsonschema.ValidationError {
	switch err.ErrorKind.(type) {
	case *kind.Type, *kind.Enum, *kind.Const, *kind.FalseSchema:
		if slices.Equal(err.InstanceLocation, at) {
			return err
		}
	case *kind.Reference, *kind.AllOf, *kind.Group:
		for _, cause := range err.Causes {
			if w := whole(cause, at); w != nil {
				return w
			}
		}
	}
	// An alternative with a discriminator is not intended if the property has another value.
	if _, ok := err.ErrorKind.(*kind.Const); ok && len(err.InstanceLocation) == len(at)+1 {
		return err
	}
	return nil
}

// got describes the value at a location.
func (e *explainer) got(at []string) string {
	v := e.value
	for _, name := range at {
		switch inner := v.(type) {
		case map[string]any:
			v = inner[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i >= len(inner) {
				return "something else"
			}
			v = inner[i]
		}
	}
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return fmt.Sprintf("the boolean %t", v)
	case json.Number:
		return "the number " + rawjson.ShortenTo(v.String(), 40)
	case string:
		return "the string " + show(v)
	case []any:
		return fmt.Sprintf("an array of %s", count(len(v), "item"))
	case map[string]any:
		return fmt.Sprintf("an object of %s", count(len(v), "property"))
	}
	return "something else"
}

// show returns the beginning of a value as JSON.
func show(v any) string {
	if s, ok := v.(string); ok {
		return string(rawjson.AppendString(nil, rawjson.Shorten(s)))
	}
	text, err := json.Marshal(v)
	if err != nil {
		return "something"
	}
	return rawjson.Shorten(text)
}

// show returns the beginning of a value in the schema.
func (e *explainer) show(v any) string {
	switch v.(type) {
	case []any, map[string]any:
		at := reflect.ValueOf(v).Pointer()
		if e.shown[at] == "" {
			e.shown[at] = show(v)
		}
		return e.shown[at]
	}
	return show(v)
}

func list(values []any, show func(any) string) string {
	var all []string
	for i, v := range values {
		if i == maxListed {
			all = append(all, "…")
			break
		}
		all = append(all, show(v))
	}
	return strings.Join(all, ", ")
}

var articles = map[string]string{"array": "an array", "object": "an object", "integer": "an integer", "null": "null"}

func alternatives(names []string) string {
	var all []string
	for _, name := range nullLast(names) {
		article := articles[name]
		if article == "" {
			article = "a " + name
		}
		all = append(all, article)
	}
	return strings.Join(all, " or ")
}

// nullLast moves null to the end of type names.
func nullLast(names []string) []string {
	if len(names) > 1 && names[0] == "null" {
		return append(slices.Clone(names[1:]), "null")
	}
	return names
}

// schemaAt returns the schema for a location, if it is simple to find.
func (e *explainer) schemaAt(at []string) *jsonschema.Schema {
	s := e.full
	for _, name := range at {
		if s = e.declared(s, name); s == nil {
			return nil
		}
	}
	return s
}

// declared returns the subschema of a property or an item, which is cached.
func (e *explainer) declared(s *jsonschema.Schema, name string) *jsonschema.Schema {
	p := part{s, name}
	found, ok := e.parts[p]
	if !ok {
		found = declared(s, name)
		e.parts[p] = found
	}
	return found
}

// errText returns an error as a short line.
func errText(err error) string {
	if s := (*jsonschema.SchemaValidationError)(nil); errors.As(err, &s) {
		if v := (*jsonschema.ValidationError)(nil); errors.As(s.Err, &v) {
			for len(v.Causes) > 0 {
				v = v.Causes[0]
			}
			return fmt.Sprintf("it is not a valid schema: at %q %s", pointer(v.InstanceLocation),
				rawjson.ShortenTo(v.ErrorKind.LocalizedString(english), maxProblem))
		}
	}
	return rawjson.ShortenTo(strings.ReplaceAll(err.Error(), location, ""), maxProblem)
}
