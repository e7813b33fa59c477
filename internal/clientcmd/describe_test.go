package clientcmd

import (
	"strings"
	"testing"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A URI belongs to the template with the most literal characters.
func TestTemplateOfAURI(t *testing.T) {
	var templates []*pb.ResourceTemplate
	for _, text := range []string{
		"file:///{+path}", "file:///notes/{name}", "file:///{+path}.md", "no{template", "db://{table}{?limit}",
		"slow://" + strings.Repeat("{+a}", 200), "slow://" + strings.Repeat("{a:9999}", 100), // would take minutes
	} {
		templates = append(templates, &pb.ResourceTemplate{UriTemplate: text})
	}
	for uri, want := range map[string]string{
		"file:///a/b": "file:///{+path}", "file:///notes/x": "file:///notes/{name}",
		"file:///a.md": "file:///{+path}.md",
		"db://tea":     "db://{table}{?limit}", "db://tea?limit=3": "db://{table}{?limit}", "db://a/b": "", "x://y": "",
		"": "",
		"file:///" + strings.Repeat("a", maxTemplate): "", "slow://" + strings.Repeat("a", 900): "",
	} {
		if got := templateOf(uri, templates).GetUriTemplate(); got != want {
			t.Errorf("%.40s is of %q, not of %q", uri, got, want)
		}
	}
}
