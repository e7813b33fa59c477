package config

import (
	"strings"
	"testing"
)

func TestBackendNameComesFromItsProgram(t *testing.T) {
	for command, want := range map[string]string{
		"./weather":        "weather",
		"python3 tools.py": "tools",
		"python3.12 -X dev -u src/tools.py --port 1":    "tools",
		"node --import tsx src/tools.ts":                "tools",
		"java -jar target/library-tools.jar":            "library-tools",
		"java -cp lib/a.jar:lib/b.jar Main":             "Main",
		"/usr/bin/java -Xmx1g -cp a:b com.example.Main": "Main",
		"java -p mods -m tools/com.example.Main x.txt":  "Main",
		"java.exe --class-path=a.jar Tools.java":        "Tools",
		"npx mcp-server":                                "npx",
	} {
		if got := programName(strings.Fields(command)); got != want {
			t.Errorf("%s is named %q, want %q", command, got, want)
		}
	}
}
