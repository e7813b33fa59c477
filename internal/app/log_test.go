package app

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpbridge/mcpbridge/internal/config"
)

// The log escapes control and invisible characters in texts of clients and backends, in both formats. Decoded from
// JSON, the texts are unchanged.
func TestLogEscapesControlCharacters(t *testing.T) {
	const unprintable = "a\u009b31m\u202eb\u2066c\u2028d\x7fe\ufefff\U000e0041g é 😀 👩\u200d🚀"
	for _, format := range []string{"json", "text"} {
		for name, hidden := range map[string]config.Secrets{"": nil, ", with secrets": {"s3cret": "TOKEN"}} {
			var out bytes.Buffer
			log, asJSON := NewLog(&out, config.Log{Level: "debug", Format: format}, hidden)
			if asJSON != (format == "json") {
				t.Fatalf("%s: as JSON: %v", format, asJSON)
			}
			log.Info().RawJSON("id", []byte(`"`+unprintable+`"`)).
				RawJSON("record", []byte(`{"`+unprintable+`":["`+unprintable+`"]}`)).
				Str("why", unprintable).
				Err(errors.New(unprintable + "\x1b[31m\n")).Msg(unprintable)
			log.Info().Str("why", "s3cret").Msg("plain")
			if strings.ContainsAny(out.String(), "\x1b\u009b\u202e\u2066\u2028\x7f\ufeff\U000e0041") ||
				strings.Count(out.String(), "\n") != 2 {
				t.Errorf("%s%s: %q", format, name, &out)
			}
			if strings.Contains(out.String(), "s3cret") != (hidden == nil) {
				t.Errorf("%s%s: %s", format, name, &out)
			}
			if !asJSON {
				continue
			}
			first, _, _ := strings.Cut(out.String(), "\n")
			var got map[string]any
			if err := json.Unmarshal([]byte(first), &got); err != nil {
				t.Fatalf("%v: %s", err, first)
			}
			delete(got, "time")
			if diff := cmp.Diff(map[string]any{
				"level": "info", "id": unprintable, "why": unprintable,
				"record": map[string]any{unprintable: []any{unprintable}},
				"error":  unprintable + "\x1b[31m\n", "message": unprintable,
			}, got); diff != "" {
				t.Errorf("%s%s: %s", format, name, diff)
			}
		}
	}
}
