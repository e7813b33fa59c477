package plugin

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mcpbridge/mcpbridge/internal/child"
)

// stderrTail returns the end of the process's standard error.
func (r *process) stderrTail() []string {
	words, _ := r.stderr.Read()
	return words
}

// explain returns the error of a process that did not start: its command and directory, the cause, its output, and the
// fix.
func (p *Plugin) explain(r *process, err error, took time.Duration) error {
	var fix string
	how := r.ExitReason()
	printed, count := r.stdout.Read()
	why := err
	notFound, isNotFound := errors.AsType[*child.NotFoundError](err)
	silent, isUnresponsive := errors.AsType[*unresponsive](err)
	limitErr, isLimit := errors.AsType[*child.LimitError](err)
	switch refused := r.handshakeError(); {
	case isNotFound:
		fix = notFound.Fix
	case isLimit:
		fix = limitErr.Fix
	case r.OutOfMemory():
		why, fix = fmt.Errorf("it ended with %s", how), "raise its memory limit, or reduce its memory use"
	case refused != nil:
		why, fix = refused, "use a current mcpbridge SDK, or go-plugin; it must serve the TLS and use the directory "+
			"that its environment names"
	case isUnresponsive:
		fix = "it must serve TLS with the certificate of its handshake, and trust client certificates signed by " +
			"PLUGIN_CLIENT_CERT"
		switch {
		case errors.Is(err, errNotServing):
			fix = "raise the start timeout, or have it set its health status to SERVING"
		case status.Code(err) == codes.DeadlineExceeded:
			why = fmt.Errorf("it printed its handshake, and did not answer at %s within the start timeout of %v",
				silent.addr, p.o.StartTimeout)
			fix = "if it only needs longer, raise the start timeout; else have it answer while it gets ready"
		case silent.ended:
			why, fix = fmt.Errorf("it printed its handshake and then ended: %s", how), r.fix()
		}
	case child.ShortageOf(err) != nil:
		fix = child.ShortageOf(err).Fix
	case !r.Started():
		fix = "check that the program may be executed, and its #! line if it is a script"
	case took >= p.o.StartTimeout:
		why = fmt.Errorf("it printed %s within %v", noHandshake(count), p.o.StartTimeout)
		fix = "if it only needs longer, raise the start timeout; else " + ServeFix(r.Command)
	case how == "exit status 0":
		why = fmt.Errorf("it ended with exit status 0, and it printed %s", noHandshake(count))
		fix = "it ended without serving; " + ServeFix(r.Command)
	default:
		why, fix = fmt.Errorf("it ended with %s", how), r.fix()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%v\n  command: %s\n  directory: %s", why, child.Quote(r.Command), r.where())
	section(&b, "stdout", printed[max(0, len(printed)-5):])
	section(&b, "stderr", r.stderrTail())
	return &StartError{Backend: p.o.Name, Why: b.String(), Fix: fix, cause: err}
}

// serveFixes are the fixes for a program that does not serve, by its language. The first row whose pattern matches a
// word of the command is used.
var serveFixes = []struct {
	word *regexp.Regexp
	fix  string
}{
	{regexp.MustCompile(`(^|/)(python|pypy)[\d.]*$|\.py$`), "a Python script must end with app.run()"},
	{regexp.MustCompile(`(^|/)(node|tsx|deno|bun)$|\.[cm]?[jt]s$`), "a script for Node must end with await app.run()"},
	{regexp.MustCompile(`(^|/)(java|mvn|gradle)$|\.jar$`), "main of a Java program must call app.run(args)"},
	{regexp.MustCompile(`(^|/)go$|\.go$`), goServeFix},
}

const goServeFix = "main of a Go program must end with os.Exit(app.Run())"

// ServeFix returns the fix for a program that does not serve, given its command.
func ServeFix(command []string) string {
	for _, row := range serveFixes {
		if slices.ContainsFunc(command, row.word.MatchString) {
			return row.fix
		}
	}
	if exe, err := exec.LookPath(command[0]); err == nil {
		if _, err := buildinfo.ReadFile(exe); err == nil {
			return goServeFix
		}
	}
	return "it must call the SDK's run (Python app.run(), Node await app.run(), Go app.Run(), Java app.run(args)), " +
		"or print the handshake and flush it"
}

// fix returns the fix for a process that exited with an error.
func (r *process) fix() string {
	words := r.stderrTail()
	for _, trace := range []*traceFormat{&javaTrace, &nodeTrace, &goTrace, &pythonTrace} {
		if lastError := trace.read(words); lastError != "" {
			return "correct its last error: " + shorten(lastError)
		}
	}
	for i := len(words) - 1; i >= 0; i-- {
		if last := strings.TrimSpace(words[i]); last != "" {
			return "correct its last error: " + shorten(last)
		}
	}
	return "its standard error is empty; run it by itself in that directory, with " + CookieKey + "=" +
		CookieValue + " set"
}

// A StartError is the error of a backend that did not start. Its cause is go-plugin's error.
type StartError struct {
	// Backend is the backend's name.
	Backend string
	// Why is the cause, with the command, the directory, and the end of the output. It has several lines.
	Why string
	// Fix is how to correct it.
	Fix string

	cause error
}

func (e *StartError) Error() string {
	return fmt.Sprintf("backend %q did not start: %s\n  what to do: %s", e.Backend, e.Why, e.Fix)
}

// Unwrap returns go-plugin's error.
func (e *StartError) Unwrap() error { return e.cause }

func noHandshake(lines int) string {
	switch lines {
	case 0:
		return "nothing on standard output, and so no handshake"
	case 1:
		return "1 line on standard output, which is no handshake"
	}
	return fmt.Sprintf("%d lines on standard output, but no handshake", lines)
}

func section(b *strings.Builder, name string, text []string) {
	if len(text) == 0 {
		return
	}
	fmt.Fprintf(b, "\n  %s:", name)
	for _, line := range text {
		fmt.Fprintf(b, "\n    %s", shorten(line))
	}
}

func shorten(s string) string {
	const most = 300
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}

// where returns the process's working directory.
func (r *process) where() string {
	if dir, err := filepath.Abs(r.o.Dir); err == nil {
		return dir
	}
	return r.o.Dir
}
