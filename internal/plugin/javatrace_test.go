package plugin

import (
	"strings"
	"testing"
)

func TestJavaTraceNamesTheCauseAndTheLine(t *testing.T) {
	for want, lastError := range map[string]string{
		`NumberFormatException: For input string: "x" at Db.<clinit>(Db.java:4)`: `
			Exception in thread "main" java.lang.ExceptionInInitializerError
				at Main.main(Main.java:9)
			Caused by: NumberFormatException: For input string: "x"
				at java.base/java.lang.Integer.parseInt(Integer.java:668)
				at Db.<clinit>(Db.java:4)
				... 1 more`,
		`Exception in thread "main" dev.mcpbridge.DefinitionException: Tools.java:4: no`: `
			Exception in thread "main" dev.mcpbridge.DefinitionException: Tools.java:4: no`,
		"": `
			Error: Could not find or load main class Main
			Caused a stir`,
	} {
		var lines []string
		for line := range strings.Lines(strings.ReplaceAll(lastError, "\n\t\t\t", "\n")) {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
		if got := javaTrace.read(lines); got != want {
			t.Errorf("javaTrace(%q) = %q, want %q", lines, got, want)
		}
	}
}
