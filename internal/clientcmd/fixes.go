package clientcmd

import (
	"strings"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
)

// What to do when a server cannot ask.
const (
	answerFix = "answer with --answer FIELD=VALUE, or call it from a terminal"
	sampleFix = "answer in place of a model with --sample FILE, or call it from a terminal"
)

// unasked matches what the tools of our SDKs say, to a model, when they cannot ask, and says what whoever calls from a shell can do.
var unasked = []struct{ says, fix string }{
	{"This client does not let tools ask its model", sampleFix},
	{"This client cannot open a web page", "visit it and answer with --answer /accept, or call it from a terminal"},
	{"This client cannot ", answerFix},
}

// unaskedFix returns what to do about a tool that has failed because it could not ask, or "".
func unaskedFix(text string) string {
	for _, u := range unasked {
		if strings.HasPrefix(text, u.says) {
			return u.fix
		}
	}
	return ""
}

// lacking says what to do about an error that says that the caller cannot answer what it would be asked. Else it returns "".
func lacking(err error) string {
	rpc := bridge.AsError(err).RPC
	if rpc.GetCode() != bridge.CodeMissingCapability {
		return ""
	}
	var fixes []string
	for _, m := range []struct{ name, fix string }{
		{"elicitation", answerFix}, {"roots", "say where it may work: --root DIR"}, {"sampling", sampleFix},
	} {
		if rawjson.Get(rawjson.Get(rpc.GetData(), "requiredCapabilities"), m.name) != nil {
			fixes = append(fixes, m.fix)
		}
	}
	return strings.Join(fixes, "\n")
}
