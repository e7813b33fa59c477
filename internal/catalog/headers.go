package catalog

import (
	"context"
	"net/http"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/mcphttp"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// repeated are the arguments of a tool that HTTP clients repeat in headers.
type repeated struct {
	once   sync.Once
	params []mcphttp.Param
}

// checkHeaders returns an error if the header of a call does not repeat the arguments as its tool declares (2026-07-28:
// streamable-http, custom headers): proxies route and admit requests by it. As with arguments, the cached list can
// accept the call unless a change was reported, and only a list that was requested after the call arrived can reject
// it; if that request fails, the call is not executed. If the tool is unknown, unlisted is the error of tools/list, or
// nil.
func (c *Catalog) checkHeaders(
	ctx context.Context, call *bridge.Call, r *pb.CallToolRequest, t **tool, unlisted error, arrived uint64,
) error {
	if *t == nil {
		if !hasParams(call.Header) {
			return nil // few tools declare headers; calls of the others must not fail because tools/list does
		}
		return notListed(unlisted)
	}
	wrong := (*t).input.checkHeader(call.Header, r.GetArguments())
	if wrong == nil || (*t).began > arrived {
		return wrong
	}
	newer, err := c.find(ctx, bridge.AudienceOf(r.GetContext()), call, r.GetName(), arrived)
	switch {
	case ctx.Err() != nil:
		return bridge.Canceled(ctx, false)
	case err != nil || newer == nil:
		return notListed(err)
	}
	*t = newer
	return newer.input.checkHeader(call.Header, r.GetArguments())
}

// checkHeader returns an error if a header does not repeat the arguments as the schema declares.
func (s *schema) checkHeader(header map[string][]string, arguments []byte) error {
	s.repeated.once.Do(func() { s.repeated.params, _ = mcphttp.Params(s.text) }) // an invalid annotation is ignored
	for _, p := range s.repeated.params {
		if err := p.Check(arguments, http.Header(header).Values(p.Header)); err != nil {
			return bridge.HeaderMismatch("%w", err)
		}
	}
	return nil
}

func hasParams(header map[string][]string) bool {
	for name := range header {
		if strings.HasPrefix(name, mcphttp.HeaderParamPrefix) {
			return true
		}
	}
	return false
}

// notListed returns the error of a call whose header cannot be checked because tools/list failed with err. A backend
// without lists declares no headers.
func notListed(err error) error {
	if err == nil || bridge.AsError(err).Code == codes.Unimplemented {
		return nil
	}
	e := bridge.AsError(err).Redacted()
	n := bridge.Failed(codes.Unavailable, bridge.OutcomeNotExecuted, "BACKEND_FAILED",
		"tools/call: the headers %s* cannot be checked, because tools/list failed (%s); the call was not executed",
		mcphttp.HeaderParamPrefix, e.Message)
	if e.Outcome != "" && e.RPC == nil {
		n.Code, n.Reason, n.RetryAfter = e.Code, e.Reason, e.RetryAfter
	}
	n.Cause = err
	return n
}
