package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

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
	if asJSON {
		w = hidden.hide(harmlessJSON{w})
	} else {
		w = zerolog.ConsoleWriter{
			Out: hidden.hide(w), TimeFormat: time.TimeOnly, NoColor: !color, FormatMessage: messageText, FormatFieldValue: fieldText,
		}
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

// fieldText returns the value of a field of a line, for people. It is text, or JSON text as a client or a backend wrote it.
func fieldText(value any) string { return harmless(fmt.Sprintf("%s", value)) }

// A harmlessJSON writes to w lines of JSON that say the same, and show a terminal nothing harmful.
type harmlessJSON struct{ w io.Writer }

func (h harmlessJSON) Write(p []byte) (int, error) {
	if bytes.IndexFunc(p, isHarmful) < 0 && utf8.Valid(p) {
		return h.w.Write(p)
	}
	if _, err := io.WriteString(h.w, harmless(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
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
