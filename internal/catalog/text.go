package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/mcpbridge/mcpbridge/internal/rawjson"
)

// The memory of a decoded value, in bytes: about what Go allocates in addition to the text.
const (
	valueSize, arraySize, objectSize, memberSize = 32, 24, 336, 48
)

// footprint returns the memory of the decoded values of a text, in bytes.
func footprint(text []byte) (bytes int) {
	each(text, func(name, value []byte, _ int) {
		switch value[0] {
		case '{':
			bytes += objectSize
		case '[':
			bytes += arraySize
		}
		bytes += valueSize
		if name != nil {
			bytes += memberSize
		}
	})
	return bytes
}

// checkNumbers reports whether all numbers of a value are within the limits, and returns the location of one that is
// not.
func checkNumbers(v any) (string, bool) {
	switch v := v.(type) {
	case json.Number:
		return "", isWithinLimits(string(v))
	case []any:
		for i, value := range v {
			if where, ok := checkNumbers(value); !ok {
				return "/" + strconv.Itoa(i) + where, false
			}
		}
	case map[string]any:
		for name, value := range v {
			if where, ok := checkNumbers(value); !ok {
				return "/" + name + where, false
			}
		}
	}
	return "", true
}

func isWithinLimits(number string) bool {
	switch n := len(number); {
	case n <= 3:
		return true
	case n > maxDigits:
		return false
	}
	_, exponent, found := strings.Cut(strings.ToLower(number), "e")
	if !found {
		return true
	}
	e, err := strconv.Atoi(exponent)
	return err == nil && e <= maxExponent && e >= -maxExponent
}

// each calls f with every value of a JSON text, with its name and depth: the text itself has depth 1. For an array or
// object it passes the opening bracket; the elements follow. Together, each and f read every byte once.
func each(text []byte, f func(name, value []byte, depth int)) {
	var name []byte
	depth := 1
	for i := 0; i < len(text); {
		from := i
		switch c := text[i]; c {
		case ' ', '\t', '\r', '\n', ',', ':':
			i++
			continue
		case '}', ']':
			depth--
			i++
			continue
		case '{', '[':
			f(name, text[i:i+1], depth)
			depth++
			i++
		case '"':
			i = rawjson.SkipString(text, i)
			if next := bytes.TrimLeft(text[i:], " \t\r\n"); len(next) > 0 && next[0] == ':' {
				name = text[from:i]
				continue
			}
			f(name, text[from:i], depth)
		default:
			i = max(rawjson.SkipLiteral(text, i), i+1)
			f(name, text[from:i], depth)
		}
		name = nil
	}
}

// A memberOrder has the order of the members or elements of a JSON text.
type memberOrder struct {
	names []string                // indices for an array
	inner map[string]*memberOrder // for arrays and objects
}

func layoutOf(text []byte) *memberOrder {
	outer := []*memberOrder{{inner: map[string]*memberOrder{}}}
	each(text, func(name, value []byte, depth int) {
		outer = outer[:depth]
		in := outer[depth-1]
		n, ok := rawjson.String(name)
		if !ok {
			n = strconv.Itoa(len(in.names))
		}
		in.names = append(in.names, n)
		if value[0] == '{' || value[0] == '[' {
			in.inner[n] = &memberOrder{inner: map[string]*memberOrder{}}
			outer = append(outer, in.inner[n])
		}
	})
	return outer[0].inner["0"]
}

// at returns the memberOrder at a JSON pointer in a URL, or nil.
func (l *memberOrder) at(pointer string) *memberOrder {
	for step := range strings.SplitSeq(pointer, "/") {
		name, err := url.PathUnescape(step)
		if l == nil || err != nil {
			return nil
		}
		l = l.inner[pointerNames.Replace(name)]
	}
	return l
}

// checkSize returns an error if a JSON text exceeds a limit of schemas.
func checkSize(text []byte, most int) error {
	nodes, deepest := 0, 0
	each(text, func(_, _ []byte, depth int) {
		nodes++
		deepest = max(deepest, depth)
	})
	if deepest > maxSchemaDepth {
		return fmt.Errorf("too large: nested deeper than %d", maxSchemaDepth)
	}
	if nodes > most {
		return fmt.Errorf("too large: %d values, and at most %d are taken", nodes, most)
	}
	return nil
}
