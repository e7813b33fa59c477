package plugin

import (
	"strings"
	"testing"
)

func TestTracesNameTheCauseAndTheLine(t *testing.T) {
	for _, c := range []struct {
		trace       func([]string) string
		lines, want string
	}{
		{goTrace.read, `
			before
			panic: open /nowhere: no such file or directory

			goroutine 1 [running]:
			main.read(...)
				/src/tools/main.go:14
			main.init()
				/src/tools/main.go:9 +0x6e
			exit status 2`, `panic: open /nowhere: no such file or directory at /src/tools/main.go:14`},
		{goTrace.read, `
			panic: assignment to entry in nil map

			goroutine 1 [running]:
			runtime.mapassign(...)
				/usr/local/go/src/runtime/map.go:1
			example.com/lib.Set(...)
				/root/go/pkg/mod/example.com/lib@v1.0.0/lib.go:3 +0x1
			main.main()
				/src/tools/main.go:16 +0x2e`, `panic: assignment to entry in nil map at /src/tools/main.go:16`},
		{
			goTrace.read, `fatal error: all goroutines are asleep - deadlock!`,
			`fatal error: all goroutines are asleep - deadlock!`,
		},
		{goTrace.read, `do not panic: it is well`, ``},
		{pythonTrace.read, `
			Traceback (most recent call last):
			  File "/src/tools.py", line 5, in <module>
			    config = json.load(open("x"))
			  File "/usr/lib/python3.11/json/__init__.py", line 293, in load
			    return loads(fp.read(),
			ValueError: no

			`, `ValueError: no at /src/tools.py:5`},
		{pythonTrace.read, `
			  File "/src/tools.py", line 5
			    def add(a: int) -> int
			                          ^
			SyntaxError: expected ':'`, `SyntaxError: expected ':' at /src/tools.py:5`},
		{pythonTrace.read, `
			Traceback (most recent call last):
			  File "/usr/lib/python3.11/runpy.py", line 1, in <module>
			ValueError: no`, `ValueError: no at /usr/lib/python3.11/runpy.py:1`},
		{pythonTrace.read, `tools.py:5: tool "add": parameter "a" has no type hint; write a: str`, ``},
		{pythonTrace.read, `
			  File "/src/tools.py", line 5
			printed before
			no luck`, ``},
		{pythonTrace.read, ``, ``},
	} {
		var lines []string
		for line := range strings.Lines(strings.ReplaceAll(c.lines, "\n\t\t\t", "\n")) {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
		if got := c.trace(lines); got != c.want {
			t.Errorf("of %q: got %q, want %q", lines, got, c.want)
		}
	}
}
