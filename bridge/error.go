package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// An Error explains why a Call has no Result. Callers branch only on Code, RPC, Outcome and Reason. docs/errors.md
// documents how each error is sent to each kind of client.
type Error struct {
	Code codes.Code
	// Message is sent to clients if Public returns true.
	Message string
	// RPC is the exact JSON-RPC error to send, if there is one.
	RPC *pb.JsonRpcError
	// Outcome is whether the call was executed. It is empty if the error is a regular answer.
	Outcome Outcome
	// Reason is why there is no answer, from the list in docs/errors.md. It is empty if Outcome is.
	Reason string
	// RetryAfter is the time until a retry can succeed, or 0 if unknown.
	RetryAfter time.Duration
	// Scopes are the OAuth scopes that the caller lacks.
	Scopes []string
	// BadHeader marks errors of HeaderMismatch. A backend cannot set it.
	BadHeader bool
	// Cause is the underlying error, for logs. It may be nil.
	Cause error
}

// An Outcome is whether a call without a result was executed. Its value is the one in the details of a gRPC status and
// in the data of a JSON-RPC error.
type Outcome string

const (
	// OutcomeNotExecuted means that the backend did not receive the call: it is safe to retry.
	OutcomeNotExecuted Outcome = "not_executed"
	// OutcomeUnknown means that the backend may have executed the call completely, in part, or not at all.
	OutcomeUnknown Outcome = "unknown"
	// OutcomeExecuted means that the backend executed the call, and its response was lost.
	OutcomeExecuted Outcome = "executed"
)

func (o Outcome) valid() bool {
	return o == OutcomeNotExecuted || o == OutcomeUnknown || o == OutcomeExecuted
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the error's cause.
func (e *Error) Unwrap() error { return e.Cause }

// Errorf returns an *Error. The message includes the text of a %w operand.
func Errorf(code codes.Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), Cause: errors.Unwrap(err)}
}

// HeaderMismatch returns the error of an HTTP request whose headers do not match its body (2026-07-28: streamable-http,
// server validation).
func HeaderMismatch(format string, args ...any) *Error {
	e := Errorf(codes.InvalidArgument, "header mismatch: "+format, args...)
	e.RPC, e.BadHeader = &pb.JsonRpcError{Code: codeHeaderMismatch}, true
	return e
}

// Reasons that the bridge compares. docs/errors.md lists all reasons.
const (
	// ReasonOverloaded means that a limit on concurrency or memory is reached.
	ReasonOverloaded = "OVERLOADED"
	// ReasonTooMany means that the caller itself has reached a limit.
	ReasonTooMany = "TOO_MANY"
	// reasonBackendOverloaded replaces both in errors of a backend: they describe the bridge, and fronts map them to
	// HTTP statuses.
	reasonBackendOverloaded = "BACKEND_OVERLOADED"
	// ReasonProtocolViolation means that the backend sent what the protocol forbids.
	ReasonProtocolViolation = "BACKEND_MISBEHAVED"
	// reasonFailed is the reason of a failure without another one, mostly the backend's own error.
	reasonFailed = "BACKEND_FAILED"
)

// Failed returns an *Error with the outcome of a call.
func Failed(code codes.Code, outcome Outcome, reason, format string, args ...any) *Error {
	e := Errorf(code, format, args...)
	e.Outcome, e.Reason = outcome, reason
	return e
}

// ProtocolViolation returns the error of a call whose backend violated the protocol.
func ProtocolViolation(outcome Outcome, format string, args ...any) *Error {
	return Failed(codes.Internal, outcome, ReasonProtocolViolation, format, args...)
}

// Canceled returns the error of a call whose ctx ended. If sent, the backend may have received the call, and the
// outcome is unknown.
func Canceled(ctx context.Context, sent bool) *Error {
	e := AsError(ctx.Err())
	if !sent && e.Outcome != "" {
		e.Outcome = OutcomeNotExecuted
	}
	return e
}

// AsError returns err as an *Error. An error of a context is a failure with an outcome; any other error is
// internal.
func AsError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	switch {
	case errors.Is(err, context.Canceled):
		e := Failed(codes.Canceled, OutcomeUnknown, "CANCELLED", "the call was cancelled")
		e.Cause = err
		return e
	case errors.Is(err, context.DeadlineExceeded):
		e := Failed(codes.DeadlineExceeded, OutcomeUnknown, "DEADLINE", "the call took too long")
		e.Cause = err
		return e
	}
	return &Error{Code: codes.Internal, Message: err.Error(), Cause: err}
}

// JSON-RPC error codes.
const (
	codeInvalidParams    = -32602
	codeMethodNotFound   = -32601
	codeInternal         = -32603
	codeResourceNotFound = -32002
	// CodeMissingCapability means that the client lacks a capability that the call needs (2026-07-28).
	CodeMissingCapability = -32021
	// CodeURLElicitation requires URL elicitations before the request is retried. It exists in 2025-11-25 only
	// (client/elicitation, URL elicitation required error).
	CodeURLElicitation = -32042
	// codeHeaderMismatch and codeUnsupportedVersion are errors of the transport (2026-07-28). No backend returns them.
	codeHeaderMismatch, codeUnsupportedVersion = -32020, -32022
	// Codes from firstReserved to lastReserved are reserved for MCP (2026-07-28).
	firstReserved, lastReserved = -32099, -32020
)

// jsonRPCCodes maps gRPC codes to JSON-RPC codes; docs/errors.md publishes the table. public: clients may see the
// message. answer: the error is a regular answer, and nothing failed. Other gRPC codes map to -32603 and are not
// public.
var jsonRPCCodes = map[codes.Code]struct {
	code   int32
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

// Public reports whether clients may see the error's message. Messages of the bridge are public, except those
// about protocol violations, which are for the operator.
func (e *Error) Public() bool {
	return e.RPC != nil || jsonRPCCodes[e.Code].public ||
		e.Outcome != "" && e.Reason != ReasonProtocolViolation
}

// PublicMessage returns the error's message, or a generic one if it is not public.
func (e *Error) PublicMessage() string {
	if e.Public() {
		return e.Message
	}
	return "internal error; see the bridge's log"
}

// Redacted returns the error without internal details. Fronts send only redacted errors. The message is truncated,
// and unless the error is a regular answer, it has an outcome, which may be unknown.
func (e *Error) Redacted() *Error {
	redacted := *e
	redacted.Message = truncate(e.PublicMessage(), maxMessage)
	if e.RPC != nil || e.Outcome == "" && jsonRPCCodes[e.Code].answer {
		return &redacted
	}
	if !redacted.Outcome.valid() {
		redacted.Outcome = OutcomeUnknown
	}
	if !isReason(redacted.Reason) {
		redacted.Reason = reasonFailed
	}
	return &redacted
}

// isReason reports whether a reason, possibly of a backend, is valid in every protocol.
func isReason(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return s != "" && len(s) <= 63 // google.rpc.ErrorInfo
}

// JSONRPC returns the error for a client of revision r that called m.
func (e *Error) JSONRPC(r Revision, m *Method) *pb.JsonRpcError {
	if e.RPC != nil {
		out := &pb.JsonRpcError{Code: r.ErrorCode(e.RPC.GetCode()), Message: e.RPC.GetMessage(), Data: e.RPC.GetData()}
		if out.GetMessage() == "" {
			out.Message = e.Message
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
	return &pb.JsonRpcError{Code: row.code, Message: e.PublicMessage(), Data: e.failureData()}
}

// failureData returns the outcome of the call as JSON text.
func (e *Error) failureData() string {
	if e.Outcome == "" {
		return ""
	}
	reason, _ := json.Marshal(e.Reason) //nolint:errchkjson // strings can always be encoded
	data := append([]byte(`{"reason":`), reason...)
	data = append(append(data, `,"outcome":`...), strconv.Quote(string(e.Outcome))...)
	if e.RetryAfter > 0 {
		data = strconv.AppendInt(append(data, `,"retryAfterMs":`...), e.RetryAfter.Milliseconds(), 10)
	}
	return string(append(data, '}'))
}

// FromJSONRPC converts the error that a server of revision r returned for a call of m. It keeps the server's
// error, so that clients of the bridge see the same one, with a truncated message.
func FromJSONRPC(rpc *pb.JsonRpcError, r Revision, m *Method) *Error {
	rpc = truncateMessage(rpc)
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
	// The code for a resource that does not exist differs between revisions.
	if m == ReadResource && (e.Code == codes.NotFound || r.Modern() && e.Code == codes.InvalidArgument) {
		e.Code, e.RPC = codes.NotFound, nil
	}
	return e
}

// ErrorDomain is the domain of the google.rpc.ErrorInfo with the reason and the outcome of a call.
const ErrorDomain = "mcpbridge"

// GRPCStatus returns the error as a gRPC status; status.FromError calls it.
func (e *Error) GRPCStatus() *status.Status {
	s := status.New(e.Code, e.Message)
	var details []protoadapt.MessageV1
	if e.RPC != nil {
		details = append(details, protoadapt.MessageV1Of(e.RPC))
	}
	if e.Outcome != "" {
		details = append(details, &errdetails.ErrorInfo{
			Reason: e.Reason, Domain: ErrorDomain, Metadata: map[string]string{"outcome": string(e.Outcome)},
		})
	}
	if e.RetryAfter > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(e.RetryAfter)})
	}
	if e.Code == codes.OK || len(details) == 0 {
		return s
	}
	withDetails, err := s.WithDetails(details...)
	if err != nil {
		return s
	}
	return withDetails
}

// The maximum sizes of a backend's error, in bytes.
const (
	maxMessage = 8 << 10
	maxReason  = 64
)

// FromStatus converts a backend's gRPC status other than OK. It truncates the message, replaces an undefined
// outcome by unknown, and replaces reasons that are reserved for the bridge.
func FromStatus(s *status.Status) *Error {
	e := &Error{Code: s.Code(), Message: truncate(s.Message(), maxMessage), Cause: s.Err()}
	switch {
	case e.Message != "":
	case e.Code == codes.Unimplemented: // several gRPC libraries send no message for an unknown method
		e.Message = "Method not found"
	default:
		e.Message = e.Code.String()
	}
	for _, d := range s.Details() {
		switch d := d.(type) {
		case *pb.JsonRpcError:
			e.RPC = truncateMessage(d)
		case *errdetails.ErrorInfo:
			if d.GetDomain() != ErrorDomain {
				continue
			}
			e.Outcome, e.Reason = Outcome(d.GetMetadata()["outcome"]), truncate(d.GetReason(), maxReason)
			if !e.Outcome.valid() {
				e.Outcome = OutcomeUnknown
			}
			if e.Reason == ReasonOverloaded || e.Reason == ReasonTooMany {
				e.Reason = reasonBackendOverloaded
			}
		case *errdetails.RetryInfo:
			e.RetryAfter = max(0, d.GetRetryDelay().AsDuration())
		}
	}
	return e
}

// truncateMessage truncates the error's message. Its data is for programs, and may be as long as a message.
func truncateMessage(rpc *pb.JsonRpcError) *pb.JsonRpcError {
	if len(rpc.GetMessage()) <= maxMessage {
		return rpc
	}
	return &pb.JsonRpcError{Code: rpc.GetCode(), Message: truncate(rpc.GetMessage(), maxMessage), Data: rpc.GetData()}
}

func truncate(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit-len("…")], "") + "…"
}
