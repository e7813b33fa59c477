package jsonrpc

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unicode/utf16"
)

var (
	documents = flag.Int("documents", 25_000, "how many documents TestGeneratedDocuments makes")
	seed      = flag.Uint64("seed", 1, "of which random numbers it makes them")
)

// TestGeneratedDocuments checks many documents like FuzzDocuments, on every core and without looking for new paths
// through the code. `make survive-long` makes 100 million.
func TestGeneratedDocuments(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(1000)) // almost all memory is garbage
	// documents of one generator, which is how the cores share them
	const many = 1000
	var next, wrong atomic.Int64
	var mu sync.Mutex
	var sum [len(rules)]readCounts
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			var mine [len(rules)]readCounts
			for part := next.Add(1) - 1; part*many < int64(*documents); part = next.Add(1) - 1 {
				g := newGenerator(*seed, uint64(part))
				for range min(many, int64(*documents)-part*many) {
					text, rule := g.document()
					accepted, err := whole(func() (bool, error) { return compare(text) })
					if err != nil && wrong.Add(1) <= 10 {
						// the line is a file of testdata/fuzz/FuzzParse
						t.Errorf("%s: %v\n[]byte(%q)", rules[rule].name, err, text)
					}
					mine[rule].add(accepted)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for i, n := range mine {
				sum[i].accepted += n.accepted
				sum[i].refused += n.refused
			}
		})
	}
	wg.Wait()
	var all readCounts
	var table strings.Builder
	for i, n := range sum {
		all.accepted += n.accepted
		all.refused += n.refused
		fmt.Fprintf(&table, "\n%-16s %10d accepted %10d refused", rules[i].name, n.accepted, n.refused)
	}
	t.Logf("by rule:%s", table.String())
	t.Logf("S4 seed %d, documents %d, accepted %d, refused %d, wrong %d", *seed, all.accepted+all.refused, all.accepted,
		all.refused, wrong.Load())
	if most := 3 * (all.accepted + all.refused) / 4; all.accepted > most || all.refused > most {
		t.Error("too little variety: three of four documents have the same result")
	}
}

// whole calls read and returns a panic as an error, so that the document is reported.
func whole(read func() (bool, error)) (accepted bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return read()
}

type readCounts struct{ accepted, refused int }

func (n *readCounts) add(accepted bool) {
	if accepted {
		n.accepted++
	} else {
		n.refused++
	}
}

// A rule changes a valid message: its members before it is written, or its text, which begins at from. The result need
// not be invalid. The weight is the rule's relative frequency.
type rule struct {
	name    string
	weight  int
	members func(g *generator)
	text    func(g *generator, from int)
}

var rules = [...]rule{
	{name: "nothing", weight: 140},
	{name: "a space", weight: 40, text: func(g *generator, from int) { g.insert(from, g.one(spaces)) }},
	{name: "an id", weight: 70, members: func(g *generator) { g.set("id", g.token()) }},
	{name: "a long id", weight: 20, members: func(g *generator) { g.set("id", g.long(usual.ID)) }},
	{name: "a version", weight: 30, members: func(g *generator) { g.set("jsonrpc", g.one(versions)) }},
	{
		name: "a method", weight: 50,
		members: func(g *generator) { g.set("method", g.one([]string{g.string(), g.token()})) },
	},
	{name: "a member", weight: 60, members: func(g *generator) { g.set(g.one(names), g.token()) }},
	{name: "one less", weight: 30, members: func(g *generator) {
		if i := g.IntN(len(g.members) + 1); i < len(g.members) {
			g.members = append(g.members[:i], g.members[i+1:]...)
		}
	}},
	{name: "one more", weight: 40, members: func(g *generator) { g.add(g.odd(g.one(names)), g.token()) }},
	{name: "a string", weight: 80, members: func(g *generator) { g.within(g.anyString()) }},
	{name: "a name", weight: 30, members: func(g *generator) { g.within("{" + g.anyString() + ":1}") }},
	{name: "a number", weight: 60, members: func(g *generator) { g.within(g.one(numbers)) }},
	{name: "a literal", weight: 20, members: func(g *generator) { g.within(g.one(literals)) }},
	{name: "an error", weight: 60, members: (*generator).problem},
	{name: "escaped names", weight: 60, members: func(g *generator) {
		for range 1 + g.IntN(3) {
			if m := g.member(); !strings.Contains(m.name, `\`) {
				m.name = g.escaped(m.name)
			}
		}
	}},
	{name: "an odd name", weight: 30, members: func(g *generator) { m := g.member(); m.name = g.odd(m.name) }},
	{name: "a case", weight: 40, members: func(g *generator) { m := g.member(); m.name = g.folded(m.name) }},
	{name: "a case more", weight: 30, members: func(g *generator) { g.add(g.folded(g.one(names)), g.token()) }},
	{
		name: "one twice", weight: 30,
		members: func(g *generator) { m := g.member(); g.add(m.name, g.one([]string{m.value, g.token()})) },
	},
	{
		name: "one escaped, too", weight: 30,
		members: func(g *generator) { g.add(g.escaped(g.member().name), g.token()) },
	},
	{name: "many names", weight: 40, members: func(g *generator) { g.within(g.many(3)) }},
	{name: "many levels", weight: 10, members: func(g *generator) { g.within(g.deep()) }},
	{name: "an end", weight: 20, text: func(g *generator, from int) { g.text = g.text[:g.place(from)] }},
	{name: "before it", weight: 30, text: func(g *generator, from int) { g.splice(from, from, g.one(around)) }},
	{name: "after it", weight: 40, text: func(g *generator, _ int) { g.text = append(g.text, g.one(around)...) }},
	{
		name: "another byte", weight: 50,
		text: func(g *generator, from int) { i := g.place(from); g.splice(i, i+1, g.one(bits)) },
	},
	{name: "a byte more", weight: 40, text: func(g *generator, from int) { g.insert(from, g.one(bits)) }},
	{name: "a byte less", weight: 30, text: func(g *generator, from int) { i := g.place(from); g.splice(i, i+1, "") }},
	{name: "any bytes", weight: 20, text: func(g *generator, from int) {
		for range 1 + g.IntN(3) {
			i := g.place(from)
			g.splice(i, i+1, string([]byte{byte(g.IntN(256))}))
		}
	}},
	{name: "a piece again", weight: 20, text: func(g *generator, from int) {
		i, j := g.place(from), g.place(from)
		g.insert(from, string(g.text[min(i, j):max(i, j)]))
	}},
	{
		name: "something else", weight: 20,
		text: func(g *generator, from int) { g.text = append(g.text[:from], g.token()...) },
	},
	{
		name: "UTF-16", weight: 10,
		text: func(g *generator, from int) { g.splice(from, len(g.text), wide(g.text[from:], g.IntN(4))) },
	},
	{name: "two of these", weight: 60},
	{name: "a batch", weight: 60},
	{name: "a large batch", weight: 1},
}

// weights is the sum of the weights of all rules.
var weights = func() (sum int) {
	for _, r := range &rules {
		sum += r.weight
	}
	return sum
}()

var (
	names   = []string{"jsonrpc", "id", "method", "params", "result", "error"}
	methods = []string{
		`"tools/call"`, `"tools\/call"`, `"tools/list"`, `"ping"`, `"notifications/progress"`,
		`"initialize"`, `"m"`, `"\u006d"`, `"é"`, `"\ud83d\ude00"`,
	}
	versions = []string{
		`"2.0"`, `"2\u002e0"`, `"\u0032.0"`, `2.0`, `2`, `"2"`, `"2.00"`, `"1.0"`, `" 2.0"`, `"2.0 "`,
		`"2.0\u0000"`, `"2,0"`, `null`, `["2.0"]`, `""`, `"２.0"`,
	}
	integers = []string{
		"0", "1", "-1", "-0", "7", "42", "9007199254740993", "9223372036854775807", "9223372036854775808",
		"-9223372036854775808", "-9223372036854775809",
		"18446744073709551616", "123456789012345678901234567890",
	}
	fractions = []string{
		"1.0", "0.0", "-0.0", "1.5", "1e2", "1E2", "1e+2", "1E-2", "0e0", "1.5e3", "1e400", "-1e-400",
		"0.1", "1.0000000000000000000000001",
	}
	numbers = append(append(append([]string{}, integers...), fractions...), "01", "-01", "00", "+1", ".5", "1.",
		"1.e2", "1e", "1e+", "--1", "-", "-a", "0x10",
		"1_000", "1,5", "Infinity", "-Infinity", "NaN", "1f", "１", "1e1.5", "1e2e3", "1.2.3", "- 1", "1 2", "0b1", "1n")
	literals = []string{
		"true", "false", "null", "True", "TRUE", "nul", "nulll", "truee", "tru", "fals", "t",
		"undefined", "None", "nil", "null null", "\x00", "''", "'a'", "a",
	}
	good = []string{
		"a", "tools/call", "é", "€", "😀", `\u00e9`, `\u20AC`, `\ud83d\ude00`, `\uDBFF\uDFFF`, `\"`, `\\`, `\\\"`,
		`\\\\`, `\\\\\"`, `\/`, `\b\f\n\r\t`, `\u0000`, `\u001f`, `\u2028`, "\u2028",
		"\x7f", "\ufeff", `\ufeff`, "\ufffd", `\ufffd`, "\uffff", `\uffff`, "\U0010ffff", `\\u0041`, `\u005c`, `\u0022`,
		"{", "]", ":,", "//", "'",
	}
	poor = []string{
		"\xff", "\x80", "\xc3", "\xc3(", "\xc0\xaf", "\xe2\x82", "\xed\xa0\x80", "\xed\xb0\x80", "\xf0\x9f\x98",
		"\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "\xe0\x80\x80",
		`\ud800`, `\udc00`, `\udc00\udc00`, `\ud800\u0041`, `\ud83d\ue000`, `\ud83d\uffff`, `\ud83d\ud83d`,
		`\ude00\ud83d`, `\ud83d\`, `\ud83d\n`, `\ud83dx`, `\ud83d\ude0`, `\x41`, `\u12`, `\u`, `\u{41}`, `\U0041`,
		`\u+041`, `\u 041`,
		`\u00g0`, `\u00e`, `\`, "\\\n", "\n", "\r", "\t", "\x00", "\x1f", `\'`, `\a`, `\0`, `\v`, `\e`, `"`, `","`,
	}
	spaces = []string{
		" ", "\n", "\t", "\r", "\r\n", "  ", "\v", "\f", "\u00a0", "\u2028", "\ufeff", "\u3000", "\x00",
		"/**/", "//\n", "#\n",
	}
	around = []string{
		" ", "\n", "\r\n\t ", "", "\ufeff", "\x00", "\v", "\u00a0", ",", ";", "}", "]", "{", "[", "{}",
		"[]", "null", "0", `""`, "//", "/* */", "\x1e", "\xff\xfe", "\xff", "a", "\x04", ")]}',\n",
	}
	bits = []string{
		"{", "}", "[", "]", ":", ",", `"`, `\`, "'", "/", "0", "1", "-", "+", ".", "e", "E", "u", "n",
		"t", "\x00", "\x1f", " ", "\n", "\x7f", "\x80", "\xbf", "\xc3", "\xe2", "\xed", "\xf0", "\xff",
	}
	inner = []string{
		"name", "_meta", "arguments", "a", `a\u0062`, "abc", "é", "", "method", "id", "content",
		"progressToken",
	}
	escapes = []string{`\u%04x`, `\u%04X`}
	closing = []string{"]", "]", "]", "]", "]", "]", "]", "]", "]", " ]", "\n]\n", ",]"}
	gaps    = []string{"", "", " ", "\n", "\t", "\r\n", "  "}
)

// A generator makes documents from random numbers. A document is valid until the next one is made.
type generator struct {
	*rand.Rand

	members []member // of the current message
	value   []byte   // being made
	text    []byte   // of the document
	spaced  bool     // with white space wherever it is allowed
}

// A member of a message in its JSON form; the name without quotes.
type member struct{ name, value string }

func newGenerator(seed, part uint64) *generator {
	return &generator{Rand: rand.New(rand.NewPCG(seed, part))}
}

// document returns a document and the rule that made it.
func (g *generator) document() (text []byte, rule int) {
	g.text, rule = g.text[:0], g.rule()
	switch rules[rule].name {
	case "two of these":
		g.message(g.rule(), g.rule())
	case "a batch":
		g.batch(g.IntN(4), func() { g.message(g.rule() * g.IntN(2)) })
	case "a large batch":
		g.batch(usual.Batch-1+g.IntN(3), func() { g.text = append(g.text, `{"jsonrpc":"2.0","method":"m"}`...) })
	default:
		g.message(rule)
	}
	return g.text, rule
}

// rule returns a random rule.
func (g *generator) rule() (i int) {
	for n := g.IntN(weights); n >= rules[i].weight; i++ {
		n -= rules[i].weight
	}
	return i
}

// message appends a message changed by rules.
func (g *generator) message(by ...int) {
	from := len(g.text)
	g.spaced = g.IntN(4) == 0
	g.members = append(g.members[:0], member{"jsonrpc", `"2.0"`})
	kind := g.IntN(6)
	if kind < 4 && kind != 1 || kind > 3 && g.IntN(2) == 0 {
		g.add("id", g.one([]string{g.one(integers), g.string()}))
	}
	switch kind {
	case 0, 1:
		g.add("method", g.one(methods))
		if g.IntN(4) > 0 {
			g.add("params", g.object(2))
		}
	case 2, 3:
		g.add("result", g.object(2))
	default:
		g.add("error", `{"code":`+g.one(integers[:8])+`,"message":`+g.string()+
			g.one([]string{"", `,"data":` + g.token()})+`}`)
		if len(g.members) == 2 && g.IntN(2) == 0 {
			g.add("id", "null")
		}
	}
	if g.IntN(8) == 0 {
		g.add("x", g.token())
	}
	for _, i := range by {
		if edit := rules[i].members; edit != nil {
			edit(g)
		}
	}
	if g.IntN(2) == 0 {
		g.Shuffle(len(g.members), func(i, j int) { g.members[i], g.members[j] = g.members[j], g.members[i] })
	}
	g.gap()
	g.text = append(g.text, '{')
	for i, m := range g.members {
		if i > 0 {
			g.text = append(g.text, ',')
		}
		g.gap()
		g.text = append(append(append(g.text, '"'), m.name...), '"')
		g.gap()
		g.text = append(g.text, ':')
		g.gap()
		g.text = append(g.text, m.value...)
		g.gap()
	}
	g.text = append(g.text, '}')
	for _, i := range by {
		if edit := rules[i].text; edit != nil {
			edit(g, from)
		}
	}
}

// batch appends a batch of n messages, each appended by each.
func (g *generator) batch(n int, each func()) {
	from := len(g.text)
	g.text = append(append(g.text, g.one(gaps)...), '[')
	for i := range n {
		if i > 0 {
			g.text = append(g.text, ',')
		}
		each()
	}
	g.text = append(g.text, g.one(closing)...)
	if edit := rules[g.rule()].text; edit != nil {
		edit(g, from)
	}
}

func (g *generator) one(of []string) string { return of[g.IntN(len(of))] }

// gap appends white space if this message has any.
func (g *generator) gap() {
	if g.spaced {
		g.text = append(g.text, g.one(gaps)...)
	}
}

// add adds a member. set replaces its value if it exists.
func (g *generator) add(name, value string) { g.members = append(g.members, member{name, value}) }

func (g *generator) set(name, value string) {
	for i, m := range g.members {
		if m.name == name {
			g.members[i].value = value
			return
		}
	}
	g.add(name, value)
}

// member returns a random member.
func (g *generator) member() *member {
	if len(g.members) == 0 {
		g.add("id", "1")
	}
	return &g.members[g.IntN(len(g.members))]
}

// within inserts a value somewhere into params, a result, an error or an unknown member.
func (g *generator) within(value string) {
	value = g.one([]string{
		`{"a":` + value + `}`, `{"_meta":` + value + `,"a":1}`, `{"_meta":{"a":` + value + `}}`,
		`{"a":[1, ` + value + `],"b":{}}`, `{ "a" :{"b": ` + value + ` } }`,
	})
	for i, m := range g.members {
		switch m.name {
		case "params", "result":
			g.members[i].value = value
			return
		case "error":
			g.members[i].value = `{"code":1,"message":"m","data":` + value + `}`
			return
		}
	}
	g.add("x", value)
}

// string returns a valid string with quotes.
func (g *generator) string() string {
	if g.IntN(2) == 0 {
		return g.one(methods)
	}
	return `"` + g.padded(g.one(good)) + `"`
}

// anyString returns a string that may be invalid.
func (g *generator) anyString() string {
	if g.IntN(3) == 0 {
		return `"` + g.padded(g.one(good)) + g.padded(g.one(good)) + `"`
	}
	return `"` + g.padded(g.one(poor)) + `"`
}

// padded adds letters before and after special characters, which the parser looks for eight bytes at a time.
func (g *generator) padded(s string) string {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	return letters[:g.IntN(27)] + s + letters[:g.IntN(10)]
}

// token returns a value of any kind.
func (g *generator) token() string {
	switch g.IntN(12) {
	case 0, 1, 2:
		return g.string()
	case 3, 4, 5:
		return g.one(integers)
	case 6:
		return g.one(fractions)
	case 7:
		return "null"
	case 8:
		return g.one(literals[:3])
	case 9:
		return "[" + g.one(integers) + "," + g.string() + "]"
	case 10:
		return g.one([]string{"{}", "[]", `""`})
	}
	return g.object(1)
}

// object returns an object with the given number of levels.
func (g *generator) object(levels int) string {
	from := len(g.value)
	g.value = append(g.value, '{')
	first := g.IntN(len(inner))
	for i := range g.IntN(4) {
		if i > 0 {
			g.value = append(g.value, ',')
		}
		g.value = append(append(append(g.value, '"'), inner[(first+i)%len(inner)]...), `":`...)
		if g.spaced {
			g.value = append(g.value, g.one(gaps)...)
		}
		v := g.one(integers)
		switch n := g.IntN(6); {
		case n < 2 && levels > 1:
			v = g.object(levels - 1)
		case n < 4:
			v = g.string()
		case n == 4:
			v = g.one(literals[:3])
		}
		g.value = append(g.value, v...)
	}
	g.value = append(g.value, '}')
	s := string(g.value[from:])
	g.value = g.value[:from]
	return s
}

// long returns a string or a number of n bytes, or one more or less.
func (g *generator) long(n int) string {
	n += g.IntN(3) - 1
	if g.IntN(2) == 0 {
		return strings.Repeat("7", n)
	}
	return `"` + strings.Repeat("i", n-2) + `"`
}

// problem makes an error object from possible members.
func (g *generator) problem() {
	code, message := g.one(integers), g.string()
	switch g.IntN(4) {
	case 0:
		code = g.one(numbers)
	case 1:
		message = g.token()
	}
	if g.IntN(4) > 0 {
		g.members = append(g.members[:0], member{"jsonrpc", `"2.0"`}, member{"id", g.one(integers)})
	}
	all := []string{
		`"code":` + code, `"message":` + message, `"data":` + g.token(), `"Code":2`, `"MESSAGE":""`,
		`"c\u006fde":3`, `"code":4`, `"x":{}`,
	}
	all = all[g.IntN(7)/6 : 2+g.IntN(len(all)-1)*g.IntN(2)]
	g.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	g.set("error", "{"+strings.Join(all, ",")+"}")
}

// escaped writes one or more letters of a name as escapes.
func (g *generator) escaped(name string) string {
	if name == "" {
		return name
	}
	var b []byte
	always := g.IntN(len(name))
	for i, c := range []byte(name) {
		if c >= 'A' && c <= 'z' && c != '\\' && (i == always || g.IntN(8) == 0) {
			b = fmt.Appendf(b, g.one(escapes), c)
		} else {
			b = append(b, c)
		}
	}
	return string(b)
}

// odd returns a different name that looks similar.
func (g *generator) odd(name string) string {
	i := g.IntN(len(name) + 1)
	return g.one([]string{
		name + "s", name[:i], name[:i] + "_" + name[i:], name[:i] + `\u0000` + name[i:], name[:i] + "\u200d" + name[i:],
		" " + name, name + " ", name + `\n`, `\u005c` + name,
		"\ufeff" + name, strings.Replace(name, "i", "ı", 1) + "ı", strings.Replace(name, "e", "е", 1) + "х", "ｍethod",
		"ⅰd", "iḍ", "constructor", "__proto__", "$" + name, "/" + name,
	})
}

// folded returns a different name that is equal if case is ignored.
func (g *generator) folded(name string) string {
	if name == "" {
		return "ID"
	}
	i := g.IntN(len(name))
	s := g.one([]string{
		strings.ToUpper(name), strings.ToUpper(name[:1]) + name[1:],
		name[:i] + strings.ToUpper(name[i:i+1]) + name[i+1:], strings.Replace(name, "s", "ſ", 1),
	})
	if s == name {
		s = strings.ToUpper(name)
	}
	if g.IntN(4) == 0 {
		return g.escaped(s)
	}
	return s
}

// many returns an object with many members, possibly with a duplicate. The method of comparing names depends on their
// number, also in the enclosing objects, and on escapes.
func (g *generator) many(levels int) string {
	n := g.IntN(24)
	if g.IntN(4) == 0 {
		n = g.IntN(80)
	}
	all := make([]string, n)
	for i := range all {
		all[i] = `"n` + strconv.Itoa(i) + `":0`
	}
	if n > 0 && levels > 0 && g.IntN(2) == 0 {
		all[g.IntN(n)] = `"in":` + g.many(levels-1)
	}
	if n > 0 && g.IntN(4) == 0 {
		i := g.IntN(n)
		all[i] = `"` + g.escaped("n"+strconv.Itoa(i)) + `":0`
	}
	if n > 1 && g.IntN(3) == 0 {
		name := "n" + strconv.Itoa(g.IntN(n))
		if g.IntN(2) == 0 {
			name = g.escaped(name)
		}
		all[g.IntN(n)] = `"` + name + `":1`
	}
	return "{" + strings.Join(all, ",") + "}"
}

// deep returns a value nested to about the limit.
func (g *generator) deep() string {
	n := usual.JSONDepth - 6 + g.IntN(10)
	if g.IntN(2) == 0 {
		return strings.Repeat("[", n) + strings.Repeat("]", n)
	}
	return strings.Repeat(`{"a":[`, n/2) + strings.Repeat("]}", n/2)
}

// place returns a random index of the text after from.
func (g *generator) place(from int) int { return from + g.IntN(max(1, len(g.text)-from)) }

// splice replaces the text between two indices by s.
func (g *generator) splice(from, to int, s string) {
	rest := string(g.text[min(to, len(g.text)):])
	g.text = append(append(g.text[:from], s...), rest...)
}

func (g *generator) insert(from int, s string) {
	i := g.place(from)
	g.splice(i, i, s)
}

// wide returns text as UTF-16 in either byte order, with or without a byte order mark.
func wide(text []byte, form int) string {
	all := utf16.Encode([]rune(string(text)))
	if form < 2 {
		all = append([]uint16{0xfeff}, all...)
	}
	var b []byte
	for _, c := range all {
		if form%2 == 0 {
			b = binary.LittleEndian.AppendUint16(b, c)
		} else {
			b = binary.BigEndian.AppendUint16(b, c)
		}
	}
	return string(b)
}
