package rawjson

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func BenchmarkCheck(b *testing.B) {
	records := func(size int) []byte {
		var s strings.Builder
		for i := 0; s.Len() < size; i++ {
			fmt.Fprintf(&s, `,{"id":%d,"name":"a name","note":"something \"quoted\""}`, i)
		}
		return []byte("[" + s.String()[1:] + "]")
	}
	for name, data := range map[string][]byte{
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
	s := strings.Repeat("some words and a line\n", 64<<10/22)
	b.SetBytes(int64(len(s)))
	var dst []byte
	for b.Loop() {
		dst = AppendString(dst[:0], s)
	}
}
