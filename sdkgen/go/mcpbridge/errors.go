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

// An Error answers the call with this JSON-RPC error, exactly. The model does not see it; the client does.
type Error struct {
	Code    int64
	Message string
	Data    any // anything that becomes JSON
}

func (e *Error) Error() string { return e.Message }

// ToolError is the failure of a tool, which the model reads. Any other error does the same, but is logged too, as one that
// was not expected. Resources and prompts have no such results: there the client reads it, as a JSON-RPC error.
func ToolError(format string, args ...any) error { return &toolError{fmt.Errorf(format, args...)} }

type toolError struct{ error }

func (e *toolError) Unwrap() error { return errors.Unwrap(e.error) }

// VisitRequired answers the call with the error that sends the user to a web page first. Then the client calls again.
// NotifyVisited, with the same id, tells it that the user is done there. To ask and go on, there is ElicitURL.
func VisitRequired(message, url, id string) error {
	visit := map[string]string{"mode": "url", "elicitationId": id, "url": url, "message": message}
	return &Error{Code: -32042, Message: message, Data: map[string]any{"elicitations": []any{visit}}}
}

// What can become of a question besides an answer. All are ToolErrors: a tool that returns one tells the model.
var (
	// Pending is that a question has no answer yet. Return it: the handler is called again, from the top, when there is one.
	// The question is asked whatever becomes of the error.
	Pending = errors.New("waiting for the client's answer") //nolint:errname,revive,staticcheck // It is not a failure.
	// ErrUnsupported is that the client cannot be asked this. Its text tells the model to ask the user itself.
	ErrUnsupported = errors.New("the client cannot be asked this")
	// ErrNoAnswer is that the client did not answer in time.
	ErrNoAnswer = errors.New("the client did not answer in time")
	// ErrRefused is that the client answered a question with an error.
	ErrRefused = errors.New("the client refused to answer")
	// ErrInvalidAnswer is that the client's answer is not of the form that was asked for.
	ErrInvalidAnswer = errors.New("the answer does not fit the question")
	// ErrDeclined is that the user said no, where Answer.Get is used.
	ErrDeclined = errors.New("the user declined")
	// ErrCancelled is that the user closed the question without an answer, where Answer.Get is used.
	ErrCancelled = errors.New("the user closed the question without an answer")

	// ErrNotFound is that what a resource's URI or a prompt's arguments name does not exist. Wrap it to say more.
	ErrNotFound = errors.New("not found")
)

// An askError is one of the errors above with a text of its own.
type askError struct {
	kind error
	text string
}

func (e *askError) Error() string { return e.text }
func (e *askError) Unwrap() error { return e.kind }

// meant reports whether a handler returned err to say something, and not because something is broken.
func meant(err error) bool {
	if _, ok := errors.AsType[*toolError](err); ok {
		return true
	}
	_, ok := errors.AsType[*askError](err)
	return ok || errors.Is(err, Pending) || errors.Is(err, ErrNotFound)
}

// A panicked error is what a handler panicked with.
type panicked struct {
	value any
	stack string // from where it panicked
}

func (e *panicked) Error() string { return fmt.Sprint(e.value) }

// inRuntime matches the files of Go's runtime, as they are named with and without -trimpath.
var inRuntime = regexp.MustCompile(`^(.*/src/)?(internal/)?runtime/`)

// place returns the line where it panicked, as main.go:12, or nothing if that is not to be seen.
func (e *panicked) place() string {
	for line := range strings.Lines(e.stack) {
		frame, ok := strings.CutPrefix(line, "\t")
		if ok && !inRuntime.MatchString(frame) {
			at, _, _ := strings.Cut(strings.TrimSpace(frame), " +0x")
			return filepath.Base(at)
		}
	}
	return ""
}

// ownLog is the log of a program that has set none.
var ownLog = slog.Default()

// toBridge writes what the bridge reads: a line of JSON for each record, however many lines that has.
var toBridge = sync.OnceValue(func() *slog.Logger { return slog.New(slog.NewJSONHandler(os.Stderr, nil)) })

// logger is where the SDK logs, and never to the caller of a tool.
func logger() *slog.Logger {
	if l := slog.Default(); l != ownLog || !managed() {
		return l
	}
	return toBridge()
}

// logFailure logs why a handler failed, unless it meant to.
func logFailure(d definition, err error) {
	if meant(err) {
		return
	}
	at := d.at
	var more []any
	if p, ok := errors.AsType[*panicked](err); ok {
		at = cmp.Or(p.place(), at)
		more = []any{"stack", p.stack}
	}
	logger().Error(fmt.Sprintf("%s: %s %q failed: %v", at, d.kind, d.name, err), more...)
}

// exactly returns the gRPC status of an exact error, or nil if err is none.
func exactly(err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return nil
	}
	detail := &pb.JsonRpcError{Code: e.Code, Message: new(string)}
	*detail.Message = text(e.Message)
	if e.Data != nil {
		data, err := marshal(e.Data)
		if err != nil {
			data, _ = marshal(fmt.Sprint(e.Data))
		}
		detail.Data = data
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

// failed is the gRPC status of a resource or prompt whose handler returned err.
func failed(d definition, err error) error {
	if s := exactly(err); s != nil {
		return s
	}
	if errors.Is(err, ErrNotFound) {
		return status.Error(codes.NotFound, text(err.Error()))
	}
	logFailure(d, err)
	return exactly(&Error{Code: -32603, Message: err.Error()})
}

// over is the gRPC status of a call whose context has ended.
func over(ctx context.Context) error { return status.FromContextError(ctx.Err()).Err() }

// text is s as protobuf can hold it.
func text(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// didYouMean proposes the name that was probably meant.
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

// distance is how many letters must be put in, left out, changed or swapped with the next to make b of a.
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
