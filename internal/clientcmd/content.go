package clientcmd

import (
	"fmt"
	"strings"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// contentText returns content as text, and a description of content that is not text.
func contentText(blocks []*pb.ContentBlock) string {
	var parts []string
	for _, b := range blocks {
		switch x := b.GetBlock().(type) {
		case *pb.ContentBlock_Text:
			parts = append(parts, x.Text.GetText())
		case *pb.ContentBlock_Image:
			parts = append(parts, fmt.Sprintf("[image, %s, %d bytes]", x.Image.GetMimeType(), len(x.Image.GetData())))
		case *pb.ContentBlock_Audio:
			parts = append(parts, fmt.Sprintf("[audio, %s, %d bytes]", x.Audio.GetMimeType(), len(x.Audio.GetData())))
		case *pb.ContentBlock_ResourceLink:
			parts = append(parts,
				fmt.Sprintf("[resource %s]",
					uriText(x.ResourceLink.GetUri(), x.ResourceLink.GetName(), x.ResourceLink.GetMimeType())))
		case *pb.ContentBlock_Resource:
			r := x.Resource.GetResource()
			if text, ok := r.GetBody().(*pb.ResourceContents_Text); ok {
				parts = append(parts, text.Text)
			} else {
				parts = append(parts,
					fmt.Sprintf("[resource %s, %s, %d bytes]", r.GetUri(), r.GetMimeType(), len(r.GetBlob())))
			}
		case *pb.ContentBlock_ToolUse:
			parts = append(parts, fmt.Sprintf("[use of the tool %s: %s]", x.ToolUse.GetName(), x.ToolUse.GetInput()))
		case *pb.ContentBlock_ToolResult:
			parts = append(parts, contentText(x.ToolResult.GetContent()))
		case *pb.ContentBlock_Raw:
			parts = append(parts, fmt.Sprintf("[content of another type: %s]", x.Raw))
		}
	}
	return strings.Join(parts, "\n")
}

// uriText returns a URI with its name and media type.
func uriText(uri, name, mime string) string {
	var more []string
	if name != "" && name != uri {
		more = append(more, name)
	}
	if mime != "" {
		more = append(more, mime)
	}
	if len(more) == 0 {
		return uri
	}
	return uri + " (" + strings.Join(more, ", ") + ")"
}

// The limits of a line of `list`.
const (
	maxSignature   = 400
	maxDescription = 160
)

// promptSignature returns a prompt as the signature of a function.
func promptSignature(p *pb.Prompt) string {
	var names []string
	for _, a := range p.GetArguments() {
		name := a.GetName()
		if !a.GetRequired() {
			name += "?"
		}
		names = append(names, name)
	}
	return p.GetName() + "(" + strings.Join(names, ", ") + ")"
}

// firstLine returns the first non-empty line of a text.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(line)
}
