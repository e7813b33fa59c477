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

// In one step, instructionsPerStep instructions of a regular expression are executed. The lookup of a character in a
// class of many ranges counts as further instructions: the binary logarithm of their number, divided by
// bitsPerInstruction.
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

// compilePattern compiles a regular expression in Go's syntax, which is matched in time linear in the length of the
// text. It also accepts the syntax of ECMA-262 that Go lacks (lookahead and lookbehind), which adapt removes: the rest
// of the schema is still checked.
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
		return nil, err // neither syntax allows it
	}
	return p, nil
}

// String implements jsonschema.Regexp.
func (p *pattern) String() string { return p.text }

// MatchString implements jsonschema.Regexp. The time that package regexp takes is proportional to the product of the
// lengths of text and expression for some expressions, and to their sum for most; it does not report which, and cannot
// be interrupted. So MatchString executes the program itself, and counts the instructions.
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

// reach executes the instruction at pc and those that follow without reading a character, and adds the instructions
// after reading r to next. It reports whether the expression matches.
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
