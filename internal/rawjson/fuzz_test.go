package rawjson

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest/fuzzing"
)

var seeds = []string{
	``, ` `, `{}`, `[]`, `"`, `"\`, `"\"`, `"\\"`, `{"a":1,"b":[true,null,{"c":"\u00e9\ud83d\ude00"}]}`,
	`{"a":1,"a":2}`,
	`{"a\u0062":1,"ab":2}`, "\"\xff\"", `"\ud800"`, `[1,2,]`, `{"a"}`, `{"a":}`, `{,}`, `[[[[[]]]]]`, `1e400`, `-0`,
	`01`, "\ufeff{}",
	`{} {}`, "[\n1,\r\n2 ]", `{"long":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\\\"aaaaaaaaaaaaaaaaa\\\\"}`, `]`, `}`, `{"a":]}`,
	`[}`, `"a"b`,
}

// FuzzCheck compares CheckWithin with jsontext, token by token, and the walks with encoding/json.
func FuzzCheck(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	fuzzing.Run(f, func(t *testing.T, data []byte) {
		var err error
		fuzzing.Bounded(t, len(data), func() { err = CheckWithin(data, usual) })
		walk(data, 0) // whatever it is
		valid, limit := oracle(data)
		if (err == nil) != (valid && !limit) {
			t.Fatalf("%q: %v, but valid is %v and too much is %v", data, err, valid, limit)
		}
		if err != nil {
			if at := err.(*Error).Offset; at < 0 || at > len(data) {
				t.Fatalf("%q: %v", data, err)
			}
			return
		}
		agree(t, data)
		line, err := AppendChecked(nil, data)
		if err != nil || bytes.ContainsAny(line, "\r\n") {
			t.Fatalf("%q: %q, %v", data, line, err)
		}
		var a, b bytes.Buffer
		if json.Compact(&a, data) != nil || json.Compact(&b, line) != nil || !bytes.Equal(a.Bytes(), b.Bytes()) {
			t.Fatalf("%q: %q means something else", data, line)
		}
	})
}

// oracle reads data one token at a time, and counts.
func oracle(data []byte) (valid, limit bool) {
	d := jsontext.NewDecoder(bytes.NewReader(data))
	for {
		_, err := d.ReadToken()
		if err != nil {
			return false, limit
		}
		if depth := d.StackDepth(); depth > usual.JSONDepth {
			limit = true
		} else if kind, n := d.StackIndex(depth); depth > 0 {
			limit = limit || kind == '{' && n > int64(2*usual.JSONMembers) || kind == '[' &&
				n > int64(usual.JSONElements)
		}
		if d.StackDepth() == 0 {
			break
		}
	}
	_, err := d.ReadToken()
	return err != nil && err.Error() == "EOF", limit
}

// walk walks over text that may be anything.
func walk(data []byte, depth int) {
	String(data)
	Bytes(data)
	IsNull(data)
	if depth > 300 {
		return
	}
	for name, value := range Members(data) {
		_ = string(name) + string(value)
		walk(value, depth+1)
	}
	for value := range Elements(data) {
		walk(value, depth+1)
	}
}

// agree fails unless a value is what encoding/json takes it for.
func agree(t *testing.T, data []byte) {
	t.Helper()
	var members map[string]json.RawMessage
	if IsObject(data) {
		if err := json.Unmarshal(data, &members); err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		n := 0
		for name, value := range Members(data) {
			n++
			if !bytes.Equal(members[string(name)], value) {
				t.Fatalf("%q: %q is %q, not %q", data, name, value, members[string(name)])
			}
			agree(t, value)
		}
		if n != len(members) {
			t.Fatalf("%q: %d members, not %d", data, n, len(members))
		}
		return
	}
	if IsArray(data) {
		var elements []json.RawMessage
		if err := json.Unmarshal(data, &elements); err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		n := 0
		for value := range Elements(data) {
			if n == len(elements) || !bytes.Equal(elements[n], value) {
				t.Fatalf("%q: element %d is %q", data, n, value)
			}
			n++
			agree(t, value)
		}
		if n != len(elements) {
			t.Fatalf("%q: %d elements, not %d", data, n, len(elements))
		}
		return
	}
	if s, ok := String(data); ok {
		var want string
		if err := json.Unmarshal(data, &want); err != nil || s != want {
			t.Fatalf("%q: %q, not %q", data, s, want)
		}
		if again, ok := String(AppendString(nil, s)); !ok || again != s {
			t.Fatalf("%q: quoted and unquoted it is %q", s, again)
		}
	}
}
