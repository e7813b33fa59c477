package problem

import "testing"

// A suggestion must be likely: a name of one letter is similar to every other.
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
			t.Errorf("%q, of %q: got suggestion %q, want %q", c.name, c.known, got, c.want)
		}
	}
}
