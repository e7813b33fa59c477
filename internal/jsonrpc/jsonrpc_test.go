package jsonrpc

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/internal/limits"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// usual are the default limits.
var usual = limits.Defaults()

// Key is the same for all encodings of an ID, and for no other ID. It allocates nothing for the usual encoding.
func TestKey(t *testing.T) {
	keys := map[string]string{}
	for _, texts := range [][]string{
		{`"a"`, `"\u0061"`},
		{`""`},
		{`"\""`, `"\u0022"`},
		{`"\\"`, `"\u005C"`, `"\u005c"`},
		{`"\n"`, `"\u000a"`},
		{`"\u0000"`},
		{`"/"`, `"\/"`},
		{`"\\n"`},
		{`"é"`, `"\u00e9"`},
		{`"😀"`, `"\ud83d\ude00"`, `"\uD83D\uDE00"`},
		{"\"\u2028\"", `"\u2028"`},
		{"\"\x7f\"", `"\u007f"`},
		{"0", "-0"},
		{`"0"`},
		{`"-0"`},
		{"1"},
		{"-1"},
		{"123456789012345678901234567890"},
		{"[\"\\n\"]"},
	} {
		key := string(Key([]byte(texts[0])))
		if other, ok := keys[key]; ok {
			t.Errorf("%s has the key of %s: %s", texts[0], other, key)
		}
		keys[key] = texts[0]
		for _, text := range texts {
			if got := string(Key([]byte(text))); got != key {
				t.Errorf("%s has the key %s, and %s has %s", text, got, texts[0], key)
			}
		}
	}
	running := map[string]bool{`"an id"`: true, "7": true}
	for _, id := range [][]byte{[]byte(`"an id"`), []byte("7")} {
		if n := testing.AllocsPerRun(100, func() { _ = running[string(Key(id))] }); n > 0 {
			t.Errorf("the key of %s took %v allocations", id, n)
		}
	}
}

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want Message
	}{
		{`{"jsonrpc":"2.0","id":1,"method":"ping"}`, Message{ID: []byte("1"), Method: "ping"}},
		{
			` {"params":{ "a" : 1e2 },"method":"tools/call","id": "x\u0061" ,"jsonrpc":"2.0"} `,
			Message{ID: []byte(`"x\u0061"`), Method: "tools/call", Params: []byte(`{ "a" : 1e2 }`)},
		},
		{
			`{"jsonrpc":"2.0","id":-123456789012345678901234567890,"method":"m"}`,
			Message{ID: []byte("-123456789012345678901234567890"), Method: "m"},
		},
		{
			`{"jsonrpc":"2.0","id":"` + strings.Repeat("i", usual.ID-2) + `","method":"m"}`,
			Message{ID: []byte(`"` + strings.Repeat("i", usual.ID-2) + `"`), Method: "m"},
		},
		{
			`{"jsonrpc":"2.0","id":"","method":"m","methods":"n","i_d":2,"new":[]}`,
			Message{ID: []byte(`""`), Method: "m"},
		},
		{`{"jsonrpc":"2.0","method":"notifications/initialized"}`, Message{Method: "notifications/initialized"}},
		{`{"jsonrpc":"2.0","id":0,"result":{}}`, Message{ID: []byte("0"), Result: []byte("{}")}},
		{`{"jsonrpc":"2.0","id":0,"result":{},"params":[]}`, Message{ID: []byte("0"), Result: []byte("{}")}},
		{
			`{"jsonrpc":"2.0","id":0,"error":{"code":-1,"message":"m","data":[1.0]}}`,
			Message{ID: []byte("0"), Error: &pb.JsonRpcError{Code: -1, Message: "m", Data: "[1.0]"}},
		},
		{
			`{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":""}}`,
			Message{Error: &pb.JsonRpcError{Code: -1, Message: ""}},
		},
		{
			`{"jsonrpc":"2.0","error":{"code":-1,"message":""}}`,
			Message{Error: &pb.JsonRpcError{Code: -1, Message: ""}},
		},
	} {
		got, err := Parse([]byte(tt.in), usual)
		if err != nil || string(got.ID) != string(tt.want.ID) || (got.ID == nil) != (tt.want.ID == nil) ||
			got.Method != tt.want.Method ||
			string(got.Params) != string(tt.want.Params) || string(got.Result) != string(tt.want.Result) ||
			!proto.Equal(got.Error, tt.want.Error) {
			t.Errorf("%s: got %+v, %v", tt.in, got, err)
		}
		kinds := 0
		for _, is := range []bool{got.IsRequest(), got.IsNotification(), got.IsResponse()} {
			if is {
				kinds++
			}
		}
		if kinds != 1 {
			t.Errorf("%s: got %d kinds of message", tt.in, kinds)
		}
	}
}

func TestInvalidInputIsRejected(t *testing.T) {
	const parse, invalid, params = -32700, -32600, -32602
	for _, tt := range []struct {
		name string
		in   string
		code int32
		id   string
		want string
	}{
		{"nothing", ``, parse, "", `the message is not strict JSON: byte 0: unexpected end of the text`},
		{
			"garbage", `hello`, parse, "",
			`the message is not strict JSON: byte 0: invalid character 'h' at start of value`,
		},
		{
			"two messages", `{"jsonrpc":"2.0","id":1,"method":"m"}{}`, parse, "",
			`the message is not strict JSON: byte 37: more text after the value`,
		},
		{
			"byte order mark", "\ufeff{}", parse, "",
			`the message is not strict JSON: byte 0: invalid character '\ufeff' at start of value`,
		},
		{
			"a name twice", `{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}`, invalid, "",
			`the message is refused: byte 37: duplicate name "method"`,
		},
		{
			"a name twice in the arguments", `{"jsonrpc":"2.0","id":1,"method":"a","params":{"arguments":{"a":1,"a":2}}}`,
			invalid, "", `the message is refused: byte 66: duplicate name "a"`,
		},
		{"no UTF-8", "{\"\xff\":1}", parse, "", `the message is not strict JSON: byte 2: invalid UTF-8`},
		{
			"too deep", strings.Repeat("[", 300) + strings.Repeat("]", 300), invalid, "",
			`the message is refused: byte 256: nested deeper than 256`,
		},
		{"a batch", `[]`, invalid, "", `a message is a JSON object, not []`},
		{"a string", `"x"`, invalid, "", `a message is a JSON object, not "x"`},
		{"no version", `{"id":1,"method":"m"}`, invalid, "1", `member "jsonrpc" must be "2.0"`},
		{"another version", `{"jsonrpc":"1.0","id":1,"method":"m"}`, invalid, "1", `member "jsonrpc" must be "2.0"`},
		{"a number as version", `{"jsonrpc":2.0,"id":1,"method":"m"}`, invalid, "1", `member "jsonrpc" must be "2.0"`},
		{
			"id with a fraction", `{"jsonrpc":"2.0","id":1.5,"method":"m"}`, invalid, "",
			`member "id" must be a string or an integer, not 1.5`,
		},
		{
			"id with an exponent", `{"jsonrpc":"2.0","id":1e3,"method":"m"}`, invalid, "",
			`member "id" must be a string or an integer, not 1e3`,
		},
		{
			"id null", `{"jsonrpc":"2.0","id":null,"method":"m"}`, invalid, "",
			`member "id" must be a string or an integer, not null`,
		},
		{
			"id true", `{"jsonrpc":"2.0","id":true,"method":"m"}`, invalid, "",
			`member "id" must be a string or an integer, not true`,
		},
		{
			"id an object", `{"jsonrpc":"2.0","id":{},"method":"m"}`, invalid, "",
			`member "id" must be a string or an integer, not {}`,
		},
		{
			"id too long", `{"jsonrpc":"2.0","id":"` + strings.Repeat("i", usual.ID-1) + `","method":"m"}`, invalid, "",
			`member "id" must not be longer than 256 bytes`,
		},
		{
			"id too long a number", `{"jsonrpc":"2.0","id":1` + strings.Repeat("0", usual.ID) + `,"method":"m"}`, invalid,
			"", `member "id" must not be longer than 256 bytes`,
		},
		{
			"wrong case", `{"jsonrpc":"2.0","id":1,"Method":"m"}`, invalid, "1",
			`unknown member "Method": names are in lower case`,
		},
		{
			"wrong case beside the right one", `{"jsonrpc":"2.0","id":1,"method":"m","PARAMS":{}}`, invalid, "1",
			`unknown member "PARAMS": names are in lower case`,
		},
		{
			"another letter in another case", `{"jſonrpc":"2.0","id":1,"method":"m"}`, invalid, "1",
			`unknown member "jſonrpc": names are in lower case`,
		},
		{
			"a NUL in a name", `{"jsonrpc":"2.0","id":1,"metho\u0000d":"m"}`, invalid, "1",
			`a message has "method", "result" or "error"`,
		},
		{
			"method a number", `{"jsonrpc":"2.0","id":1,"method":1}`, invalid, "1",
			`member "method" must be a string that is not empty, not 1`,
		},
		{
			"method null", `{"jsonrpc":"2.0","id":1,"method":null}`, invalid, "1",
			`member "method" must be a string that is not empty, not null`,
		},
		{
			"method empty", `{"jsonrpc":"2.0","id":1,"method":""}`, invalid, "1",
			`member "method" must be a string that is not empty, not ""`,
		},
		{
			"params an array", `{"jsonrpc":"2.0","id":"a","method":"m","params":[1]}`, params, `"a"`,
			`member "params" must be an object, not [1]`,
		},
		{
			"params null", `{"jsonrpc":"2.0","id":"a","method":"m","params":null}`, params, `"a"`,
			`member "params" must be an object, not null`,
		},
		{
			"params a string", `{"jsonrpc":"2.0","id":"a","method":"m","params":"x"}`, params, `"a"`,
			`member "params" must be an object, not "x"`,
		},
		{
			"method and result", `{"jsonrpc":"2.0","id":1,"method":"m","result":{}}`, invalid, "1",
			`a message with "method" has neither "result" nor "error"`,
		},
		{
			"method and error", `{"jsonrpc":"2.0","id":1,"method":"m","error":{}}`, invalid, "1",
			`a message with "method" has neither "result" nor "error"`,
		},
		{
			"result and error", `{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}`, invalid, "1",
			`a response has either "result" or "error"`,
		},
		{"result without id", `{"jsonrpc":"2.0","result":{}}`, invalid, "", `a result has an "id"`},
		{
			"result with id null", `{"jsonrpc":"2.0","id":null,"result":{}}`, invalid, "",
			`member "id" must be a string or an integer, not null`,
		},
		{
			"result no object", `{"jsonrpc":"2.0","id":1,"result":null}`, invalid, "1",
			`member "result" must be an object, not null`,
		},
		{
			"error no object", `{"jsonrpc":"2.0","id":1,"error":"x"}`, invalid, "1",
			`member "error" must be an object, not "x"`,
		},
		{
			"error without code", `{"jsonrpc":"2.0","id":1,"error":{"message":""}}`, invalid, "1",
			`member "error" must have "code" and "message"`,
		},
		{
			"error without message", `{"jsonrpc":"2.0","id":1,"error":{"code":1}}`, invalid, "1",
			`member "error" must have "code" and "message"`,
		},
		{
			"error code a string", `{"jsonrpc":"2.0","id":1,"error":{"code":"1","message":""}}`, invalid, "1",
			`member "error.code" must be an integer, not "1"`,
		},
		{
			"error message a number", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":1}}`, invalid, "1",
			`member "error.message" must be a string, not 1`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse([]byte(tt.in), usual)
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v", err)
			}
			if e.RPC.GetCode() != tt.code || string(e.ID) != tt.id || e.Error() != tt.want {
				t.Errorf("got %d, id %q\n got %s\nwant %s", e.RPC.GetCode(), e.ID, e, tt.want)
			}
		})
	}
}

// The limits apply to a message: one below, at, and one above each.
func TestLimitsCanBeSet(t *testing.T) {
	l := limits.Limits{ID: 10, Batch: 3}.OrDefaults()
	set := &l
	for n := 9; n <= 11; n++ {
		id := strings.Repeat("1", n)
		if _, err := Parse([]byte(`{"jsonrpc":"2.0","id":`+id+`,"method":"m"}`), set); (err == nil) != (n <= 10) ||
			IsID([]byte(id), set) != (n <= 10) {
			t.Errorf("ID of %d bytes: %v", n, err)
		}
	}
	for n := 2; n <= 4; n++ {
		if _, err := ParseBatch([]byte("["+strings.Repeat("{},", n-1)+"{}]"), set); (err == nil) != (n <= 3) {
			t.Errorf("a batch of %d: %v", n, err)
		}
	}
}

func TestBatches(t *testing.T) {
	many := func(n int) string { return "[" + strings.Repeat("{},", n-1) + "{}]" }
	for in, want := range map[string]bool{"": false, " \n[": true, "[1]": true, `{"a":[]}`: false, "x[": false} {
		if IsBatch([]byte(in)) != want {
			t.Errorf("%q: got %v", in, !want)
		}
	}
	texts, err := ParseBatch([]byte(` [ {"a": 1} ,2,"x"] `), usual)
	if err != nil || fmt.Sprintf("%s", texts) != `[{"a": 1} 2 "x"]` {
		t.Errorf("got %s, %v", texts, err)
	}
	if texts, err = ParseBatch([]byte(many(usual.Batch)), usual); err != nil || len(texts) != usual.Batch {
		t.Errorf("got %d, %v", len(texts), err)
	}
	for _, tt := range []struct {
		in   string
		code int32
		want string
	}{
		{`[]`, -32600, `a batch has at least one message`},
		{`{}`, -32600, `a batch is a JSON array, not {}`},
		{`[{}`, -32700, `the message is not strict JSON: byte 3: unexpected end of the text`},
		{`[{"a":1,"a":1}]`, -32600, `the message is refused: byte 8: duplicate name "a"`},
		{many(usual.Batch + 1), -32600, `a batch has at most 100 messages`},
	} {
		_, err := ParseBatch([]byte(tt.in), usual)
		var e *Error
		if !errors.As(err, &e) || e.RPC.GetCode() != tt.code || e.Error() != tt.want || e.ID != nil {
			t.Errorf("%s: got %v", tt.in, err)
		}
	}
}

func TestAppend(t *testing.T) {
	id := []byte(`"a"`)
	e := &pb.JsonRpcError{Code: -32602, Message: "no \"x\"\n", Data: "{\n\"a\":1}"}
	for _, tt := range []struct {
		got  []byte
		want string
	}{
		{
			AppendRequest(nil, id, "tools/call", []byte(`{"a":1}`)),
			`{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"a":1}}`,
		},
		{AppendRequest(nil, []byte("1"), "a\"b", nil), `{"jsonrpc":"2.0","id":1,"method":"a\"b"}`},
		{AppendNotification([]byte("data: "), "n", nil), `data: {"jsonrpc":"2.0","method":"n"}`},
		{AppendNotification(nil, "n", []byte(`{}`)), `{"jsonrpc":"2.0","method":"n","params":{}}`},
		{AppendResult(nil, id, []byte(`{"a":1}`)), `{"jsonrpc":"2.0","id":"a","result":{"a":1}}`},
		{AppendResult(nil, id, nil), `{"jsonrpc":"2.0","id":"a","result":{}}`},
		{
			AppendError(nil, id, e, true),
			`{"jsonrpc":"2.0","id":"a","error":{"code":-32602,"message":"no \"x\"\n","data":{"a":1}}}`,
		},
		{
			AppendError(nil, nil, e, true),
			`{"jsonrpc":"2.0","error":{"code":-32602,"message":"no \"x\"\n","data":{"a":1}}}`,
		},
		{
			AppendError(nil, nil, &pb.JsonRpcError{Code: 1}, false),
			`{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}`,
		},
		{
			AppendError(nil, id, &pb.JsonRpcError{Data: `{"a":1,"a":2}`}, false),
			`{"jsonrpc":"2.0","id":"a","error":{"code":0,"message":""}}`,
		},
	} {
		if string(tt.got) != tt.want {
			t.Errorf("\n got %s\nwant %s", tt.got, tt.want)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	small := `{"jsonrpc":"2.0","id":1234,"method":"tools/call","params":{"name":"get_weather","arguments":{"city":"Paris","units":"metric","days":3,"detail":true},"_meta":{"progressToken":"p1","x":"aaaaaaaaaaaaaa"}}}`
	large := strings.Replace(small, `"Paris"`, `[`+strings.Repeat(`{"name":"Paris","days":3},`, 64<<10/26)+`0]`, 1)
	text := strings.Replace(small, `Paris`, strings.Repeat(`Paris is a city. `, 64<<10/17), 1)
	for name, data := range map[string]string{"200B": small, "64KiB/records": large, "64KiB/string": text} {
		b.Run(name, func(b *testing.B) {
			data := []byte(data)
			b.ReportAllocs()
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if _, err := Parse(data, usual); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
