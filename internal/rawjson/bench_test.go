package rawjson

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// mixed is text as it comes, in JSON.
var mixed = `{"text":"` +
	strings.Repeat(`The na\u00efve café plan, 12 €, was sent to 東京.\nfunc main() { fmt.Println(\"hello, world\") }\n2026-07-28 `+
		`INFO served in 3 ms path=C:\\temp\\log.txt\tuser=\"Zoë\" and the rest of the line is plain words that say little, as lines do.\n`, 64<<10/240) + `"}`

func BenchmarkCheck(b *testing.B) {
	records := func(size int) []byte {
		var s strings.Builder
		for i := 0; s.Len() < size; i++ {
			fmt.Fprintf(&s, `,{"id":%d,"name":"a name","note":"something \"quoted\""}`, i)
		}
		return []byte("[" + s.String()[1:] + "]")
	}
	for name, data := range map[string][]byte{
		"call/200B": []byte(
			`{"jsonrpc":"2.0","id":12,"method":"tools/call","params":{"name":"echo","arguments":{"text":"` +
				strings.Repeat("some words ", 9) + `"}}}`),
		"mixed/64KiB":   []byte(mixed),
		"records/200B":  records(200),
		"records/64KiB": records(64 << 10),
		"string/64KiB":  []byte(`{"text":"` + strings.Repeat("some words ", 64<<10/11) + `"}`),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if err := Check(data); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/jsontext", func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if !jsontext.Value(data).IsValid() {
					b.Fatal("invalid")
				}
			}
		})
	}
}

func BenchmarkAppendString(b *testing.B) {
	s, _ := String(Get([]byte(mixed), "text"))
	b.SetBytes(int64(len(s)))
	var dst []byte
	for b.Loop() {
		dst = AppendString(dst[:0], s)
	}
}

// BenchmarkString reads the text of a call of 64 KiB.
func BenchmarkString(b *testing.B) {
	quoted := Get([]byte(mixed), "text")
	b.SetBytes(int64(len(quoted)))
	for b.Loop() {
		String(quoted)
	}
}
