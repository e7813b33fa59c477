package mcphttp

import (
	"testing"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest/fuzzing"
)

func TestDecodeValue(t *testing.T) {
	for _, c := range []struct {
		in, want string
		ok       bool
	}{
		{"echo", "echo", true},
		{"", "", true},
		{"=?base64?ZWNobw==?=", "echo", true},
		{"=?base64?w6k=?=", "é", true},
		{"=?base64?ZWNobw?=", "", false},   // no padding
		{"=?base64?ZWN*bw==?=", "", false}, // not the alphabet
		{"=?BASE64?ZWNobw==?=", "=?BASE64?ZWNobw==?=", true},
		{"=?base64?ZWNobw==", "=?base64?ZWNobw==", true},
		{"ZWNobw==?=", "ZWNobw==?=", true},
	} {
		got, ok := DecodeValue(c.in)
		if ok != c.ok || ok && got != c.want {
			t.Errorf("DecodeValue(%q): got %q, %v, want %q, %v", c.in, got, ok, c.want, c.ok)
		}
	}
}

func TestEncodedValuesDecodeToTheSame(t *testing.T) {
	for _, v := range []string{"", "echo", " padded", "tab\t", "é", "a\nb", "=?base64?x?=", "=?base64?", "?="} {
		if got, ok := DecodeValue(EncodeValue(v)); !ok || got != v {
			t.Errorf("got %q, %v, want %q", got, ok, v)
		}
	}
}

// FuzzDecodeValue decodes any text, and encodes the value again.
func FuzzDecodeValue(f *testing.F) {
	for _, s := range []string{
		"", "echo", "=?base64?ZWNobw==?=", "=?base64?ZWNobw?=", "=?base64??=", "=?base64?/w==?=",
		"=?BASE64?ZWNobw==?=", "=?base64?DQo=?=", "\xff",
	} {
		f.Add(s)
	}
	fuzzing.Run(f, func(t *testing.T, s string) {
		value, ok := DecodeValue(s)
		if !ok {
			return
		}
		if again, ok := DecodeValue(EncodeValue(value)); !ok || again != value {
			t.Fatalf("%q: got %q, %v after encoding, want %q", s, again, ok, value)
		}
	})
}
