package catalog

import (
	"encoding/json"
	"math"
	"math/big"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A fastValidator accepts JSON text that certainly conforms to a schema, in one pass and without decoding. If it does
// not accept a text, the library decides: a fastValidator never rejects.
//
// It is built from the library's compiled schema, so that dialects and references have the same meaning for both.
type fastValidator struct {
	// undecidable means that only the library supports all of the schema.
	undecidable bool
	// unconstrained means that every value conforms.
	unconstrained bool
	// types are the allowed types. If empty, all are.
	types types
	// allOf are further schemas to conform to, and anyOf are alternatives of which one is enough.
	allOf, anyOf []*fastValidator

	// enum has the allowed values, if they are listed.
	enum *scalars

	// For strings.
	minLength, maxLength int
	pattern              *pattern

	// For numbers.
	low, high *bound

	// For objects. Required properties have numbers, so that each is counted once.
	props      []property
	index      map[string]int // of props, if there are many
	required   int
	additional *fastValidator // of undeclared properties

	// For arrays.
	items              *fastValidator
	minItems, maxItems int
}

type property struct {
	name      string
	schema    *fastValidator // nil if the property is not declared
	number    int            // if it is required, or -1
	unescaped bool           // the name contains no character that must be escaped
}

// types is a set of JSON types.
type types uint8

const (
	tNull types = 1 << iota
	tBool
	tInteger
	tNumber
	tString
	tArray
	tObject
)

var typeNames = map[string]types{
	"null": tNull, "boolean": tBool, "integer": tInteger, "number": tNumber | tInteger, "string": tString,
	"array":  tArray,
	"object": tObject,
}

// scalars are the allowed values of an enum or const.
type scalars struct {
	strings       map[string]bool
	numbers       map[string]bool // by their text
	yes, no, null bool
}

// A bound is a minimum or maximum of numbers.
type bound struct {
	f float64 // the nearest floating-point number
	// inclusive means that f is exact, and a number equal to it conforms.
	inclusive bool
}

const (
	// fewProps is the number of properties up to which comparing is faster than hashing.
	fewProps = 8
	// maxRequired is the maximum number of required properties.
	maxRequired = 256
	// unbounded is no upper bound.
	unbounded = math.MaxInt
)

// A fastValidatorBuilder builds one fastValidator per schema: schemas may be recursive.
type fastValidatorBuilder struct {
	schema *schema
	made   map[*jsonschema.Schema]*fastValidator
}

func (m fastValidatorBuilder) of(s *jsonschema.Schema) *fastValidator {
	if s == nil {
		return nil
	}
	if q := m.made[s]; q != nil {
		return q
	}
	q := &fastValidator{maxLength: unbounded, maxItems: unbounded}
	m.made[s] = q
	if s.Bool != nil {
		q.unconstrained, q.undecidable = *s.Bool, !*s.Bool
		return q
	}
	q.undecidable = needsLibrary(s)
	if q.undecidable {
		return q
	}
	if s.Types != nil {
		for _, name := range s.Types.ToStrings() {
			q.types |= typeNames[name]
		}
	}
	switch {
	case s.Const != nil && s.Enum != nil:
		q.undecidable = true
	case s.Const != nil:
		q.enum = scalarsOf([]any{*s.Const})
	case s.Enum != nil:
		q.enum = scalarsOf(s.Enum.Values)
	}
	q.allOf = m.list(s.AllOf)
	if s.Ref != nil {
		q.allOf = append(q.allOf, m.of(s.Ref))
	}
	q.anyOf = m.list(s.AnyOf)
	m.strings(q, s)
	m.numbers(q, s)
	m.objects(q, s)
	m.arrays(q, s)
	q.unconstrained = q.types == 0 && q.enum == nil && len(q.allOf) == 0 && len(q.anyOf) == 0 && q.minLength == 0 &&
		q.maxLength == unbounded &&
		q.pattern == nil && q.low == nil && q.high == nil && q.props == nil && q.additional == nil &&
		q.items == nil && q.minItems == 0 && q.maxItems == unbounded && !q.undecidable
	return q
}

// needsLibrary reports whether a schema has a keyword that only the library supports.
func needsLibrary(s *jsonschema.Schema) bool {
	refs := s.RecursiveRef != nil || s.DynamicRef != nil
	logic := s.Not != nil || len(s.OneOf) > 0 || s.If != nil || s.Then != nil || s.Else != nil
	objects := s.MaxProperties != nil || s.MinProperties != nil || s.PropertyNames != nil ||
		len(s.PatternProperties) > 0 ||
		len(s.Dependencies) > 0 || len(s.DependentRequired) > 0 || len(s.DependentSchemas) > 0 ||
		s.UnevaluatedProperties != nil
	arrays := s.UniqueItems || s.Contains != nil || s.MinContains != nil || s.MaxContains != nil ||
		s.AdditionalItems != nil ||
		len(s.PrefixItems) > 0 || s.UnevaluatedItems != nil
	numbers := s.MultipleOf != nil
	texts := s.ContentEncoding != nil || s.ContentMediaType != nil || s.ContentSchema != nil
	return refs || logic || objects || arrays || numbers || texts || len(s.Extensions) > 0
}

func (m fastValidatorBuilder) list(schemas []*jsonschema.Schema) []*fastValidator {
	var all []*fastValidator
	for _, s := range schemas {
		all = append(all, m.of(s))
	}
	return all
}

func (fastValidatorBuilder) strings(q *fastValidator, s *jsonschema.Schema) {
	if s.MinLength != nil {
		q.minLength = *s.MinLength
	}
	if s.MaxLength != nil {
		q.maxLength = *s.MaxLength
	}
	q.pattern, _ = s.Pattern.(*pattern)
}

func (fastValidatorBuilder) numbers(q *fastValidator, s *jsonschema.Schema) {
	q.undecidable = q.undecidable || s.Minimum != nil && s.ExclusiveMinimum != nil || s.Maximum != nil &&
		s.ExclusiveMaximum != nil
	q.low, q.high = boundOf(s.Minimum, s.ExclusiveMinimum), boundOf(s.Maximum, s.ExclusiveMaximum)
}

func boundOf(included, excluded *big.Rat) *bound {
	switch {
	case included != nil:
		f, exact := included.Float64()
		return &bound{f, exact}
	case excluded != nil:
		f, _ := excluded.Float64()
		return &bound{f, false}
	}
	return nil
}

func (m fastValidatorBuilder) objects(q *fastValidator, s *jsonschema.Schema) {
	at := map[string]int{}
	for _, name := range m.schema.order(s) {
		at[name] = len(q.props)
		q.props = append(q.props, property{name, m.of(s.Properties[name]), -1, !strings.ContainsAny(name, `"\`)})
	}
	for _, name := range s.Required {
		i, ok := at[name]
		if !ok {
			i = len(q.props)
			at[name] = i
			q.props = append(q.props, property{name, nil, -1, false})
		}
		if q.props[i].number < 0 {
			q.props[i].number = q.required
			q.required++
		}
	}
	if q.required > maxRequired {
		q.undecidable = true
	}
	if len(q.props) > fewProps {
		q.index = at
	}
	switch a := s.AdditionalProperties.(type) {
	case nil:
	case bool:
		if !a {
			q.additional = &fastValidator{undecidable: true}
		}
	case *jsonschema.Schema:
		q.additional = m.of(a)
	default:
		q.undecidable = true
	}
}

func (m fastValidatorBuilder) arrays(q *fastValidator, s *jsonschema.Schema) {
	if s.MinItems != nil {
		q.minItems = *s.MinItems
	}
	if s.MaxItems != nil {
		q.maxItems = *s.MaxItems
	}
	q.items = m.of(s.Items2020)
	switch items := s.Items.(type) { // in older drafts
	case nil:
	case *jsonschema.Schema:
		q.items = m.of(items)
	default:
		q.undecidable = true
	}
}

// scalarsOf returns the values that can be compared as text. Others are ignored.
func scalarsOf(values []any) *scalars {
	s := &scalars{strings: map[string]bool{}, numbers: map[string]bool{}}
	for _, v := range values {
		switch v := v.(type) {
		case string:
			s.strings[v] = true
		case json.Number:
			s.numbers[v.String()] = true
		case bool:
			s.yes = s.yes || v
			s.no = s.no || !v
		case nil:
			s.null = true
		}
	}
	return s
}
