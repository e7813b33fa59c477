package mcpjson

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/internal/limits"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

func TestReadRaw(t *testing.T) {
	l := limits.Limits{}.OrDefaults()
	nested := &pb.ContentBlock{Block: &pb.ContentBlock_ToolResult{ToolResult: &pb.ToolResultContent{
		ToolUseId: "1", Content: []*pb.ContentBlock{textBlock("x", nil), rawBlock(`{"type":"video"}`)},
	}}}
	for _, tt := range []struct {
		name    string
		m, want proto.Message
		err     string
	}{
		{name: "known content", m: rawBlock(`{"type":"text","text":"x"}`), want: textBlock("x", nil)},
		{name: "unknown content", m: rawBlock(`{"type":"video"}`), want: rawBlock(`{"type":"video"}`)},
		{
			name: "nested", want: &pb.GetPromptResult{Messages: []*pb.PromptMessage{{Role: "user", Content: nested}}},
			m: &pb.GetPromptResult{Messages: []*pb.PromptMessage{{Role: "user", Content: rawBlock(
				`{"type":"tool_result","toolUseId":"1","content":[{"type":"text","text":"x"},{"type":"video"}]}`)}}},
		},
		{
			name: "known input request",
			want: inputRequired(&pb.InputRequest{
				Request: &pb.InputRequest_ListRoots{ListRoots: &pb.ListRootsRequest{}},
			}),
			m: inputRequired(&pb.InputRequest{
				Request: &pb.InputRequest_Raw{Raw: `{"method":"roots/list","params":{}}`},
			}),
		},
		{
			name: "known answer", want: answered(
				&pb.InputResponse{Response: &pb.InputResponse_Elicit{Elicit: &pb.ElicitResult{Action: "decline"}}}),
			m: answered(&pb.InputResponse{Response: &pb.InputResponse_Raw{Raw: `{"action":"decline"}`}}),
		},
		{
			name: "known reference",
			m: &pb.CompletionReference{
				Reference: &pb.CompletionReference_Raw{Raw: `{"type":"ref/prompt","name":"p"}`},
			},
			want: &pb.CompletionReference{
				Reference: &pb.CompletionReference_Prompt{Prompt: &pb.PromptReference{Name: "p"}},
			},
		},
		{name: "array", m: rawBlock(`[]`), err: `must be a JSON object, not []`},
		{name: "empty", m: rawBlock(``), err: `must be a JSON object, not `},
		{
			name: "duplicate name", m: rawBlock(`{"type":"a","type":"b"}`),
			err: `is not strict JSON: byte 12: duplicate name "type"`,
		},
		{
			name: "no type", m: &pb.CallToolResult{Content: []*pb.ContentBlock{rawBlock(`{}`)}},
			err: `content[0]: member "type" is missing`,
		},
		{name: "invalid content", m: rawBlock(`{"type":"text","text":1}`), err: `text: must be a string, not 1`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := ReadRaw(tt.m, &l)
			switch {
			case tt.err != "" && (err == nil || err.Error() != tt.err), tt.err == "" && err != nil:
				t.Errorf("\n got %v\nwant %s", err, tt.err)
			case tt.err == "" && !proto.Equal(tt.m, tt.want):
				t.Errorf("\n got %v\nwant %v", tt.m, tt.want)
			}
		})
	}
}

func inputRequired(r *pb.InputRequest) proto.Message {
	return &pb.InputRequired{InputRequests: []*pb.InputRequest{r}}
}

func answered(r *pb.InputResponse) proto.Message {
	return &pb.CallToolRequest{Name: "t", InputResponses: map[string]*pb.InputResponse{"k": r}}
}
