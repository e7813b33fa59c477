package mcpserver

import (
	"net/http"

	"github.com/mcpbridge/mcpbridge/bridge"
)

// refuseFull rejects a request above a limit, of all callers or of one.
func refuseFull(w http.ResponseWriter, err error) {
	e := bridge.AsError(err)
	status := http.StatusServiceUnavailable
	if e.Reason == bridge.ReasonTooMany {
		status = http.StatusTooManyRequests
	}
	w.Header().Set("Retry-After", "1")
	refuseFor(w, status, e.JSONRPC(bridge.LatestLegacy, nil))
}
