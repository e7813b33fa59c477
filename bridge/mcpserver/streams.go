package mcpserver

import (
	"errors"
	"net/http"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/bridge/limit"
)

// refuseFull answers a request that is one too many: of all, or of its caller's.
func refuseFull(w http.ResponseWriter, err error) {
	status := http.StatusServiceUnavailable
	if errors.Is(err, errTooManyOfOne) || bridge.AsError(err).Failure.GetReason() == limit.ReasonTooMany {
		status = http.StatusTooManyRequests
	}
	w.Header().Set("Retry-After", "1")
	refuse(w, status, err.Error())
}
