package problem

import (
	"slices"
	"strings"
)

// DidYouMean returns the fix for an unknown name: the nearest known name, or all of them.
func DidYouMean(name string, names []string) string {
	if best := Nearest(name, names); best != "" {
		return "did you mean " + best + "?"
	}
	names = slices.Sorted(slices.Values(names))
	if len(names) > maxNames {
		names = append(names[:maxNames], "and more")
	}
	return "known are: " + strings.Join(names, ", ")
}

// The limits of guesses: the number of names that are listed, and the length of a name that is compared.
const (
	maxNames   = 30
	maxCompare = 256
)

// Nearest returns the known name of which name is most likely a misspelling, or "". In a name of up to three letters,
// more than half must be right: otherwise it would be near any short name.
func Nearest(name string, names []string) string {
	best, bestDistance := "", len(name)/3+2
	for _, k := range names {
		if len(k) > maxCompare || len(name) > maxCompare {
			continue
		}
		d := distance(strings.ToLower(name), strings.ToLower(k))
		if d < bestDistance && (len(name) > 3 || 2*d < max(len(name), len(k))) {
			best, bestDistance = k, d
		}
	}
	return best
}

// distance returns how many letters must be inserted, deleted or replaced to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
