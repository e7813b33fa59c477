package catalog

import (
	"encoding/json"
	"hash/maphash"
	"maps"
	"math"
	"math/big"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxWork is what it may cost at most to ask the library about a value, which cannot be interrupted: about 100 ms, as each of these is
// about 10 ns. Schemas can refer to one another so that it grows by the power of how deep the value is.
const maxWork = 10_000_000

// What the library's work costs.
const (
	// costOfAsking is for asking a schema about a value, if it conforms or not.
	costOfAsking = 40
	// costOfNumber is for reading a number, besides its digits, and costOfExponent if it has an exponent.
	costOfNumber, costOfExponent = 50, 150
	// costOfMember is for each member of an object that is looked at, costOfName for each that is looked for.
	costOfMember, costOfName = 4, 6
	// costOfRemembering is for each member or item of which is remembered whether it was evaluated.
	costOfRemembering = 15
	// costOfHash is for each value that is to be unique.
	costOfHash = 30
	// In the time of 1 so many bytes are copied, counted as characters, or compared, and so many bits of bounds of numbers.
	bytesCopied, bytesCounted, bytesCompared, bitsCompared, bitsDivided = 32, 8, 128, 32, 6
	// fewUnique is how many items the library compares with each other; if there are more, it hashes them.
	fewUnique = 20
)

// A bill is what may still be spent on asking the library.
type bill struct {
	*schema
	left int
}

// A place is how a schema came to be asked about a value: how many schemas were asked about the same value before, and about all values
// around it, and how deep it is. The library looks back along them.
type place struct{ chain, scope, depth int }

// affordable reports whether the library can be asked about v, if that may cost so much.
func (s *schema) affordable(v any, most int) bool {
	b := bill{s, most}
	b.ask(s.full, v, place{})
	return b.left >= 0
}

// ask takes what it costs at most to ask a schema about v. It ends soon when nothing is left.
func (b *bill) ask(at *jsonschema.Schema, v any, p place) {
	b.left -= costOfAsking + p.chain/4 + p.depth + p.depth/2
	if b.left < 0 || at.Bool != nil {
		return
	}
	if at.Const != nil {
		b.compare(v, *at.Const)
	}
	if at.Enum != nil {
		for _, other := range at.Enum.Values {
			if b.left < 0 || b.compare(v, other) == alike {
				break
			}
		}
	}
	p.chain++
	p.scope++
	same := func(more ...*jsonschema.Schema) {
		for _, m := range more {
			if m != nil && b.left >= 0 {
				b.ask(m, v, p)
			}
		}
	}
	inPlace(at, same)
	if at.DynamicRef != nil {
		b.left -= p.scope
		same(b.anchors[at.DynamicRef.Anchor]...)
	}
	if at.RecursiveRef != nil {
		b.left -= p.scope
		same(b.anchors[""]...)
	}
	p.chain = 0
	p.depth++
	switch v := v.(type) {
	case string:
		b.string(at, v)
	case json.Number:
		b.number(at, v)
	case map[string]any:
		b.object(at, v, p)
	case []any:
		b.array(at, v, p)
	}
}

func (b *bill) string(at *jsonschema.Schema, v string) {
	b.left -= len(v) / bytesCopied
	if at.MinLength != nil || at.MaxLength != nil {
		b.left -= len(v) / bytesCounted
	}
	b.match(at.Pattern, v)
}

func (b *bill) match(re jsonschema.Regexp, v string) {
	if p, ok := re.(*pattern); ok {
		b.left -= p.work(len(v))
	}
}

func (b *bill) number(at *jsonschema.Schema, v json.Number) {
	if at.Types != nil && slices.Contains(at.Types.ToStrings(), "integer") {
		b.left -= costOf(v)
	}
	bounds := 0
	for _, r := range []*big.Rat{at.Minimum, at.Maximum, at.ExclusiveMinimum, at.ExclusiveMaximum} {
		if r != nil {
			bounds++
			b.left -= (r.Num().BitLen() + r.Denom().BitLen()) / bitsCompared
		}
	}
	if r := at.MultipleOf; r != nil {
		bounds++
		b.left -= costOf(v) + (r.Num().BitLen()+r.Denom().BitLen())/bitsDivided
	}
	if bounds > 0 {
		b.left -= costOf(v)
	}
}

// costOf returns what it costs to read a number.
func costOf(v json.Number) int {
	cost := costOfNumber + len(v)
	if strings.ContainsAny(string(v), "eE") {
		cost += costOfExponent
	}
	return cost
}

func (b *bill) object(at *jsonschema.Schema, v map[string]any, p place) {
	b.left -= costOfMember*len(v) + costOfName*(len(at.Required)+len(at.Dependencies)+len(at.DependentRequired)+len(at.DependentSchemas))
	if b.unevaluated {
		b.left -= costOfRemembering * len(v)
	}
	for _, names := range at.DependentRequired {
		b.left -= costOfName * len(names)
	}
	for _, d := range at.Dependencies {
		if names, ok := d.([]string); ok {
			b.left -= costOfName * len(names)
		}
	}
	additional, _ := at.AdditionalProperties.(*jsonschema.Schema)
	if len(at.Properties) == 0 && len(at.PatternProperties) == 0 && additional == nil && at.UnevaluatedProperties == nil && at.PropertyNames == nil {
		return
	}
	for name, value := range v {
		declared := at.Properties[name]
		if declared == nil {
			declared = additional
		}
		for _, child := range []*jsonschema.Schema{declared, at.UnevaluatedProperties} {
			if child != nil {
				b.ask(child, value, p)
			}
		}
		if at.PropertyNames != nil {
			b.ask(at.PropertyNames, name, place{})
		}
		for re, child := range at.PatternProperties {
			if b.left < 0 {
				return
			}
			b.match(re, name)
			b.ask(child, value, p)
		}
		if b.left < 0 {
			return
		}
	}
}

func (b *bill) array(at *jsonschema.Schema, v []any, p place) {
	if b.unevaluated {
		b.left -= costOfRemembering * len(v)
	}
	if at.UniqueItems {
		b.unique(v)
	}
	items, _ := at.Items.(*jsonschema.Schema)
	tuple, _ := at.Items.([]*jsonschema.Schema)
	additional, _ := at.AdditionalItems.(*jsonschema.Schema)
	first := slices.Concat(tuple, at.PrefixItems)
	every := slices.DeleteFunc([]*jsonschema.Schema{items, at.Contains, at.UnevaluatedItems}, func(s *jsonschema.Schema) bool { return s == nil })
	rest := slices.DeleteFunc([]*jsonschema.Schema{additional, at.Items2020}, func(s *jsonschema.Schema) bool { return s == nil })
	for i, value := range v {
		if b.left < 0 || len(every) == 0 && len(rest) == 0 && i >= len(first) {
			return
		}
		for _, child := range every {
			b.ask(child, value, p)
		}
		if i < len(first) {
			b.ask(first[i], value, p)
			continue
		}
		for _, child := range rest {
			b.ask(child, value, p)
		}
	}
}

// A likeness is whether two values are the same, as far as it is known.
type likeness int

const (
	different likeness = iota
	unknown            // they have numbers that are written differently
	alike
)

// compare takes what it costs the library to compare two values.
func (b *bill) compare(v, with any) likeness {
	b.left--
	switch v := v.(type) {
	case json.Number:
		with, ok := with.(json.Number)
		if !ok {
			return different
		}
		b.left -= costOf(v) + costOf(with)
		if v == with {
			return alike
		}
		return unknown
	case string:
		if with, ok := with.(string); ok && len(v) == len(with) {
			b.left -= len(v) / bytesCompared
			if v == with {
				return alike
			}
		}
		return different
	case []any:
		with, ok := with.([]any)
		if !ok || len(v) != len(with) {
			return different
		}
		all := alike
		for i := range v {
			if all = min(all, b.compare(v[i], with[i])); all == different || b.left < 0 {
				break
			}
		}
		return all
	case map[string]any:
		with, ok := with.(map[string]any)
		if !ok || len(v) != len(with) {
			return different
		}
		all := alike
		for name, value := range v { // to the last one: the library looks at them in an order of its own
			b.left -= costOfMember
			if other, ok := with[name]; !ok {
				all = different
			} else if all = min(all, b.compare(value, other)); b.left < 0 {
				break
			}
		}
		return all
	}
	if v == with {
		return alike
	}
	return different
}

// unique takes what it costs the library to see whether items are unique. It looks for the same hash, and arrays and objects can be made
// to have that without being the same.
func (b *bill) unique(items []any) {
	if len(items) <= fewUnique {
		for i := range items {
			for j := range i {
				if b.left < 0 || b.compare(items[i], items[j]) == alike {
					return
				}
			}
		}
		return
	}
	var h maphash.Hash
	byHash := map[uint64][]any{}
	for _, item := range items {
		b.left -= costOfHash
		switch item := item.(type) {
		case json.Number:
			b.left -= costOf(item)
		case string:
			b.left -= len(item) / bytesCompared
		case []any, map[string]any:
			h.Reset()
			b.hash(&h, item)
			sum := h.Sum64()
			for _, other := range byHash[sum] {
				if b.left < 0 || b.compare(item, other) == alike {
					return
				}
			}
			byHash[sum] = append(byHash[sum], item)
		}
		if b.left < 0 {
			return
		}
	}
}

// hash writes what the library writes to hash a value, and takes what that costs.
func (b *bill) hash(h *maphash.Hash, v any) {
	b.left -= 4
	if b.left < 0 {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		b.left -= 2 * costOfHash * len(v)
		_ = h.WriteByte(0)
		for _, name := range slices.Sorted(maps.Keys(v)) {
			b.hash(h, name)
			b.hash(h, v[name])
		}
	case []any:
		_ = h.WriteByte(1)
		for _, item := range v {
			b.hash(h, item)
		}
	case string:
		b.left -= len(v) / bytesCompared
		_ = h.WriteByte(4)
		_, _ = h.WriteString(v)
	case json.Number:
		b.left -= 2 * costOf(v) // it is read here, too
		_ = h.WriteByte(5)
		if n, ok := new(big.Rat).SetString(string(v)); ok {
			_, _ = h.Write(n.Num().Bytes())
			_, _ = h.Write(n.Denom().Bytes())
		}
	case nil:
		_ = h.WriteByte(2)
	case bool:
		_ = h.WriteByte(3)
		if v {
			_ = h.WriteByte(1)
		} else {
			_ = h.WriteByte(0)
		}
	}
}

// An effort is what it costs to match a regular expression: for one span of text after the other. Behind the last nothing is looked at.
type effort []span

// A span is a part of a text, up to so many characters from its beginning, and how many instructions may be tried for each of them.
type span struct{ until, width int }

// endless is where the last span ends of a regular expression that looks at all of a text, however long.
const endless = math.MaxInt32

// work returns what it costs to match a text of so many bytes: its end is looked at, too.
func (e effort) work(n int) int {
	cost, from := 10, 0
	for _, s := range e {
		until := min(s.until, n+1)
		cost += (until - from) * (1 + s.width/2)
		if from = until; from > n {
			break
		}
	}
	return cost
}

// effortOf returns what a regular expression costs. It follows the instructions that may be tried for one character after the other,
// whatever the characters are, until they are the same as before, or none. Each span is as long as all before it.
func effortOf(text string) effort {
	most := effort{{endless, 1 << 20}}
	re, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return most
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil {
		return most
	}
	anchored := prog.StartCond()&syntax.EmptyBeginText != 0
	f := follower{prog: prog, seen: make([]int, len(prog.Inst))}
	f.add(uint32(prog.Start))
	var e effort
	var last *span
	var before []bool // the instructions at the first step of the last span, and how many those were
	count := 0
	for work := 0; work < workOfFollowing*len(prog.Inst)+1_000; {
		tried := f.tried
		work += len(tried)
		if len(tried) == 0 {
			return e
		}
		if len(tried) == count && !slices.ContainsFunc(tried, func(pc uint32) bool { return !before[pc] }) {
			last.until = endless // from there on it is in a circle
			return e
		}
		if f.step&(f.step-1) == 0 { // a circle is found when it is no longer than what was before it
			e = append(e, span{})
			last = &e[len(e)-1]
			before, count = make([]bool, len(prog.Inst)), len(tried)
			for _, pc := range tried {
				before[pc] = true
			}
			work += len(prog.Inst) / 8
		}
		last.until, last.width = f.step+1, max(last.width, len(tried))
		f.next(!anchored)
	}
	return append(e, span{endless, len(prog.Inst)})
}

// workOfFollowing is how many instructions are followed for each that there is.
const workOfFollowing = 8

// A follower follows the instructions of a regular expression.
type follower struct {
	prog  *syntax.Prog
	step  int
	tried []uint32 // at this step
	spare []uint32 // room for those of the next one
	seen  []int    // the step after the last at which each was tried
	stack []uint32
}

// next goes on to what is tried for the next character.
func (f *follower) next(again bool) {
	before := f.tried
	f.tried, f.spare = f.spare[:0], before
	f.step++
	if again {
		f.add(uint32(f.prog.Start))
	}
	for _, pc := range before {
		switch in := &f.prog.Inst[pc]; in.Op { //nolint:exhaustive // the others take no character
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			f.add(in.Out)
		}
	}
}

// add adds an instruction, and what is tried with it.
func (f *follower) add(pc uint32) {
	f.stack = append(f.stack[:0], pc)
	for len(f.stack) > 0 {
		pc = f.stack[len(f.stack)-1]
		f.stack = f.stack[:len(f.stack)-1]
		if f.seen[pc] > f.step {
			continue
		}
		f.seen[pc] = f.step + 1
		f.tried = append(f.tried, pc)
		switch in := &f.prog.Inst[pc]; in.Op { //nolint:exhaustive // the others wait for a character, or end
		case syntax.InstAlt, syntax.InstAltMatch:
			f.stack = append(f.stack, in.Arg, in.Out)
		case syntax.InstCapture, syntax.InstNop:
			f.stack = append(f.stack, in.Out)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(in.Arg)&syntax.EmptyBeginText == 0 || f.step == 0 {
				f.stack = append(f.stack, in.Out)
			}
		}
	}
}
