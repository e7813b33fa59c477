package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/problem"
)

func TestListShowsFunctions(t *testing.T) {
	_, shop := startShop(t)
	got := runCommand(t, "", "list", shop)
	want := `Tools
  paint()
      Paint\u001b[31m red.
  order()
  visit()
  where()
  wait(ms?: integer)
  fail()
  nag()
  deny()
  sell()
  dream()
  hold()
  buy(what: string, n?: integer = 1, pay?: {by?: "card" | "cash", tip?: number}, tags?: string[], fast?: boolean, price?: number | null)

Resources
  shop://sign (sign, text/plain)

Resource templates
  shop://{shelf} (shelf)

Prompts
  haggle(price, tone?)
`
	if got != (commandOutput{want, "", problem.ExitOK}) {
		t.Errorf("got %+v", got)
	}
	var document struct {
		Tools, Resources, ResourceTemplates, Prompts []struct{ Name string }
	}
	got = runCommand(t, "", "list", "--json", shop)
	if err := json.Unmarshal([]byte(got.stdout), &document); err != nil || len(document.Tools) != 12 ||
		document.Prompts[0].Name != "haggle" ||
		len(document.Resources) != 1 || len(document.ResourceTemplates) != 1 {
		t.Errorf("%v: %s", err, got.stdout)
	}
}

// Arguments are converted to the types in the tool's schema and keep every digit. All invalid ones are reported at
// once.
func TestArguments(t *testing.T) {
	bridgetest.SkipIfShort(t)
	_, shop := startShop(t)
	file := filepath.Join(t.TempDir(), "what.txt")
	if err := os.WriteFile(file, []byte("two\nlines"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ stdin, words, want string }{
		{"", "what=tea", `{"what":"tea"}`},
		{"", "what=5 n=9007199254740993123456789", `{"what":"5","n":9007199254740993123456789}`},
		{"", "what=tea n=+007 fast=yes", `{"what":"tea","n":7,"fast":true}`},
		{"", "what=tea tags=a tags=b", `{"what":"tea","tags":["a","b"]}`},
		{"", `what=tea tags=["a"]`, `{"what":"tea","tags":["a"]}`},
		{"", "what=tea tags=a", `{"what":"tea","tags":["a"]}`},
		{"", "what=tea pay.by=card pay.tip=0.10", `{"what":"tea","pay":{"by":"card","tip":0.10}}`},
		{"", `what=tea pay={"by":"cash"}`, `{"what":"tea","pay":{"by":"cash"}}`},
		{"", "what=tea price=null", `{"what":"tea","price":null}`},
		{"", "what=tea price=1e2", `{"what":"tea","price":1e2}`},
		{"", "what=@" + file, `{"what":"two\nlines"}`},
		{"", "what=@@tea", `{"what":"@tea"}`},
		{"cha", "what=@-", `{"what":"cha"}`},
		{`{"what": "tea", "n": 1e400}`, "-", `{"what": "tea", "n": 1e400}`},
		{"", `{"what":"tea"}`, `{"what":"tea"}`},
	} {
		got := runCommand(t, c.stdin, append([]string{"call", shop, "buy"}, strings.Fields(c.words)...)...)
		if got != (commandOutput{c.want + "\n", "", problem.ExitOK}) {
			t.Errorf("%s: got %+v", c.words, got)
		}
	}
	for words, want := range map[string]string{
		"":                            "what is missing: it is string",
		"what=tea n=1.5":              `n cannot be \"1.5\": it is a whole number`,
		"what=tea pay.by=crad":        `pay.by cannot be \"crad\"; did you mean card?`,
		"what=tea pay.bye=card":       "there is no argument pay.bye; did you mean by?",
		"wat=tea":                     `what is missing: it is string\nthere is no argument wat; did you mean what?`,
		"what=tea fast=perhaps":       `fast cannot be \"perhaps\": it is true or false`,
		"what=tea n=1 n=2":            "n is given 2 times and is no list: it is integer",
		"what=tea pay=card pay.tip=1": "pay is given both as a whole and by its members",
		`{"n":1}`:                     "what is missing",
		`{"what":5}`:                  "/what: expected a string, got the number 5",
		`{"what":"tea","n":"many"}`:   "/n: expected an integer",
		`{"what":"","pay":{"by":1}}`:  "/pay/by: expected one of",
		`what=tea pay={"by":1}`:       "/pay/by: expected one of",
		`--json {"what":5}`:           "/what: expected a string, got the number 5",
		"what=tea price=cheap":        `price cannot be \"cheap\": it is number | null`,
		"what=@/nowhere":              "cannot read the argument @/nowhere",
		"tea":                         `\"tea\" is not an argument`,
	} {
		got := runCommand(t, "", append([]string{"call", shop, "buy"}, strings.Fields(words)...)...)
		if got.code != problem.ExitUsage || got.stdout != "" || !strings.Contains(got.stderr, want) ||
			!strings.Contains(got.stderr, "what: string") && !strings.Contains(words, "@") {
			t.Errorf("%s: got %+v", words, got)
		}
	}
}

// If a schema is composed of others, or has keywords beside a $ref, an argument is converted to a type that one of the
// parts allows. The catalog validates the result.
func TestArgumentsOfComposedSchemas(t *testing.T) {
	const (
		payment = `{"type":"object","required":["kind"],"properties":{"kind":{"enum":["card","cash"]}},"oneOf":[` +
			`{"properties":{"kind":{"const":"card"},"number":{"type":"string"}},"required":["number"]},{"properties":{"kind":{"const":"cash"}}}]}`
		beside = `{"type":"object","$ref":"#/$defs/b","properties":{"x":{"type":"string"}},` +
			`"$defs":{"b":{"type":"object","properties":{"y":{"type":"string"}}}}}`
		branches = `"oneOf":[{"type":"object","properties":{"iban":{"type":"string"}},"required":["iban"]},` +
			`{"type":"object","properties":{"number":{"anyOf":[{"type":"string"},{"type":"null"}]}},"required":["number"]}]`
		inner = `{"type":"object","properties":{"pay":{` + branches + `}}}`
		deep  = `{"type":"object","properties":{"a":{}},"allOf":[{"$ref":"#/$defs/b"},{"title":"x"}],"$defs":{"b":{` +
			branches + `}}}`
	)
	with := func(keyword string) string {
		return `{"type":"object","properties":{"a":{"type":"integer"}},` + keyword + `}`
	}
	s, shop := startShop(t)
	for _, c := range []struct{ schema, words, want string }{
		{payment, "kind=card number=4111", `{"kind":"card","number":"4111"}`},
		{payment, `{"kind":"card","number":"4111"}`, `{"kind":"card","number":"4111"}`},
		{payment, "kind=cash", `{"kind":"cash"}`},
		{beside, "x=1 y=2", `{"x":"1","y":"2"}`},
		{inner, "pay.number=4111", `{"pay":{"number":"4111"}}`},
		{inner, "pay.iban=7", `{"pay":{"iban":"7"}}`},
		{inner, `pay={"number":null}`, `{"pay":{"number":null}}`},
		{deep, "a=1 number=4111", `{"a":1,"number":"4111"}`},
		{with(`"allOf":[{"properties":{"b":{"type":"string"}}}]`), "a=1 b=1", `{"a":1,"b":"1"}`},
		{
			with(`"anyOf":[{"properties":{"b":{"type":"string"}}},{"properties":{"b":{"type":"integer"}}}]`), "b=1",
			`{"b":1}`,
		},
		{
			with(`"if":{"required":["a"]},"then":{"properties":{"b":{"type":"string"}}},"else":{"properties":{"c":{"type":"string"}}}`),
			"b=1 c=1", `{"b":"1","c":"1"}`,
		},
		{with(`"anyOf":[{"properties":{"b":{"const":"x"}}},{"required":["b"]}]`), "b=y", `{"b":"y"}`},
		{with(`"dependentSchemas":{"a":{"properties":{"b":{"type":"string"}}}}`), "a=1 b=1", `{"a":1,"b":"1"}`},
		{with(`"dependentRequired":{"a":["b"]}`), "a=1 b=1", `{"a":1,"b":1}`},
		{with(`"patternProperties":{"^b":{}}`), "b=1", `{"b":1}`},
		{with(`"unevaluatedProperties":{"type":"string"}`), "b=1", `{"b":"1"}`},
		{
			`{"type":"object","properties":{"p":{"allOf":[{"properties":{"c":{"type":"string"}}}],"properties":{"b":{"type":"string"}}}}}`,
			"p.b=1 p.c=1", `{"p":{"b":"1","c":"1"}}`,
		},
	} {
		s.schema = c.schema
		got := runCommand(t, "", append([]string{"call", shop, "buy"}, strings.Fields(c.words)...)...)
		if got != (commandOutput{c.want + "\n", "", problem.ExitOK}) {
			t.Errorf("%s with %s: got %+v", c.schema, c.words, got)
		}
	}
	for _, c := range []struct{ schema, words, want string }{
		{payment, "kind=card", "/number: expected a value"}, // the catalog reports this
		{payment, "number=4111", "kind is missing"},
		{
			with(`"additionalProperties":false,"anyOf":[{"required":["a"]},{"title":"x"}]`), "ab=1",
			"there is no argument ab; known are: a",
		},
		{with(`"unevaluatedProperties":false`), "ab=1", "there is no argument ab; known are: a"},
		{
			`{"type":"object","properties":{"p":{"$ref":"#/$defs/b","description":"d","default":{}}},"$defs":{"b":{"properties":{"by":{}}}}}`,
			"p.bye=1", "did you mean by?",
		},
		{
			`{"type":"object","properties":{"p":{"anyOf":[{"properties":{"by":{}}},{"type":"null"}]}}}`, "p.bye=1",
			"did you mean by?",
		},
	} {
		s.schema = c.schema
		got := runCommand(t, "", append([]string{"call", shop, "buy"}, strings.Fields(c.words)...)...)
		if got.code != problem.ExitUsage || got.errorCode(t) != "arguments" || !strings.Contains(got.stderr, c.want) {
			t.Errorf("%s with %s: got %+v", c.schema, c.words, got)
		}
	}
}

// An unknown tool may be hidden from clients without input capabilities: the error has a hint.
func TestHiddenTools(t *testing.T) {
	_, shop := startShop(t)
	const hidden = "it may be hidden because this client cannot answer input requests"
	for _, c := range []struct {
		args  []string
		shown bool
	}{
		{[]string{"call", shop, "survey-of-customers"}, true},
		{[]string{"call", shop, "pain"}, false},
		{[]string{"call", "--answer", "a=b", shop, "survey-of-customers"}, false},
		{[]string{"prompt", shop, "survey-of-customers"}, false},
	} {
		if got := runCommand(t, "", c.args...); got.code != problem.ExitTool ||
			strings.Contains(got.stderr, hidden) != c.shown {
			t.Errorf("%v: got %+v", c.args, got)
		}
	}
}
