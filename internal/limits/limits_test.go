package limits

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write docs/configuration.md")

// Every field has exactly one row, in the same order, with a key, documentation, one default, and reasons for its
// bounds.
func TestEveryLimitHasARow(t *testing.T) {
	for typ, rows := range tables {
		if len(rows) != typ.NumField() {
			t.Errorf("%v: got %d rows, want %d", typ, len(rows), typ.NumField())
			continue
		}
		for i, r := range rows {
			f := typ.Field(i)
			if r.Field != f.Name || r.Key == "" || r.Doc == "" {
				t.Errorf("%v: got row %+v, want one of field %s", typ, r, f.Name)
			}
			if (r.Default == 0) == (r.Computed == "") || r.Default < 0 {
				t.Errorf("%v.%s: got default %d and computed %q, want one of them", typ, r.Field, r.Default, r.Computed)
			}
			if r.Default != 0 && (r.Default < r.Min || r.Max > 0 && r.Default > r.Max) {
				t.Errorf("%v.%s: got default %d, want one between %d and %d", typ, r.Field, r.Default, r.Min, r.Max)
			}
			if (r.Min > 1) != (r.TooLow != "") || (r.Max > 0) != (r.TooHigh != "") {
				t.Errorf("%v.%s: a bound has no reason, or a reason has no bound", typ, r.Field)
			}
		}
	}
}

func TestDefaultsReplaceZeros(t *testing.T) {
	l := Limits{Body: 7}.OrDefaults()
	if l.Body != 7 || l.Calls != 256 || l.Message != 16<<20 || l.ClientMessage != 4<<20 ||
		l.CallTotal != 15*time.Minute || l.Memory != 0 {
		t.Errorf("got %+v, want the defaults, and 7 for Body", l)
	}
	if again := l.OrDefaults(); again != l {
		t.Errorf("a second time: got %+v, want %+v", again, l)
	}
}

// A value is rejected one below its minimum, one above its maximum, and below zero, and nowhere else.
func TestBoundsAreChecked(t *testing.T) {
	for _, r := range Table[Limits]() {
		good := map[int64]bool{-1: false, 0: true, 1: r.Min <= 1}
		if r.Min > 1 {
			good[r.Min-1], good[r.Min] = false, true
		}
		if r.Max > 0 {
			good[r.Max], good[r.Max+1] = true, false
		}
		for n, want := range good {
			var l Limits
			reflect.ValueOf(&l).Elem().FieldByName(r.Field).SetInt(n)
			wrong := Check(l)
			if (len(wrong) == 0) != want {
				t.Errorf("%s of %d: got %v, want valid %t", r.Field, n, wrong, want)
			}
			for _, w := range wrong {
				if w.Key != r.Key || !strings.HasPrefix(w.What, "cannot be ") || n > 0 &&
					!strings.Contains(w.What, ": ") {
					t.Errorf("%s of %d: got %+v, want a message with the key and the reason", r.Field, n, w)
				}
			}
		}
	}
}

func TestConfigurationPageMatchesTheTable(t *testing.T) {
	const page = "../../docs/configuration.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	got := string(text)
	for _, part := range []struct{ name, before, indent, after, want string }{
		{"Limits", `limits:  [^\n]*\n`, "  ", `tasks:`, document[Limits]("  ")},
		{"Tasks", `tasks:  [^\n]*\n`, "  ", `state:\n`, document[Tasks]("  ")},
		{"Machine", `      limits:  [^\n]*\n`, "        ", `    skipArguments:`, document[Machine]("        ")},
		{"Pool", `      sessions:  [^\n]*\n`, "        ", `      hangTimeout:`, document[Pool]("        ")},
	} {
		at := regexp.MustCompile(`(?m)^` + part.before + `((?:` + part.indent + `[^\n]*\n)*)` + part.after).
			FindStringSubmatchIndex(got)
		if at == nil {
			t.Fatalf("%s has no place for %s", page, part.name)
		}
		if got[at[2]:at[3]] == part.want {
			continue
		}
		if !*update {
			t.Errorf("%s: %s is outdated; go test ./internal/limits -update writes:\n%s", page, part.name, part.want)
		}
		got = got[:at[2]] + part.want + got[at[3]:]
	}
	if *update && got != string(text) {
		if err := os.WriteFile(page, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// document returns the rows of T as YAML with comments, one line for each key.
func document[T Any](indent string) string {
	var b strings.Builder
	rows := Table[T]()
	for i, r := range rows {
		if i > 0 && r.Key == rows[i-1].Key {
			continue // the line of the first row has its default
		}
		doc := r.Doc
		if r.Min > 0 || r.Max > 0 {
			doc += regexp.MustCompile(`^a (number|time),?`).ReplaceAllString(r.allowed(), ",")
		}
		defaults := []string{r.def()}
		for _, other := range rows[i+1:] {
			if other.Key == r.Key {
				defaults = append(defaults, other.def()+" "+other.Doc)
			}
		}
		zero := "0"
		if r.isTime() {
			zero = "0s"
		}
		fmt.Fprintf(&b, "%-*s# %s [%s]\n", 36, indent+r.Key+": "+zero, doc, strings.Join(defaults, "; "))
	}
	return b.String()
}

// def returns the default of r as in the documentation.
func (r Row) def() string {
	if r.Computed != "" {
		return r.Computed
	}
	return r.text(r.Default)
}

func TestDefaultsAreWrittenAsInTheConfiguration(t *testing.T) {
	for want, r := range map[string]Row{
		"15m":   {typ: reflect.TypeFor[time.Duration](), Default: int64(15 * time.Minute)},
		"24h":   {typ: reflect.TypeFor[time.Duration](), Default: int64(24 * time.Hour)},
		"100ms": {typ: reflect.TypeFor[time.Duration](), Default: int64(100 * time.Millisecond)},
		"10s":   {typ: reflect.TypeFor[time.Duration](), Default: int64(10 * time.Second)},
		"4096":  {typ: reflect.TypeFor[int](), Default: 4096},
	} {
		if got := r.text(r.Default); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
