package bridge_test

import (
	"encoding/base64"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge"
)

// Each value has one text in base64.
func TestBase64IsExact(t *testing.T) {
	for _, c := range []struct {
		e    *base64.Encoding
		text string
		good bool
	}{
		{base64.StdEncoding, "", true},
		{base64.StdEncoding, "YWFhYQ==", true},
		{base64.StdEncoding, "YWFhYQ", false},     // not padded
		{base64.StdEncoding, "YWFhYR==", false},   // bits left over
		{base64.StdEncoding, "-_-_", false},       // of URLs
		{base64.StdEncoding, "YWFh\nYQ==", false}, // lines
		{base64.StdEncoding, "YWFhYQ==\r\n", false},
		{base64.RawURLEncoding, "_-_-", true},
		{base64.RawURLEncoding, "YQ", true},
		{base64.RawURLEncoding, "YR", false},
		{base64.RawURLEncoding, "YQ==", false},
		{base64.RawURLEncoding, "\nYQ", false},
		{base64.RawURLEncoding, "Y\rQ", false},
		{base64.RawURLEncoding, "YQ\n", false},
		{base64.RawURLEncoding, "\n", false},
		{base64.RawURLEncoding, "YQ ", false},
	} {
		data, err := bridge.DecodeBase64(c.e, []byte(c.text))
		if (err == nil) != c.good || c.good && c.e.EncodeToString(data) != c.text {
			t.Errorf("%q: %q, %v", c.text, data, err)
		}
	}
}
