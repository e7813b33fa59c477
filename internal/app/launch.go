package app

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/mcpbridge/mcpbridge/internal/config"
	"github.com/mcpbridge/mcpbridge/internal/plugin"
	"github.com/mcpbridge/mcpbridge/internal/problem"
)

// checkCommand returns the problem with a command that cannot be launched, including the directories that were
// searched: a program that a desktop application launches has a shorter PATH than a shell.
func checkCommand(l *config.Launch, where string) error {
	fail := func(why, fix, format string, args ...any) error {
		return &problem.Error{
			Exit: problem.ExitPlugin, Code: "command",
			What: fmt.Sprintf(format, args...), Where: where, Why: why, Fix: fix,
		}
	}
	if l.Dir != "" {
		if info, err := os.Stat(l.Dir); err != nil || !info.IsDir() {
			return fail("", "give a directory that exists",
				"the backend cannot start in %s: there is no such directory", l.Dir)
		}
	}
	if script := config.Script(l.Command); config.IsInterpreter(l.Command) && config.IsScript(script) {
		file := script
		if !filepath.IsAbs(file) {
			file = filepath.Join(l.Dir, file)
		}
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			dir, _ := filepath.Abs(filepath.Dir(file)) // for display only
			return fail("searched in "+dir, scriptFix(file), "there is no file %s", script)
		}
	}
	name := l.Command[0]
	if !strings.ContainsRune(name, filepath.Separator) {
		_, err := exec.LookPath(name)
		if err == nil {
			return nil
		}
		return fail("PATH is "+os.Getenv("PATH"), notFoundFix(name), "command %q is not found", name)
	}
	file := name
	if !filepath.IsAbs(file) {
		file = filepath.Join(l.Dir, file)
	}
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		dir, _ := filepath.Abs(l.Dir) // for display only
		fix := "check the path; --dir sets the backend's working directory"
		if strings.Contains(name, " ") {
			fix = splitWordsFix
		}
		return fail("searched in "+dir, fix, "command %q is not found", name)
	case err != nil:
		return fail(err.Error(), "check the path", "command %q cannot be used", name)
	case info.IsDir():
		return fail("", "name the program in it", "command %q is a directory", name)
	case info.Mode()&0o111 == 0:
		return fail("the file's mode is "+info.Mode().String(),
			"name its interpreter: "+strings.Join(config.SuggestCommand(l.Command), " ")+"; or run `chmod +x "+name+"`",
			"command %q cannot be executed", name)
	case filepath.Ext(name) != ".jar" && config.IsScript(name) && !hasInterpreter(file):
		return fail("it is a script, and does not begin with #!",
			"name its interpreter: "+strings.Join(config.SuggestCommand(l.Command), " "),
			"command %q cannot be executed", name)
	}
	return nil
}

// hasInterpreter reports whether a script begins with #!.
func hasInterpreter(file string) bool {
	f, err := os.Open(file)
	if err != nil {
		return true // starting it reports the error
	}
	defer f.Close()
	var begin [2]byte
	_, err = io.ReadFull(f, begin[:])
	return err != nil || string(begin[:]) == "#!"
}

// scriptFix returns the fix for a script that does not exist.
func scriptFix(file string) string {
	var names []string
	entries, _ := os.ReadDir(filepath.Dir(file)) // without it, nothing is similar
	for _, e := range entries {
		if filepath.Ext(e.Name()) == filepath.Ext(file) {
			names = append(names, e.Name())
		}
	}
	if guess := problem.Nearest(filepath.Base(file), names); guess != "" {
		return "did you mean " + guess + "?"
	}
	return "check the path; --dir sets the backend's working directory"
}

// notFoundFix returns the fix for a program that is not in PATH.
func notFoundFix(name string) string {
	if name == "python" {
		if _, err := exec.LookPath("python3"); err == nil {
			return "write python3"
		}
	}
	if _, err := os.Stat(name); err == nil {
		if filepath.Ext(name) == ".py" {
			return "write python3 " + name
		}
		return "write ./" + name
	}
	if strings.Contains(name, " ") {
		return splitWordsFix
	}
	return "install it, or write its whole path"
}

// fixOutput is the fix for a program that has printed its error.
const fixOutput = "correct the error that it printed last on standard error"

// splitWordsFix is the fix for a whole command line in place of a program's name.
const splitWordsFix = "write the program and each argument as a separate word: command: [python3, tools.py], or in " +
	"the JSON of other\nclients \"command\": \"python3\", \"args\": [\"tools.py\"]"

// startProblem returns the problem of a backend that did not start or cannot be reached.
func (b *backend) startProblem(err error) error {
	if p, ok := errors.AsType[*problem.Error](err); ok {
		return p
	}
	p := &problem.Error{
		Exit: problem.ExitPlugin, Code: "plugin_start", Where: b.cfg.Where(b.configKey), Why: errText(err), Cause: err,
		What: fmt.Sprintf("backend %q did not start: %s", b.Name, b.Text()),
	}
	launch := b.Command()
	if launch == nil {
		p.What = fmt.Sprintf("backend %q does not answer at %s", b.Name, b.Text())
		p.Fix = "start the backend, or correct its address"
		return p
	}
	if why, fix, ok := strings.Cut(p.Why, "\n  what to do: "); ok {
		p.Why, p.Fix = why, fix
	}
	if start, ok := errors.AsType[*plugin.StartError](err); ok {
		p.Why, p.Fix = start.Why, start.Fix
		if strings.Contains(p.Why, "no handshake within") {
			p.Fix += "\nif it is an MCP server: " + b.mcpServerFix()
		}
	}
	if strings.Contains(p.Why, "was answered within") {
		p.Fix = "check that it is a server on stdin and stdout; if it only starts slowly, allow it more time: " +
			"--start-timeout, or startTimeout in the file"
	}
	if m := missingModule.FindStringSubmatch(p.Why); m != nil {
		p.Fix = missingModuleFix(launch, m[1])
	}
	if lastError, ok := strings.CutPrefix(p.Fix, "correct its last error: "); ok &&
		strings.HasSuffix(p.Why, lastError) {
		p.Fix = fixOutput // which is right above
	}
	if p.Fix == "" { // it is an MCP server that has ended
		p.Fix = "run the command by itself: a server on stdin and stdout waits there for a client"
		switch {
		case strings.Contains(p.Why, "\n  it ended: exit status 0"):
			p.Fix += ";\nas a backend of mcpbridge, " + plugin.ServeFix(launch.Command)
		case strings.Contains(p.Why, "\n  stderr:\n"):
			p.Fix = fixOutput
			if b.Detect { // it was started without the certificate that backends get
				p.Fix += ";\nif it is a backend of mcpbridge: add --plugin"
			}
		}
	}
	return p
}

// mcpServerFix returns the fix for an MCP server that is configured as a plugin.
func (b *backend) mcpServerFix() string {
	if b.cfg.HasFile() {
		return "write mcp instead of launch"
	}
	return "add --mcp"
}

// missingModule matches the error of Python for a module that is not installed.
var missingModule = regexp.MustCompile(`ModuleNotFoundError: No module named '([^']+)'`)

// missingModuleFix returns the fix for a Python script that lacks a module, which may be the SDK.
func missingModuleFix(l *config.Launch, module string) string {
	const sdk = "mcpbridge"
	isSDK := module == sdk || strings.HasPrefix(module, sdk+".")
	if !isSDK && problem.Nearest(module, []string{sdk}) != "" {
		return "correct the import: the SDK is called " + sdk
	}
	rest := strings.Join(l.Command[1:], " ")
	venv := filepath.Join(".venv", "bin", "python")
	exists := func(file string) bool {
		_, err := os.Stat(file)
		return err == nil
	}
	if l.Command[0] != venv && exists(filepath.Join(l.Dir, venv)) {
		return "use the interpreter of the virtual environment here: -- " + venv + " " + rest
	}
	if !isSDK {
		return "install the module for the interpreter that runs the command: " +
			l.Command[0] + " -m pip install " + module
	}
	if program, err := os.Executable(); err == nil {
		sdkPython := filepath.Join(filepath.Dir(filepath.Dir(program)), venv)
		if exists(sdkPython) && l.Command[0] != sdkPython {
			return "use the interpreter that has the SDK: -- " + sdkPython + " " + rest
		}
	}
	return l.Command[0] + " does not have the mcpbridge SDK; " +
		"`make setup build` in the repository of mcpbridge installs it for\n" +
		venv + " there: name that interpreter by its whole path"
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
