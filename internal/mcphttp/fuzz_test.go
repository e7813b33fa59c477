package mcphttp

import (
	"math/big"
	"net/http"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest/fuzzing"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
)

// FuzzParam holds the comparison of an argument with its header against a slow and plain one, and what a client would say of the
// argument against the comparison.
func FuzzParam(f *testing.F) {
	for _, s := range [][2]string{
		{`{"x":"a"}`, "a"},
		{`{"x":42}`, "42.0"},
		{`{"x":9007199254740993}`, "9007199254740992"},
		{`{"x":true}`, "true"},
		{`{"x":null}`, ""},
		{`{"x":" ü"}`, "=?base64?IMO8?="},
		{`{"x":"=?base64?x?="}`, "=?base64?x?="},
		{`{"x":[1]}`, "1"},
		{`{}`, "1"},
		{`{"x":1e2}`, " 100\t"},
		{`{"x":-0}`, "0"},
		{`{"x":1e999999999}`, "1"},
		{`{"x":0.1}`, "1e-1"},
		{`{"\u0078":"a"}`, "a"},
		{`{"x":""}`, ""},
	} {
		f.Add([]byte(s[0]), s[1])
	}
	fuzzing.Run(f, func(t *testing.T, arguments []byte, header string) {
		if rawjson.Check(arguments) != nil || !rawjson.IsObject(arguments) {
			return
		}
		p := Param{Header: "Mcp-Param-X", Path: []string{"x"}}
		var err error
		fuzzing.Bounded(t, len(arguments)+len(header), func() { err = p.Check(arguments, []string{header}) })
		v, bad := fuzzing.Value(arguments)
		if bad != nil {
			t.Fatalf("%s: %v", arguments, bad)
		}
		argument, there := v.(map[string]any)["x"]
		if err == nil && (!there || !says(header, argument)) {
			t.Fatalf("%s and %q are taken for the same", arguments, header)
		}
		value, ok := p.Value(arguments)
		if !ok {
			if err := p.Check(arguments, nil); err != nil {
				t.Fatalf("%s: no header can represent it, and none is rejected: %v", arguments, err)
			}
			return
		}
		if err := p.Check(arguments, []string{value}); err != nil && !strings.Contains(err.Error(), "a header cannot represent") {
			t.Fatalf("%s: a client says %q, which is refused: %v", arguments, value, err)
		}
		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Fatalf("%s: no header can have %q", arguments, value)
		}
	})
}

// says reports whether a header says the same as an argument.
func says(header string, argument any) bool {
	said, ok := DecodeValue(strings.Trim(header, " \t"))
	if s, text := argument.(string); text {
		return ok && said == s
	}
	literal, _ := argument.(fuzzing.Literal)
	if literal == "true" || literal == "false" {
		return said == string(literal)
	}
	a, isNumber := new(big.Rat).SetString(string(literal))
	b, sayNumber := new(big.Rat).SetString(said)
	return isNumber && sayNumber && a.Cmp(b) == 0
}

var local = regexp.MustCompile(`^((?i:localhost)|127\.\d+\.\d+\.\d+|\[[0:]*:0*1\]|::1|[0:]*:0*1)(:\d*)?$`)

// FuzzGuard holds what is accepted of Host and Origin against a plain list of what this machine is called.
func FuzzGuard(f *testing.F) {
	for _, s := range [][2]string{
		{"localhost:8080", "http://localhost:8080"},
		{"127.0.0.1", ""},
		{"[::1]:80", "https://[::1]"},
		{"localhost.evil.com", "http://localhost@evil.com"},
		{"127.1", "null"},
		{"[::ffff:127.0.0.1]", "http://evil/#localhost"},
		{"localhost.", "file://localhost"},
		{"", "http://"},
		{"[::1%25eth0]", "http://127.0.0.1:x"},
		{"evil:80", "http://evil:80"},
		{"0.0.0.0", "HTTP://LOCALHOST"},
		{"localhost:", "http://localhost:"},
		{"localhost:80:80", "http://localhost/"},
	} {
		f.Add(s[0], s[1])
	}
	g := &Guard{}
	fuzzing.Run(f, func(t *testing.T, host, from string) {
		r := &http.Request{Method: http.MethodPost, Host: host, Header: http.Header{"Origin": {from}}}
		status, why := g.check(r, limits.Limits{}.OrDefaults().HeaderFields)
		name, _, _ := strings.Cut(strings.Trim(host, "[]"), "%")
		if ip, err := netip.ParseAddr(name); why == "" && !local.MatchString(host) && (err != nil || !ip.IsLoopback()) {
			t.Fatalf("Host %q is accepted", host)
		}
		rest, isHTTP := strings.CutPrefix(strings.ToLower(from), "http://")
		if !isHTTP {
			rest, isHTTP = strings.CutPrefix(strings.ToLower(from), "https://")
		}
		if why == "" && (!isHTTP || !local.MatchString(rest)) {
			t.Fatalf("Origin %q is accepted at %q", from, host)
		}
		if (why == "") != (status == 0) {
			t.Fatalf("%q, %q: status %d, %q", host, from, status, why)
		}
	})
}
