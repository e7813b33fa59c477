package mcpbridge

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest/fuzzing"
)

type checked struct {
	Text   string           `json:"text" schema:"minLen=1,maxLen=3"`
	Choice string           `json:"choice,omitempty" schema:"enum=a|b"`
	Number float64          `json:"number" schema:"above=0,max=10,multipleOf=0.5"`
	Count  int              `json:"count,omitempty" schema:"min=-1,below=5"`
	Flag   bool             `json:"flag"`
	List   []int8           `json:"list,omitempty" schema:"maxItems=2,unique,enum=1|2|3"`
	Map    map[string]*bool `json:"map,omitempty"`
	Any    any              `json:"any,omitempty"`
	Sub    *struct {
		Code string `json:"code" schema:"pattern=^[a-z]+$"`
	} `json:"sub,omitempty"`
}

// The validator agrees with jsonschema-go.
func TestChecksAgreeWithJSONSchema(t *testing.T) {
	in, err := inputOf[checked]("checked", "")
	if err != nil {
		t.Fatal(err)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal([]byte(in.schema), &s); err != nil {
		t.Fatal(err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string][]string{
		"text":   {`"a"`, `"ä\u00e4ä"`, `"\ud83c\udf89🎉"`, `""`, `"abcd"`, `1`, `null`},
		"choice": {`"a"`, `"\u0062"`, `"c"`, `[]`},
		"number": {`0.5`, `10`, `1e1`, `0`, `0.3`, `11`, `"1"`},
		"count":  {`-1`, `4`, `2.0`, `20e-1`, `5`, `-2`, `2.5`, `true`},
		"flag":   {`true`, `false`, `0`},
		"list":   {`[]`, `[1]`, `[1, 3]`, `[1,1]`, `[1,2,3]`, `[4]`, `null`, `{}`},
		"map":    {`{}`, `{"x":true,"y":null}`, `{"x":1}`},
		"any":    {`null`, `{"a":[1,{"b":2}]}`},
		"sub":    {`null`, `{"code":"x"}`, `{"code":"X"}`, `{}`, `{"code":"x","more":1}`},
		"more":   {`1`},
	}
	r := rand.New(rand.NewPCG(1, 2))
	valid := 0
	for range 20_000 {
		var members []string
		for name, of := range values {
			keep := 0.95
			if name == "more" {
				keep = 0.05
			}
			if r.Float64() > keep {
				continue
			}
			i := 0
			if r.Float64() < 0.3 {
				i = r.IntN(len(of))
			}
			members = append(members, fmt.Sprintf("%q: %s", name, of[i]))
		}
		text := "{" + strings.Join(members, ", ") + "}"
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			t.Fatal(err)
		}
		want := resolved.Validate(value)
		v, got := in.read([]byte(text))
		if (want == nil) != (got == nil) {
			t.Fatalf("%s\ngot:  %v\nwant: %v, from jsonschema-go", text, got, want)
		}
		if got == nil {
			valid++
			if v.Text == "" {
				t.Fatalf("%s was read as %+v", text, v)
			}
		}
	}
	if valid < 100 {
		t.Errorf("only %d of the texts are valid", valid)
	}
}

func FuzzCheck(f *testing.F) {
	in, err := inputOf[checked]("checked", "")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(`{"text":"a","number":1,"flag":true,"count":2.0}`)
	f.Add(`{"text":"\ud83c","list":[1,`)
	fuzzing.Run(f, func(t *testing.T, text string) {
		if _, err := in.read([]byte(text)); err == nil && text != "" && !json.Valid([]byte(text)) {
			t.Errorf("%q was accepted as JSON", text)
		}
	})
}
