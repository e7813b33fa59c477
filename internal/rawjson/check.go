package rawjson

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpbridge/mcpbridge/internal/limits"
)

// maxLimits are the highest configurable limits.
var maxLimits = &limits.Limits{
	JSONDepth: limits.MaxJSONDepth, JSONMembers: limits.MaxJSONMembers, JSONElements: limits.MaxJSONElements,
}

// An Error describes invalid JSON.
type Error struct {
	Offset int
	Reason string
	// JSON reports whether the text is JSON, but has a duplicate name or exceeds a limit.
	JSON bool
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("byte %d: %s", e.Offset, e.Reason) }

// Check returns an *Error unless data is exactly one JSON value that all parsers read in the same way. It rejects
// duplicate names, invalid UTF-8, lone surrogates, a byte order mark, text after the value, and what exceeds the
// highest configurable limits.
func Check(data []byte) error { return CheckWithin(data, nil) }

// CheckWithin is Check with configured limits, for text of clients and backends. If l is nil, the highest
// configurable limits are used.
func CheckWithin(data []byte, l *limits.Limits) error {
	if l == nil {
		l = maxLimits
	}
	s := scanner{data: data, limits: l}
	end := s.value(skipSpace(data, 0), l.JSONDepth)
	if end != bad && skipSpace(data, end) == len(data) {
		return nil
	}
	if s.limitError != nil {
		return s.limitError
	}
	return explain(data)
}

// explain returns the error of invalid data. It parses data again with jsontext.
func explain(data []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(data))
	_, err := d.ReadValue()
	if err == nil {
		rest := data[d.InputOffset():]
		return &Error{Offset: len(data) - len(bytes.TrimLeft(rest, " \t\r\n")), Reason: "more text after the value"}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &Error{Offset: len(data), Reason: "unexpected end of the text"}
	}
	s, ok := errors.AsType[*jsontext.SyntacticError](err)
	if !ok {
		return &Error{Offset: int(d.InputOffset()), Reason: Shorten(err.Error())}
	}
	if errors.Is(s.Err, jsontext.ErrDuplicateName) {
		return &Error{int(s.ByteOffset), "duplicate name " + Shorten(strconv.Quote(s.JSONPointer.LastToken())), true}
	}
	return &Error{Offset: int(s.ByteOffset), Reason: Shorten(strings.TrimPrefix(s.Err.Error(), "jsontext: "))}
}

// maxQuoted is the maximum number of quoted bytes in an error.
const maxQuoted = 80

// Shorten truncates text for use in an error.
func Shorten[T ~string | ~[]byte](s T) string { return ShortenTo(s, maxQuoted) }

// ShortenTo returns s, truncated at a character boundary so that it has at most limit bytes (4 or more) with the
// ellipsis. Invalid UTF-8 is replaced by U+FFFD, which may be longer.
func ShortenTo[T ~string | ~[]byte](s T, limit int) string {
	if len(s) <= limit {
		return strings.ToValidUTF8(string(s), "\uFFFD")
	}
	cut := limit - len("…")
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return strings.ToValidUTF8(string(s[:cut]), "\uFFFD") + "…"
}
