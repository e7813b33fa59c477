package clientcmd

import (
	"strings"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
)

// The fixes for a server that requires input.
const (
	answerFix = "answer with --answer FIELD=VALUE, or call it from a terminal"
	sampleFix = "answer in place of a model with --sample FILE, or call it from a terminal"
)

// inputErrors matches the errors of tools of our SDKs that require input, with the fix for a user at a shell.
var inputErrors = []struct{ prefix, fix string }{
	{"This client does not let tools ask its model", sampleFix},
	{"This client cannot open a web page", "visit it and answer with --answer /accept, or call it from a terminal"},
	{"This client cannot ", answerFix},
}

// inputFix returns the fix for a tool that has failed because it required input, or "".
func inputFix(text string) string {
	for _, u := range inputErrors {
		if strings.HasPrefix(text, u.prefix) {
			return u.fix
		}
	}
	return ""
}

// capabilityFix returns the fix for an error about missing capabilities, or "".
func capabilityFix(err error) string {
	rpc := bridge.AsError(err).RPC
	if rpc.GetCode() != bridge.CodeMissingCapability {
		return ""
	}
	var fixes []string
	for _, m := range []struct{ name, fix string }{
		{"elicitation", answerFix},
		{"roots", "name a directory in which it may work: --root DIR"},
		{"sampling", sampleFix},
	} {
		if rawjson.Get(rawjson.Get(rawjson.AsBytes(rpc.GetData()), "requiredCapabilities"), m.name) != nil {
			fixes = append(fixes, m.fix)
		}
	}
	return strings.Join(fixes, "\n")
}
