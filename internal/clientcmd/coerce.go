package clientcmd

import (
	"bytes"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpbridge/mcpbridge/internal/problem"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	"github.com/mcpbridge/mcpbridge/internal/signature"
)

var (
	integerText = regexp.MustCompile(`^[+-]?\d+$`)
	numberText  = regexp.MustCompile(`^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$`)
)

// booleans are the words for true and false.
var booleans = map[string]string{"true": "true", "false": "false", "yes": "true", "no": "false"}

// coerce converts text to JSON by the types of the schema, or returns what is wrong with it, as a text that follows the
// argument's name. Numbers keep every digit. Several texts make a list.
func coerce(s signature.Schema, texts []string) (raw []byte, reason string) {
	alternatives := s.Alternatives()
	if len(alternatives) == 0 {
		alternatives = []signature.Schema{signature.Of("")}
	}
	if len(texts) > 1 {
		for _, a := range alternatives {
			if types := a.Types(); len(types) == 0 || slices.Contains(types, "array") {
				return coerceList(a, texts)
			}
		}
		return nil, "is given " + strconv.Itoa(len(texts)) + " times and is no list: it is " + s.Type()
	}
	for _, t := range []string{"choice", "null", "boolean", "integer", "number", "array", "object", "string", "any"} {
		for _, a := range alternatives {
			raw, reason, tried := coerceAs(a, t, texts[0])
			if tried && reason == "" {
				return raw, ""
			}
			if tried && len(alternatives) == 1 && len(a.Types()) < 2 {
				return nil, reason
			}
		}
	}
	return nil, "cannot be " + strconv.Quote(texts[0]) + ": it is " + s.Type()
}

// coerceAs is coerce for one type. tried is false if the schema does not have the type.
func coerceAs(s signature.Schema, t, text string) (raw []byte, reason string, tried bool) {
	if choices := s.Choices(); choices != nil || t == "choice" {
		if choices == nil || t != "choice" {
			return nil, "", false
		}
		var allowed []string
		for _, c := range choices {
			value, isString := rawjson.String(c)
			if !isString {
				value = string(bytes.TrimSpace(c))
			}
			if value == text {
				return c, "", true
			}
			allowed = append(allowed, value)
		}
		return nil, "cannot be " + strconv.Quote(text) + "; " + problem.DidYouMean(text, allowed), true
	}
	types := s.Types()
	if t == "any" && len(types) > 0 || t != "any" && !slices.Contains(types, t) {
		return nil, "", false
	}
	no := "cannot be " + strconv.Quote(rawjson.Shorten(text)) + ": it is "
	trimmed := strings.TrimSpace(text)
	switch t {
	case "null":
		if trimmed == "null" {
			return []byte("null"), "", true
		}
		return nil, no + "null", true
	case "boolean":
		if b, ok := booleans[strings.ToLower(trimmed)]; ok {
			return []byte(b), "", true
		}
		return nil, no + "true or false", true
	case "integer":
		if n, ok := new(big.Int).SetString(trimmed, 10); ok && integerText.MatchString(trimmed) &&
			len(trimmed) <= maxDigits {
			return []byte(n.String()), "", true
		}
		return nil, no + "a whole number", true
	case "number":
		if numberText.MatchString(trimmed) {
			return []byte(trimmed), "", true
		}
		return nil, no + "a number", true
	case "array":
		if strings.HasPrefix(trimmed, "[") {
			if err := rawjson.Check([]byte(trimmed)); err != nil {
				return nil, "is not a JSON list: " + err.Error(), true
			}
			return []byte(trimmed), "", true
		}
		raw, reason := coerceList(s, []string{text})
		return raw, reason, true
	case "object":
		if err := rawjson.Check([]byte(trimmed)); err != nil || !rawjson.IsObject([]byte(trimmed)) {
			return nil, no + `an object: write its members, as a.b=value, or JSON, as '{"b": "value"}'`, true
		}
		return []byte(trimmed), "", true
	case "any":
		if rawjson.Check([]byte(trimmed)) == nil {
			return []byte(trimmed), "", true
		}
	}
	return rawjson.AppendString(nil, text), "", true
}

// maxDigits is the maximum length of an integer. The time to convert one grows with the square of its length.
const maxDigits = 10_000

// coerceList returns the texts as a JSON list, with each text converted by the schema of the items.
func coerceList(s signature.Schema, texts []string) (raw []byte, reason string) {
	items := s.Get("items")
	raw = append(raw, '[')
	for i, text := range texts {
		item, reason := coerce(items, []string{text})
		if reason != "" {
			return nil, reason
		}
		if i > 0 {
			raw = append(raw, ',')
		}
		raw = append(raw, item...)
	}
	return append(raw, ']'), ""
}
