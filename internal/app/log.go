package app

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/internal/config"
	"github.com/mcpbridge/mcpbridge/internal/terminal"
)

// NewLog returns a logger that writes to w without the hidden values, and whether it writes JSON.
func NewLog(w io.Writer, c config.Log, hidden config.Secrets) (zerolog.Logger, bool) {
	if q, ok := w.(*terminal.Queue); ok {
		direct, _ := NewLog(q.Direct(), c, hidden)
		q.ReportTo(direct)
	}
	out, asJSON := LogWriter(w, c, hidden)
	return zerolog.New(out).Level(c.MinLevel()).With().Timestamp().Logger(), asJSON
}

// LogWriter returns a writer of zerolog's records to w in the format of c, and whether that is JSON.
func LogWriter(w io.Writer, c config.Log, hidden config.Secrets) (io.Writer, bool) {
	if c.Format == "json" || c.Format != "text" && !terminal.IsTerminal(w) {
		return hidden.Hide(escapedJSON{w}), true
	}
	color := terminal.IsTerminal(w) && os.Getenv("NO_COLOR") == ""
	return zerolog.ConsoleWriter{
		Out: hidden.Hide(w), TimeFormat: time.TimeOnly, NoColor: !color, FormatMessage: messageText,
		FormatFieldValue: fieldText,
		FormatPrepare:    foldRecord, FormatExtra: writeTrace, FieldsExclude: []string{traceField},
	}, false
}

// traceField is where foldRecord leaves a trace for writeTrace.
const traceField = "record.trace"

// foldRecord removes members of a backend's own record that repeat the rest of the line. It leaves the trace to
// writeTrace.
func foldRecord(line map[string]any) error {
	record, ok := line["record"].(map[string]any)
	if !ok {
		return nil
	}
	if trace := Trace(record); trace != "" {
		line[traceField] = trace
	}
	for _, name := range slices.Concat(traceMembers, []string{"level", "@level", "message", "@message", "msg"}) {
		delete(record, name)
	}
	if len(record) == 0 {
		delete(line, "record")
	}
	return nil
}

// writeTrace writes the trace of a record below its line.
func writeTrace(line map[string]any, b *bytes.Buffer) error {
	if trace, ok := line[traceField].(string); ok {
		b.WriteString("\n    " + strings.ReplaceAll(terminal.Escape(trace), "\n", "\n    "))
	}
	return nil
}

// messageText returns the message of a line, for people. It may be what a backend printed.
func messageText(message any) string {
	if message == nil {
		return ""
	}
	return terminal.Escape(fmt.Sprint(message))
}

// fieldText returns the value of a field of a line, for people. It is text, or JSON text as a client or a backend wrote
// it.
func fieldText(value any) string { return terminal.Escape(fmt.Sprintf("%s", value)) }

// An escapedJSON writes lines of JSON to w with characters escaped that are unsafe on a terminal.
type escapedJSON struct{ w io.Writer }

func (h escapedJSON) Write(p []byte) (int, error) {
	if bytes.IndexFunc(p, terminal.IsUnsafe) < 0 && utf8.Valid(p) {
		return h.w.Write(p)
	}
	if _, err := io.WriteString(h.w, terminal.Escape(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
