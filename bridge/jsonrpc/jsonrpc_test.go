package jsonrpc

import "testing"

var call200 = []byte(`{"jsonrpc":"2.0","id":1234,"method":"tools/call","params":{"name":"get_weather","arguments":{"city":"Paris","units":"metric","days":3,"detail":true},"_meta":{"progressToken":"p1","x":"aaaaaaaaaaaaaa"}}}`)

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	b.SetBytes(int64(len(call200)))
	for b.Loop() {
		if _, err := Parse(call200); err != nil {
			b.Fatal(err)
		}
	}
}
