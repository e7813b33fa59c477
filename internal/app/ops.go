package app

import (
	"context"
	"encoding/json"
	"log"
	"net/http"

	"github.com/mcpbridge/mcpbridge/internal/conns"
	"github.com/mcpbridge/mcpbridge/internal/lifecycle"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mcphttp"
)

// A probeServer responds to probes from before the backends start until after they have exited: a sidecar starts
// before its application, so liveness must not depend on backends.
type probeServer struct {
	app  *App
	srv  *http.Server
	port conns.Port
}

// A health is the response to a probe.
type health struct {
	Status   string            `json:"status"`
	Backends map[string]string `json:"backends"`
}

// newProbeServer returns the server for probes.
func (a *App) newProbeServer() *probeServer {
	o := &probeServer{app: a, port: conns.Port{Name: "probe", Log: a.Log}}
	mux := http.NewServeMux()
	for path, isHealthy := range map[string]func() bool{
		"/livez":    func() bool { return true },
		"/startupz": func() bool { return a.lifecycle.Phase() >= lifecycle.Running },
		"/readyz":   o.ready,
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { o.respond(w, isHealthy()) })
	}
	// The Host header of a probe has an IP address. Requests with a host name are rejected, because of DNS rebinding.
	defaults := limits.Defaults() // the configured limits are for clients
	guard := &mcphttp.Guard{Addresses: true, Log: a.Log}
	admitted := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if guard.Admit(w, r) {
			mux.ServeHTTP(w, r)
		}
	})
	o.srv = &http.Server{
		Handler: admitted, ReadHeaderTimeout: defaults.HeaderTime, ReadTimeout: defaults.HeaderTime,
		WriteTimeout: defaults.HeaderTime,
		IdleTimeout:  defaults.ConnectionIdle, MaxHeaderBytes: defaults.Header - headerExtra,
		DisableGeneralOptionsHandler: true, ErrorLog: log.New(debugLog{a.Log}, "", 0),
	}
	return o
}

// run responds to probes until ctx ends. Without a listener, it does nothing.
func (o *probeServer) run(ctx context.Context) {
	if o.app.ops == nil {
		return
	}
	defer context.AfterFunc(ctx, func() { o.srv.Close() })()
	if err := o.srv.Serve(o.port.Listener(o.app.ops)); ctx.Err() == nil {
		o.app.Log.Error().Err(err).Msg("the probe server failed")
	}
}

// ready reports whether new clients can be served: the bridge is running and not degraded, and a backend is ready.
func (o *probeServer) ready() bool {
	if o.app.lifecycle.Phase() != lifecycle.Running || o.app.panics.Degraded() != "" {
		return false
	}
	for _, b := range o.app.backends {
		if b.readiness() == nil {
			return true
		}
	}
	return false
}

func (o *probeServer) respond(w http.ResponseWriter, healthy bool) {
	h := health{Status: "ok", Backends: map[string]string{}}
	status := http.StatusOK
	if !healthy {
		h.Status, status = "not yet", http.StatusServiceUnavailable
		switch {
		case o.app.lifecycle.Phase() >= lifecycle.LameDuck:
			h.Status = "ending"
		case o.app.panics.Degraded() != "":
			h.Status = "panics repeatedly: see the log"
		}
	}
	for _, b := range o.app.backends {
		h.Backends[b.Name] = "ready"
		if b.readiness() != nil {
			h.Backends[b.Name] = "not ready"
		}
	}
	body, _ := json.Marshal(h) //nolint:errchkjson // strings can always be encoded
	w.Header().Set("Content-Type", mcphttp.JSON)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the prober may have disconnected
}
