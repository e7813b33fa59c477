package catalog

import (
	"context"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
)

const (
	uuid = `^[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`
	// emails and base64 are patterns as libraries write them.
	emails = `^[^@\\s]{1,64}@[^@\\s]{1,255}$`
	base64 = `^$|^(?:[0-9a-zA-Z+/]{4})*(?:(?:[0-9a-zA-Z+/]{2}==)|(?:[0-9a-zA-Z+/]{3}=))?$`
	email  = `^[A-Za-z0-9._%+-]+@([A-Za-z0-9-]+\\.)+[A-Za-z]{2,}$`
	// wide is a pattern with a thousand alternatives for each character.
	wide = `(a?b?){500}c`
	// widens is a pattern whose number of alternatives grows with each character.
	widens = `^[ab]{1,300}[ab]{1,300}c$`

	tooMuch = "too long to be compared"
)

func compiled(tb testing.TB, text string) *schema {
	tb.Helper()
	s := &schema{maxSubschemas: defaults.Subschemas, text: []byte(text)}
	if s.once.Do(s.compile); s.err != nil {
		tb.Fatalf("%.200s: %v", text, s.err)
	}
	return s
}

// of returns the schema of an object whose property a has the given schema; with returns such an object.
func of(schema string) string  { return `{"type":"object","properties":{"a":` + schema + `}}` }
func with(value string) string { return `{"a":` + value + `}` }

func quoted(n int, text string) string { return `"` + strings.Repeat(text, n) + `"` }

func items(n int, value string) string { return `[` + commas(n, always(value)) + `]` }

func numbers(from, n int) string {
	return commas(n, func(i int) string { return strconv.Itoa(from + i) })
}

// members returns an object with n members whose names have size bytes.
func members(n, size int) string {
	return `{` + commas(n, func(i int) string { return fmt.Sprintf(`"%0*d":1`, size, i) }) + `}`
}

// One below, at, and one above the maximum work, for each kind of large input.
func TestValidationWorkLimit(t *testing.T) {
	bridgetest.SkipIfShort(t)
	for name, c := range map[string]struct {
		schema string
		value  func(n int) string
	}{
		"bytes for a pattern": {of(`{"pattern":"` + wide + `"}`), func(n int) string { return with(quoted(n, "a")) }},
		"bytes for branches": {
			of(`{"anyOf":[{"pattern":"` + wide + `"},{"pattern":"b` + wide + `"}]}`),
			func(n int) string { return with(quoted(n, "a")) },
		},
		"strings for a pattern": {
			of(`{"items":{"pattern":"` + wide + `"}}`),
			func(n int) string { return with(items(n, `"aaaaaaaa"`)) },
		},
		"propertyNames": {
			`{"type":"object","propertyNames":{"pattern":"` + wide + `"}}`,
			func(n int) string { return members(n, 10) },
		},
		"patternProperties": {
			`{"type":"object","patternProperties":{"` + wide + `":{},"b` + wide + `":{}}}`,
			func(n int) string { return members(n, 10) },
		},
		"numbers for an enum": {
			of(`{"items":{"enum":[` + numbers(100_000, 100) + `]}}`),
			func(n int) string { return with(items(n, "7777777")) },
		},
		"numbers for bounds": {
			of(`{"items":{"minimum":1,"not":{"type":"integer"}}}`),
			func(n int) string { return with(items(n, "1.5")) },
		},
		"unique numbers": {
			of(`{"uniqueItems":true}`),
			func(n int) string { return with(`[` + numbers(0, n) + `]`) },
		},
		"schemas": {
			of(`{"items":{"oneOf":[{"type":"string"},{"type":"integer"}]}}`),
			func(n int) string { return with(items(n, "1")) },
		},
	} {
		s := compiled(t, c.schema)
		s.meter.budget = maxWork / 100
		affordable := func(n int) bool {
			v, err := jsonschema.UnmarshalJSON(strings.NewReader(c.value(n)))
			if err != nil {
				t.Fatal(err)
			}
			wrong := s.decide(t.Context(), v)
			return wrong == nil || !wrong.undecided
		}
		many := 4
		for affordable(many) {
			many *= 2
		}
		most := many/2 + sort.Search(many/2, func(n int) bool { return !affordable(many/2 + n) }) - 1
		if most < 2 || !affordable(most-1) || !affordable(most) || affordable(most+1) {
			t.Errorf("%s: the maximum is %d", name, most)
		}
	}
}

// A polled is a context that is done after a number of polls.
type polled struct {
	context.Context
	left int
}

func (p *polled) Err() error {
	if p.left--; p.left < 0 {
		return context.Canceled
	}
	return nil
}

// The library is interrupted when the call is canceled, and validates the next value from its beginning.
func TestValidationEndsWithTheCall(t *testing.T) {
	s := compiled(t, of(`{"items":{"not":{"type":"string"}}}`))
	value := []byte(with(items(60_000, "1")))
	for range 3 {
		ctx := &polled{t.Context(), 5}
		if wrong := s.check(ctx, value, output); wrong == nil || !wrong.undecided || ctx.left != -1 {
			t.Errorf("%v, and %d further polls", wrong, -1-ctx.left)
		}
		if wrong := s.check(t.Context(), value, output); wrong != nil {
			t.Error(wrong.lines("it"))
		}
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	s.meter.turn <- struct{}{} // another value is being validated
	if wrong := s.check(canceled, value, output); wrong == nil || !wrong.undecided {
		t.Errorf("%v", wrong)
	}
}

// The work of a call does not count for another.
func TestValidationWorkIsLimitedPerCall(t *testing.T) {
	s := compiled(t, of(`{"items":{"oneOf":[{"type":"string"},{"type":"integer"}]}}`))
	fits, tooMuch := []byte(with(items(40_000, "1"))), []byte(with(items(80_000, "1")))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if wrong := s.check(t.Context(), fits, output); wrong != nil {
				t.Error(wrong.lines("it"))
			}
		})
		wg.Go(func() {
			if wrong := s.check(t.Context(), tooMuch, output); wrong == nil || !wrong.undecided {
				t.Errorf("%v", wrong)
			}
		})
	}
	wg.Wait()
}

// A value that would take too much memory is not decoded.
func TestLargeValuesAreNotValidated(t *testing.T) {
	s := compiled(t, of(`{"not":{}}`))
	const outer = objectSize + valueSize + memberSize + valueSize + arraySize
	most := (maxArguments - outer) / valueSize
	for n, fits := range map[int]bool{most - 1: true, most: true, most + 1: false} {
		wrong := s.check(t.Context(), []byte(with(items(n, "77"))), input)
		if wrong == nil || wrong.undecided == fits || !fits &&
			!strings.Contains(wrong.lines("it"), "too large to be compared") {
			t.Errorf("%d items: %v", n, wrong)
		}
	}
}

// Numbers above the limit are found anywhere in a value.
func TestLongNumbersAreDetected(t *testing.T) {
	s := compiled(t, of(`{"not":{}}`))
	for digits, want := range map[int]bool{maxDigits - 1: false, maxDigits: false, maxDigits + 1: true} {
		wrong := s.check(t.Context(), []byte(with(`[{"b":`+strings.Repeat("1", digits)+`}]`)), input)
		if wrong == nil || wrong.undecided != want {
			t.Errorf("%d digits: %v", digits, wrong)
		}
	}
}

// Each of these took between 0.15 s and minutes, and most have a few KiB.
func TestExpensiveValuesAreNotValidated(t *testing.T) {
	bridgetest.SkipIfShort(t)
	many := func(n int, schema string) string { return of(`{"allOf":[` + commas(n, always(schema)) + `]}`) }
	for name, c := range map[string]struct{ schema, value string }{
		"a pattern": {of(`{"pattern":"` + wide + `"}`), with(quoted(100_000, "a"))},
		"a pattern that fits": {
			of(`{"items":{"pattern":"(a?b?){500}"}}`),
			with(items(100_000, quoted(16, "a"))),
		},
		"a pattern that widens": {
			of(`{"items":{"pattern":"` + widens + `"}}`),
			with(items(5_000, quoted(60, "a"))),
		},
		"propertyNames": {
			`{"type":"object","propertyNames":{"pattern":"` + wide + `"}}`,
			members(100, 1_000),
		},
		"patternProperties": {`{"type":"object","patternProperties":{` + commas(30,
			func(i int) string { return fmt.Sprintf(`"(a?b?){%d}c":{}`, 200+i) }) + `}}`, members(1_000, 100)},
		"numbers of an enum": {
			of(`{"items":{"enum":[` + numbers(100_000, 3_000) + `]}}`),
			with(items(300, "7777777")),
		},
		"numbers written otherwise": {
			of(`{"items":{"enum":[` + numbers(100_000, 3_000) + `]}}`),
			with(items(300, "102999.0")),
		},
		"numbers of arrays of an enum": {
			of(`{"items":{"enum":[` +
				commas(90, func(i int) string { return `[` + numbers(0, 30) + fmt.Sprintf(",%d]", i) }) + `]}}`),
			with(items(100, `[`+numbers(0, 30)+`,777]`)),
		},
		"numbers of a const": {
			of(`{"items":{"const":[` + numbers(0, 3_000) + `]}}`),
			with(items(100, `[`+numbers(0, 2_999)+`,0]`)),
		},
		"integers": {
			of(`{"items":{"anyOf":[` + commas(50, always(`{"type":"integer"}`)) + `]}}`),
			with(items(10_000, "1.5e-300")),
		},
		"small numbers": {of(`{"items":{"multipleOf":3e-400}}`), with(items(100_000, "7e-399"))},
		"long fractions": {
			of(`{"items":{"multipleOf":0.` + strings.Repeat("7", 900) + `}}`),
			with(items(4_000, "0."+strings.Repeat("7", 991))),
		},
		"required names": {of(`{"items":{"minProperties":0,"required":[` +
			commas(9_000, func(i int) string { return fmt.Sprintf(`"r%d"`, i) }) + `]}}`), with(items(1_000, `{}`))},
		"dependent names": {of(`{"items":{"dependentRequired":{"a":[` + commas(9_000,
			func(i int) string { return fmt.Sprintf(`"r%d"`, i) }) + `]}}}`), with(items(1_000, `{"a":1}`))},
		"a long string, many times": {many(900, `{"type":"string"}`), with(quoted(4_000_000, "a"))},
		"its characters, many times": {
			many(900, `{"minLength":1,"maxLength":4000000}`),
			with(quoted(2_000_000, "é")),
		},
		"members, many times": {`{"type":"object","allOf":[` + commas(900, always(`{"minProperties":1}`)) +
			`]}`, members(19_000, 5)},
		"unevaluatedProperties": {`{"type":"object","unevaluatedProperties":{},"allOf":[` +
			commas(900, always(`{"minProperties":1}`)) + `]}`, members(3_000, 5)},
		"unique strings, many times": {
			many(900, `{"uniqueItems":true}`),
			with(`[` + commas(3_000, func(i int) string { return fmt.Sprintf(`"%d"`, i) }) + `]`),
		},
		"deep errors": {
			`{"type":"object","$ref":"#/$defs/t","$defs":{"t":{"properties":{"a":{"$ref":"#/$defs/t"}},"items":{"type":"string"}}}}`, strings.Repeat(`{"a":`, 200) + items(90_000, `1`) + strings.Repeat(`}`, 200),
		},
		"deep dynamic references": {
			`{"$dynamicAnchor":"n","type":"object","properties":{"a":{"$ref":"#/$defs/c0"}},"$defs":{` +
				commas(50, func(i int) string { return fmt.Sprintf(`"c%d":{"$ref":"#/$defs/c%d"}`, i, i+1) }) +
				`,"c50":{"$ref":"#","items":{"$dynamicRef":"#m"}},"m":{"$dynamicAnchor":"m","type":"integer"}}}`,
			strings.Repeat(`{"a":`, 240) + items(90_000, `1`) + strings.Repeat(`}`, 240),
		},
	} {
		if len(c.value) > 4<<20 {
			t.Errorf("%s: %d bytes", name, len(c.value))
		}
		s := compiled(t, c.schema)
		if wrong := s.check(t.Context(), []byte(c.value), output); wrong == nil ||
			!strings.Contains(wrong.lines("it"), tooMuch) {
			t.Errorf("%s: %v", name, wrong)
		}
	}
}

// nested returns n arrays nested in different ways. The library's hash of all of them is equal.
func nested(n int) []string {
	all := [][]string{{""}}
	for size := 1; size <= n; size++ {
		var of []string
		for first := range size {
			for _, inner := range all[first] {
				for _, rest := range all[size-1-first] {
					of = append(of, strings.TrimSuffix(`[`+inner+`],`+rest, ","))
				}
			}
		}
		all = append(all, of)
	}
	for i, inner := range all[n] {
		all[n][i] = `[` + inner + `]`
	}
	return all[n]
}

// Items with equal hashes in the library cost no more comparisons than others.
func TestUniqueItems(t *testing.T) {
	arrays := nested(10)[:10_000]
	for name, c := range map[string]struct{ value, want string }{
		"nested in every way": {`[` + strings.Join(arrays, ",") + `]`, ""},
		"one of them twice": {
			`[` + strings.Join(arrays, ",") + `,` + arrays[7] + `]`,
			"items 7 and 10000 are the same",
		},
		"numbers written differently": {`[10,1.5,{"a":[1,2]},1e1]`, "items 0 and 3 are the same"},
		"members in another order":    {`[{"a":1,"b":[2]},{"b":[2.0],"a":1}]`, "items 0 and 1 are the same"},
		"text and values": {
			`[1,"1",true,"true",null,"null",[],"[]",{},"{}",["a","b"],["a,b"],{"a":"b"},"\"a\":"]`, "",
		},
	} {
		wrong := compiled(t, of(`{"uniqueItems":true}`)).check(t.Context(), []byte(with(c.value)), output)
		if (wrong == nil) != (c.want == "") || wrong != nil && !strings.Contains(wrong.lines("it"), c.want) {
			t.Errorf("%s: %v, want %q", name, wrong, c.want)
		}
	}
}

// Values as people and programs write them are validated, and errors are explained.
func TestOrdinaryValuesAreValidated(t *testing.T) {
	bridgetest.SkipIfShort(t)
	text := func(n int, last string) string { return `"` + strings.Repeat("a", n-len(last)) + last + `"` }
	const id = `"01234567-89ab-4cde-8123-0123456789ab"`
	row := `{"id":%s,"name":"some name","price":12.5,"tags":["a","b"],"size":{"w":1,"h":2}}`
	rows := of(`{"uniqueItems":true,"items":{"type":"object","minProperties":1,"additionalProperties":false,"properties":{
		"id":{"oneOf":[{"type":"integer","minimum":0},{"type":"null"}]},
		"name":{"type":"string","pattern":"^[a-z ]{1,64}$"},
		"price":{"type":"number","multipleOf":0.5},"tags":{"type":"array","uniqueItems":true},"size":{"type":"object","patternProperties":{"^[wh]$":{"type":"integer"}}}}}}`)
	list := func(last string) string {
		return with(`[` + commas(1_000, func(i int) string { return fmt.Sprintf(row, strconv.Itoa(i)) }) + `,` +
			fmt.Sprintf(row, last) + `]`)
	}
	strings300 := commas(300, func(i int) string { return fmt.Sprintf(`"choice %d"`, i) })
	for name, c := range map[string]struct{ schema, fits, misfit string }{
		"a name": {
			of(`{"pattern":"^[a-z0-9-]{1,64}$"}`), with(text(64, "")),
			with(text(64<<10, "")),
		},
		"a long name": {
			of(`{"pattern":"^[a-z0-9-]+$"}`), with(text(64<<10, "")),
			with(text(64<<10, "!")),
		},
		"up to 1,000 characters": {of(`{"pattern":"^.{1,1000}$"}`), with(text(1_000, "")), with(text(64<<10, ""))},
		"an email": {
			of(`{"pattern":"` + email + `"}`), with(text(64<<10, "@example.com")),
			with(text(64<<10, "@example")),
		},
		"an email, searched for": {
			of(`{"pattern":"` + strings.Trim(email, "^$") + `"}`),
			with(text(64<<10, "@example.com")), with(text(64<<10, "@example")),
		},
		"e-mail addresses": {
			of(`{"items":{"pattern":"` + emails + `"}}`),
			with(items(5_000, `"firstname.lastname@department.example.com"`)),
			with(items(5_000, `"firstname.lastname@department@example.com"`)),
		},
		"base64 in fours": {
			of(`{"pattern":"` + base64 + `"}`), with(quoted(400_000, "YWJj")),
			with(text(1_600_000, "===")),
		},
		"a UUID": {of(`{"pattern":"` + uuid + `"}`), with(id), with(text(64<<10, ""))},
		"UUIDs": {
			of(`{"items":{"pattern":"` + uuid + `"}}`), with(items(15_000, id)),
			with(items(15_000, `"01234567"`)),
		},
		"UUIDs, one by one": {
			of(`{"items":{"not":{"not":{"pattern":"` + uuid + `"}}}}`),
			with(items(15_000, id)), with(items(15_000, `"01234567"`)),
		},
		"base64": {
			of(`{"pattern":"^[A-Za-z0-9+/]*={0,2}$"}`), with(text(1<<20, "==")),
			with(text(1<<20, "===")),
		},
		"letters": {
			of(`{"pattern":"^[\\p{L}\\p{N} .'-]{1,200}$"}`), with(quoted(200, "é")),
			with(quoted(32<<10, "é")),
		},
		"a choice": {
			of(`{"items":{"enum":[` + strings300 + `]}}`),
			with(items(1_000, `"choice 299"`)), with(items(1_000, `"choice 300"`)),
		},
		"numbers": {
			of(`{"items":{"enum":[` + numbers(100, 50) + `]}}`), with(items(1_000, "149")),
			with(items(1_000, "150")),
		},
		"numbers written otherwise": {
			of(`{"items":{"enum":[` + numbers(100, 50) + `]}}`), with(items(1_000, "149.0")),
			with(items(1_000, "149.5")),
		},
		"names": {
			`{"type":"object","propertyNames":{"pattern":"^[a-z0-9_-]{1,64}$"}}`,
			members(5_000, 20), members(5_000, 65),
		},
		"rows":        {rows, list("null"), list(`"x"`)},
		"unique rows": {rows, list("null"), list("999")},
		"integers": {
			of(`{"items":{"type":"integer"}}`), with(items(100_000, "12345")),
			with(items(80_000, `"x"`)),
		},
		"integers or none": {
			of(`{"items":{"oneOf":[{"type":"integer"},{"type":"null"}]}}`),
			with(items(50_000, "12345")), with(items(50_000, `true`)),
		},
	} {
		s := compiled(t, c.schema)
		if wrong := s.check(t.Context(), []byte(c.fits), input); wrong != nil {
			t.Errorf("%s: %s", name, wrong.lines("it"))
		}
		if wrong := s.check(t.Context(), []byte(c.misfit), input); wrong == nil ||
			strings.Contains(wrong.lines("it"), tooMuch) {
			t.Errorf("%s: invalid value: %v", name, wrong)
		}
	}
}

// The fast validator scans text a few times at most before the library runs.
func TestFastValidatorScansTextAFewTimes(t *testing.T) {
	text := []byte(with(items(50_000, quoted(18, "a"))))
	for n, want := range map[int]bool{10: true, 900: false} {
		s := compiled(t, of(`{"allOf":[`+commas(n, always("true"))+`]}`))
		if got := s.accepts(text); got != want {
			t.Errorf("a value with %d scans was accepted by the fast validator: %v", n, got)
		}
		if wrong := s.check(t.Context(), text, input); wrong != nil {
			t.Errorf("%d: %s", n, wrong.lines("it"))
		}
	}
}

// Errors are explained up to a limit; the rest of the value is skipped.
func TestExplanationsAreBounded(t *testing.T) {
	declared := commas(900, func(i int) string { return fmt.Sprintf(`"p%d":{}`, i) })
	for name, c := range map[string]struct{ schema, value string }{
		"properties that are not there": {`{"type":"object","additionalProperties":false,"properties":{` + declared +
			`}}`, members(19_000, 6)},
		"required ones": {`{"type":"object","required":[` +
			commas(9_000, func(i int) string { return fmt.Sprintf(`"r%d"`, i) }) + `]}`, `{}`},
		"items": {of(`{"items":{"type":"string"}}`), with(items(90_000, "1"))},
		"branches": {
			of(`{"items":{"anyOf":[` + commas(400, always(`{"type":"string"}`)) + `]}}`),
			with(items(200, "1")),
		},
	} {
		wrong := compiled(t, c.schema).check(t.Context(), []byte(c.value), input)
		if wrong == nil || !wrong.more || len(wrong.problems) > maxExplained {
			t.Errorf("%s: %+.200v", name, wrong)
			continue
		}
		if lines := wrong.lines("it"); len(wrong.problems) > maxProblems && !strings.Contains(lines, "and more than ") {
			t.Errorf("%s: %s", name, lines)
		}
	}
	objects := func(name, of string) string {
		return fmt.Sprintf(`"%s":{"type":"object","properties":{%s}}`, name,
			commas(60, func(i int) string { return fmt.Sprintf(`"p%d":{"$ref":"#/$defs/%s"}`, i, of) }))
	}
	s := compiled(t, `{"$ref":"#/$defs/a","$defs":{`+
		strings.Join([]string{objects("a", "b"), objects("b", "c"), objects("c", "d"), `"d":{}`}, ",")+`}}`)
	if allocs := testing.AllocsPerRun(1, func() { s.signature("f") }); allocs > 20_000 {
		t.Errorf("a signature took %.0f allocations", allocs)
	}
	if got := s.signature("f"); !strings.HasPrefix(got, "f(p0?: {p0?: {p0?: any, p1?: any, ") {
		t.Error(got)
	}
}
