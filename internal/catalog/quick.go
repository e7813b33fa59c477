package catalog

import (
	"encoding/json"
	"math"
	"math/big"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A quick says yes to JSON text that surely conforms to a schema, in one pass over the text and without decoding it. Whatever
// it does not say yes to is for the library to decide: a quick never refuses.
//
// It is made of what the library has compiled, so that dialects and references mean the same to both.
type quick struct {
	// unsure says that there is something about the schema that only the library knows.
	unsure bool
	// free says that everything conforms.
	free bool
	// types are what the value may be. None: anything.
	types types
	// all are schemas to conform to as well, some are those of which one is enough.
	all, some []*quick

	// enum is what the value may be, if that is listed.
	enum *scalars

	// Of a string.
	minLength, maxLength int
	pattern              *pattern

	// Of a number.
	minimum, maximum, above, below *bound
	multipleOf                     int64
	anyInteger                     bool // every integer conforms

	// Of an object. Required properties have numbers, so that each is counted once.
	props      []property
	index      map[string]int // of props, if they are many
	required   int
	additional *quick // of properties that are not declared

	// Of an array.
	items              *quick
	minItems, maxItems int
}

type property struct {
	name   string
	schema *quick // nil if it is not declared
	number int    // if it is required, or -1
	plain  bool   // no character of the name has to be escaped
}

// types is a set of types of JSON.
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
	"null": tNull, "boolean": tBool, "integer": tInteger, "number": tNumber | tInteger, "string": tString, "array": tArray,
	"object": tObject,
}

// scalars are values that a value may have.
type scalars struct {
	strings       map[string]bool
	numbers       map[string]bool // as they are written
	yes, no, null bool
}

// A bound is a number to compare with.
type bound struct {
	f      float64 // the nearest there is
	i      int64
	exact  bool // i is it
	strict bool // only for above and below: being it is not enough
}

const (
	// fewProps is how many properties are faster to compare with than to hash.
	fewProps = 8
	// maxRequired is how many required properties are counted.
	maxRequired = 256
	// unbounded stands for no upper bound.
	unbounded = math.MaxInt
)

// A quickMaker makes quicks of schemas, one of each: schemas may refer to themselves.
type quickMaker struct {
	schema *schema
	made   map[*jsonschema.Schema]*quick
}

func (m quickMaker) of(s *jsonschema.Schema) *quick {
	if s == nil {
		return nil
	}
	if q := m.made[s]; q != nil {
		return q
	}
	q := &quick{maxLength: unbounded, maxItems: unbounded}
	m.made[s] = q
	if s.Bool != nil {
		q.free, q.unsure = *s.Bool, !*s.Bool
		return q
	}
	q.unsure = beyondQuick(s)
	if q.unsure {
		return q
	}
	if s.Types != nil {
		for _, name := range s.Types.ToStrings() {
			q.types |= typeNames[name]
		}
	}
	switch {
	case s.Const != nil && s.Enum != nil:
		q.unsure = true
	case s.Const != nil:
		q.enum = scalarsOf([]any{*s.Const})
	case s.Enum != nil:
		q.enum = scalarsOf(s.Enum.Values)
	}
	q.all = m.list(s.AllOf)
	if s.Ref != nil {
		q.all = append(q.all, m.of(s.Ref))
	}
	q.some = m.list(s.AnyOf)
	m.strings(q, s)
	m.numbers(q, s)
	m.objects(q, s)
	m.arrays(q, s)
	q.anyInteger = !q.unsure && q.all == nil && q.some == nil && q.allows(tInteger) && q.enum == nil && q.minimum == nil && q.maximum == nil && q.above == nil && q.below == nil &&
		q.multipleOf == 0
	q.free = q.types == 0 && q.enum == nil && len(q.all) == 0 && len(q.some) == 0 && q.minLength == 0 && q.maxLength == unbounded &&
		q.pattern == nil && q.minimum == nil && q.maximum == nil && q.above == nil && q.below == nil && q.multipleOf == 0 && q.props == nil && q.additional == nil &&
		q.items == nil && q.minItems == 0 && q.maxItems == unbounded && !q.unsure
	return q
}

// beyondQuick reports whether a schema has a keyword that only the library decides.
func beyondQuick(s *jsonschema.Schema) bool {
	refs := s.RecursiveRef != nil || s.DynamicRef != nil
	logic := s.Not != nil || len(s.OneOf) > 0 || s.If != nil || s.Then != nil || s.Else != nil
	objects := s.MaxProperties != nil || s.MinProperties != nil || s.PropertyNames != nil || len(s.PatternProperties) > 0 ||
		len(s.Dependencies) > 0 || len(s.DependentRequired) > 0 || len(s.DependentSchemas) > 0 || s.UnevaluatedProperties != nil
	arrays := s.UniqueItems || s.Contains != nil || s.MinContains != nil || s.MaxContains != nil || s.AdditionalItems != nil ||
		len(s.PrefixItems) > 0 || s.UnevaluatedItems != nil
	texts := s.ContentEncoding != nil || s.ContentMediaType != nil || s.ContentSchema != nil
	return refs || logic || objects || arrays || texts || len(s.Extensions) > 0
}

func (m quickMaker) list(schemas []*jsonschema.Schema) []*quick {
	var all []*quick
	for _, s := range schemas {
		all = append(all, m.of(s))
	}
	return all
}

func (quickMaker) strings(q *quick, s *jsonschema.Schema) {
	if s.MinLength != nil {
		q.minLength = *s.MinLength
	}
	if s.MaxLength != nil {
		q.maxLength = *s.MaxLength
	}
	q.pattern, _ = s.Pattern.(*pattern)
}

func (quickMaker) numbers(q *quick, s *jsonschema.Schema) {
	q.minimum, q.maximum = boundOf(s.Minimum, false), boundOf(s.Maximum, false)
	q.above, q.below = boundOf(s.ExclusiveMinimum, true), boundOf(s.ExclusiveMaximum, true)
	if s.MultipleOf != nil {
		if !s.MultipleOf.IsInt() || !s.MultipleOf.Num().IsInt64() || s.MultipleOf.Sign() <= 0 {
			q.unsure = true
			return
		}
		q.multipleOf = s.MultipleOf.Num().Int64()
	}
}

func boundOf(r *big.Rat, strict bool) *bound {
	if r == nil {
		return nil
	}
	b := &bound{strict: strict}
	b.f, _ = r.Float64()
	if r.IsInt() && r.Num().IsInt64() {
		b.i, b.exact = r.Num().Int64(), true
	}
	return b
}

func (m quickMaker) objects(q *quick, s *jsonschema.Schema) {
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
		q.unsure = true
	}
	if len(q.props) > fewProps {
		q.index = at
	}
	switch a := s.AdditionalProperties.(type) {
	case nil:
	case bool:
		if !a {
			q.additional = &quick{unsure: true}
		}
	case *jsonschema.Schema:
		q.additional = m.of(a)
	default:
		q.unsure = true
	}
}

func (m quickMaker) arrays(q *quick, s *jsonschema.Schema) {
	if s.MinItems != nil {
		q.minItems = *s.MinItems
	}
	if s.MaxItems != nil {
		q.maxItems = *s.MaxItems
	}
	q.items = m.of(s.Items2020)
	switch items := s.Items.(type) { // of older drafts
	case nil:
	case *jsonschema.Schema:
		q.items = m.of(items)
	default:
		q.unsure = true
	}
}

// scalarsOf returns the values that can be compared as text. The others are as if they were not listed.
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
