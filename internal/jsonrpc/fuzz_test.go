package jsonrpc

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest/fuzzing"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// FuzzParse compares the parsed message with the result of encoding/json/v2, writes it and parses it again.
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
	fuzzing.Run(f, agree)
}

// FuzzDocuments does the same with documents generated from a seed, about half of which are accepted.
func FuzzDocuments(f *testing.F) {
	bridgetest.SkipIfShort(f)
	for seed := range uint64(1 + 500/(1+fuzzing.Variants)) {
		f.Add(seed)
	}
	fuzzing.Run(f, func(t *testing.T, seed uint64) {
		g := newGenerator(seed, 0)
		for range 20 {
			text, _ := g.document()
			agree(t, text)
		}
	})
}

func agree(t *testing.T, data []byte) {
	t.Helper()
	fuzzing.Bounded(t, len(data), func() { _, _ = Parse(data, usual) }) // compare reports errors
	if _, err := compare(data); err != nil {
		t.Fatalf("%q: %v", data, err)
	}
}

// compare parses data with the bridge's parser and with the reference. It reports whether data, or every message of a
// batch, is accepted, and returns an error if the results differ.
func compare(data []byte) (accepted bool, wrong error) {
	first := bytes.TrimLeft(data, " \t\r\n")
	if is := len(first) > 0 && first[0] == '['; is != IsBatch(data) {
		return false, fmt.Errorf("is a batch is %t", !is)
	} else if !is {
		return compareMessage(data)
	}
	if m, err := Parse(data, usual); err == nil {
		return false, fmt.Errorf("a batch is accepted as %+v", m)
	}
	texts, err := ParseBatch(data, usual)
	var want []jsontext.Value
	good := json.Unmarshal(data, &want) == nil && len(want) > 0 && len(want) <= usual.Batch && !tooDeep(data)
	switch {
	case err != nil && good && !tooMuch(data):
		return false, fmt.Errorf("is refused: %w", err)
	case err != nil:
		return false, refused(err, nil)
	case !good || !slices.EqualFunc(texts, want, func(a []byte, b jsontext.Value) bool { return bytes.Equal(a, b) }):
		return false, fmt.Errorf("is %q, and good is %t: %q", texts, good, want)
	}
	accepted = true
	for _, text := range texts {
		ok, err := compareMessage(text)
		accepted, wrong = accepted && ok, errors.Join(wrong, err)
	}
	return accepted, wrong
}

func compareMessage(data []byte) (accepted bool, wrong error) {
	m, err := Parse(data, usual)
	want, good := reference(data)
	switch {
	case err != nil && good && !tooMuch(data):
		return false, fmt.Errorf("is refused: %w", err)
	case err != nil && good:
		return false, refused(err, nil)
	case err != nil:
		return false, refused(err, want.ID)
	case !good:
		return false, fmt.Errorf("is accepted as %+v", m)
	case !same(want, m):
		return false, fmt.Errorf("is %+v, not %+v", m, want)
	}
	var out []byte
	switch {
	case m.IsRequest():
		out = AppendRequest(nil, m.ID, m.Method, m.Params)
	case m.IsNotification():
		out = AppendNotification(nil, m.Method, m.Params)
	case m.Error != nil:
		out = AppendError(nil, m.ID, m.Error, false)
		m.Error.Data = string(compact([]byte(m.Error.Data)))
	default:
		out = AppendResult(nil, m.ID, m.Result)
	}
	again, err := Parse(out, usual)
	if err == nil && again.Error != nil {
		again.Error.Data = string(compact([]byte(again.Error.Data))) // a line has no white space of its own
	}
	if err != nil || !same(m, again) {
		return false, fmt.Errorf("became %q, which is %+v, not %+v: %w", out, again, m, err)
	}
	return true, nil
}

// refused returns the defect of an error for a message with the given ID, if any.
func refused(err error, id []byte) error {
	e, ok := errors.AsType[*Error](err)
	if !ok || !slices.Contains([]int32{codeParse, codeInvalidRequest, codeInvalidParams}, e.RPC.GetCode()) ||
		!bytes.Equal(e.ID, id) {
		return fmt.Errorf("is refused with id %q: %w", id, err)
	}
	if out := AppendError(nil, e.ID, e.RPC, false); rawjson.Check(out) != nil {
		return fmt.Errorf("is answered with %q", out)
	}
	return nil
}

// same reports whether both are equal byte for byte.
func same(a, b Message) bool {
	equal := func(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }
	return equal(a.ID, b.ID) && a.Method == b.Method && equal(a.Params, b.Params) && equal(a.Meta, b.Meta) &&
		equal(a.Result, b.Result) &&
		(a.Error == nil) == (b.Error == nil) && a.Error.GetCode() == b.Error.GetCode() &&
		a.Error.GetMessage() == b.Error.GetMessage() && equal([]byte(a.Error.GetData()), []byte(b.Error.GetData()))
}

func compact(text []byte) []byte {
	v := jsontext.Value(bytes.Clone(text))
	if v.Compact() != nil {
		return text
	}
	return v
}

// reference parses a message as plainly as possible. An invalid one has its ID if that can be parsed.
func reference(data []byte) (m Message, good bool) {
	var members map[string]jsontext.Value
	if json.Unmarshal(data, &members) != nil || members == nil || tooDeep(data) {
		return m, false
	}
	id, method, params, result, problem := members["id"], members["method"], members["params"], members["result"],
		members["error"]
	if nullID := id.Kind() == 'n' && method == nil && problem != nil; id != nil && !nullID {
		if id.Kind() != '"' && (id.Kind() != '0' || strings.ContainsAny(string(id), ".eE")) || len(id) > usual.ID {
			return m, false
		}
		m.ID = id
	}
	names := []string{"jsonrpc", "id", "method", "params", "result", "error"}
	for name := range members {
		if !slices.Contains(names, name) &&
			slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) }) {
			return m, false
		}
	}
	ok := true
	text := func(v jsontext.Value) (s string) {
		ok = ok && v.Kind() == '"' && json.Unmarshal(v, &s) == nil
		return s
	}
	if text(members["jsonrpc"]) != "2.0" {
		return m, false
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
	if code < math.MinInt32 || code > math.MaxInt32 {
		code = -32603
	}
	m.Error = &pb.JsonRpcError{Code: int32(code), Message: message, Data: string(e["data"])}
	return m, ok && err == nil
}

// tooDeep reports whether brackets in JSON text are nested beyond the limit.
func tooDeep(data []byte) bool {
	most, now, quoted := 0, 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case !quoted && (c == '{' || c == '['):
			now++
			most = max(most, now)
		case !quoted && (c == '}' || c == ']'):
			now--
		}
	}
	return most > usual.JSONDepth
}

// tooMuch reports whether data is rejected for the size of its JSON, and exceeds it.
func tooMuch(data []byte) bool {
	e, ok := errors.AsType[*rawjson.Error](rawjson.CheckWithin(data, usual))
	return ok && e.JSON && len(data) > 2*usual.JSONMembers
}
