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

// bearable are the highest limits that can be configured.
var bearable = &limits.Limits{
	JSONDepth: limits.MaxJSONDepth, JSONMembers: limits.MaxJSONMembers, JSONElements: limits.MaxJSONElements,
}

// An Error is why a text is refused.
type Error struct {
	// Offset is the byte of the text at which it is refused.
	Offset int
	// Reason is what is wrong there.
	Reason string
	// JSON says that the text is JSON as far as it was read: it is refused for a name that is there twice, or for its size.
	JSON bool
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("byte %d: %s", e.Offset, e.Reason) }

// Check reports whether data is exactly one JSON value. It refuses what parsers disagree about, so that what passed means
// the same to everybody: names that an object has twice, invalid UTF-8, lone surrogates, a byte order mark, anything
// after the value. It also refuses what no configuration allows. The error is an *Error.
func Check(data []byte) error { return CheckWithin(data, nil) }

// CheckWithin is Check with the limits that are configured, for text that comes from outside. If l is nil, there are
// none below those that can be configured.
func CheckWithin(data []byte, l *limits.Limits) error {
	if l == nil {
		l = bearable
	}
	s := scanner{data: data, limits: l}
	end := s.value(skipSpace(data, 0), l.JSONDepth)
	if end != bad && skipSpace(data, end) == len(data) {
		return nil
	}
	if s.over != nil {
		return s.over
	}
	return explain(data)
}

// explain returns why data, which is known to be invalid, is so. It reads data again, which only those pay who send
// invalid text.
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

// maxShown is how much of somebody else's text goes into an error.
const maxShown = 80

// Shorten returns somebody else's text for use in an error: s, or its beginning and an ellipsis.
func Shorten[T ~string | ~[]byte](s T) string { return ShortenTo(s, maxShown) }

// ShortenTo returns s if it has at most so many bytes, of which there are 4 or more. Otherwise it returns the beginning of s, to
// the end of a character, and an ellipsis, which have no more together. What is no UTF-8 is replaced by U+FFFD, which is longer.
func ShortenTo[T ~string | ~[]byte](s T, most int) string {
	if len(s) <= most {
		return strings.ToValidUTF8(string(s), "\uFFFD")
	}
	cut := most - len("…")
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return strings.ToValidUTF8(string(s[:cut]), "\uFFFD") + "…"
}
