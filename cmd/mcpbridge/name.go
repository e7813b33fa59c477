package main

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// valueFlags are the flags of programs that run other programs after which a value comes that names nothing.
var valueFlags = map[string][]string{
	"java": {
		"-cp", "-classpath", "--class-path", "-p", "--module-path", "--upgrade-module-path", "--add-modules", "--add-reads",
		"--add-exports", "--add-opens", "--limit-modules", "--patch-module", "--enable-native-access", "--source",
	},
	"python": {"-W", "-X", "--check-hash-based-pycs"},
	"node":   {"-r", "--require", "--import", "--loader", "--experimental-loader", "-C", "--conditions", "--env-file"},
}

// mainClass is the name of a Java class, or of one in a module.
var mainClass = regexp.MustCompile(`^(?:[\w.]+/)?(?:\w+\.)*(\p{Lu}\w*)$`)

// programName returns the name of the script or program that a command runs: that of the program itself if it runs no other.
func programName(command []string) string {
	name := filepath.Base(command[0])
	script := scriptOf(command)
	if class := mainClass.FindStringSubmatch(script); runs(command) == "java" && class != nil {
		return class[1]
	}
	if ext := filepath.Ext(script); ext != "" && len(ext) < len(script) {
		name = filepath.Base(script)
	}
	return strings.TrimSuffix(name, filepath.Ext(name))
}

// runs returns the name of the program of a command, without its version.
func runs(command []string) string {
	return strings.TrimRight(strings.TrimSuffix(filepath.Base(command[0]), ".exe"), "0123456789.") // python3.12
}

// scriptOf returns the first argument of a command that is no flag and no value of one, which is what an interpreter runs, or "".
func scriptOf(command []string) string {
	for i := 1; i < len(command); i++ {
		switch {
		case slices.Contains(valueFlags[runs(command)], command[i]):
			i++
		case !strings.HasPrefix(command[i], "-"):
			return command[i]
		}
	}
	return ""
}
