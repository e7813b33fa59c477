package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/internal/problem"
)

// Variables are expanded everywhere, and their values reach the backend only.
func TestVariablesAreExpandedAndNotPrinted(t *testing.T) {
	t.Setenv("SECRET_TOKEN", "hunter2-hunter2")
	config := writeConfig(t, fmt.Sprintf(`
serve: {http: {addr: "127.0.0.1:0"}}
backends:
  - name: prints
    launch:
      command: [sh, -c, "echo the token is $TOKEN, the text is $TEXT >&2; exec %s", "${env:SECRET_TOKEN}"]
      env: {TOKEN: "${env:SECRET_TOKEN}", TEXT: "$${env:SECRET_TOKEN}"}
`, echoGo(t)))
	r := start(t, nil, nil, "run", "--log-format", "json", "-c", config)
	r.awaitLog(t, "the token is ${env:SECRET_TOKEN}, the text is ${env:SECRET_TOKEN}")
	r.drain()
	r.wait(t)
	if strings.Contains(r.stderr.String(), "hunter2") {
		t.Errorf("the output contains the secret:\n%s", r.stderr)
	}
	wrong := writeConfig(t, "backends: [{name: a, launch: {command: [sh, -c, 'echo no ${env:SECRET_TOKEN} >&2; "+
		"exit 3']}}]")
	got := runCommand(t, "", "list", "--plugin", "-c", wrong)
	if got.code != problem.ExitPlugin || strings.Contains(got.stderr, "hunter2") ||
		!strings.Contains(got.stderr, "${env:SECRET_TOKEN}") {
		t.Errorf("got %+v", got)
	}
}
