package clientcmd

import (
	"cmp"
	"net/mail"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcpbridge/mcpbridge/internal/catalog"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	"github.com/mcpbridge/mcpbridge/internal/signature"
)

// isList reports whether a field of a form is answered with several values.
func isList(s signature.Schema) bool { return slices.Contains(s.Types(), "array") }

// isBoolean reports whether a field of a form is answered with yes or no.
func isBoolean(s signature.Schema) bool { return slices.Equal(s.Types(), []string{"boolean"}) }

// answerText is the type of values for the field of a form.
func answerText(s signature.Schema) string {
	if isBoolean(s) {
		return "yes or no"
	}
	return s.Type()
}

// fieldValue converts the text of a form's field with coerce, and validates it. For a boolean it accepts y and n as
// well.
func fieldValue(s signature.Schema, texts []string) (raw []byte, reason string) {
	if isBoolean(s) && len(texts) == 1 {
		text := strings.ToLower(strings.TrimSpace(texts[0]))
		if raw, ok := booleans[cmp.Or(map[string]string{"y": "yes", "n": "no"}[text], text)]; ok {
			return []byte(raw), ""
		}
		return nil, "cannot be " + strconv.Quote(rawjson.Shorten(texts[0])) + ": it is yes or no"
	}
	if raw, reason = coerce(s, texts); reason == "" {
		reason = misfit(s, raw)
	}
	return raw, reason
}

// formats are the formats of text fields: a check, and a description for errors.
var formats = map[string]struct {
	is          func(string) bool
	description string
}{
	"email": {
		func(s string) bool { a, err := mail.ParseAddress(s); return err == nil && a.Address == s },
		"an address such as ada@example.com",
	},
	"uri": {
		func(s string) bool { u, err := url.Parse(s); return err == nil && u.IsAbs() },
		"a URI such as https://example.com",
	},
	"date": {
		func(s string) bool { _, err := time.Parse(time.DateOnly, s); return err == nil },
		"a date such as 2026-07-28",
	},
	"date-time": {
		func(s string) bool { _, err := time.Parse(time.RFC3339, s); return err == nil },
		"a time such as 2026-07-28T09:30:00Z",
	},
}

// misfit returns why a value is invalid for a form's field, or "".
func misfit(s signature.Schema, raw []byte) string {
	text, isText := rawjson.String(raw)
	if f, ok := formats[s.Text("format")]; ok && isText && !f.is(text) {
		return "has to be " + f.description
	}
	return strings.Replace(catalog.Misfit(s.Raw, raw), "expected", "has to be", 1)
}
