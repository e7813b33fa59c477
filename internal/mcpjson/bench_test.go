package mcpjson

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// call returns the params of a call whose arguments are about so many bytes long.
func call(size int) []byte {
	var values strings.Builder
	for i := 0; values.Len() < size; i++ {
		fmt.Fprintf(&values, `,{"id":%d,"name":"a name","tags":["a","b"],"note":"something \"quoted\""}`, i)
	}
	return fmt.Appendf(nil, `{"_meta":{"progressToken":"p1"},"name":"get_weather","arguments":{"city":"Paris","values":[%s]}}`, values.String()[1:])
}

func BenchmarkCallToolRequest(b *testing.B) {
	for _, size := range []int{100, 64 << 10} {
		data := call(size)
		b.Run(fmt.Sprintf("check/%d", len(data)), func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if err := rawjson.Check(data); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("decode/%d", len(data)), func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				m := pb.CallToolRequest{Context: &pb.CallContext{}}
				if err := Unmarshal(data, &m, bridge.Rev20260728); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCallToolResult(b *testing.B) {
	for _, size := range []int{100, 64 << 10} {
		result := &pb.CallToolResult{
			Content: []*pb.ContentBlock{textBlock(strings.Repeat("it is warm ", size/11), nil)},
			IsError: proto.Bool(false),
		}
		info := Member{"io.modelcontextprotocol/serverInfo", []byte(`{"name":"s","version":"1"}`)}
		var dst []byte
		b.Run(fmt.Sprintf("text/%d", size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var err error
				if dst, err = Append(dst[:0], result, bridge.Rev20260728, info); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(int64(len(dst)))
		})
		result = &pb.CallToolResult{StructuredContent: rawjson.Get(call(size), "arguments")}
		b.Run(fmt.Sprintf("structured/%d", size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var err error
				if dst, err = Append(dst[:0], result, bridge.Rev20260728); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(int64(len(dst)))
		})
	}
}

func BenchmarkListTools(b *testing.B) {
	list := &pb.ListToolsResponse{}
	for range 20 {
		list.Tools = append(list.Tools, full(&pb.Tool{}).(*pb.Tool))
	}
	data, err := Append(nil, list, bridge.Rev20260728)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("encode", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Append(nil, list, bridge.Rev20260728); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		b.ReportAllocs()
		for b.Loop() {
			if err := Unmarshal(data, &pb.ListToolsResponse{}, bridge.Rev20260728); err != nil {
				b.Fatal(err)
			}
		}
	})
}
