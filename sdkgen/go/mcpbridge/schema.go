package mcpbridge

import (
	"cmp"
	"encoding"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/google/jsonschema-go/jsonschema"
)

// Conversion of types to JSON Schema. google/jsonschema-go reads the fields, their json tags and their descriptions;
// constraints are in the tag schema:
//
//	Days  int      `json:"days,omitempty" jsonschema:"How far to look ahead" schema:"min=1,max=14,default=3"`
//	Units string   `json:"units" schema:"enum=metric|imperial"`
//	Tags  []string `json:"tags" schema:"maxItems=5,pattern=^[a-z]+$"` // a pattern is the last: it may have commas

// Values become JSON as with encoding/json, but nil slices and maps are [] and {}, which their schemas require.
var dumping = json.JoinOptions(
	jsonv1.OmitEmptyWithLegacySemantics(true),
	jsonv1.FormatDurationAsNano(true),
	jsontext.AllowInvalidUTF8(true), // it becomes U+FFFD
	json.Deterministic(true),
)

// JSON is decoded strictly.
var (
	reading = json.JoinOptions(json.RejectUnknownMembers(true), jsonv1.FormatDurationAsNano(true))
	lenient = json.JoinOptions(jsonv1.FormatDurationAsNano(true))
)

func marshal(v any) ([]byte, error)       { return json.Marshal(v, dumping) }
func unmarshal(text []byte, to any) error { return json.Unmarshal(text, to, lenient) }

// typeSchemas are the schemas of types with a special JSON form.
var typeSchemas = map[reflect.Type]*jsonschema.Schema{
	reflect.TypeFor[[]byte]():             {Type: "string", ContentEncoding: "base64"},
	reflect.TypeFor[stdjson.RawMessage](): {},
	reflect.TypeFor[jsontext.Value]():     {},
	reflect.TypeFor[time.Time]():          {Type: "string", Format: "date-time"},
	reflect.TypeFor[time.Duration]():      {Type: "integer", Description: "nanoseconds"},
}

// schemaOf returns the schema of t. Defaults are set in v, a value of t. If v is nil, the schema is for results, which
// have no defaults.
func schemaOf(t reflect.Type, v *reflect.Value) (*jsonschema.Schema, error) {
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: typeSchemas})
	if err != nil {
		if field, of := notJSON(t, nil); of != nil {
			return nil, fmt.Errorf("%s has a type that JSON cannot represent, %s; leave it out with `json:\"-\"`, or "+
				"use another", cmp.Or(field, "the value"), of)
		}
		if of := selfContaining(t, nil); of != nil {
			return nil, fmt.Errorf("%s contains itself, and has no schema here; use any in it, and InputSchema or "+
				"OutputSchema to say more", of)
		}
		return nil, err
	}
	if err := refine(t, s, v, v == nil); err != nil {
		return nil, err
	}
	return s, nil
}

// notJSON returns the first field in t, as "field A.B", whose type has no JSON form, and that type, or nil.
func notJSON(t reflect.Type, above []reflect.Type) (string, reflect.Type) {
	switch t.Kind() {
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return "", t
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return notJSON(t.Elem(), above)
	case reflect.Struct:
		if typeSchemas[t] != nil || slices.Contains(above, t) {
			return "", nil
		}
		for f := range t.Fields() {
			if !f.IsExported() || f.Tag.Get("json") == "-" {
				continue
			}
			if field, of := notJSON(f.Type, append(above, t)); of != nil {
				return strings.TrimSuffix("field "+f.Name+"."+strings.TrimPrefix(field, "field "), "."), of
			}
		}
	}
	return "", nil
}

// selfContaining returns the first type in t that contains itself, or nil.
func selfContaining(t reflect.Type, above []reflect.Type) reflect.Type {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return selfContaining(t.Elem(), above)
	case reflect.Struct:
		if slices.Contains(above, t) {
			return t
		}
		for f := range t.Fields() {
			if !f.IsExported() || f.Tag.Get("json") == "-" || typeSchemas[f.Type] != nil {
				continue
			}
			if of := selfContaining(f.Type, append(above, t)); of != nil {
				return of
			}
		}
	}
	return nil
}

var textual = reflect.TypeFor[encoding.TextMarshaler]()

// refine applies the tags of t's fields to s. v is nil if defaults are not possible.
func refine(t reflect.Type, s *jsonschema.Schema, v *reflect.Value, result bool) error {
	for t.Kind() == reflect.Pointer {
		t, v = t.Elem(), nil
	}
	if typeSchemas[t] != nil || t.Implements(textual) || reflect.PointerTo(t).Implements(textual) {
		return nil
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		if t.Kind() == reflect.Slice && slices.Equal(s.Types, []string{"null", "array"}) {
			s.Type, s.Types = "array", nil // nil becomes []
		}
		return refine(t.Elem(), s.Items, nil, result)
	case reflect.Map:
		return refine(t.Elem(), s.AdditionalProperties, nil, result)
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" {
				name = f.Name
			}
			fs := s.Properties[name]
			if f.Anonymous || !f.IsExported() || fs == nil {
				continue
			}
			var fv *reflect.Value
			if v != nil {
				if got, err := v.FieldByIndexErr(f.Index); err == nil {
					fv = &got
				}
			}
			if err := refine(f.Type, fs, fv, result); err != nil {
				return err
			}
			if tag := f.Tag.Get("schema"); tag != "" {
				if err := applyTag(tag, f.Type, fs, fv, result); err != nil {
					return fmt.Errorf("field %s, schema:%q: %w", f.Name, tag, err)
				}
			}
			if fs.Default != nil {
				s.Required = slices.DeleteFunc(s.Required, func(n string) bool { return n == name })
			}
		}
	}
	return nil
}

var tagKeys = []string{
	"min", "max", "above", "below", "multipleOf", "minLen", "maxLen", "minItems", "maxItems", "unique", "enum",
	"titles", "format", "default",
	"title", "pattern",
}

// applyTag applies the tag of a field to its schema. For a list, it applies to the items, except their number.
func applyTag(tag string, t reflect.Type, s *jsonschema.Schema, v *reflect.Value, result bool) error {
	list, item := s, s
	var titles []string
	for s.Items != nil && item.Items != nil {
		item = item.Items
	}
	for tag != "" {
		var one string
		if strings.HasPrefix(tag, "pattern=") {
			one, tag = tag, ""
		} else {
			one, tag, _ = strings.Cut(tag, ",")
		}
		key, value, _ := strings.Cut(one, "=")
		var err error
		switch key {
		case "min":
			err = tagNumber(item, value, &item.Minimum)
		case "max":
			err = tagNumber(item, value, &item.Maximum)
		case "above":
			err = tagNumber(item, value, &item.ExclusiveMinimum)
		case "below":
			err = tagNumber(item, value, &item.ExclusiveMaximum)
		case "multipleOf":
			err = tagNumber(item, value, &item.MultipleOf)
		case "minLen":
			err = tagCount(is(item, "string"), "text", value, &item.MinLength)
		case "maxLen":
			err = tagCount(is(item, "string"), "text", value, &item.MaxLength)
		case "minItems":
			err = tagCount(list.Items != nil, "a list", value, &list.MinItems)
		case "maxItems":
			err = tagCount(list.Items != nil, "a list", value, &list.MaxItems)
		case "unique":
			list.UniqueItems = true
		case "enum":
			for choice := range strings.SplitSeq(value, "|") {
				c, err := scalar(item, choice)
				if err != nil {
					return err
				}
				item.Enum = append(item.Enum, c)
			}
		case "titles":
			titles = strings.Split(value, "|")
		case "format":
			err = tagFormat(item, value)
		case "title":
			list.Title = value
		case "default":
			if !result {
				err = tagDefault(s, value, t, v)
			}
		case "pattern":
			if _, err = regexp.Compile(value); err == nil {
				item.Pattern = value
			}
		default:
			err = fmt.Errorf("there is no %s%s", key, didYouMean(key, tagKeys))
		}
		if err != nil {
			return err
		}
	}
	if err := setTitles(item, item != list, titles); err != nil {
		return err
	}
	if s.Default != nil {
		return checkDefault(s)
	}
	return nil
}

// setTitles adds titles to the choices of s, in the form of MCP: oneOf, and anyOf for the items of a list.
func setTitles(s *jsonschema.Schema, inList bool, titles []string) error {
	if titles == nil {
		return nil
	}
	if len(titles) != len(s.Enum) {
		return fmt.Errorf("there are %d titles for %d choices", len(titles), len(s.Enum))
	}
	choices := make([]*jsonschema.Schema, len(titles))
	for i, title := range titles {
		choices[i] = &jsonschema.Schema{Const: &s.Enum[i], Title: title}
	}
	if s.Enum = nil; inList {
		s.AnyOf = choices
	} else {
		s.OneOf = choices
	}
	return nil
}

// choicesOf returns the values that s lists, with or without titles, or nil if it allows others.
func choicesOf(s *jsonschema.Schema) []any {
	if s.Enum != nil {
		return s.Enum
	}
	var choices []any
	for _, c := range slices.Concat(s.OneOf, s.AnyOf) {
		if c.Const == nil {
			return nil
		}
		choices = append(choices, *c.Const)
	}
	return choices
}

func is(s *jsonschema.Schema, types ...string) bool {
	return slices.Contains(types, s.Type) ||
		slices.ContainsFunc(s.Types, func(t string) bool { return slices.Contains(types, t) })
}

func tagNumber(s *jsonschema.Schema, value string, to **float64) error {
	n, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return fmt.Errorf("%q is not a number", value)
	}
	if !is(s, "integer", "number") {
		return errors.New("it is for numbers; use minLen or maxLen for text, and minItems or maxItems for lists")
	}
	*to = &n
	return nil
}

func tagCount(fits bool, what, value string, to **int) error {
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 {
		return fmt.Errorf("%q is not a count", value)
	}
	if !fits {
		return fmt.Errorf("it is for %s", what)
	}
	*to = &n
	return nil
}

func tagFormat(s *jsonschema.Schema, value string) error {
	if !is(s, "string") {
		return errors.New("it is for text")
	}
	names := slices.Sorted(maps.Keys(formats))
	if !slices.Contains(names, value) {
		return fmt.Errorf("there is no format %s%s; there are %s", value, didYouMean(value, names),
			strings.Join(names, ", "))
	}
	s.Format = value
	return nil
}

// scalar parses text as a value of s.
func scalar(s *jsonschema.Schema, text string) (any, error) {
	switch {
	case is(s, "string"):
		return text, nil
	case is(s, "integer", "number", "boolean"):
		var v any
		if err := unmarshal([]byte(text), &v); err == nil && (is(s, "boolean") == (text == "true" || text == "false")) {
			return stdjson.RawMessage(text), nil
		}
		return nil, fmt.Errorf("%q is not of type %s", text, typeName(s))
	}
	return nil, errors.New("it is for text, numbers and booleans")
}

// tagDefault sets a field's default, in the schema and in v.
func tagDefault(s *jsonschema.Schema, value string, t reflect.Type, v *reflect.Value) error {
	if v == nil {
		return errors.New("a default works in a struct and the structs in it, not behind pointers, in lists or in maps")
	}
	d, err := scalar(s, value)
	if err != nil {
		return err
	}
	text, err := marshal(d)
	if err != nil {
		return err
	}
	to := reflect.New(t)
	if err := unmarshal(text, to.Interface()); err != nil {
		return fmt.Errorf("default %q is not a %s", value, t)
	}
	v.Set(to.Elem())
	s.Default = text
	return nil
}

// checkDefault returns an error if a default does not conform to its schema.
func checkDefault(s *jsonschema.Schema) error {
	n, err := compile(s)
	if err != nil {
		return err
	}
	if _, wrong := n.check(s.Default); wrong != nil {
		why, _, _ := strings.Cut(strings.TrimPrefix(strings.Join(wrong, "; "), "- (all): "), ", got ")
		return fmt.Errorf("the default %s does not fit: %s", s.Default, why)
	}
	return nil
}
