package catalog

import (
	"bytes"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// What is decoded is what the library would have decoded.
func TestDecodedAsTheLibraryDoes(t *testing.T) {
	for _, text := range []string{
		`{}`, `[]`, ` [ ] `, `null`, `true`, `false`, `0`, `-1`, `7`, `12`, `1.50`, `1e3`, `""`, `"a"`, `"\u00e9\n\"\\"`, `"é東"`,
		`[[],{},null,[1,[2]],{"a":[{"b":{}}]}]`, `{"a":1,"b":[true,false,null],"":{"c":"d"},"e\u0066":9007199254740993}`,
		"\t{ \"a\" :\r\n [ 1 , 2 ] , \"b\":{ \"c\" : \"x,y:z\" } }\n",
		`[` + strings.Repeat(`{"a":[1,"b"]},`, 100) + `1e999]`,
	} {
		want, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		got, _, fits := decode([]byte(text), maxArguments)
		if !fits || cmp.Diff(want, got) != "" {
			t.Errorf("%s: %v %s", text, fits, cmp.Diff(want, got))
		}
	}
}

// What is decoded takes as much memory as it may, and no more, whatever there is most of.
func TestDecodingIsBounded(t *testing.T) {
	array := func(n int) string { return `[` + strings.Repeat(`77,`, n) + `77]` }
	const each = elementSize + scalarSize
	for _, c := range []struct {
		name, text string
		fits       bool
	}{
		{"one below", array((maxArguments-arraySize)/each - 2), true},
		{"as much", array((maxArguments-arraySize)/each - 1), true},
		{"one above", array((maxArguments - arraySize) / each), false},
		{"arrays", `[` + strings.Repeat(`[[[]],[[]]],`, 300_000) + `0]`, false},
		{"objects", `[` + strings.Repeat(`{"a":{"b":{}}},`, 250_000) + `0]`, false},
		{"members", `[` + strings.Repeat(`{"a":0,"b":0,"c":0,"d":0,"e":0,"f":0,"g":0,"h":0,"i":0},`, 70_000) + `0]`, false},
		{"strings", `[` + strings.Repeat(`"a",`, 900_000) + `0]`, false},
		{"a long string", `"` + strings.Repeat("x", 4<<20) + `"`, true},
		{"a long string with escapes", `"` + strings.Repeat(`\n`, 2<<20) + `"`, true},
		{"a long number", strings.Repeat("1", 4<<20), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := []byte(c.text)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _, fits := decode(text, maxArguments)
			runtime.ReadMemStats(&after)
			// A string with escapes is there once more, and so is what is thrown away as lists grow.
			most := uint64(len(text) + 4*maxArguments)
			if took := after.TotalAlloc - before.TotalAlloc; fits != c.fits || took > most {
				t.Errorf("fits: %v; it took %d bytes, and may take %d", fits, took, most)
			}
		})
	}
	s := &schema{most: usual.Subschemas, text: []byte(`{"type":"object","properties":{"a":{"type":"string"}}}`)}
	s.accepts([]byte("{}"))
	wrong := s.check([]byte(`{"a":`+array(maxArguments/each)+`}`), input)
	if wrong == nil || !strings.Contains(wrong.lines("it"), "too large to be compared") {
		t.Errorf("%v", wrong)
	}
}

// The numbers that are too long are found wherever they are.
func TestLongNumbersAreFound(t *testing.T) {
	for digits, want := range map[int]bool{maxDigits - 1: true, maxDigits: true, maxDigits + 1: false} {
		text := append(append([]byte(`{"a":[{"b":`), bytes.Repeat([]byte("1"), digits)...), "}]}"...)
		if _, bearable, _ := decode(text, maxArguments); bearable != want {
			t.Errorf("%d digits: %v", digits, bearable)
		}
	}
}
