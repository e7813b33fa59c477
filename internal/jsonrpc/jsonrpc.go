// Package jsonrpc reads and writes the JSON-RPC 2.0 messages of MCP. It parses the envelope only: params, results and
// IDs keep their text, so that no digit is lost. Parsing is strict, since parsers that disagree about a message are a
// vulnerability.
package jsonrpc

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// JSON-RPC 2.0 error codes.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeInvalidParams  = -32602
	codeInternal       = -32603
)

// A Message is a JSON-RPC 2.0 message. Its fields are slices of the text that it was parsed from.
type Message struct {
	// ID is the unparsed ID, a string or an integer. It is nil in a notification, and in the error response to a
	// message with an unreadable ID.
	ID []byte
	// Method is empty in a response.
	Method string
	// Params is a JSON object, or nil.
	Params []byte
	// Meta is the member `_meta` of Params, or nil. It is stored because params can be large.
	Meta []byte
	// Result is the JSON object of a successful response, or nil.
	Result []byte
	// Error is the error of a response. Its data is a slice of the text.
	Error *pb.JsonRpcError
	// Size is the length of the text of a request or notification.
	Size int
}

// IsRequest reports whether the message is a request.
func (m *Message) IsRequest() bool { return m.Method != "" && m.ID != nil }

// IsNotification reports whether the message is a notification.
func (m *Message) IsNotification() bool { return m.Method != "" && m.ID == nil }

// IsResponse reports whether the message is a response.
func (m *Message) IsResponse() bool { return m.Method == "" }

// An Error is a parse error and the response to it.
type Error struct {
	// ID is the ID of the invalid message, or nil if it is unreadable.
	ID []byte
	// RPC is the error to respond with.
	RPC *pb.JsonRpcError
}

// Error implements error.
func (e *Error) Error() string { return e.RPC.GetMessage() }

// OfNotification reports whether the text was a notification, which has no response (JSON-RPC 2.0, 4.1).
func (e *Error) OfNotification() bool { return e.ID == nil && e.RPC.GetCode() == codeInvalidParams }

// NotExecuted is the error data for an invalid message, which was not executed.
const NotExecuted = `{"reason":"INVALID_REQUEST","outcome":"not_executed"}`

func newError(id []byte, code int32, format string, args ...any) *Error {
	message := fmt.Sprintf(format, args...)
	return &Error{ID: id, RPC: &pb.JsonRpcError{Code: code, Message: message, Data: NotExecuted}}
}

// check calls rawjson.CheckWithin. Valid JSON beyond a limit is an invalid request, not a parse error.
func check(data []byte, l *limits.Limits) *Error {
	err := rawjson.CheckWithin(data, l)
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*rawjson.Error](err); ok && e.JSON {
		return newError(nil, codeInvalidRequest, "the message is refused: %v", err)
	}
	return newError(nil, codeParse, "the message is not strict JSON: %v", err)
}

// members are the members of an envelope.
var members = []string{"jsonrpc", "id", "method", "params", "result", "error"}

// Parse parses a message within the limits. The error is an *Error. Unknown members are ignored, except those that
// differ from a member of the envelope by case only: another parser could accept them.
func Parse(data []byte, l *limits.Limits) (Message, error) {
	if err := check(data, l); err != nil {
		return Message{}, err
	}
	if !rawjson.IsObject(data) {
		return Message{}, newError(nil, codeInvalidRequest, "a message is a JSON object, not %s", rawjson.Shorten(data))
	}
	var version, id, method, params, result, rpcError []byte
	var wrongCase string
	for name, value := range rawjson.Members(data) {
		switch string(name) {
		case "jsonrpc":
			version = value
		case "id":
			id = value
		case "method":
			method = value
		case "params":
			params = value
		case "result":
			result = value
		case "error":
			rpcError = value
		default:
			like := func(m string) bool { return strings.EqualFold(m, string(name)) }
			if wrongCase == "" && slices.ContainsFunc(members, like) {
				wrongCase = string(name)
			}
		}
	}
	// A response to a message whose id could not be read has the id null (JSON-RPC 2.0, 5).
	if method == nil && rpcError != nil && rawjson.IsNull(id) {
		id = nil
	}
	// The ID comes first, because other errors contain it.
	if id != nil {
		if err := checkID(id, l); err != nil {
			return Message{}, err
		}
	}
	fail := func(format string, args ...any) (Message, error) {
		return Message{}, newError(id, codeInvalidRequest, format, args...)
	}
	if wrongCase != "" {
		return fail("unknown member %s: names are in lower case", strconv.Quote(rawjson.Shorten(wrongCase)))
	}
	if v, _ := rawjson.Bytes(version); string(v) != "2.0" {
		return fail(`member "jsonrpc" must be "2.0"`)
	}
	if method != nil {
		if result != nil || rpcError != nil {
			return fail(`a message with "method" has neither "result" nor "error"`)
		}
		name, ok := rawjson.String(method)
		if !ok || name == "" {
			return fail(`member "method" must be a string that is not empty, not %s`, rawjson.Shorten(method))
		}
		if params != nil && !rawjson.IsObject(params) {
			return Message{}, newError(id, codeInvalidParams, `member "params" must be an object, not %s`,
				rawjson.Shorten(params))
		}
		return Message{ID: id, Method: name, Params: params, Meta: rawjson.Get(params, "_meta"), Size: len(data)}, nil
	}
	switch {
	case result != nil && rpcError != nil:
		return fail(`a response has either "result" or "error"`)
	case result != nil && id == nil:
		return fail(`a result has an "id"`)
	case result != nil && !rawjson.IsObject(result):
		return fail(`member "result" must be an object, not %s`, rawjson.Shorten(result))
	case result != nil:
		return Message{ID: id, Result: result}, nil
	case rpcError == nil:
		return fail(`a message has "method", "result" or "error"`)
	}
	e, err := parseRPCError(rpcError)
	if err != nil {
		return fail("%v", err)
	}
	return Message{ID: id, Error: e}, nil
}

// checkID returns an error unless id is a string or an integer (every revision: basic, requests). It rejects `1.0`
// and `1e3`, which many implementations would return in another form.
func checkID(id []byte, l *limits.Limits) *Error {
	if len(id) > l.ID {
		return newError(nil, codeInvalidRequest, `member "id" must not be longer than %d bytes`, l.ID)
	}
	if !isStringOrInteger(id) {
		return newError(nil, codeInvalidRequest, `member "id" must be a string or an integer, not %s`,
			rawjson.Shorten(id))
	}
	return nil
}

// isStringOrInteger reports whether a JSON value is a string, or a number without fraction and exponent.
func isStringOrInteger(raw []byte) bool {
	if bytes.HasPrefix(raw, []byte{'"'}) {
		return true
	}
	digits := raw
	if len(digits) > 0 && digits[0] == '-' {
		digits = digits[1:]
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(digits) > 0
}

func parseRPCError(raw []byte) (*pb.JsonRpcError, error) {
	if !rawjson.IsObject(raw) {
		return nil, fmt.Errorf(`member "error" must be an object, not %s`, rawjson.Shorten(raw))
	}
	e := new(pb.JsonRpcError)
	var hasCode, hasMessage bool
	for name, value := range rawjson.Members(raw) {
		switch string(name) {
		case "code":
			n, err := strconv.ParseInt(string(value), 10, 64)
			if err != nil {
				return nil, fmt.Errorf(`member "error.code" must be an integer, not %s`, rawjson.Shorten(value))
			}
			if n != int64(int32(n)) { // the contract has codes of 32 bits, like the SDKs of MCP
				n = codeInternal
			}
			e.Code, hasCode = int32(n), true
		case "message":
			s, ok := rawjson.String(value)
			if !ok {
				return nil, fmt.Errorf(`member "error.message" must be a string, not %s`, rawjson.Shorten(value))
			}
			e.Message, hasMessage = s, true
		case "data":
			e.Data = rawjson.AsString(value)
		}
	}
	if !hasCode || !hasMessage {
		return nil, fmt.Errorf(`member "error" must have "code" and "message"`)
	}
	return e, nil
}

// IsBatch reports whether data starts like a JSON array.
func IsBatch(data []byte) bool { return rawjson.IsArray(data) }

// ParseBatch returns the texts of the messages in a batch within the limits. The messages are not validated. The
// error is an *Error.
func ParseBatch(data []byte, l *limits.Limits) ([][]byte, error) {
	if err := check(data, l); err != nil {
		return nil, err
	}
	if !IsBatch(data) {
		return nil, newError(nil, codeInvalidRequest, "a batch is a JSON array, not %s", rawjson.Shorten(data))
	}
	var texts [][]byte
	for text := range rawjson.Elements(data) {
		if len(texts) == l.Batch {
			return nil, newError(nil, codeInvalidRequest, "a batch has at most %d messages", l.Batch)
		}
		texts = append(texts, text)
	}
	if len(texts) == 0 {
		return nil, newError(nil, codeInvalidRequest, "a batch has at least one message")
	}
	return texts, nil
}

// AppendRequest appends a request. params is a JSON object or nil.
func AppendRequest(dst, id []byte, method string, params []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	return appendCall(append(dst, ','), method, params)
}

// AppendNotification appends a notification. params is a JSON object or nil.
func AppendNotification(dst []byte, method string, params []byte) []byte {
	return appendCall(append(dst, `{"jsonrpc":"2.0",`...), method, params)
}

func appendCall(dst []byte, method string, params []byte) []byte {
	dst = rawjson.AppendString(append(dst, `"method":`...), method)
	if params != nil {
		dst = append(append(dst, `,"params":`...), params...)
	}
	return append(dst, '}')
}

// AppendResult appends a successful response. result is a JSON object; nil means an empty one.
func AppendResult(dst, id, result []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(append(dst, id...), `,"result":`...)
	if result == nil {
		result = []byte("{}")
	}
	return append(append(dst, result...), '}')
}

// AppendError appends an error response. If id is nil, it is written as `null`, or omitted if omitID. Data that is
// not valid JSON is omitted.
func AppendError(dst, id []byte, e *pb.JsonRpcError, omitID bool) []byte {
	dst = append(dst, `{"jsonrpc":"2.0",`...)
	if id != nil {
		dst = append(append(append(dst, `"id":`...), id...), ',')
	} else if !omitID {
		dst = append(dst, `"id":null,`...)
	}
	dst = strconv.AppendInt(append(dst, `"error":{"code":`...), int64(e.GetCode()), 10)
	dst = rawjson.AppendString(append(dst, `,"message":`...), e.GetMessage())
	if data := rawjson.AsBytes(e.GetData()); len(data) > 0 {
		if with, err := rawjson.AppendChecked(append(dst, `,"data":`...), data); err == nil {
			dst = with
		}
	}
	return append(dst, "}}"...)
}
