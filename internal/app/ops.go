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

// An ops responds to probes from before the backends start until after they have exited: a sidecar starts before its
// application, so liveness must not depend on backends.
type ops struct {
	app  *App
	srv  *http.Server
	port conns.Port
}

// A health is the response to a probe.
type health struct {
	Status   string            `json:"status"`
	Backends map[string]string `json:"backends"`
}

// newOps returns the server for probes.
func (a *App) newOps() *ops {
	o := &ops{app: a, port: conns.Port{Name: "probe", Log: a.Log}}
	mux := http.NewServeMux()
	for path, is := range map[string]func() bool{
		"/livez":    func() bool { return true },
		"/startupz": func() bool { return a.life.Phase() >= lifecycle.Running },
		"/readyz":   o.ready,
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { o.respond(w, is()) })
	}
	// A probe has an IP address in its Host header. Requests with a name are rejected: it may be rebound.
	usual := limits.Defaults() // the configured limits are for clients
	guard := &mcphttp.Guard{Addresses: true, Log: a.Log}
	admitted := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if guard.Admit(w, r) {
			mux.ServeHTTP(w, r)
		}
	})
	o.srv = &http.Server{
		Handler: admitted, ReadHeaderTimeout: usual.HeaderTime, ReadTimeout: usual.HeaderTime,
		WriteTimeout: usual.HeaderTime,
		IdleTimeout:  usual.ConnectionIdle, MaxHeaderBytes: usual.Header - headerExtra,
		DisableGeneralOptionsHandler: true, ErrorLog: log.New(debugLog{a.Log}, "", 0),
	}
	return o
}

// run responds to probes until ctx ends. Without a listener, it does nothing.
func (o *ops) run(ctx context.Context) {
	if o.app.ops == nil {
		return
	}
	defer context.AfterFunc(ctx, func() { o.srv.Close() })() // a probe in progress receives the final state
	if err := o.srv.Serve(o.port.Listener(o.app.ops)); ctx.Err() == nil {
		o.app.Log.Error().Err(err).Msg("serving probes ended")
	}
}

// ready reports whether new clients can be served: the bridge is running and not degraded, and a backend is ready.
func (o *ops) ready() bool {
	if o.app.life.Phase() != lifecycle.Running || o.app.panics.Degraded() != "" {
		return false
	}
	for _, b := range o.app.backends {
		if b.now() == nil {
			return true
		}
	}
	return false
}

func (o *ops) respond(w http.ResponseWriter, good bool) {
	h := health{Status: "ok", Backends: map[string]string{}}
	status := http.StatusOK
	if !good {
		h.Status, status = "not yet", http.StatusServiceUnavailable
		switch {
		case o.app.life.Phase() >= lifecycle.LameDuck:
			h.Status = "ending"
		case o.app.panics.Degraded() != "":
			h.Status = "panics again and again: see the log"
		}
	}
	for _, b := range o.app.backends {
		h.Backends[b.Name] = "ready"
		if b.now() != nil {
			h.Backends[b.Name] = "not ready"
		}
	}
	body, _ := json.Marshal(h) //nolint:errchkjson // strings can always be written
	w.Header().Set("Content-Type", mcphttp.JSON)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the prober may have disconnected
}
