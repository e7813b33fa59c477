package mcpbridge_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/sdkgen/go/mcpbridgetest"
)

// The programs of the README compile and run unchanged.
func TestProgramsOfTheReadmeAreRight(t *testing.T) {
	bridgetest.SkipIfShort(t)
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	overlay := map[string]map[string]string{"Replace": {}}
	var packages, names []string // of programs, and of their apps
	for i, block := range regexp.MustCompile("(?s)```go\n(.*?)```").FindAllSubmatch(readme, -1) {
		n := strconv.Itoa(i)
		text, name := string(block[1]), "main.go"
		var program string
		if !strings.Contains(text, "func main()") {
			// It is beside its program.
			name = "more.go"
			of := slices.Index(names,
				string(regexp.MustCompile(`package main // \S+ of (\w+)`).FindSubmatch(block[1])[1]))
			program = filepath.Join(here, filepath.Base(packages[of]))
		} else {
			program = filepath.Join(here, "readme"+n)
			names = append(names, string(regexp.MustCompile(`mcpbridge\.New\("(\w+)"`).FindSubmatch(block[1])[1]))
			packages = append(packages, "./readme"+n)
		}
		file := filepath.Join(dir, n+".go")
		if err := os.WriteFile(file, block[1], 0o600); err != nil {
			t.Fatal(err)
		}
		overlay["Replace"][filepath.Join(program, name)] = file
	}
	if len(packages) < 3 {
		t.Fatalf("the README has %d programs", len(packages))
	}
	text, _ := json.Marshal(overlay)
	name := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "bin") + string(filepath.Separator)
	if out, err := exec.Command("go", append([]string{"build", "-overlay", name, "-o", bin}, packages...)...).
		CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, p := range packages {
		// Wrong definitions are reported first.
		out, err := exec.Command(filepath.Join(dir, "bin", filepath.Base(p))).CombinedOutput()
		if !strings.Contains(string(out), "is a backend for mcpbridge") {
			t.Errorf("%s: %v: %s", p, err, out)
		}
	}
	bridge := bridgeBinary(t)
	run := func(name string) *mcpbridgetest.Client {
		i := slices.IndexFunc(names, func(n string) bool { return n == name })
		if i < 0 {
			t.Fatalf("the README has no program %s", name)
		}
		return mcpbridgetest.Start(t, bridge, filepath.Join(dir, "bin", filepath.Base(packages[i])))
	}

	// Choices with titles.
	c := run("comfort")
	var forms []string
	answers := []any{M{"seat": "w", "extras": []string{"wifi"}}, M{"value": "ic"}, M{"value": []string{"bz"}}}
	c.Answer = func(_ string, params json.RawMessage) any {
		var requests struct {
			RequestedSchema struct{ Properties json.RawMessage }
		}
		_ = json.Unmarshal(params, &requests)
		forms = append(forms, canonical(t, requests.RequestedSchema.Properties))
		return M{"action": "accept", "content": answers[len(forms)-1]}
	}
	if text := c.Call("comfort", nil); text != "w [wifi] ic [bz]" {
		t.Errorf("got %q", text)
	}
	for i, want := range []string{
		`{"seat":{"type":"string","oneOf":[{"const":"w","title":"Window"},{"const":"a","title":"Aisle"}]},
			"extras":{"type":"array","items":{"type":"string","enum":["lunch","wifi"]}}}`,
		`{"value":{"type":"string","oneOf":[{"const":"ic","title":"InterCity"},{"const":"rj","title":"Railjet"}]}}`,
		`{"value":{"type":"array","items":{"anyOf":[{"const":"bz","title":"Bolzano"},{"const":"in","title":"Innsbruck"}]}}}`,
	} {
		if i >= len(forms) || forms[i] != canonical(t, []byte(want)) {
			t.Errorf("got %s, want %s", forms, want)
		}
	}

	// Sampling with tools.
	c = run("advice")
	var requests []string
	c.Answer = func(_ string, params json.RawMessage) any {
		if requests = append(requests, string(params)); len(requests) > 1 {
			return M{"role": "assistant", "model": "m", "content": M{"type": "text", "text": "Rome"}}
		}
		wish := M{"type": "tool_use", "id": "1", "name": "degrees", "input": M{"city": "rome"}}
		return M{"role": "assistant", "model": "m", "stopReason": "toolUse", "content": []M{wish}}
	}
	if text := c.Call("advise", M{"question": "Where?"}); text != "Rome" {
		t.Errorf("got %q", text)
	}
	if len(requests) != 2 || !strings.Contains(requests[0], `"name":"degrees"`) ||
		!strings.Contains(requests[1], `"toolUseId":"1"`) || !strings.Contains(requests[1], `{"result":30}`) {
		t.Errorf("asked %s", requests)
	}

	// User interfaces.
	c = run("climate")
	for want, m := range map[string]mcpbridgetest.Message{
		`"_meta":{"ui":{"resourceUri":"ui://climate/chart"}}`: c.Request("tools/list", nil),
		`"mimeType":"text/html;profile=mcp-app"`: c.Request("resources/read", M{
			"uri": "ui://climate/chart",
		}),
	} {
		if !strings.Contains(string(m.Result), want) {
			t.Errorf("got %s, want %s", m.Result, want)
		}
	}

	// Lists that change.
	c = run("stations")
	for _, on := range []bool{true, false} {
		if text := c.Call("expert", M{"on": on}); text != "done" {
			t.Errorf("got %s", text)
		}
		c.AwaitNotification("notifications/tools/list_changed")
		if tools := string(c.Request("tools/list", nil).Result); strings.Contains(tools,
			`"name":"calibrate_all"`) != on {
			t.Errorf("%t: got %s", on, tools)
		}
	}
}
