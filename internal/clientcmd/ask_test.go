package clientcmd

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/internal/signature"
)

// The answers for a list field are the items of the list in every form, or one JSON list for each form.
func TestAnswersForListFields(t *testing.T) {
	list := signature.Property{Name: "via", Schema: signature.Of(`{"type":"array","items":{"type":"string"}}`)}
	for _, c := range []struct{ answers, first, second string }{
		{`a`, `[a]`, `[a]`},
		{`a b`, `[a b]`, `[a b]`},
		{`["a","b"]`, `[["a","b"]]`, `[["a","b"]]`},
		{`["a","b"] []`, `[["a","b"]]`, `[[]]`},
	} {
		a := &responder{answers: map[string][]string{"via": strings.Fields(c.answers)}, used: map[string]int{}}
		if first, second := fmt.Sprint(a.textsFor(list)), fmt.Sprint(a.textsFor(list)); first != c.first ||
			second != c.second {
			t.Errorf("%s: got %s and %s", c.answers, first, second)
		}
	}
}
