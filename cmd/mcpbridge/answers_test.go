package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/problem"
)

// Without a terminal, no elicitation capability is declared.
func TestNoTerminalNoElicitation(t *testing.T) {
	s, shop := startShop(t)
	runCommand(t, "", "call", shop, "paint")
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.caller.GetClientCapabilities(); c.GetElicitation() != nil || c.GetRoots() != nil ||
		!s.caller.GetProgressWanted() {
		t.Errorf("it declared %v", c)
	}
}

// A form is sent only if the user has filled it in: --answer for another form, or defaults, are not consent.
func TestUnansweredFormIsNotSent(t *testing.T) {
	s, shop := startShop(t)
	const sure = `{"type":"object","properties":{"sure":{"type":"boolean","default":true},"why":{"type":"string"}}}`
	for _, c := range []struct{ form, args, fix string }{
		{`{"type":"object","properties":{}}`, "--answer language=French", "call it from a terminal"},
		{`{"type":"object","properties":{}}`, "", "call it from a terminal"},
		{
			`{"type":"object","properties":{"why":{"type":"string"}}}`, "--answer language=French",
			"--answer why=VALUE, where VALUE is string",
		},
		{sure, "--answer language=French", "--answer sure=VALUE, where VALUE is yes or no"},
		{sure, "", "--answer sure=VALUE, where VALUE is yes or no"},
		{orderForm, "--answer gift=no", "--answer size=VALUE"},
	} {
		s.form = c.form
		got := runCommand(t, "", append([]string{"call", shop, "order"}, strings.Fields(c.args)...)...)
		if got.code != problem.ExitUsage || got.errorCode(t) != "no_answer" || !strings.Contains(got.stderr, c.fix) ||
			got.stdout != "" {
			t.Errorf("%s with %q: got %+v", c.form, c.args, got)
		}
	}
	for answer, want := range map[string]string{
		"sure=yes": `accept {"sure":true}`, "sure=no": `accept {"sure":false}`,
		"why=because": `accept {"sure":true,"why":"because"}`,
	} {
		s.form = sure
		if got := runCommand(t, "", "call", "--answer", answer, shop,
			"order"); got != (commandOutput{want + "\n", "", problem.ExitOK}) {
			t.Errorf("%s: got %+v", answer, got)
		}
	}
}

// An unused --answer is reported, because it is probably a typo.
func TestUnusedAnswersAreReported(t *testing.T) {
	_, shop := startShop(t)
	for _, c := range []struct{ args, stdout, warns string }{
		{
			"--answer size=l --answer count=2 --answer gitf=y " + shop + " order",
			`accept {"size":"l","count":2,"gift":false}` + "\n", "did you mean gift?",
		},
		{"--answer size=l " + shop + " paint", "red", "leave it out"},
		{"--answer size=l --answer count=2 " + shop + " order", "accept", ""},
	} {
		got := runCommand(t, "", append([]string{"call"}, strings.Fields(c.args)...)...)
		if got.code != problem.ExitOK || !strings.HasPrefix(got.stdout, c.stdout) ||
			!strings.Contains(got.stderr, c.warns) || (got.stderr == "") != (c.warns == "") {
			t.Errorf("%s: got %+v", c.args, got)
		}
	}
}

// Answers with the same name are used in order, for the forms of a round and of later rounds.
func TestAnswersOfSeveralForms(t *testing.T) {
	bridgetest.SkipIfShort(t)
	t.Parallel()
	kit := filepath.Join(t.TempDir(), "kit-go")
	if out, err := exec.Command("go", "build", "-o", kit, "../../examples/kit-go").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	survey := func(answers ...string) commandOutput {
		args := []string{"call", "survey"}
		for _, answer := range answers {
			args = append(args, "--answer", "value="+answer)
		}
		return runCommand(t, "", append(args, "--", kit)...)
	}
	if got := survey("Ada", "36", "no"); got != (commandOutput{"Ada is 36: false, 1\n", "", problem.ExitOK}) {
		t.Errorf("got %+v", got)
	}
	if got := survey("Ada", "36", "no", "maybe", "maybe"); got.stdout != "Ada is 36: false, 1\n" ||
		!strings.Contains(got.stderr, "--answer value is given 5 times, and 3 of them were used") {
		t.Errorf("with unused answers: got %+v", got)
	}
	// The last answer is used for all remaining forms.
	if got := survey("Ada", "36"); got.code != problem.ExitUsage || !strings.Contains(got.stderr, "it is yes or no") {
		t.Errorf("without the third answer: got %+v", got)
	}
}

// All invalid answers are reported at once, and no valid one is reported as unused.
func TestEveryWrongAnswerIsReported(t *testing.T) {
	_, shop := startShop(t)
	got := runCommand(t, "",
		strings.Fields("call --log-format text --answer size=xxl --answer gift=yes --answer count=many "+shop+
			" order")...)
	for _, want := range []string{
		"the answer size cannot be", "the answer count cannot be", "--answer size",
		"--answer count",
	} {
		if !strings.Contains(got.stderr, want) {
			t.Errorf("%q is missing: %+v", want, got)
		}
	}
	if got.code != problem.ExitUsage || strings.Contains(got.stderr, "was not used") ||
		strings.Contains(got.stderr, "gift") {
		t.Errorf("got %+v", got)
	}
	if got := runCommand(t, "", strings.Fields("call --answer size=l "+shop+" order")...); !strings.Contains(got.stderr,
		`"code":"no_answer"`) ||
		!strings.Contains(got.stderr, "asks for count, ") || strings.Contains(got.stderr, "was not used") {
		t.Errorf("got %+v", got)
	}
	// No tool was called, so unused answers are not reported.
	if got := runCommand(t, "", strings.Fields("call --answer size=l "+shop+" buy nothing=1")...); got.errorCode(
		t) != "arguments" || strings.Contains(got.stderr, "was not used") {
		t.Errorf("got %+v", got)
	}
}

// Forms and URL elicitations can be accepted, declined and canceled as a whole on the command line.
func TestAnswerOfAWholeFormOrPage(t *testing.T) {
	s, shop := startShop(t)
	const empty, sure = `{"type":"object","properties":{}}`,
		`{"type":"object","properties":{"sure":{"type":"boolean","default":true}}}`
	for _, c := range []struct{ form, args, want string }{
		{empty, "--answer /accept", "accept {}"},
		{empty, "--answer /decline", "decline "},
		{sure, "--answer /accept", `accept {"sure":true}`},
		{sure, "--answer /accept --answer sure=no", `accept {"sure":false}`},
		{orderForm, "--answer /decline", "decline "},
		{orderForm, "--answer /cancel", "cancel "},
	} {
		s.form = c.form
		got := runCommand(t, "", append([]string{"call", shop, "order"}, strings.Fields(c.args)...)...)
		if got != (commandOutput{c.want + "\n", "", problem.ExitOK}) {
			t.Errorf("%s with %s: got %+v", c.form, c.args, got)
		}
	}
	s.form = orderForm
	if got := runCommand(t, "", "call", shop, "order", "--answer", "/accept"); got.errorCode(t) != "no_answer" ||
		!strings.Contains(got.stderr, "size, count") {
		t.Errorf("without the required fields: got %+v", got)
	}
	for action, want := range map[string]string{"/accept": "accept", "/decline": "decline", "/cancel": "cancel"} {
		got := runCommand(t, "", "call", shop, "visit", "--answer", action)
		if got.code != problem.ExitOK || got.stdout != want+"\n" ||
			strings.Contains(got.stderr, "https://pay.example.com/1") != (action == "/accept") {
			t.Errorf("a page with %s: got %+v", action, got)
		}
	}
	if got := runCommand(t, "", "call", shop, "visit", "--answer", "accept"); got.code != problem.ExitUsage ||
		!strings.Contains(got.stderr, "/accept, /decline or /cancel") {
		t.Errorf("got %+v", got)
	}
}

// --sample responds in place of a model.
func TestSamplingFromTheCommandLine(t *testing.T) {
	s, shop := startShop(t)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"text":   "Of electric sheep.\n",
		"json":   `{"content": {"type": "text", "text": "Of sheep."}, "model": "android"}`,
		"wrong":  `{"content": {"type": "text"}}`,
		"object": `{"sheep": 1}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		filepath.Join(dir, "text"): "Of electric sheep. mcpbridge\n", filepath.Join(dir, "json"): "Of sheep. android\n",
		"-":                          "Of stdin. mcpbridge\n",
		filepath.Join(dir, "object"): "{\"sheep\": 1} mcpbridge\n",
	} {
		if got := runCommand(t, "Of stdin.", "call", shop, "dream", "--sample",
			name); got != (commandOutput{want, "", problem.ExitOK}) {
			t.Errorf("--sample %s: got %+v", name, got)
		}
	}
	if s.caller.GetClientCapabilities().GetSampling() == nil {
		t.Error("sampling was not declared")
	}
	got := runCommand(t, "", "call", shop, "dream", "--sample", filepath.Join(dir, "wrong"), "--sample",
		filepath.Join(dir, "absent"))
	if got.code != problem.ExitUsage || !strings.Contains(got.stderr, "not a result of sampling") ||
		!strings.Contains(got.stderr, "absent") {
		t.Errorf("got %+v", got)
	}
	if got := runCommand(t, "", "call", shop, "paint", "--sample",
		filepath.Join(dir, "text")); !strings.Contains(got.stderr, "--sample was not used") {
		t.Errorf("got %+v", got)
	}
}
