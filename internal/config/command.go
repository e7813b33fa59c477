package config

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// backendName matches the valid names of a backend: a name is part of URLs and of the names of merged tools.
var backendName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,32}$`)

// IsBackendName reports whether a name is valid for a backend.
func IsBackendName(name string) bool { return backendName.MatchString(name) }

// valueFlags are the flags of interpreters that are followed by a value, which is not the script.
var valueFlags = map[string][]string{
	"java": {
		"-cp", "-classpath", "--class-path", "-p", "--module-path", "--upgrade-module-path", "--add-modules",
		"--add-reads", "--add-exports", "--add-opens", "--limit-modules", "--patch-module",
		"--enable-native-access", "--source",
	},
	"python": {"-W", "-X", "--check-hash-based-pycs"},
	"node":   {"-r", "--require", "--import", "--loader", "--experimental-loader", "-C", "--conditions", "--env-file"},
}

// mainClass matches the name of a Java class, with its module or without.
var mainClass = regexp.MustCompile(`^(?:[\w.]+/)?(?:\w+\.)*(\p{Lu}\w*)$`)

// programName returns the name of the script or class that a command runs, or else that of its program.
func programName(command []string) string {
	name := filepath.Base(command[0])
	script := Script(command)
	if class := mainClass.FindStringSubmatch(script); unversionedName(command) == "java" && class != nil {
		return class[1]
	}
	if ext := filepath.Ext(script); ext != "" && len(ext) < len(script) {
		name = filepath.Base(script)
	}
	return strings.TrimSuffix(name, filepath.Ext(name))
}

// unversionedName returns the name of the program of a command, without its version.
func unversionedName(command []string) string {
	return strings.TrimRight(strings.TrimSuffix(filepath.Base(command[0]), ".exe"), "0123456789.") // python3.12
}

// IsInterpreter reports whether the program of a command is an interpreter.
func IsInterpreter(command []string) bool { return valueFlags[unversionedName(command)] != nil }

// IsScript reports whether the extension of a file is that of a script, which needs an interpreter.
func IsScript(file string) bool { return interpreters[filepath.Ext(file)] != nil }

// Script returns the script that an interpreter runs, or "": the first argument that is neither a flag nor its value.
func Script(command []string) string {
	for i := 1; i < len(command); i++ {
		switch {
		case slices.Contains(valueFlags[unversionedName(command)], command[i]):
			i++
		case !strings.HasPrefix(command[i], "-"):
			return command[i]
		}
	}
	return ""
}

// BackendName returns a name for the backend that a command starts: that of its script or program.
func BackendName(command []string) string {
	name := strings.Trim(notInName.ReplaceAllString(programName(command), "-"), "-")
	if name == "" {
		return "backend"
	}
	return name[:min(len(name), 32)]
}

var notInName = regexp.MustCompile(`[^a-zA-Z0-9_-]+`)

// interpreters are the commands that run scripts, by file extension.
var interpreters = map[string][]string{
	".py": {"python3"}, ".js": {"node"}, ".mjs": {"node"}, ".ts": {"node"}, ".jar": {"java", "-jar"},
}

// SuggestCommand returns the command that the user probably meant: with an interpreter for a script, or npx for a
// package.
func SuggestCommand(args []string) []string {
	if words := strings.Fields(args[0]); len(words) > 1 { // a command in quotes
		return slices.Concat(words, args[1:])
	}
	if strings.HasPrefix(args[0], "@") && strings.Contains(args[0], "/") {
		return slices.Concat([]string{"npx", "-y"}, args)
	}
	return slices.Concat(interpreters[filepath.Ext(args[0])], args)
}
