package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// maxWork is how many steps the library may take to validate a value. A step is about 10 ns.
const maxWork = 10_000_000

// The costs of the library's operations, in steps.
const (
	// stepsToEvaluate is the cost of evaluating a schema against a value, and of reporting that it does not conform.
	stepsToEvaluate = 40
	// stepsToParse is the cost of parsing a number, which is done for each comparison.
	stepsToParse = 50
	// stepsOfMember is the cost of a member of an object that is iterated, stepsOfName that of looking up a name.
	stepsOfMember, stepsOfName = 4, 6
	// stepsToTrack is the cost of a member or item that may be unevaluated.
	stepsToTrack = 15
	// stepsToKey is the cost of a value in an array whose items must be unique.
	stepsToKey = 30
	// stepsToMatch is the cost of starting to match a regular expression.
	stepsToMatch = 10
	// In one step, bytesCopied bytes of text are copied, bytesPerStep bytes are counted, or bitsPerStep bits of numbers
	// are divided.
	bytesCopied, bytesPerStep, bitsPerStep = 32, 8, 6
	// All costs increase by their own amount for every depthPerFactor levels of nesting, which errors list, and for
	// every digitsPerFactor characters of the longest number.
	depthPerFactor, digitsPerFactor = 32, 64
	// exponentDigits is the number of digits that an exponent counts as.
	exponentDigits = 150
	// stepsPerPoll is how often the context is polled.
	stepsPerPoll = 1 << 16
)

// An interruption is the value with which a meter panics.
type interruption struct{ error }

var errTooMuchWork = errors.New("validation takes more steps than are allowed")

// A meter counts the steps of one validation at a time, and interrupts it. The library takes no context, but it calls
// functions that are set in a compiled schema. The meter sets the format of each schema, which is called before every
// evaluation that takes long, the engine of regular expressions, and uniqueItems. They panic to interrupt the library,
// and validate recovers.
type meter struct {
	budget int           // steps for a validation
	turn   chan struct{} // has capacity 1 and is held by the validation in progress

	ctx    context.Context //nolint:containedctx // of the validation in progress
	left   int             // steps
	poll   int             // value of left at which ctx is polled next
	depth  int             // of the value
	factor int

	prices map[*jsonschema.Schema]int // by the schemas that can be reached
	most   int                        // highest of prices
	// tracks reports whether there are unevaluatedProperties or unevaluatedItems anywhere.
	tracks bool
}

func newMeter() *meter {
	return &meter{budget: maxWork, turn: make(chan struct{}, 1), prices: map[*jsonschema.Schema]int{}}
}

// validate validates v. It returns errTooMuchWork or the cause of ctx if it was interrupted, and the library's errors.
func (m *meter) validate(ctx context.Context, s *jsonschema.Schema, v any) (err error) {
	select {
	case m.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case interruption:
			err = r.error
		default:
			err = errors.New("the JSON Schema library failed on it")
		}
		m.ctx = nil
		<-m.turn
	}()
	size := measure(v)
	m.ctx, m.left, m.poll, m.depth = ctx, m.budget, m.budget, size.depth
	m.factor = 1 + size.depth/depthPerFactor + size.digits/digitsPerFactor
	m.spend(m.prices[s])
	return s.Validate(v)
}

// spend counts steps. It panics when none are left, or ctx is done.
func (m *meter) spend(steps int) {
	m.left -= steps
	if m.left < 0 {
		panic(interruption{errTooMuchWork})
	}
	if m.left < m.poll {
		if err := m.ctx.Err(); err != nil {
			panic(interruption{err})
		}
		m.poll = m.left - stepsPerPoll
	}
}

// attach makes the library call the meter when it evaluates any of the schemas.
func (m *meter) attach(all []*jsonschema.Schema) {
	for _, s := range all {
		m.prices[s] = priceOf(s)
		m.most = max(m.most, m.prices[s])
		m.tracks = m.tracks || s.UnevaluatedItems != nil || s.UnevaluatedProperties != nil
	}
	for _, s := range all {
		if s.UniqueItems {
			s.UniqueItems = false
			s.Extensions = append(s.Extensions, uniqueItems{m})
		}
		c := m.costOf(s)
		s.Format = &jsonschema.Format{Name: "meter", Validate: func(v any) error {
			m.spend(m.factor * c.of(v))
			return nil
		}}
	}
}

// priceOf returns the steps to evaluate a schema up to its format: its type, const and enum.
func priceOf(s *jsonschema.Schema) int {
	steps := stepsToEvaluate
	if s.Types != nil && slices.Contains(s.Types.ToStrings(), "integer") {
		steps += stepsToParse
	}
	if s.Const != nil {
		steps += compareSteps(*s.Const)
	}
	if s.Enum != nil {
		for _, v := range s.Enum.Values {
			steps += compareSteps(v)
		}
	}
	return steps
}

// compareSteps returns the steps to compare a value with v.
func compareSteps(v any) int {
	steps := 1
	switch v := v.(type) {
	case json.Number:
		steps += 2 * stepsToParse
	case []any:
		for _, item := range v {
			steps += compareSteps(item)
		}
	case map[string]any:
		for _, value := range v {
			steps += stepsOfMember + compareSteps(value)
		}
	}
	return steps
}

// A cost is the number of steps between the format of a schema and the formats of its subschemas.
type cost struct {
	*meter
	s *jsonschema.Schema
	// always is for every value, and the others for values of a type: for each, and for each of its members or items.
	always, number, text, object, member, array, item int
}

func (m *meter) costOf(s *jsonschema.Schema) cost {
	c := cost{meter: m, s: s}
	branches := 1
	inPlace(s, func(more ...*jsonschema.Schema) {
		for _, child := range more {
			if child != nil {
				branches++
				c.always += m.prices[child]
			}
		}
	})
	if s.DynamicRef != nil || s.RecursiveRef != nil {
		c.always += m.most
	}
	for _, r := range []*big.Rat{s.Minimum, s.Maximum, s.ExclusiveMinimum, s.ExclusiveMaximum, s.MultipleOf} {
		if r != nil {
			c.number += stepsToParse + (r.Num().BitLen()+r.Denom().BitLen())/bitsPerStep
		}
	}
	c.text = 1 // the library copies it
	if s.MinLength != nil || s.MaxLength != nil {
		c.text += bytesCopied / bytesPerStep
	}
	if m.tracks {
		c.member, c.item = branches*stepsToTrack, branches*stepsToTrack
	}
	price := func(a any) int {
		child, _ := a.(*jsonschema.Schema)
		return m.prices[child]
	}
	names := len(s.Required) + len(s.Dependencies) + len(s.DependentRequired) + len(s.DependentSchemas)
	for _, required := range s.DependentRequired {
		names += len(required)
	}
	for _, d := range s.Dependencies {
		required, _ := d.([]string)
		names += len(required)
	}
	c.object = names * stepsOfName
	c.member += stepsOfMember + price(s.AdditionalProperties) + price(s.PropertyNames) + price(s.UnevaluatedProperties)
	for _, child := range s.PatternProperties {
		c.member += stepsToMatch + m.prices[child]
	}
	c.item += price(s.Items) + price(s.Items2020) + price(s.AdditionalItems) + price(s.Contains) +
		price(s.UnevaluatedItems)
	tuple, _ := s.Items.([]*jsonschema.Schema)
	for _, child := range slices.Concat(tuple, s.PrefixItems) {
		c.array += m.prices[child]
	}
	return c
}

// of returns the steps for v.
func (c *cost) of(v any) int {
	steps := c.always
	if c.s.DynamicRef != nil || c.s.RecursiveRef != nil {
		steps += c.depth * len(c.prices) // the library searches all enclosing schemas
	}
	switch v := v.(type) {
	case json.Number:
		steps += c.number
	case string:
		steps += c.text * len(v) / bytesCopied
	case []any:
		steps += c.array + c.item*len(v)
	case map[string]any:
		steps += c.object + c.member*len(v)
		if len(c.s.Properties) > 0 {
			for name := range v {
				steps += c.prices[c.s.Properties[name]]
			}
		}
	}
	return steps
}

// uniqueItems implements the keyword. The library compares all items that have the same hash with one another, and
// nested arrays can be crafted to have the same hash.
type uniqueItems struct{ *meter }

// Validate implements jsonschema.SchemaExt.
func (u uniqueItems) Validate(ctx *jsonschema.ValidatorContext, v any) {
	items, _ := v.([]any)
	seen := make(map[string]int, len(items))
	var key []byte
	for i, item := range items {
		key = u.appendKey(key[:0], item)
		if first, ok := seen[string(key)]; ok {
			ctx.AddError(&kind.UniqueItems{Duplicates: [2]int{first, i}})
			return
		}
		seen[string(key)] = i
	}
}

// appendKey appends a text that is the same for equal values only.
func (u uniqueItems) appendKey(b []byte, v any) []byte {
	u.spend(u.factor * stepsToKey)
	switch v := v.(type) {
	case map[string]any:
		b = append(b, '{')
		for _, name := range slices.Sorted(maps.Keys(v)) {
			b = u.appendKey(append(u.appendKey(b, name), ':'), v[name])
		}
		return append(b, '}')
	case []any:
		b = append(b, '[')
		for _, item := range v {
			b = append(u.appendKey(b, item), ',')
		}
		return append(b, ']')
	case string:
		u.spend(len(v) / bytesPerStep)
		return strconv.AppendQuote(b, v)
	case json.Number:
		u.spend(u.factor * stepsToParse)
		if n, ok := new(big.Rat).SetString(string(v)); ok {
			return append(b, n.RatString()...)
		}
		return append(b, v...)
	case bool:
		return strconv.AppendBool(b, v)
	}
	return append(b, "null"...)
}

// A size determines how long the validation of a value takes.
type size struct{ depth, digits int }

// measure returns the size of a value: how deep it is, and how long its longest number is.
func measure(v any) (s size) {
	add := func(child any) {
		c := measure(child)
		s.depth, s.digits = max(s.depth, c.depth+1), max(s.digits, c.digits)
	}
	switch v := v.(type) {
	case json.Number:
		s.digits = len(v)
		if strings.ContainsAny(string(v), "eE") {
			s.digits += exponentDigits
		}
	case []any:
		for _, item := range v {
			add(item)
		}
	case map[string]any:
		for _, value := range v {
			add(value)
		}
	}
	return s
}
