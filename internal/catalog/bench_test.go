package catalog

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// typical is a schema as SDKs derive it from the types of a function.
const typical = `{"type":"object","properties":{
	"query":{"type":"string","description":"what to look for","minLength":1},
	"limit":{"type":"integer","minimum":1,"maximum":100,"default":10},
	"mode":{"type":"string","enum":["fast","exact","fuzzy"]},
	"tags":{"type":"array","items":{"type":"string"},"maxItems":16},
	"since":{"anyOf":[{"type":"string"},{"type":"null"}],"default":null},
	"options":{"$ref":"#/$defs/Options"}
},"required":["query","mode"],"additionalProperties":false,
"$defs":{"Options":{"type":"object","properties":{"deep":{"type":"boolean"},"weight":{"type":"number","minimum":0,"maximum":1}},"required":["deep"]}}}`

const typicalArguments = `{"query":"the quick brown fox jumps over the lazy dog and then it rests","limit":25,"mode":"exact",` +
	`"tags":["animals","idioms","english"],"since":null,"options":{"deep":true,"weight":0.75},"x":""}`

// tables is a schema of the values that large returns: many small ones, or one long text.
const tables = `{"type":"object","properties":{"rows":{"type":"array","items":{"type":"object","properties":{
	"id":{"type":"integer"},"name":{"type":"string"},"price":{"type":"number"},
	"active":{"type":"boolean"}},"required":["id","name"]}},
	"text":{"type":"string"},"numbers":{"type":"array","items":{"type":"integer"}}}}`

func large(kind string) []byte {
	const size = 64 << 10
	switch kind {
	case "rows":
		row := `{"id":%d,"name":"a name of some length","price":12.5,"active":true}`
		var all []string
		for n := 0; n < size; n += len(row) + 2 {
			all = append(all, fmt.Sprintf(row, n))
		}
		return []byte(`{"rows":[` + strings.Join(all, ",") + `]}`)
	case "numbers":
		return []byte(`{"numbers":[` + strings.Repeat("12345,", size/6) + `0]}`)
	}
	return []byte(`{"text":"` + strings.Repeat("x", size) + `"}`)
}

func BenchmarkAccepts(b *testing.B) {
	small := []byte(strings.Replace(typicalArguments, `,"x":""`, "", 1))
	for _, c := range []struct {
		name, schema string
		arguments    []byte
	}{
		{"any", `{"type":"object"}`, large("rows")},
		{"typical", typical, small},
		{"rows", tables, large("rows")},
		{"text", tables, large("text")},
		{"numbers", tables, large("numbers")},
	} {
		s := &schema{maxSubschemas: defaults.Subschemas, text: []byte(c.schema)}
		if !s.accepts(c.arguments) || s.err != nil {
			b.Fatal(c.name, s.err)
		}
		b.Run(fmt.Sprintf("%s/%d", c.name, len(c.arguments)), func(b *testing.B) {
			b.SetBytes(int64(len(c.arguments)))
			b.ReportAllocs()
			for b.Loop() {
				if !s.accepts(c.arguments) {
					b.Fatal("refused")
				}
			}
		})
	}
}

// BenchmarkLibrary measures the same without the fast validator.
func BenchmarkLibrary(b *testing.B) {
	for name, arguments := range map[string][]byte{
		"typical": []byte(strings.Replace(typicalArguments, `,"x":""`, "", 1)), "rows": large("rows"),
	} {
		text := []byte(map[string]string{"typical": typical, "rows": tables}[name])
		s := &schema{maxSubschemas: defaults.Subschemas, text: text}
		s.once.Do(s.compile)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				v, err := jsonschema.UnmarshalJSON(bytes.NewReader(arguments))
				if err != nil || s.meter.validate(b.Context(), s.full, v) != nil {
					b.Fatal("refused")
				}
			}
		})
	}
}

func BenchmarkCheckText(b *testing.B) { // the front parses the text in any case
	text := large("rows")
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if rawjson.Check(text) != nil {
			b.Fatal("refused")
		}
	}
}

func BenchmarkCall(b *testing.B) {
	result := &bridge.Result{Complete: bridgetest.Text("ok")}
	list := &bridge.Result{Complete: &pb.ListToolsResponse{Tools: []*pb.Tool{{Name: "f", InputSchema: typical}}}}
	h := bridge.HandlerFunc(func(_ context.Context, call *bridge.Call, _ bridge.Emit) (*bridge.Result, error) {
		if call.Method == bridge.ListTools {
			return list, nil
		}
		return result, nil
	})
	call := &bridge.Call{Method: bridge.CallTool, Request: &pb.CallToolRequest{
		Context: as("x"), Name: "f", Arguments: []byte(strings.Replace(typicalArguments, `,"x":""`, "", 1)),
	}}
	c := New(h, Options{})
	b.ReportAllocs()
	for b.Loop() {
		if r, err := c.Handle(b.Context(), call, nil); r != result || err != nil {
			b.Fatal(r, err)
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	var many strings.Builder
	many.WriteString(`{"type":"object","properties":{"p":{}`)
	for i := range defaults.Subschemas - 10 {
		fmt.Fprintf(&many, `,"p%d":{"type":"string"}`, i)
	}
	many.WriteString(`}}`)
	for name, text := range map[string]string{"typical": typical, "most": many.String()} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				s := &schema{maxSubschemas: defaults.Subschemas, text: []byte(text)}
				if s.compile(); s.err != nil {
					b.Fatal(s.err)
				}
			}
		})
	}
}
