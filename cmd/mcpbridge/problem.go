package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rs/zerolog"
)

// The exit codes of mcpbridge.
const (
	exitOK          = 0
	exitUnexpected  = 1
	exitUsage       = 1   // the command line is wrong: what is to be done, to what, or with which arguments
	exitFindings    = 2   // verify found something wrong
	exitAuth        = 3   // the server wants to know who calls
	exitUnreachable = 4   // nothing answers there
	exitTool        = 5   // the tool failed, or there is none of that name
	exitConfig      = 6   // the configuration is wrong, be it in a file, in the environment or in the flags that stand for it
	exitPlugin      = 7   // the backend did not start
	exitCrashed     = 8   // the backend was lost during the call
	exitTimeout     = 9   // there was not enough time for the call
	exitInterrupted = 130 // a call was cancelled, or a second signal ended the process before it had drained
)

// A problem is an error for the user of the command: what failed, where, why, and how to fix it.
type problem struct {
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
	// Trace is the stack trace of the exception that caused it, if any, and Stderr the last lines that the backend printed.
	// Only the user of the command sees them.
	Trace, Stderr string
	// Cause is the error that the problem wraps. It may be nil.
	Cause error
	// Others are further problems. They have none themselves.
	Others []*problem
}

// Error implements error.
func (p *problem) Error() string { return p.What }

// Unwrap returns Cause.
func (p *problem) Unwrap() error { return p.Cause }

// allOf returns errors as one, without those that are nil: nil if there are none, and otherwise the first as a problem with
// the others.
func allOf(errs ...error) error {
	var all []*problem
	for _, err := range errs {
		if err != nil {
			p := asProblem(err)
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

// asProblem returns err as a problem. An error that does not wrap one is unexpected.
func asProblem(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	return &problem{Exit: exitUnexpected, Code: "unexpected", What: err.Error(), Cause: err}
}

// usage returns a problem with the command line.
func usage(where, fix, format string, args ...any) *problem {
	p := misconfigured(where, fix, format, args...)
	p.Exit = exitUsage
	return p
}

// misconfigured returns a problem with the configuration.
func misconfigured(where, fix, format string, args ...any) *problem {
	return &problem{Exit: exitConfig, Code: "usage", What: fmt.Sprintf(format, args...), Where: where, Fix: fix}
}

// A section is a part of a problem, with the name that it has in JSON and in text.
type section struct{ member, label, text string }

// sections returns the parts of a problem that there are, in their order. Parts of them may be what a server sent.
func (p *problem) sections() []section {
	all := []section{
		{"where", "where: ", p.Where},
		{"cause", "why:   ", p.Why},
		{"trace", "trace: ", p.Trace},
		{"stderr", "stderr: ", p.Stderr},
		{"hint", "fix:   ", p.Fix},
	}
	for i := range all {
		all[i].text = strings.TrimRight(harmless(all[i].text), "\n")
	}
	return slices.DeleteFunc(all, func(s section) bool { return s.text == "" })
}

// dict returns the problem as an object of the log.
func (p *problem) dict() *zerolog.Event {
	e := zerolog.Dict().Str("code", p.Code).Str("message", harmless(p.What))
	for _, s := range p.sections() {
		e = e.Str(s.member, s.text)
	}
	return e
}

// tell writes the problem and its others: as text for people to w, or as JSON for programs to log.
func (p *problem) tell(w io.Writer, log zerolog.Logger, asJSON bool) {
	if asJSON {
		e := p.dict()
		if len(p.Others) > 0 {
			others := zerolog.Arr()
			for _, other := range p.Others {
				others.Dict(other.dict())
			}
			e = e.Array("others", others)
		}
		log.WithLevel(zerolog.ErrorLevel).Dict("error", e).Int("exit", p.Exit).Msg(harmless(p.What))
		return
	}
	var b strings.Builder
	for _, p := range append([]*problem{p}, p.Others...) {
		fmt.Fprintf(&b, "mcpbridge: %s\n", harmless(p.What))
		for _, s := range p.sections() {
			fmt.Fprintf(&b, "  %s%s\n", s.label, strings.ReplaceAll(s.text, "\n", "\n         "))
		}
	}
	io.WriteString(w, b.String()) //nolint:errcheck // when stderr is gone there is nobody left to tell
}

// cause returns the innermost error of err.
func cause(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
