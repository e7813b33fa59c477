package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// An Error is why a Call has no Result. Code says which kind of thing is wrong; only Code, RPC and Failure are ever
// branched on. docs/errors.md is the table of how each is told to each kind of client.
type Error struct {
	// Code is the kind of error, as gRPC has it.
	Code codes.Code
	// Message says what went wrong. Clients see it if Public says so.
	Message string
	// RPC is the JSON-RPC error to answer with, if it is to be exactly that one.
	RPC *pb.JsonRpcError
	// Failure tells whether the call was executed, if it is not simply answered with an error.
	Failure *pb.CallFailure
	// Scopes are what the caller must be allowed for the call (OAuth), if that is what is missing.
	Scopes []string
	// Cause is what the error comes from, for logs. It may be nil.
	Cause error
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the error's cause.
func (e *Error) Unwrap() error { return e.Cause }

// Errorf returns an *Error. What an operand of %w says is part of the message.
func Errorf(code codes.Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), Cause: errors.Unwrap(err)}
}

// The reasons that something is decided by, and the one that stands for none. docs/errors.md has all.
const (
	// ReasonOverloaded is why a call fails that is beyond the most that there may be at a time.
	ReasonOverloaded = "OVERLOADED"
	// ReasonTooMany is why something fails of which the caller itself has too much.
	ReasonTooMany = "TOO_MANY"
	// reasonBackendOverloaded stands for both where a backend says them: they are about the bridge, and HTTP has statuses for them.
	reasonBackendOverloaded = "BACKEND_OVERLOADED"
	// ReasonMisbehaved is why a call fails whose backend answers as none may.
	ReasonMisbehaved = "BACKEND_MISBEHAVED"
	// reasonFailed is why a call fails of which nothing else is known: the backend's own error, mostly.
	reasonFailed = "BACKEND_FAILED"
)

// Failed returns an *Error that tells what became of a call.
func Failed(code codes.Code, outcome pb.CallFailure_Outcome, reason, format string, args ...any) *Error {
	e := Errorf(code, format, args...)
	e.Failure = &pb.CallFailure{Outcome: outcome, Reason: reason}
	return e
}

// Misbehaved returns the error of a call whose backend answers as none may.
func Misbehaved(outcome pb.CallFailure_Outcome, format string, args ...any) *Error {
	return Failed(codes.Internal, outcome, ReasonMisbehaved, format, args...)
}

// Interrupted returns the error of a call whose context has ended. Sent says that the backend may have seen it.
func Interrupted(ctx context.Context, sent bool) *Error {
	e := AsError(ctx.Err())
	if !sent && e.Failure != nil {
		e.Failure.Outcome = pb.CallFailure_OUTCOME_NOT_EXECUTED
	}
	return e
}

// AsError returns err as an *Error. What is not one becomes an internal error, except that the end of a context keeps its
// meaning.
func AsError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	switch {
	case errors.Is(err, context.Canceled):
		e := Failed(codes.Canceled, pb.CallFailure_OUTCOME_UNKNOWN, "CANCELLED", "the call was cancelled")
		e.Cause = err
		return e
	case errors.Is(err, context.DeadlineExceeded):
		e := Failed(codes.DeadlineExceeded, pb.CallFailure_OUTCOME_UNKNOWN, "DEADLINE", "the call took too long")
		e.Cause = err
		return e
	}
	return &Error{Code: codes.Internal, Message: err.Error(), Cause: err}
}

// The JSON-RPC error codes that Errors turn into.
const (
	codeInvalidParams    = -32602
	codeMethodNotFound   = -32601
	codeInternal         = -32603
	codeResourceNotFound = -32002
	// CodeMissingCapability says that the client cannot do what the call needs (2026-07-28).
	CodeMissingCapability = -32021
	// CodeURLElicitation says that there are web pages to visit before the request is made again, and names them. It exists in 2025-11-25
	// only (client/elicitation, URL elicitation required error).
	CodeURLElicitation = -32042
	// codeHeaderMismatch and codeUnsupportedVersion are those of the transport (2026-07-28). No Handler says them.
	codeHeaderMismatch, codeUnsupportedVersion = -32020, -32022
	// Codes from firstReserved to lastReserved are MCP's to define (2026-07-28).
	firstReserved, lastReserved = -32099, -32020
)

// jsonRPCCodes is the published table: the JSON-RPC code of each kind of error, whether its text is for clients, and whether it is an
// answer to what was asked, and nothing has failed. A kind that is not in it is -32603, and its text is withheld: it may tell of the inside.
var jsonRPCCodes = map[codes.Code]struct {
	code   int64
	public bool
	answer bool
}{
	codes.InvalidArgument:    {codeInvalidParams, true, true},
	codes.OutOfRange:         {codeInvalidParams, true, true},
	codes.NotFound:           {codeInvalidParams, true, true},
	codes.Unimplemented:      {codeMethodNotFound, true, true},
	codes.FailedPrecondition: {codeInternal, true, false},
	codes.PermissionDenied:   {codeInternal, true, false},
	codes.Unauthenticated:    {codeInternal, true, false},
	codes.ResourceExhausted:  {codeInternal, true, false},
	codes.DeadlineExceeded:   {codeInternal, true, false},
	codes.Canceled:           {codeInternal, true, false},
}

// Public reports whether the error's message is for clients. What the bridge itself says of a failed call is, except of what a backend
// does wrong, which is for who runs it.
func (e *Error) Public() bool {
	return e.Failure != nil && e.Failure.GetReason() != ReasonMisbehaved || e.RPC != nil || jsonRPCCodes[e.Code].public
}

// PublicMessage returns the error's message, or if that is not for clients, what they are told in its place.
func (e *Error) PublicMessage() string {
	if e.Public() {
		return e.Message
	}
	return "internal error; the bridge's log says more"
}

// Told returns the error as the caller is told it. Every front tells errors of Handlers so, and nothing else: what is not for clients is
// left out, what is longer than anybody reads is cut, and what is no answer to what was asked says what became of the call, even if that
// is that nobody knows.
func (e *Error) Told() *Error {
	told := *e
	told.Message = cut(e.PublicMessage(), maxMessage)
	if e.RPC != nil || e.Failure == nil && jsonRPCCodes[e.Code].answer {
		return &told
	}
	f := &pb.CallFailure{Outcome: pb.CallFailure_OUTCOME_UNKNOWN, Reason: reasonFailed}
	if outcomeNames[e.Failure.GetOutcome()] != "" {
		f.Outcome = e.Failure.GetOutcome()
	}
	if isReason(e.Failure.GetReason()) {
		f.Reason = e.Failure.GetReason()
	}
	if e.Failure != nil {
		f.RetryAfterMs = e.Failure.RetryAfterMs
	}
	told.Failure = f
	return &told
}

// isReason reports whether a reason, which may be a backend's, can be told everywhere.
func isReason(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return s != "" && len(s) <= 63 // google.rpc.ErrorInfo
}

// JSONRPC returns the error as a client of revision r that called m sees it. The data is JSON text, or nil.
func (e *Error) JSONRPC(r Revision, m *Method) *pb.JsonRpcError {
	if e.RPC != nil {
		out := &pb.JsonRpcError{Code: r.ErrorCode(e.RPC.GetCode()), Message: e.RPC.Message, Data: e.RPC.Data}
		if out.GetMessage() == "" {
			out.Message = &e.Message
		}
		return out
	}
	row, ok := jsonRPCCodes[e.Code]
	if !ok {
		row.code = codeInternal
	}
	if e.Code == codes.NotFound && m == ReadResource {
		row.code = r.ResourceNotFound()
	}
	message := e.PublicMessage()
	return &pb.JsonRpcError{Code: row.code, Message: &message, Data: e.failureData()}
}

var outcomeNames = map[pb.CallFailure_Outcome]string{
	pb.CallFailure_OUTCOME_NOT_EXECUTED: "not_executed",
	pb.CallFailure_OUTCOME_UNKNOWN:      "unknown",
	pb.CallFailure_OUTCOME_EXECUTED:     "executed",
}

// failureData returns Failure as JSON text.
func (e *Error) failureData() []byte {
	f := e.Failure
	if f == nil {
		return nil
	}
	reason, _ := json.Marshal(f.GetReason()) //nolint:errchkjson // a string can always be written
	data := append([]byte(`{"reason":`), reason...)
	data = append(append(data, `,"outcome":`...), strconv.Quote(outcomeNames[f.GetOutcome()])...)
	if f.RetryAfterMs != nil {
		data = strconv.AppendInt(append(data, `,"retryAfterMs":`...), f.GetRetryAfterMs(), 10)
	}
	return append(data, '}')
}

// FromJSONRPC returns the Error that an MCP server of revision r means by answering a call of m with rpc. The server's own
// error is kept, so that a client of the bridge sees the same one; of its message, as much as of that of a status.
func FromJSONRPC(rpc *pb.JsonRpcError, r Revision, m *Method) *Error {
	rpc = shortened(rpc)
	e := &Error{Code: codes.Unknown, Message: rpc.GetMessage(), RPC: rpc}
	switch rpc.GetCode() {
	case codeInvalidParams:
		e.Code = codes.InvalidArgument
	case codeMethodNotFound:
		e.Code = codes.Unimplemented
	case codeResourceNotFound:
		e.Code = codes.NotFound
	case CodeMissingCapability:
		e.Code = codes.FailedPrecondition
	}
	// Whether a resource exists is told by a code that differs between revisions, so the exact one must not be kept.
	if m == ReadResource && (e.Code == codes.NotFound || r.Modern() && e.Code == codes.InvalidArgument) {
		e.Code, e.RPC = codes.NotFound, nil
	}
	return e
}

// ErrorDomain is the domain of the google.rpc.ErrorInfo that tells a gRPC client what became of a call.
const ErrorDomain = "mcpbridge.dev"

// GRPCStatus returns the error as gRPC tells it. It makes status.FromError understand an *Error. What FromStatus needs is in
// details of the contract; Failure is told by google.rpc.ErrorInfo and RetryInfo as well, which stock clients understand.
func (e *Error) GRPCStatus() *status.Status {
	s := status.New(e.Code, e.Message)
	var details []protoadapt.MessageV1
	if e.RPC != nil {
		details = append(details, protoadapt.MessageV1Of(e.RPC))
	}
	if f := e.Failure; f != nil {
		details = append(details, protoadapt.MessageV1Of(f), &errdetails.ErrorInfo{
			Reason: f.GetReason(), Domain: ErrorDomain, Metadata: map[string]string{"outcome": outcomeNames[f.GetOutcome()]},
		})
		if f.RetryAfterMs != nil {
			details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(time.Duration(f.GetRetryAfterMs()) * time.Millisecond)})
		}
	}
	if e.Code == codes.OK || len(details) == 0 {
		return s
	}
	withDetails, err := s.WithDetails(details...)
	if err != nil {
		return s // a detail that cannot be written must not hide the error
	}
	return withDetails
}

// What a backend can say in an error, in bytes.
const (
	maxMessage = 8 << 10
	maxReason  = 64
)

// FromStatus returns the Error that a backend means by a gRPC status other than OK. What is longer than anybody reads is cut, an
// outcome that there is not is unknown, and reasons that are about the bridge are told as the backend's.
func FromStatus(s *status.Status) *Error {
	e := &Error{Code: s.Code(), Message: cut(s.Message(), maxMessage), Cause: s.Err()}
	switch {
	case e.Message != "":
	case e.Code == codes.Unimplemented: // what gRPC in several languages answers for a method that is not there
		e.Message = "Method not found"
	default:
		e.Message = e.Code.String()
	}
	for _, d := range s.Details() {
		switch d := d.(type) {
		case *pb.JsonRpcError:
			e.RPC = shortened(d)
		case *pb.CallFailure:
			if outcomeNames[d.GetOutcome()] == "" {
				d.Outcome = pb.CallFailure_OUTCOME_UNKNOWN
			}
			if after := d.GetRetryAfterMs(); after < 0 || after > math.MaxInt64/int64(time.Millisecond) { // no duration is so long
				d.RetryAfterMs = nil
			}
			if d.Reason = cut(d.GetReason(), maxReason); d.GetReason() == ReasonOverloaded || d.GetReason() == ReasonTooMany {
				d.Reason = reasonBackendOverloaded
			}
			e.Failure = d
		}
	}
	return e
}

// shortened returns an error whose message is no longer than anybody reads. Its data is for programs, and as long as a message may be.
func shortened(rpc *pb.JsonRpcError) *pb.JsonRpcError {
	if len(rpc.GetMessage()) <= maxMessage {
		return rpc
	}
	short := cut(rpc.GetMessage(), maxMessage)
	return &pb.JsonRpcError{Code: rpc.Code, Message: &short, Data: rpc.Data}
}

func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most-len("…")], "") + "…"
}
