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
	program := filepath.Base(command[0])
	runs := strings.TrimRight(strings.TrimSuffix(program, ".exe"), "0123456789.") // python3.12
	name := program
	for i := 1; i < len(command); i++ {
		a := command[i]
		if slices.Contains(valueFlags[runs], a) {
			i++
			continue
		}
		if strings.HasPrefix(a, "-") {
			continue
		}
		if class := mainClass.FindStringSubmatch(a); runs == "java" && class != nil {
			return class[1]
		}
		if ext := filepath.Ext(a); ext != "" && len(ext) < len(a) {
			name = filepath.Base(a)
		}
		break
	}
	return strings.TrimSuffix(name, filepath.Ext(name))
}
