package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/rs/zerolog"
)

// The exit codes of mcpbridge.
const (
	exitOK          = 0
	exitUnexpected  = 1
	exitUsage       = 1   // the command line is wrong: what is to be done, to what, or with which arguments
	exitAuth        = 3   // the server wants to know who calls
	exitUnreachable = 4   // nothing answers there
	exitTool        = 5   // the tool failed, or there is none of that name
	exitConfig      = 6   // the configuration is wrong, be it in a file, in the environment or in the flags that stand for it
	exitPlugin      = 7   // the backend did not start
	exitInterrupted = 130 // a call was cancelled, or a second signal ended the process before it had drained
)

// A problem is an error for the person who started the command: what went wrong, where, why, and how to mend it.
type problem struct {
	// Exit is the code to exit with.
	Exit int
	// Code names the kind of problem, for programs.
	Code string
	// What went wrong, in one line.
	What string
	// Where says which flag, variable or line of a file it comes from, if any.
	Where string
	// Why says what is known of the reason, if anything. It may have several lines.
	Why string
	// Fix says what to do about it.
	Fix string
	// Cause is the error that the problem comes from. It may be nil.
	Cause error
}

// Error implements error.
func (p *problem) Error() string { return p.What }

// Unwrap returns what the problem comes from.
func (p *problem) Unwrap() error { return p.Cause }

// asProblem returns err as a problem. What is not one is unexpected.
func asProblem(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	return &problem{Exit: exitUnexpected, Code: "unexpected", What: err.Error(), Cause: err}
}

// usage returns a problem with what was asked for.
func usage(where, fix, format string, args ...any) *problem {
	p := misconfigured(where, fix, format, args...)
	p.Exit = exitUsage
	return p
}

// misconfigured returns a problem with how things are configured.
func misconfigured(where, fix, format string, args ...any) *problem {
	return &problem{Exit: exitConfig, Code: "usage", What: fmt.Sprintf(format, args...), Where: where, Fix: fix}
}

// tell writes the problem: as text for people, or as a line of the log for programs. Parts of it may be what a server said.
func (p *problem) tell(w io.Writer, log zerolog.Logger, asJSON bool) {
	p = &problem{Exit: p.Exit, Code: p.Code, What: harmless(p.What), Where: harmless(p.Where), Why: harmless(p.Why), Fix: harmless(p.Fix)}
	if asJSON {
		e := zerolog.Dict().Str("code", p.Code).Str("message", p.What)
		for _, m := range []struct{ name, text string }{{"where", p.Where}, {"cause", p.Why}, {"hint", p.Fix}} {
			if m.text != "" {
				e = e.Str(m.name, m.text)
			}
		}
		log.WithLevel(zerolog.ErrorLevel).Dict("error", e).Int("exit", p.Exit).Msg(p.What)
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "mcpbridge: %s\n", p.What)
	for _, m := range []struct{ name, text string }{{"where: ", p.Where}, {"why:   ", p.Why}, {"fix:   ", p.Fix}} {
		if m.text != "" {
			text := strings.TrimRight(m.text, "\n")
			fmt.Fprintf(&b, "  %s%s\n", m.name, strings.ReplaceAll(text, "\n", "\n         "))
		}
	}
	io.WriteString(w, b.String()) //nolint:errcheck // when stderr is gone there is nobody left to tell
}
