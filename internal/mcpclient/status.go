package mcpclient

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
)

// sendError returns the error of a request without a response. The error of a Transport may report that the request was
// not executed, for instance because credentials are missing.
func sendError(err error) error {
	if e, ok := errors.AsType[*bridge.Error](err); ok {
		return e
	}
	return &lostError{err: withoutURL(err)}
}

// withoutURL returns err without the URL, whose query may contain secrets.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

var errSessionEnded = errors.New("the server reports that the session is unknown")

// readError returns why a response could not be read.
func (w *streamable) readError(err error) error {
	if errors.Is(err, errTooLarge) {
		return w.p.c.tooLarge(err)
	}
	if e, ok := errors.AsType[*bridge.Error](err); ok {
		return e // the response was read, and is invalid
	}
	return &lostError{err: err}
}

// streamEnded returns why a stream ended without a response.
func (w *streamable) streamEnded(err error) error {
	if errors.Is(err, io.EOF) {
		err = errors.New("the server ended the stream without a response")
	}
	return w.readError(err)
}

// protocolViolation returns the error of a response that violates the protocol.
func (w *streamable) protocolViolation(format string, args ...any) error {
	return w.p.c.protocolViolation(format, args...)
}

// status returns the error of a response with an unexpected status.
func (w *streamable) status(res *http.Response, text string) error {
	c := w.p.c
	err := statusError(res, text)
	switch code := res.StatusCode; {
	case code == http.StatusUnauthorized:
		return bridge.Failed(codes.Unauthenticated, bridge.OutcomeNotExecuted, "UPSTREAM_UNAUTHENTICATED",
			"server %q requires authentication (%s); the call was not executed. Give it credentials", c.o.Name,
			res.Status)
	case code == http.StatusForbidden:
		return bridge.Failed(codes.PermissionDenied, bridge.OutcomeNotExecuted, "UPSTREAM_FORBIDDEN",
			"server %q denies access (%s); the call was not executed", c.o.Name, res.Status)
	case code == http.StatusNotFound && w.session != "":
		return &lostError{
			err: fmt.Errorf("%w (%s)", errSessionEnded, res.Status), refused: true, unknownSession: true,
			reprobe: true,
		}
	case code >= 300 && code < 400:
		// a server may execute a POST and then redirect, mostly with 303, earlier also with 301 and 302 (RFC 9110,
		// 15.4)
		outcome := bridge.OutcomeUnknown
		if code == http.StatusTemporaryRedirect || code == http.StatusPermanentRedirect {
			outcome = bridge.OutcomeNotExecuted // the same request must be sent elsewhere
		}
		return bridge.Failed(codes.FailedPrecondition, outcome, "UPSTREAM_REDIRECTS",
			"server %q: it redirects to %s, which is not followed; if that is right, make it the server's url",
			c.o.Name, locationOf(res))
	case slices.Contains([]int{
		http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusNotAcceptable, http.StatusGone, http.StatusUnsupportedMediaType,
	}, code):
		return &lostError{err: err, refused: true, reprobe: true}
	case code == http.StatusRequestEntityTooLarge:
		return bridge.Failed(codes.ResourceExhausted, bridge.OutcomeNotExecuted, "REQUEST_TOO_LARGE",
			"server %q: the request is too large for it (%s); the call was not executed", c.o.Name, res.Status)
	case code == http.StatusTooManyRequests:
		e := bridge.Failed(codes.ResourceExhausted, bridge.OutcomeNotExecuted, "UPSTREAM_OVERLOADED",
			"server %q is overloaded (%s); the call was not executed", c.o.Name, res.Status)
		// a date would depend on another clock
		if after, err := strconv.ParseUint(res.Header.Get("Retry-After"), 10, 31); err == nil {
			e.RetryAfter = time.Duration(after) * time.Second
		}
		return e
	}
	return &lostError{err: err, answered: true, gateway: isGatewayStatus(res.StatusCode)}
}

// isGatewayStatus reports whether a gateway sends the status when the server behind it did not respond.
func isGatewayStatus(status int) bool {
	return status == http.StatusBadGateway || status == http.StatusGatewayTimeout
}

// textOf returns the beginning of a response's body.
func textOf(res *http.Response) string {
	text, _ := io.ReadAll(io.LimitReader(res.Body, 500))
	return strings.TrimSpace(string(text))
}

// statusError describes a response by its status and text.
func statusError(res *http.Response, text string) error {
	if text != "" {
		text = ": " + rawjson.ShortenTo(text, 300)
	}
	return fmt.Errorf("the server answered with %s%s", res.Status, text)
}

// locationOf returns the target of a redirect, without its parts that may be secret.
func locationOf(res *http.Response) string {
	u, err := res.Location()
	if err != nil {
		return "nowhere"
	}
	return u.Scheme + "://" + u.Host + u.Path
}
