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

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// unsent returns the error of a request that has no response. A Transport may know better than we that it was not
// executed: that the server wants credentials that there are not, for instance.
func unsent(err error) error {
	if e, ok := errors.AsType[*bridge.Error](err); ok {
		return e
	}
	return &lost{err: withoutURL(err)}
}

// withoutURL returns err without the URL, whose query may be a secret.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

var errSessionEnded = errors.New("the server does not know the session any more")

// unread is why an answer could not be read.
func (w *streamable) unread(err error) error {
	if errors.Is(err, errTooLarge) {
		return w.p.c.tooLarge(err)
	}
	if e, ok := errors.AsType[*bridge.Error](err); ok {
		return e // it was read, and is none
	}
	return &lost{err: err}
}

// cut is why a stream ended without a response.
func (w *streamable) cut(err error) error {
	if errors.Is(err, io.EOF) {
		err = errors.New("the server ended the stream without a response")
	}
	return w.unread(err)
}

// misbehaved is the error of an answer that no correct server gives.
func (w *streamable) misbehaved(format string, args ...any) error {
	return w.p.c.misbehaved(format, args...)
}

// status is the error of a response that is no answer.
func (w *streamable) status(res *http.Response, text string) error {
	c := w.p.c
	err := statusError(res, text)
	switch code := res.StatusCode; {
	case code == http.StatusUnauthorized:
		return bridge.Failed(codes.Unauthenticated, pb.CallFailure_OUTCOME_NOT_EXECUTED, "UPSTREAM_UNAUTHENTICATED",
			"server %q does not know who we are (%s); the call was not executed. Give it credentials", c.o.Name, res.Status)
	case code == http.StatusForbidden:
		return bridge.Failed(codes.PermissionDenied, pb.CallFailure_OUTCOME_NOT_EXECUTED, "UPSTREAM_FORBIDDEN",
			"server %q does not let us do that (%s); the call was not executed", c.o.Name, res.Status)
	case code == http.StatusNotFound && w.session != "":
		return &lost{err: fmt.Errorf("%w (%s)", errSessionEnded, res.Status), refused: true, forgot: true, renew: true}
	case code >= 300 && code < 400:
		outcome := pb.CallFailure_OUTCOME_UNKNOWN // a POST that was executed may be answered so, mostly by 303, and by 301 and 302 before (RFC 9110, 15.4)
		if code == http.StatusTemporaryRedirect || code == http.StatusPermanentRedirect {
			outcome = pb.CallFailure_OUTCOME_NOT_EXECUTED // the same request is to be sent elsewhere
		}
		return bridge.Failed(codes.FailedPrecondition, outcome, "UPSTREAM_REDIRECTS",
			"server %q: it redirects to %s, which is not followed; if that is right, make it the server's url", c.o.Name, locationOf(res))
	case slices.Contains([]int{http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusGone, http.StatusUnsupportedMediaType}, code):
		return &lost{err: err, refused: true, renew: true}
	case code == http.StatusRequestEntityTooLarge:
		return bridge.Failed(codes.ResourceExhausted, pb.CallFailure_OUTCOME_NOT_EXECUTED, "REQUEST_TOO_LARGE",
			"server %q: the request is too large for it (%s); the call was not executed", c.o.Name, res.Status)
	case code == http.StatusTooManyRequests:
		e := bridge.Failed(codes.ResourceExhausted, pb.CallFailure_OUTCOME_NOT_EXECUTED, "UPSTREAM_OVERLOADED",
			"server %q has too much to do (%s); the call was not executed", c.o.Name, res.Status)
		if after, err := strconv.ParseUint(res.Header.Get("Retry-After"), 10, 31); err == nil { // a date is of another clock
			e.Failure.RetryAfterMs = proto.Int64(int64(after) * 1_000)
		}
		return e
	}
	return &lost{err: err, answered: true, gateway: isGateways(res.StatusCode)}
}

// isGateways reports whether a status says that a gateway has no answer of the server behind it.
func isGateways(status int) bool {
	return status == http.StatusBadGateway || status == http.StatusGatewayTimeout
}

// textOf returns the beginning of a response's body.
func textOf(res *http.Response) string {
	text, _ := io.ReadAll(io.LimitReader(res.Body, 500))
	return strings.TrimSpace(string(text))
}

// statusError says what a server has answered by a status and a text.
func statusError(res *http.Response, text string) error {
	if text != "" {
		text = ": " + rawjson.ShortenTo(text, 300)
	}
	return fmt.Errorf("the server answered with %s%s", res.Status, text)
}

// locationOf says where a redirection leads, without what may be secret in it.
func locationOf(res *http.Response) string {
	u, err := res.Location()
	if err != nil {
		return "nowhere"
	}
	return u.Scheme + "://" + u.Host + u.Path
}
