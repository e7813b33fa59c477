package terminal

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
)

// A Prompter prompts the user at a terminal.
type Prompter struct {
	in    io.Reader // nil: there is no terminal
	out   io.Writer
	lines chan string // what the user types; nil until the first ReadLine
}

// NewPrompter returns a prompter that reads from in and writes to out, if both are terminals.
func NewPrompter(in io.Reader, out io.Writer) *Prompter {
	if !IsTerminal(in) || !IsTerminal(out) {
		in = nil
	}
	return &Prompter{in: in, out: out}
}

// Interactive reports whether there is a terminal.
func (p *Prompter) Interactive() bool { return p.in != nil }

// Printf writes to the terminal. If the terminal was closed, the next ReadLine fails.
func (p *Prompter) Printf(format string, args ...any) { fmt.Fprintf(p.out, format, args...) }

// ReadLine shows a prompt and returns the line that the user types, without white space around it. It returns io.EOF if
// the terminal was closed, and the cause of ctx when that ends.
func (p *Prompter) ReadLine(ctx context.Context, prompt string) (string, error) {
	p.Printf("%s", prompt)
	if p.lines == nil {
		p.lines = make(chan string)
		// A read of a terminal cannot be interrupted on every system, so this goroutine waits for the next line until
		// the process ends.
		go func() {
			defer close(p.lines)
			for in := bufio.NewScanner(p.in); in.Scan(); {
				p.lines <- in.Text()
			}
		}()
	}
	select {
	case line, ok := <-p.lines:
		if !ok {
			return "", io.EOF
		}
		return strings.TrimSpace(line), nil
	case <-ctx.Done():
		p.Printf("\n")
		return "", context.Cause(ctx)
	}
}
