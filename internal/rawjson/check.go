package rawjson

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// What a text may hold at most, unless SetLimits says otherwise.
const (
	// MaxDepth is how deep objects and arrays may be nested.
	MaxDepth = 256
	// MaxMembers is how many members an object may have.
	MaxMembers = 20_000
	// MaxElements is how many elements an array may have.
	MaxElements = 100_000
)

// Limits are what a text may hold at most. 0 is the constant of that name.
type Limits struct {
	Depth, Members, Elements int
}

// more is by how much the limits of every Check are above the constants, or below. They are of the process, because every package that
// takes text from outside checks it, and read where they are compared: that costs nothing.
var more struct{ depth, members, elements atomic.Int64 }

// SetLimits sets what texts may hold that are checked from now on. Whoever serves sets it before anything is served, so that a text is
// not refused in one place that was taken in another.
func SetLimits(l Limits) {
	more.depth.Store(int64(cmp.Or(l.Depth, MaxDepth) - MaxDepth))
	more.members.Store(int64(cmp.Or(l.Members, MaxMembers) - MaxMembers))
	more.elements.Store(int64(cmp.Or(l.Elements, MaxElements) - MaxElements))
}

func mostDepth() int    { return MaxDepth + int(more.depth.Load()) }
func mostMembers() int  { return MaxMembers + int(more.members.Load()) }
func mostElements() int { return MaxElements + int(more.elements.Load()) }

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
// after the value. It also refuses what is over one of the limits. The error is an *Error.
func Check(data []byte) error {
	s := scanner{data: data}
	end := s.value(skipSpace(data, 0), mostDepth())
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
