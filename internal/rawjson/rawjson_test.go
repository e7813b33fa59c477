package rawjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest/fuzzing"
	"github.com/mcpbridge/mcpbridge/internal/limits"
)

var usual = limits.Defaults()

// deep, members and elements return texts that are just within a limit of n.
func deep(n int) string     { return strings.Repeat("[", n) + strings.Repeat("]", n) }
func elements(n int) string { return "[" + strings.Repeat("0,", n-1) + "0]" }
func members(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"%d":0`, i)
	}
	return "{" + b.String()[1:] + "}"
}

func TestInvalidInputIsRejected(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   string
		want string // empty: not refused
		json bool
	}{
		{"", `{"a":[1,-0.5e3,"\u00e9\ud83d\ude00",true,false,null,{}]}`, "", false},
		{"space around", " \t\r\n1 \n", "", false},
		{"a big number", `1e400`, "", false},
		{"nothing", ``, `byte 0: unexpected end of the text`, false},
		{"only space", " \n", `byte 2: unexpected end of the text`, false},
		{"cut off", `{"a":`, `byte 5: unexpected end of the text`, false},
		{"cut off in a string", `{"a":"b`, `byte 7: unexpected end of the text`, false},
		{"byte order mark", "\ufeff1", `byte 0: invalid character '\ufeff' at start of value`, false},
		{"leading NUL", "\x001", `byte 0: invalid character '\x00' at start of value`, false},
		{"trailing value", `{} {}`, `byte 3: more text after the value`, false},
		{"trailing garbage", `{"a":1}x`, `byte 7: more text after the value`, false},
		{"trailing comma", `[1,]`, `byte 3: invalid character ']' at start of value`, false},
		{
			"trailing comma in an object", `{"a":1,}`, `byte 7: invalid character '}' at start of string (expecting '"')`,
			false,
		},
		{"single quotes", `{'a':1}`, `byte 1: invalid character '\'' at start of string (expecting '"')`, false},
		{"comment", `[1]//`, `byte 3: more text after the value`, false},
		{"NaN", `[NaN]`, `byte 1: invalid character 'N' at start of value`, false},
		{"Infinity", `-Infinity`, `byte 1: invalid character 'I' in number (expecting digit)`, false},
		{"leading zero", `[01]`, `byte 2: invalid character '1' after array element (expecting ',' or ']')`, false},
		{"no digit after the point", `[1.]`, `byte 3: invalid character ']' in number (expecting digit)`, false},
		{"a name twice", `{"a":1,"b":2,"a":3}`, `byte 13: duplicate name "a"`, true},
		{"a name twice, deep inside", `[{"x":{"a":1,"a":1}}]`, `byte 13: duplicate name "a"`, true},
		{"a name twice, once escaped", `{"ab":1,"a\u0062":2}`, `byte 8: duplicate name "ab"`, true},
		{
			"a control character", "[\"a\nb\"]",
			`byte 3: invalid character '\n' in string (expecting non-control character)`, false,
		},
		{"no UTF-8", "{\"a\":\"\xff\"}", `byte 6: invalid UTF-8`, false},
		{"no UTF-8 in a name", "{\"\xc3\":1}", `byte 2: invalid UTF-8`, false},
		{"overlong UTF-8", "\"\xc0\xaf\"", `byte 1: invalid UTF-8`, false},
		{"a surrogate in UTF-8", "\"\xed\xa0\x80\"", `byte 1: invalid UTF-8`, false},
		{"a lone surrogate", `"\ud800"`, "byte 1: invalid surrogate pair `\\ud800\"` in string", false},
		{
			"surrogates the wrong way round", `"\ude00\ud83d"`,
			"byte 1: invalid surrogate pair `\\ude00\\ud83d` in string", false,
		},
		{"an unknown escape", `"\x"`, "byte 1: invalid escape sequence `\\x` in string", false},
		{"as deep as can be", deep(usual.JSONDepth), "", false},
		{"too deep", deep(usual.JSONDepth + 1), `byte 256: nested deeper than 256`, true},
		{"far too deep", strings.Repeat(`{"a":[`, 1e6), `byte 768: nested deeper than 256`, true},
		{"brackets in a string", `"` + strings.Repeat("[", 300) + `"`, "", false},
		{"brackets beside one another", "[" + strings.Repeat("[],", 300) + "{}]", "", false},
		{"as many members as can be", members(usual.JSONMembers), "", false},
		{"too many members", members(usual.JSONMembers + 1), `byte 188890: an object of more than 20000 members`, true},
		{"as many elements as can be", elements(usual.JSONElements), "", false},
		{
			"too many elements", elements(usual.JSONElements + 1), `byte 200000: an array of more than 100000 elements`,
			true,
		},
		{
			"many members here and there",
			"[" + members(usual.JSONMembers) + "," + members(usual.JSONMembers) + "]",
			"", false,
		},
		{
			"a long name twice", `{"` + strings.Repeat("é", 99) + `":1,"` + strings.Repeat("é", 99) + `":1}`,
			`byte 204: duplicate name "` + strings.Repeat("é", 38) + `…`, true,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := CheckWithin([]byte(tt.in), usual)
			if got := fmt.Sprint(err); got != tt.want && (err != nil || tt.want != "") {
				t.Fatalf("\n got %s\nwant %s", got, tt.want)
			}
			var e *Error
			if err != nil && (!errors.As(err, &e) || e.JSON != tt.json) {
				t.Errorf("got %#v", err)
			}
		})
	}
}

// A text is refused one above a limit, and by Check one above the highest that can be configured.
func TestCheckWithinLimits(t *testing.T) {
	for _, l := range []*limits.Limits{{JSONDepth: 3, JSONMembers: 20, JSONElements: 30}, usual} {
		for name, c := range map[string]struct {
			text func(n int) string
			most int
		}{"depth": {deep, l.JSONDepth}, "members": {members, l.JSONMembers}, "elements": {elements, l.JSONElements}} {
			for n := c.most - 1; n <= c.most+1; n++ {
				err := CheckWithin([]byte(c.text(n)), l)
				if (err == nil) != (n <= c.most) || err != nil &&
					!strings.Contains(err.Error(), "than "+strconv.Itoa(c.most)) {
					t.Errorf("%s of %d: %v", name, n, err)
				}
			}
		}
	}
	for n := limits.MaxJSONDepth - 1; n <= limits.MaxJSONDepth+1; n++ {
		if err := Check([]byte(deep(n))); (err == nil) != (n <= limits.MaxJSONDepth) {
			t.Errorf("without limits, depth of %d: %v", n, err)
		}
	}
}

func TestMembersAndElements(t *testing.T) {
	var got []string
	for name, value := range Members(
		[]byte(" { \"a\" : 1 ,\"b\\u0063\":[ {\"x\":\"]\\\"\"} , 2],\"\":\"\\\\\" , \"d\":{\"d\":null} }")) {
		got = append(got, string(name)+"="+string(value))
	}
	want := []string{"a=1", `bc=[ {"x":"]\""} , 2]`, `="\\"`, `d={"d":null}`}
	if !slices.Equal(got, want) {
		t.Errorf("\n got %q\nwant %q", got, want)
	}
	got = nil
	for value := range Elements([]byte(` [ 1 , "a,b" ,[],{} , null ]`)) {
		got = append(got, string(value))
	}
	if want := []string{"1", `"a,b"`, "[]", "{}", "null"}; !slices.Equal(got, want) {
		t.Errorf("\n got %q\nwant %q", got, want)
	}
	for _, none := range []string{"", "[]", "{}", " { } ", " [ ] ", "1", `"{}"`, "null"} {
		for name := range Members([]byte(none)) {
			t.Errorf("%s: member %s", none, name)
		}
		for value := range Elements([]byte(none)) {
			t.Errorf("%s: element %s", none, value)
		}
	}
	for range Members([]byte(`{"a":1,"b":2}`)) {
		break // and nothing comes after it
	}
}

func TestWithout(t *testing.T) {
	for object, want := range map[string]string{
		`{"a":1}`: "", `{"b":1}`: `{"b":1}`, `{"\u0061":1,"b\"":[2]}`: `{"b\"":[2]}`,
		`{"b":{"a":1},"a":2,"c":3}`: `{"b":{"a":1},"c":3}`, `{}`: "", `[]`: "",
	} {
		if got := Without([]byte(object), "a"); string(got) != want {
			t.Errorf("%s: %s is left", object, got)
		}
	}
}

func TestGet(t *testing.T) {
	object := []byte(`{"a":{"b":1},"b":2,"c\n":3}`)
	for name, want := range map[string]string{"a": `{"b":1}`, "b": "2", "c\n": "3", "A": "", "d": ""} {
		if got := Get(object, name); string(got) != want || (want == "") != (got == nil) {
			t.Errorf("%q: got %q", name, got)
		}
	}
}

func TestIsObjectIsArrayIsNull(t *testing.T) {
	for _, tt := range []struct {
		raw                 string
		object, array, null bool
		str                 string
		isString            bool
	}{
		{` {}`, true, false, false, "", false},
		{"\n[1]", false, true, false, "", false},
		{` null `, false, false, true, "", false},
		{`"null"`, false, false, false, "null", true},
		{` "a\n\ud83d\ude00" `, false, false, false, "a\n😀", true},
		{`""`, false, false, false, "", true},
		{``, false, false, false, "", false},
		{`"`, false, false, false, "", false},
		{`"\"`, false, false, false, "", false},
		{`1`, false, false, false, "", false},
	} {
		raw := []byte(tt.raw)
		s, isString := String(raw)
		b, isBytes := Bytes(raw)
		if IsObject(raw) != tt.object || IsArray(raw) != tt.array || IsNull(raw) != tt.null ||
			isString != tt.isString ||
			s != tt.str || isBytes != isString || string(b) != s {
			t.Errorf("%q: got %v %v %v %q %v", tt.raw, IsObject(raw), IsArray(raw), IsNull(raw), s, isString)
		}
	}
}

func TestAppendString(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"", `""`},
		{"a\"\\/\b\f\n\r\t\x00\x1f\x7f", `"a\"\\/\b\f\n\r\t\u0000\u001f` + "\x7f\""},
		{"é😀\u2028<>&", `"é😀` + "\u2028" + `<>&"`},
		{"1234567\"12345678\\", `"1234567\"12345678\\"`},
		{"a\xffb\xed\xa0\x80", `"a�b���"`},
	} {
		if got := string(AppendString(nil, tt.in)); got != tt.want {
			t.Errorf("\n got %s\nwant %s", got, tt.want)
		}
	}
	// Every byte at every place of a word.
	for c := range 256 {
		for at := range 17 {
			in := strings.Repeat("é", 4) + strings.Repeat("x", at) + string(rune(c)) + "yyyyyyyy"
			var out string
			if err := json.Unmarshal(AppendString(nil, in), &out); err != nil || out != in {
				t.Fatalf("%q: %v, %q", in, err, out)
			}
		}
	}
}

func TestAppendChecked(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`{"a": 1.00,"b":"\n"}`, `{"a": 1.00,"b":"\n"}`},
		{"\r\n{\n\"a\":\r\n[1,\n2]}\n", `{"a":[1,2]}`},
		{" 1 ", "1"},
	} {
		got, err := AppendChecked([]byte("x"), []byte(tt.in))
		if err != nil || string(got) != "x"+tt.want {
			t.Errorf("%v\n got %s\nwant %s", err, got, tt.want)
		}
	}
	if got, err := AppendChecked([]byte("x"), []byte("{")); err == nil || string(got) != "x" {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestWalkingDoesNotAllocate(t *testing.T) {
	data := []byte(`{"a":[1,2,3],"b":{"c":"d"}}`)
	n := testing.AllocsPerRun(100, func() {
		for range Members(data) {
		}
		for range Elements(Get(data, "a")) {
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestCheckOfAllShortTexts compares Check with jsontext on every text that can be made of a few letters.
func TestCheckOfAllShortTexts(t *testing.T) {
	for _, tt := range []struct {
		alphabet, before, after string
		most                    int
	}{
		{`{}[]",:1`, "", "", 6},
		{`",:1ab`, "{", "}", 7},
		{"01-+.eE", "", "", 6},
		{"01-+.e ", "[", ",0]", 5},
		{`\u"dDc8F0`, `"`, `"`, 5},
		{`\uD8cE0`, `"\uD8`, `0"`, 6},
		{"truefalsn", "[", "]", 5},
		{"\"\\\x1f \x7f\x80\xbf\xc1\xc3\xed\xa0\xf0", `"aaaaaaa`, `"`, 4},
		{"\t\n\r \v1,", " [", "] ", 5},
	} {
		if testing.Short() {
			tt.most--
		}
		text := []byte(tt.before)
		var try func(left int)
		try = func(left int) {
			n := len(text)
			text = append(text, tt.after...)
			if err := Check(text); (err == nil) != jsontext.Value(text).IsValid() {
				t.Fatalf("%q: %v", text, err)
			}
			text = text[:n]
			for i := range len(tt.alphabet) {
				if left > 0 {
					text = append(text, tt.alphabet[i])
					try(left - 1)
					text = text[:n]
				}
			}
		}
		try(tt.most)
	}
}

// TestDuplicateNamesAreRejected looks for the name that is there twice at every place, among few and many.
func TestDuplicateNamesAreRejected(t *testing.T) {
	for _, n := range []int{2, 3, fewNames - 1, fewNames, fewNames + 1, fewNames + 2, 5 * fewNames} {
		for first := range n - 1 {
			for second := first + 1; second < n; second++ {
				var unique, twice strings.Builder
				for i := range n {
					// The objects inside have the names of the one around, which is no harm.
					fmt.Fprintf(&unique, `,"n%d":{"n%d":0,"n%d":[{"n0":1}]}`, i, first, second)
					if i == second {
						fmt.Fprintf(&twice, `,"\u006e%d":0`, first)
					} else {
						fmt.Fprintf(&twice, `,"n%d":{"n%d":0,"n%d":[{"n0":1}]}`, i, first, second)
					}
				}
				if err := Check([]byte("{" + unique.String()[1:] + "}")); err != nil {
					t.Fatal(n, first, second, err)
				}
				if err := Check([]byte("{" + twice.String()[1:] + "}")); err == nil ||
					!strings.Contains(err.Error(), fmt.Sprintf(`duplicate name "n%d"`, first)) {
					t.Fatal(n, first, second, err)
				}
			}
		}
	}
}

// How names are compared depends on how many there are, how deep their object is, and on whether one has an escape.
// None of that costs much more than the text.
func TestDuplicateNameCheckIsCheap(t *testing.T) {
	repeat := func(object string) string { return "[" + strings.Repeat(object+",", 64<<10/len(object)) + "0]" }
	for name, text := range map[string]string{
		"with escapes": repeat(`{"\u0061":0}`),
		"a few":        repeat(members(fewNames)),
		"many":         repeat(members(fewNames + 1)),
		"deep":         strings.Repeat(`{"":[`, 5*fewNames) + repeat(`{"":0}`) + strings.Repeat("]}", 5*fewNames),
	} {
		t.Run(name, func(t *testing.T) {
			fuzzing.Bounded(t, len(text), func() {
				if err := Check([]byte(text)); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
