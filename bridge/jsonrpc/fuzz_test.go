package jsonrpc

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest/fuzzing"
	"github.com/mcpbridge/mcpbridge/bridge/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// FuzzParse holds what is read of any bytes against what encoding/json/v2 reads, and writes it and reads that.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`,
		`{"jsonrpc":"2.0","method":"n","params":{}}`,
		`{"jsonrpc":"2.0","id":"a","result":{"a":[]}}`,
		`{"jsonrpc":"2.0","id":-0,"error":{"code":-32700,"message":"\ud83d\ude00","data":null}}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}`,
		`{"jsonrpc":"2.0","id":1.5,"method":"m"}`,
		`{"jsonrpc":"2.0","id":1,"method":"m","Method":"n"}`,
		`[{"jsonrpc":"2.0","id":1,"method":"ping"},{}]`, `[]`, `{`, "\xff",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(agree)
}

// FuzzDocuments does so with messages that a number stands for, nearly all of which are JSON, and many a message.
func FuzzDocuments(f *testing.F) {
	for seed := range uint64(500) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		g := generator{rand.New(rand.NewPCG(seed, 2))}
		for range 20 {
			agree(t, []byte(g.document()))
		}
	})
}

func agree(t *testing.T, data []byte) {
	t.Helper()
	if texts, err := ParseBatch(data); err == nil && (!IsBatch(data) || len(texts) == 0 || len(texts) > MaxBatch) {
		t.Fatalf("%q: %d messages", data, len(texts))
	}
	var m Message
	var err error
	fuzzing.Bounded(t, len(data), func() { m, err = Parse(data) })
	want, good := reference(data)
	if err != nil {
		var e *Error
		if !errors.As(err, &e) || !slices.Contains([]int64{-32700, -32600, -32602}, e.RPC.GetCode()) {
			t.Fatalf("%q: %v", data, err)
		}
		if out := AppendError(nil, e.ID, e.RPC, false); rawjson.Check(out) != nil {
			t.Fatalf("%q: answered with %q", data, out)
		}
		if tooMuch, ok := errors.AsType[*rawjson.Error](rawjson.Check(data)); good && (!ok || !tooMuch.JSON) {
			t.Fatalf("%q is refused: %v", data, err)
		}
		return
	}
	if !good {
		t.Fatalf("%q is accepted as %+v", data, m)
	}
	equal(t, data, want, m)
	var out []byte
	switch {
	case m.IsRequest():
		out = AppendRequest(nil, m.ID, m.Method, m.Params)
	case m.IsNotification():
		out = AppendNotification(nil, m.Method, m.Params)
	case m.Error != nil:
		out = AppendError(nil, m.ID, m.Error, false)
	default:
		out = AppendResult(nil, m.ID, m.Result)
	}
	again, err := Parse(out)
	if err != nil {
		t.Fatalf("%q became %q: %v", data, out, err)
	}
	equal(t, data, m, again)
}

// equal fails unless both mean the same. White space may differ.
func equal(t *testing.T, data []byte, want, got Message) {
	t.Helper()
	parts := func(m Message) []string {
		return []string{
			string(m.ID), m.Method, string(m.Params), string(m.Meta), string(m.Result),
			strconv.FormatInt(m.Error.GetCode(), 10), m.Error.GetMessage(), compact(m.Error.GetData()), strconv.FormatBool(m.Error != nil),
		}
	}
	if diff := cmp.Diff(parts(want), parts(got)); diff != "" {
		t.Fatalf("%q: %s", data, diff)
	}
}

func compact(text []byte) string {
	v := jsontext.Value(bytes.Clone(text))
	if v.Compact() != nil {
		return string(text)
	}
	return string(v)
}

// reference reads a message as plainly as can be.
func reference(data []byte) (m Message, ok bool) {
	var members map[string]jsontext.Value
	if json.Unmarshal(data, &members) != nil || members == nil {
		return m, false
	}
	names := []string{"jsonrpc", "id", "method", "params", "result", "error"}
	for name := range members {
		if !slices.Contains(names, name) && slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) }) {
			return m, false
		}
	}
	text := func(v jsontext.Value) (s string) {
		ok = json.Unmarshal(v, &s) == nil && v.Kind() == '"'
		return s
	}
	if text(members["jsonrpc"]) != "2.0" || !ok {
		return m, false
	}
	id, method, params, result, problem := members["id"], members["method"], members["params"], members["result"], members["error"]
	if ofNobody := id.Kind() == 'n' && method == nil && problem != nil; id != nil && !ofNobody {
		if id.Kind() != '"' && (id.Kind() != '0' || strings.ContainsAny(string(id), ".eE")) || len(id) > MaxID {
			return m, false
		}
		m.ID = id
	}
	if method != nil {
		m.Method, m.Params = text(method), params
		if params.Kind() == '{' {
			var inner map[string]jsontext.Value
			ok = ok && json.Unmarshal(params, &inner) == nil
			m.Meta = inner["_meta"]
		}
		return m, ok && m.Method != "" && (params == nil || params.Kind() == '{') && result == nil && problem == nil
	}
	if result != nil {
		m.Result = result
		return m, result.Kind() == '{' && m.ID != nil && problem == nil
	}
	var e map[string]jsontext.Value
	if problem.Kind() != '{' || json.Unmarshal(problem, &e) != nil {
		return m, false
	}
	code, err := strconv.ParseInt(string(e["code"]), 10, 64)
	message := text(e["message"])
	m.Error = &pb.JsonRpcError{Code: code, Message: &message, Data: e["data"]}
	return m, ok && err == nil
}

// A generator makes messages at random.
type generator struct{ *rand.Rand }

func (g generator) one(of ...string) string { return of[g.IntN(len(of))] }

// mostly returns the first of what there is, unless it has bad luck.
func (g generator) mostly(of ...string) string {
	if g.IntN(4) > 0 {
		return of[0]
	}
	return g.one(of...)
}

func (g generator) value(levels int) string {
	n := g.IntN(12)
	if levels == 0 {
		n = g.IntN(8)
	}
	switch n {
	case 8, 9:
		return g.object(levels, []string{"a", "_meta", "name", "method", "a\\u0062", "ab", "é"})
	case 10, 11:
		var all []string
		for range g.IntN(4) {
			all = append(all, g.value(levels-1))
		}
		return "[" + strings.Join(all, g.mostly(",", " , ", ",,")) + "]"
	}
	return g.mostly(g.one("0", "-1", "null", "true", `""`, `"a"`, `"2.0"`), "1.5", "1e2", "-0", "9007199254740993", "false", `"\ud83d\ude00"`, `"\u0000"`,
		"\"é\"", "1e400", `"a\/b"`, `"\ud83d"`, "01", "nul", `"`, "\"\xc3\"", "NaN", `"`+strings.Repeat("x", 254)+`"`, `"`+strings.Repeat("x", 255)+`"`)
}

func (g generator) object(levels int, names []string) string {
	var all []string
	for range g.IntN(4) {
		all = append(all, `"`+g.one(names...)+`"`+g.mostly(":", " : ")+g.value(levels-1))
	}
	return "{" + strings.Join(all, ",") + "}"
}

func (g generator) document() string {
	members := []string{`"jsonrpc":` + g.mostly(`"2.0"`, `"2\u002e0"`, "2.0", `"1.0"`, g.value(1))}
	add := func(chance int, name, value string) {
		if g.IntN(8) < chance {
			members = append(members, `"`+g.mostly(name, strings.ToUpper(name), strings.Replace(name, "e", "\\u0065", 1), strings.Replace(name, "s", "ſ", 1))+`"`+g.mostly(":", "\t:\n")+value)
		}
	}
	kind := g.IntN(3)
	chance := func(of int) int {
		if kind == of {
			return 7
		}
		return 1
	}
	add(6, "id", g.value(1))
	add(chance(0), "method", g.mostly(`"tools/call"`, g.value(1)))
	add(chance(0)/2, "params", g.mostly(g.object(3, []string{"_meta", "name", "arguments", "x"}), g.value(3)))
	add(chance(1), "result", g.mostly(g.object(3, []string{"_meta", "content", "x"}), g.value(3)))
	add(chance(2), "error", g.mostly(`{"code":`+g.value(0)+`,"message":`+g.value(0)+`,"data":`+g.value(2)+`}`, g.value(2), g.object(1, []string{"code", "message"})))
	add(1, "x", g.value(3))
	add(1, "id", g.value(1))
	g.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	return g.mostly("", " ", "\ufeff", "\n") + "{" + strings.Join(members, g.mostly(",", "\n, ")) + "}" + g.mostly("", " ", "{}", "\x00")
}
