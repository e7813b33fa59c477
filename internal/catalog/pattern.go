package catalog

import (
	"math/bits"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// In one step, so many instructions of a regular expression are executed. Looking a character up in a class of many
// ranges counts as further instructions, by the logarithm of their number.
const instructionsPerStep, bitsPerInstruction = 2, 4

// A pattern is a regular expression of a schema.
type pattern struct {
	text  string
	re    *regexp.Regexp // nil if its syntax is not Go's
	prog  *syntax.Prog   // of re
	meter *meter

	// The rest belongs to the match in progress, of which a meter allows one.
	now, next []uint32 // instructions at the current position and at the next one
	position  int      // of all texts so far
	at        []int    // by instruction: the position at which it was reached last
	reached   int      // instructions at the current position
}

// compilePattern compiles Go's regular expressions, which take time by the length of the text. Those of ECMA-262 that
// are none of them (they look ahead or behind) get through here and are dealt with by adapt: one of them is no reason
// not to check all the rest.
func (m *meter) compilePattern(text string) (jsonschema.Regexp, error) {
	p := &pattern{text: text, meter: m}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err == nil {
		p.prog, err = syntax.Compile(parsed.Simplify())
	}
	if err == nil {
		p.at = make([]int, len(p.prog.Inst))
		p.re, err = regexp.Compile(text)
	}
	if err != nil && !strings.Contains(text, "(?") && !strings.Contains(text, `\`) {
		return nil, err // it is none of anybody's
	}
	return p, nil
}

// String implements jsonschema.Regexp.
func (p *pattern) String() string { return p.text }

// MatchString implements jsonschema.Regexp, for the library. Package regexp takes time by the product of the lengths of
// the text and the expression for some expressions and by their sum for most, does not report which, and cannot be
// interrupted. So this executes the same program, and counts the instructions.
func (p *pattern) MatchString(s string) bool {
	if p.re == nil {
		return true
	}
	p.meter.spend(stepsToMatch)
	p.now, p.next = append(p.now[:0], uint32(p.prog.Start)), p.next[:0]
	anchored := p.prog.StartCond()&syntax.EmptyBeginText != 0
	before := rune(-1)
	for i := 0; ; {
		r, n := rune(-1), 0
		if i < len(s) {
			r, n = utf8.DecodeRuneInString(s[i:])
		}
		p.position++
		p.reached = 0
		context := syntax.EmptyOpContext(before, r)
		matched := slices.ContainsFunc(p.now, func(pc uint32) bool { return p.reach(pc, context, r) })
		p.meter.spend(1 + p.reached/instructionsPerStep)
		if matched || n == 0 || anchored && len(p.next) == 0 {
			return matched
		}
		if p.now, p.next = p.next, p.now[:0]; !anchored {
			p.now = append(p.now, uint32(p.prog.Start))
		}
		before = r
		i += n
	}
}

// reach executes the instruction at pc and those that follow without reading a character, and adds what follows if r is
// read to next. It reports whether the expression matches.
func (p *pattern) reach(pc uint32, context syntax.EmptyOp, r rune) bool {
	for p.at[pc] != p.position {
		p.at[pc] = p.position
		p.reached++
		switch inst := &p.prog.Inst[pc]; inst.Op {
		case syntax.InstMatch:
			return true
		case syntax.InstFail:
			return false
		case syntax.InstAlt, syntax.InstAltMatch:
			if p.reach(inst.Out, context, r) {
				return true
			}
			pc = inst.Arg
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(inst.Arg)&^context != 0 {
				return false
			}
			pc = inst.Out
		case syntax.InstCapture, syntax.InstNop:
			pc = inst.Out
		default:
			p.reached += bits.Len(uint(len(inst.Rune))) / bitsPerInstruction
			if r >= 0 && inst.MatchRune(r) {
				p.next = append(p.next, inst.Out)
			}
			return false
		}
	}
	return false
}
