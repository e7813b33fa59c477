package mcpbridge

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// All SDKs accept the same values.
func TestFormatsAcceptTheValuesOfTheSharedTable(t *testing.T) {
	text, err := os.ReadFile("../../testdata/formats.json")
	if err != nil {
		t.Fatal(err)
	}
	var table struct {
		Formats map[string]struct {
			Is               string
			Accepts, Refuses []string
		}
	}
	if err := json.Unmarshal(text, &table); err != nil {
		t.Fatal(err)
	}
	if len(formats) != len(table.Formats) || len(formats) == 0 {
		t.Errorf("there are %d formats, and %d in the table", len(formats), len(table.Formats))
	}
	for name, want := range table.Formats {
		f, ok := formats[name]
		if !ok || f.is != want.Is {
			t.Errorf("%s is %q, want %q", name, f.is, want.Is)
			continue
		}
		for _, v := range want.Accepts {
			if !f.fits(v) {
				t.Errorf("%s refuses %q", name, v)
			}
		}
		for _, v := range want.Refuses {
			if f.fits(v) {
				t.Errorf("%s accepts %q", name, v)
			}
		}
	}
}

type formatted struct {
	Day   string    `json:"day" schema:"format=date"`
	Mails []string  `json:"mails,omitempty" schema:"format=email"`
	When  *string   `json:"when,omitempty" schema:"format=date-time"`
	Text  string    `json:"text,omitempty" schema:"maxLen=3"`
	Sizes []float64 `json:"sizes,omitempty" schema:"min=1"`
}

func TestFormatsOfArgumentsAreChecked(t *testing.T) {
	in, err := inputOf[formatted]("f", "")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`{"day":"2026-01-31","mails":["ada@example.com"],"when":null}`: "",
		`{"day":"tomorrow"}`: `- day: must be a date such as 2026-01-31, got "tomorrow"`,
		`{"day":"2026-02-30","mails":["ada@example.com","ada"],"when":"2026-01-31T14:30:00"}`: `- day: must be a date such as 2026-01-31, got "2026-02-30"
- mails.1: must be an email address such as ada@example.com, got "ada"
- when: must be a date and time with an offset such as 2026-01-31T14:30:00Z, got "2026-01-31T14:30:00"`,
	} {
		got := ""
		if _, err := in.read([]byte(text)); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", text, got, want)
		}
	}
}

// Results are validated against the schema of their type, because clients reject others.
func TestResultsAreCheckedAgainstTheirSchema(t *testing.T) {
	out, err := outputOf[formatted]()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.write(formatted{Day: "2026-01-31", Sizes: []float64{1}}); err != nil {
		t.Error(err)
	}
	_, err = out.write(formatted{Day: "31.01.2026", Mails: []string{"ada"}, Text: "long", Sizes: []float64{1, 0}})
	const want = `the tool returned what its return type does not allow:
- day: must be a date such as 2026-01-31, got "31.01.2026"
- mails.0: must be an email address such as ada@example.com, got "ada"
- text: must have at most 3 characters, got 4
- sizes.1: must be at least 1, got 0`
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	list, err := outputOf[[]formatted]()
	if err != nil {
		t.Fatal(err)
	}
	if _, err = list.write([]formatted{{Day: "2026-01-31"}, {}}); err == nil ||
		!strings.Contains(err.Error(), "- 1.day: must be a date") {
		t.Errorf("got %v", err)
	}
}

func TestFormatsThatAreNotCheckedAreRefused(t *testing.T) {
	app := New("test", "1")
	add := func(fn func(app *App)) string {
		before := len(app.wrong)
		fn(app)
		return strings.Join(slices.Collect(func(yield func(string) bool) {
			for _, err := range app.wrong[before:] {
				yield(err.Error())
			}
		}), "\n")
	}
	if got := add(addTool[struct {
		Day string `schema:"format=dat"`
	}]); !strings.Contains(got, `field Day, schema:"format=dat": there is no format dat; did you mean date?`) {
		t.Errorf("got %s", got)
	}
	if got := add(addTool[struct {
		Day int `schema:"format=date"`
	}]); !strings.Contains(got, `field Day, schema:"format=date": it is for text`) {
		t.Errorf("got %s", got)
	}
	for tag, fn := range map[string]func(*App){
		`the default "today" does not fit: must be a date such as 2026-01-31`: addTool[struct {
			Day string `schema:"format=date,default=today"`
		}],
		"the default 0 does not fit: must be at least 1": addTool[struct {
			Days int `schema:"default=0,min=1"`
		}],
		`the default "c" does not fit: must be one of "a", "b"`: addTool[struct {
			Of string `schema:"enum=a|b,default=c"`
		}],
	} {
		if got := add(fn); !strings.Contains(got, tag) {
			t.Errorf("got %s, want %s", got, tag)
		}
	}
}

func TestTitlesAreOfEveryChoice(t *testing.T) {
	app := New("test", "1")
	addTool[struct {
		Seat string `schema:"enum=w|a,titles=Window"`
	}](app)
	if err := app.Err(); err == nil || !strings.Contains(err.Error(), "there are 1 titles for 2 choices") {
		t.Errorf("got %v", err)
	}
	in, err := inputOf[struct {
		Seat  string   `json:"seat" schema:"enum=w|a,titles=Window|Aisle"`
		Lines []string `json:"lines,omitempty" schema:"enum=ic|rj,titles=InterCity|Railjet"`
	}]("book", "")
	if err != nil {
		t.Fatal(err)
	}
	if in.usage != `book(seat: "w" | "a", lines: "ic" | "rj"[] = ...)` {
		t.Errorf("got %s", in.usage)
	}
	if !strings.Contains(in.schema, `"oneOf":[{"title":"Window","const":"w"},{"title":"Aisle","const":"a"}]`) {
		t.Errorf("got %s", in.schema)
	}
	if _, err := in.read([]byte(`{"seat":"w","lines":["ic","x"]}`)); err == nil ||
		err.Error() != `- lines.1: must be one of "ic", "rj", got "x"` {
		t.Errorf("got %v", err)
	}
}

func addTool[In any](app *App) {
	Tool(app, "with", "", func(context.Context, In) (string, error) { return "", nil })
}
