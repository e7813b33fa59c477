package clientcmd

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/internal/signature"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// Questions of our SDKs are answered in the order in which they were asked, and others in the order of their keys.
func TestOrderOfQuestions(t *testing.T) {
	for state, want := range map[string]string{
		`{"asked":["b","a"]}`: "[b a]", `{"asked":["b"]}`: "[a b]", `{"asked":["b","c"]}`: "[a b]", `{"asked":1}`: "[a b]",
		`[1]`: "[a b]", "\xff": "[a b]", "": "[a b]",
	} {
		needs := &pb.InputRequired{Requests: map[string]*pb.InputRequest{"a": nil, "b": nil}, State: []byte(state)}
		if got := fmt.Sprint(inOrder(needs)); got != want {
			t.Errorf("state %q: got %s", state, got)
		}
	}
}

func TestAnswersOfLists(t *testing.T) {
	list := signature.Property{Name: "via", Schema: signature.Of(`{"type":"array","items":{"type":"string"}}`)}
	for _, c := range []struct{ answers, first, second string }{
		{`a`, `[a]`, `[a]`},
		{`a b`, `[a b]`, `[a b]`},
		{`["a","b"]`, `[["a","b"]]`, `[["a","b"]]`},
		{`["a","b"] []`, `[["a","b"]]`, `[[]]`},
	} {
		a := &asker{answers: map[string][]string{"via": strings.Fields(c.answers)}, used: map[string]int{}}
		if first, second := fmt.Sprint(a.given(list)), fmt.Sprint(a.given(list)); first != c.first || second != c.second {
			t.Errorf("%s: got %s and %s", c.answers, first, second)
		}
	}
}
