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

// The log has the texts of clients and backends unchanged, with control and invisible characters escaped: in JSON, and
// as text for a terminal.
func TestLogEscapesControlCharacters(t *testing.T) {
	const wild = "a\u009b31m\u202eb\u2066c\u2028d\x7fe\ufefff\U000e0041g é 😀 👩\u200d🚀"
	for _, format := range []string{"json", "text"} {
		for name, hidden := range map[string]config.Secrets{"": nil, ", with secrets": {"s3cret": "TOKEN"}} {
			var out bytes.Buffer
			log, asJSON := NewLog(&out, config.Log{Level: "debug", Format: format}, hidden)
			if asJSON != (format == "json") {
				t.Fatalf("%s: as JSON: %v", format, asJSON)
			}
			log.Info().RawJSON("id", []byte(`"`+wild+`"`)).RawJSON("record", []byte(`{"`+wild+`":["`+wild+`"]}`)).
				Str("why", wild).
				Err(errors.New(wild + "\x1b[31m\n")).Msg(wild)
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
				"level": "info", "id": wild, "record": map[string]any{wild: []any{wild}}, "why": wild,
				"error": wild + "\x1b[31m\n", "message": wild,
			}, got); diff != "" {
				t.Errorf("%s%s: %s", format, name, diff)
			}
		}
	}
}
