package main

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
)

// newLog returns a logger that writes to w without the hidden values, and whether it writes JSON.
func newLog(w io.Writer, c LogConfig, hidden secrets) (zerolog.Logger, bool) {
	if q, ok := w.(*queue); ok {
		direct, _ := newLog(q.direct(), c, hidden)
		q.report(direct)
	}
	out, asJSON := logWriter(w, c, hidden)
	return zerolog.New(out).Level(c.level()).With().Timestamp().Logger(), asJSON
}

// logWriter returns a writer of zerolog's records to w in the format of c, and whether that is JSON.
func logWriter(w io.Writer, c LogConfig, hidden secrets) (io.Writer, bool) {
	if c.Format == "json" || c.Format != "text" && !isTerminal(w) {
		return hidden.hide(harmlessJSON{w}), true
	}
	color := isTerminal(w) && os.Getenv("NO_COLOR") == ""
	return zerolog.ConsoleWriter{
		Out: hidden.hide(w), TimeFormat: time.TimeOnly, NoColor: !color, FormatMessage: messageText, FormatFieldValue: fieldText,
		FormatPrepare: foldRecord, FormatExtra: writeTrace, FieldsExclude: []string{traceField},
	}, false
}

// traceField is where foldRecord leaves a trace for writeTrace.
const traceField = "record.trace"

// foldRecord removes from a backend's own record what the rest of the line has. Its trace is written in lines.
func foldRecord(line map[string]any) error {
	record, ok := line["record"].(map[string]any)
	if !ok {
		return nil
	}
	if trace := traceOf(record); trace != "" {
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
		b.WriteString("\n    " + strings.ReplaceAll(harmless(trace), "\n", "\n    "))
	}
	return nil
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
