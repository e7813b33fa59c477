package problem

import "testing"

// A guess is a help only if it is likely: a name of one letter is as near to every other one.
func TestSuggestedNames(t *testing.T) {
	for _, c := range []struct {
		name  string
		known []string
		want  string
	}{
		{"c", []string{"a", "b"}, ""},
		{"c", []string{"ca", "C"}, "C"},
		{"ab", []string{"xb", "b"}, ""},
		{"en", []string{"env"}, "env"},
		{"car", []string{"bat", "bars"}, ""},
		{"bye", []string{"by", "tip"}, "by"},
		{"wat", []string{"when", "what"}, "what"},
		{"crad", []string{"cash", "card"}, "card"},
		{"get_forcast", []string{"get_alerts", "get_forecast"}, "get_forecast"},
	} {
		if got := Nearest(c.name, c.known); got != c.want {
			t.Errorf("%q, of %q, is taken for %q, not for %q", c.name, c.known, got, c.want)
		}
	}
}
