//nolint:thelper // the stops are tests, not helpers
package interop

import (
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// everythingElse are the features of conformance-go besides simple tools.
var everythingElse = []stop{
	{"lists resources and templates and reads them", readsResources},
	{"receives the error of an unknown resource", unknownResource},
	{"is notified of a changed resource until it unsubscribes", resourceChanges},
	{"lists prompts and gets them", getsPrompts},
	{"receives the errors of an unknown prompt and of a missing argument", unknownPrompt},
	{"is notified of changed prompts", promptsChange},
	{"completes arguments", completes},
	{"gets sound, or text in its place", getsSound},
	{"is requested to sample", isSampled},
	{"returns its roots", returnsRoots},
	{"answers several questions at once", answersSeveral},
}

// watched is the resource that changes whenever a list does.
const watched = "test://watched-resource"

func readsResources(t *testing.T, v *visitor) {
	var uris []string
	for r, err := range v.session.Resources(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		uris = append(uris, r.URI)
	}
	for r, err := range v.session.ResourceTemplates(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		uris = append(uris, r.URITemplate)
	}
	want := "test://static-text test://static-binary " + watched + " test://template/{id}/data"
	if got := strings.Join(uris, " "); got != want {
		t.Errorf("there are %s, want %s", got, want)
	}
	matches(t, `^This is the content`, v.read(t, "test://static-text").Text)
	matches(t, `PNG`, string(v.read(t, "test://static-binary").Blob))
	matches(t, `"id": ?"42"`, v.read(t, "test://template/42/data").Text)
}

func unknownResource(t *testing.T, v *visitor) {
	_, err := v.session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "test://no-such-thing"})
	code := int64(-32002)
	if v.modern() {
		code = jsonrpc.CodeInvalidParams
	}
	fails(t, err, code, `no-such-thing`)
}

func resourceChanges(t *testing.T, v *visitor) {
	before := v.read(t, watched).Text
	if err := v.session.Subscribe(t.Context(), &mcp.SubscribeParams{URI: watched}); err != nil {
		t.Fatal(err)
	}
	v.listens(t)
	v.call(t, "test_trigger_tool_change", nil)
	if got := soon(t, v.updates, "no notification that the resource has changed"); got != watched {
		t.Errorf("%s has changed, want %s", got, watched)
	}
	soon(t, v.changes, "no notification that the tools have changed")
	if after := v.read(t, watched).Text; after == before {
		t.Errorf("what is read has not changed: %s", after)
	}

	if err := v.session.Unsubscribe(t.Context(), &mcp.UnsubscribeParams{URI: watched}); err != nil {
		t.Fatal(err)
	}
	v.call(t, "test_trigger_tool_change", nil)
	soon(t, v.changes, "no notification that the tools have changed") // changed by the same call
	v.read(t, watched)
	if v.modern() {
		return // nothing answers the end of a listen, and this SDK sends it in its own time
	}
	select {
	case uri := <-v.updates:
		t.Errorf("received a change of %s after the subscription ended", uri)
	default:
	}
}

func getsPrompts(t *testing.T, v *visitor) {
	var names []string
	for p, err := range v.session.Prompts(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, p.Name)
	}
	matches(t, `\btest_prompt_with_arguments\b`, fmt.Sprint(names))
	got, err := v.session.GetPrompt(t.Context(), &mcp.GetPromptParams{
		Name: "test_prompt_with_arguments", Arguments: map[string]string{"arg1": "a", "arg2": "ü"},
	})
	if err != nil {
		t.Fatal(err)
	}
	text, _ := got.Messages[0].Content.(*mcp.TextContent)
	matches(t, `arg1='a', arg2='ü'`, text.Text)
}

func unknownPrompt(t *testing.T, v *visitor) {
	_, err := v.session.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "no_such_prompt"})
	fails(t, err, jsonrpc.CodeInvalidParams, `no_such_prompt`)
	_, err = v.session.GetPrompt(t.Context(), &mcp.GetPromptParams{
		Name: "test_prompt_with_arguments", Arguments: map[string]string{"arg1": "a"},
	})
	fails(t, err, jsonrpc.CodeInvalidParams, `arg2`)
}

func promptsChange(t *testing.T, v *visitor) {
	for _, has := range []bool{true, false} {
		v.call(t, "test_trigger_prompt_change", nil)
		soon(t, v.prompts, "no notification that the prompts have changed")
		list, err := v.session.ListPrompts(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if last := list.Prompts[len(list.Prompts)-1].Name; (last == "test_transient_prompt") != has {
			t.Errorf("the last prompt is %s; the new one is to be listed: %v", last, has)
		}
	}
}

func completes(t *testing.T, v *visitor) {
	for _, c := range []struct {
		ref                   mcp.CompleteReference
		argument, value, want string
	}{
		{
			mcp.CompleteReference{Type: "ref/prompt", Name: "test_prompt_with_arguments"},
			"arg1", "par",
			"[paris park party]",
		},
		{
			mcp.CompleteReference{Type: "ref/prompt", Name: "test_prompt_with_arguments"},
			"arg1", "nothing like it",
			"[]",
		},
		{mcp.CompleteReference{Type: "ref/resource", URI: "test://template/{id}/data"}, "id", "1", "[123]"},
	} {
		got, err := v.session.Complete(t.Context(), &mcp.CompleteParams{
			Ref: &c.ref, Argument: mcp.CompleteParamsArgument{Name: c.argument, Value: c.value},
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(got.Completion.Values); got != c.want {
			t.Errorf("%s %q is completed to %s, want %s", c.argument, c.value, got, c.want)
		}
	}
}

func getsSound(t *testing.T, v *visitor) {
	content := v.call(t, "test_audio_content", nil).Content[0]
	want := "*mcp.AudioContent"
	if v.session.InitializeResult().ProtocolVersion == "2024-11-05" {
		want = "*mcp.EmbeddedResource"
	}
	if got := fmt.Sprintf("%T", content); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func isSampled(t *testing.T, v *visitor) {
	result := v.call(t, "test_sampling", map[string]any{"prompt": "What is love?"})
	matches(t, `^LLM response: You said: What is love\?$`, resultText(result))
}

func returnsRoots(t *testing.T, v *visitor) {
	result := v.call(t, "test_input_required_result_list_roots", nil)
	for _, uri := range []string{"file:///home/ada/songs", "file:///home/ada/poems"} {
		matches(t, uri, resultText(result))
	}
}

func answersSeveral(t *testing.T, v *visitor) {
	asks := v.answer(&mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada"}})
	result := v.call(t, "test_input_required_result_multiple_inputs", nil)
	matches(t, `^You said: Generate a greeting Ada, you work in file:`, resultText(result))
	if len(*asks) != 1 {
		t.Errorf("asked %d times, want once", len(*asks))
	}
}

// read reads an existing resource.
func (v *visitor) read(t *testing.T, uri string) *mcp.ResourceContents {
	t.Helper()
	got, err := v.session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
	if err != nil {
		t.Fatal(err)
	}
	return got.Contents[0]
}
