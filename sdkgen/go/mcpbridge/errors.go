package mcpbridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// An Error fails the call with exactly this JSON-RPC error. The client receives it; the model does not.
type Error struct {
	Code    int32
	Message string
	Data    any // any JSON value
}

func (e *Error) Error() string { return e.Message }

// ToolError returns an expected failure of a tool, which the model reads. Other errors do the same, but are logged too.
// Resources and prompts have no error results: the client receives a JSON-RPC error instead.
func ToolError(format string, args ...any) error { return &toolError{fmt.Errorf(format, args...)} }

type toolError struct{ error }

func (e *toolError) Unwrap() error { return errors.Unwrap(e.error) }

// VisitRequired returns an error that requires the user to visit a web page first. The client then calls again.
// NotifyVisited, with the same id, notifies it that the user has completed the page. To ask and continue, use
// ElicitURL.
func VisitRequired(message, url, id string) error {
	visit := map[string]string{"mode": "url", "elicitationId": id, "url": url, "message": message}
	return &Error{Code: -32042, Message: message, Data: map[string]any{"elicitations": []any{visit}}}
}

// The errors of questions. All are ToolErrors: the model reads them if a tool returns one.
var (
	// Pending means that a question has no answer yet. Return it: the handler runs again from the top once there is
	// one. The question is sent even if the error is dropped.
	Pending = errors.New("waiting for the client's answer") //nolint:errname,revive,staticcheck // It is not a failure.
	// ErrUnsupported means that the client does not support the request. Its text asks the model to ask the user
	// itself.
	ErrUnsupported = errors.New("the client cannot be asked this")
	// ErrNoAnswer means that the client did not answer in time.
	ErrNoAnswer = errors.New("the client did not answer in time")
	// ErrRefused means that the client answered a question with an error.
	ErrRefused = errors.New("the client refused to answer")
	// ErrInvalidAnswer means that the client's answer does not conform to the requested schema.
	ErrInvalidAnswer = errors.New("the answer does not fit the question")
	// ErrDeclined means that the user declined. Answer.Get returns it.
	ErrDeclined = errors.New("the user declined")
	// ErrCancelled means that the user closed the question without an answer. Answer.Get returns it.
	ErrCancelled = errors.New("the user closed the question without an answer")

	// ErrNotFound means that the resource, or the object that a prompt's arguments name, does not exist. Wrap it for
	// details.
	ErrNotFound = errors.New("not found")
)

// An askError is one of the errors above with a specific text.
type askError struct {
	kind error
	text string
}

func (e *askError) Error() string { return e.text }
func (e *askError) Unwrap() error { return e.kind }

// isExpected reports whether err is an expected failure.
func isExpected(err error) bool {
	if _, ok := errors.AsType[*toolError](err); ok {
		return true
	}
	_, ok := errors.AsType[*askError](err)
	return ok || errors.Is(err, Pending) || errors.Is(err, ErrNotFound)
}

// A panicError error is the panic of a handler.
type panicError struct {
	value any
	stack string // from where it panicked
}

func (e *panicError) Error() string { return fmt.Sprint(e.value) }

// inRuntime matches the files of Go's runtime, as they are named with and without -trimpath.
var inRuntime = regexp.MustCompile(`^(.*/src/)?(internal/)?runtime/`)

// place returns the line of the panic, as main.go:12, or nothing if it is unknown.
func (e *panicError) place() string {
	for line := range strings.Lines(e.stack) {
		frame, ok := strings.CutPrefix(line, "\t")
		if ok && !inRuntime.MatchString(frame) {
			at, _, _ := strings.Cut(strings.TrimSpace(frame), " +0x")
			return filepath.Base(at)
		}
	}
	return ""
}

// ownLog is the default log.
var ownLog = slog.Default()

// toBridge writes a line of JSON for each record, which the bridge parses.
var toBridge = sync.OnceValue(func() *slog.Logger { return slog.New(slog.NewJSONHandler(os.Stderr, nil)) })

// logger returns the log of the SDK, which is not sent to callers.
func logger() *slog.Logger {
	if l := slog.Default(); l != ownLog || !managed() {
		return l
	}
	return toBridge()
}

// logFailure logs why a handler failed, unless the failure is expected.
func logFailure(d definition, err error) {
	if isExpected(err) {
		return
	}
	at := d.at
	var more []any
	if p, ok := errors.AsType[*panicError](err); ok {
		at = cmp.Or(p.place(), at)
		more = []any{"stack", p.stack}
	}
	logger().Error(fmt.Sprintf("%s: %s %q failed: %v", at, d.kind, d.name, err), more...)
}

// exactStatus returns the gRPC status of an *Error, or nil if err is none.
func exactStatus(err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return nil
	}
	detail := &pb.JsonRpcError{Code: e.Code, Message: text(e.Message)}
	if e.Data != nil {
		data, err := marshal(e.Data)
		if err != nil {
			data, _ = marshal(fmt.Sprint(e.Data))
		}
		detail.Data = string(data)
	}
	code := codes.Unknown
	switch e.Code {
	case -32600, -32602:
		code = codes.InvalidArgument
	case -32601:
		code = codes.Unimplemented
	case -32603:
		code = codes.Internal
	}
	s, err := status.New(code, text(e.Message)).WithDetails(detail)
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	return s.Err()
}

// failureStatus returns the gRPC status of a resource or prompt whose handler returned err.
func failureStatus(d definition, err error) error {
	if s := exactStatus(err); s != nil {
		return s
	}
	if errors.Is(err, ErrNotFound) {
		return status.Error(codes.NotFound, text(err.Error()))
	}
	logFailure(d, err)
	return exactStatus(&Error{Code: -32603, Message: err.Error()})
}

// contextStatus returns the gRPC status of a call whose context is done.
func contextStatus(ctx context.Context) error { return status.FromContextError(ctx.Err()).Err() }

// text returns s as valid UTF-8, which protobuf requires.
func text(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// didYouMean suggests the most similar name.
func didYouMean(got string, names []string) string {
	best, at := "", max(len(got)/2, 1)+1
	for _, name := range names {
		if d := distance(strings.ToLower(got), strings.ToLower(name)); d < at {
			best, at = name, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", best)
}

// distance returns the Damerau-Levenshtein distance of a and b.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		for j := range rows[i] {
			switch {
			case i == 0 || j == 0:
				rows[i][j] = i + j
				continue
			case a[i-1] == b[j-1]:
				rows[i][j] = rows[i-1][j-1]
				continue
			}
			rows[i][j] = 1 + min(rows[i-1][j-1], rows[i-1][j], rows[i][j-1])
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], 1+rows[i-2][j-2])
			}
		}
	}
	return rows[len(a)][len(b)]
}
