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

// FuzzParam compares Check with a slow and simple comparison of an argument and its header, and Value with Check.
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
		if err == nil && (!there || !matches(header, argument)) {
			t.Fatalf("Check(%s, %q): got no error, want one", arguments, header)
		}
		value, ok := p.Value(arguments)
		if !ok {
			if err := p.Check(arguments, nil); err != nil {
				t.Fatalf("%s has no Value, and Check without a header: got %v, want no error", arguments, err)
			}
			return
		}
		if err := p.Check(arguments, []string{value}); err != nil &&
			!strings.Contains(err.Error(), "a header cannot represent") {
			t.Fatalf("%s has Value %q, and Check of it: got %v, want no error", arguments, value, err)
		}
		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Fatalf("Value(%s): got %q, want only visible ASCII", arguments, value)
		}
	})
}

// matches reports whether a header has the value of an argument.
func matches(header string, argument any) bool {
	value, ok := DecodeValue(strings.Trim(header, " \t"))
	if s, text := argument.(string); text {
		return ok && value == s
	}
	literal, _ := argument.(fuzzing.Literal)
	if literal == "true" || literal == "false" {
		return value == string(literal)
	}
	a, isNumber := new(big.Rat).SetString(string(literal))
	b, alsoNumber := new(big.Rat).SetString(value)
	return isNumber && alsoNumber && a.Cmp(b) == 0
}

var local = regexp.MustCompile(`^((?i:localhost)|127\.\d+\.\d+\.\d+|\[[0:]*:0*1\]|::1|[0:]*:0*1)(:\d*)?$`)

// FuzzGuard compares the accepted Hosts and Origins with a regular expression for names of this machine.
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
			t.Fatalf("Host %q: got accepted, want refused", host)
		}
		rest, isHTTP := strings.CutPrefix(strings.ToLower(from), "http://")
		if !isHTTP {
			rest, isHTTP = strings.CutPrefix(strings.ToLower(from), "https://")
		}
		if why == "" && (!isHTTP || !local.MatchString(rest)) {
			t.Fatalf("Origin %q at Host %q: got accepted, want refused", from, host)
		}
		if (why == "") != (status == 0) {
			t.Fatalf("Host %q, Origin %q: got status %d, reason %q, want both or none", host, from, status, why)
		}
	})
}
