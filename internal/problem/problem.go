// Package problem defines the errors that the user of the command sees, with their exit codes and fixes.
package problem

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/internal/terminal"
)

// The exit codes of mcpbridge.
const (
	ExitOK          = 0
	ExitUnexpected  = 1
	ExitUsage       = 1 // the command line is wrong
	ExitFindings    = 2 // verify found something wrong
	ExitAuth        = 3 // the server requires authentication
	ExitUnreachable = 4 // no server responds
	ExitTool        = 5 // the tool failed, or there is none of that name
	// the configuration is wrong, in a file, in the environment or in the flags for it
	ExitConfig      = 6
	ExitPlugin      = 7   // the backend did not start
	ExitCrashed     = 8   // the backend was lost during the call
	ExitTimeout     = 9   // the call timed out
	ExitInterrupted = 130 // a call was cancelled, or a second signal ended the process before it had drained
)

// An Error is an error for the user of the command: what failed, where, why, and how to fix it.
type Error struct {
	// Exit is the code to exit with.
	Exit int
	// Code names the kind of problem, for programs.
	Code string
	// What is the message, in one line.
	What string
	// Where is the flag, variable or line of a file that caused it, if any.
	Where string
	// Why is the reason, if it is known. It may have several lines.
	Why string
	// Fix is what to do about it.
	Fix string
	// Trace is the stack trace of the exception that caused it, if any, and Stderr the last lines that the backend
	// printed. Only the user of the command sees them.
	Trace, Stderr string
	// Cause is the error that the problem wraps. It may be nil.
	Cause error
	// Others are further problems. They have none themselves.
	Others []*Error
}

// Error implements error.
func (p *Error) Error() string { return p.What }

// Unwrap returns Cause.
func (p *Error) Unwrap() error { return p.Cause }

// Join returns the first error that is not nil as a problem with the others. If all are nil, it returns nil.
func Join(errs ...error) error {
	var all []*Error
	for _, err := range errs {
		if err != nil {
			p := Of(err)
			all = append(append(all, p), p.Others...)
		}
	}
	if len(all) == 0 {
		return nil
	}
	first := *all[0]
	first.Others = all[1:]
	return &first
}

// Of returns err as a problem. An error that does not wrap one is unexpected.
func Of(err error) *Error {
	if p, ok := errors.AsType[*Error](err); ok {
		return p
	}
	return &Error{Exit: ExitUnexpected, Code: "unexpected", What: err.Error(), Cause: err}
}

// Usage returns a problem with the command line.
func Usage(where, fix, format string, args ...any) *Error {
	p := Config(where, fix, format, args...)
	p.Exit = ExitUsage
	return p
}

// Config returns a problem with the configuration.
func Config(where, fix, format string, args ...any) *Error {
	return &Error{Exit: ExitConfig, Code: "usage", What: fmt.Sprintf(format, args...), Where: where, Fix: fix}
}

// A section is a part of a problem, with the name that it has in JSON and in text.
type section struct{ member, label, text string }

// sections returns the parts of a problem that are not empty, in order. They are escaped, because they may contain text
// of a server.
func (p *Error) sections() []section {
	all := []section{
		{"where", "where: ", p.Where},
		{"cause", "why:   ", p.Why},
		{"trace", "trace: ", p.Trace},
		{"stderr", "stderr: ", p.Stderr},
		{"hint", "fix:   ", p.Fix},
	}
	for i := range all {
		all[i].text = strings.TrimRight(terminal.Escape(all[i].text), "\n")
	}
	return slices.DeleteFunc(all, func(s section) bool { return s.text == "" })
}

// dict returns the problem as an object of the log.
func (p *Error) dict() *zerolog.Event {
	e := zerolog.Dict().Str("code", p.Code).Str("message", terminal.Escape(p.What))
	for _, s := range p.sections() {
		e = e.Str(s.member, s.text)
	}
	return e
}

// Write writes the problem and its others: as text for people to w, or as JSON for programs to log.
func (p *Error) Write(w io.Writer, log zerolog.Logger, asJSON bool) {
	if asJSON {
		e := p.dict()
		if len(p.Others) > 0 {
			others := zerolog.Arr()
			for _, other := range p.Others {
				others.Dict(other.dict())
			}
			e = e.Array("others", others)
		}
		log.WithLevel(zerolog.ErrorLevel).Dict("error", e).Int("exit", p.Exit).Msg(terminal.Escape(p.What))
		return
	}
	var b strings.Builder
	for _, p := range append([]*Error{p}, p.Others...) {
		fmt.Fprintf(&b, "mcpbridge: %s\n", terminal.Escape(p.What))
		for _, s := range p.sections() {
			fmt.Fprintf(&b, "  %s%s\n", s.label, strings.ReplaceAll(s.text, "\n", "\n         "))
		}
	}
	io.WriteString(w, b.String()) //nolint:errcheck // if stderr is closed, nothing can be reported
}

// Cause returns the innermost error of err.
func Cause(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
