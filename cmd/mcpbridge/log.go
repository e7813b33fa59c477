package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/term"
)

// logFormats are the forms a log can have. Auto is text on a terminal and JSON elsewhere.
var logFormats = []string{"auto", "text", "json"}

// newLog returns a logger to w that does not tell what is hidden, and whether it writes JSON.
func newLog(w io.Writer, c LogConfig, hidden secrets) (zerolog.Logger, bool) {
	level, err := zerolog.ParseLevel(strings.ToLower(c.Level))
	if err != nil {
		level = zerolog.InfoLevel // validate has refused it
	}
	if q, ok := w.(*queue); ok {
		direct, _ := newLog(q.to, c, hidden)
		q.log.Store(&direct)
	}
	asJSON := c.Format == "json" || c.Format != "text" && !isTerminal(w)
	color := isTerminal(w) && os.Getenv("NO_COLOR") == ""
	w = hidden.hide(w)
	if !asJSON {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: time.TimeOnly, NoColor: !color, FormatMessage: messageText}
	}
	return zerolog.New(w).Level(level).With().Timestamp().Logger(), asJSON
}

// messageText returns the message of a line, for people. It may be what a backend printed.
func messageText(message any) string {
	if message == nil {
		return ""
	}
	return harmless(fmt.Sprint(message))
}

func isTerminal(v any) bool {
	if q, ok := v.(*queue); ok {
		v = q.to
	}
	f, ok := v.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// isClientInput reports whether an MCP client seems to be at the other end of stdin: a pipe, a socket or a file. A
// terminal is a person, and /dev/null is a service manager or a container runtime.
func isClientInput(stdin io.Reader) bool {
	f, ok := stdin.(*os.File)
	if !ok {
		return stdin != nil
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice == 0
}
