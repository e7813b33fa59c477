package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
)

// probe sends a probe with a Host header and returns the status and the body.
func probe(t *testing.T, r *run, path, host string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.app.Ops()+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

func startWithOps(t *testing.T, backend string) *run {
	t.Helper()
	file := filepath.Join(t.TempDir(), "mcpbridge.yaml")
	text := "version: 1\nserve: {http: {addr: 127.0.0.1:0}, ops: {addr: 127.0.0.1:0}}\nbackends: [{name: b, " +
		backend + "}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return start(t, nil, nil, "run", "-c", file)
}

func TestProbes(t *testing.T) {
	bridgetest.SkipIfShort(t)
	r := startWithOps(t, "launch: {command: ["+echoGo(t)+"]}")
	for _, path := range []string{"/livez", "/startupz", "/readyz"} {
		if status, body := probe(t, r, path, "10.1.2.3:9090"); status != 200 ||
			body != `{"status":"ok","backends":{"b":"ready"}}` {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if status, _ := probe(t, r, "/readyz", "evil.example.com"); status != 403 {
		t.Errorf("Host that DNS rebinding could use: status %d", status)
	}
	if status, _ := probe(t, r, "/nosuch", ""); status != 404 {
		t.Errorf("nothing there: %d", status)
	}
	// During its shutdown, the bridge is alive but not ready.
	done := make(chan error)
	go func() {
		_, err := r.call(t, "slow", `{"ms":500}`)
		done <- err
	}()
	for r.called.Load() == 0 {
		if _, body := probe(t, r, "/livez", ""); !strings.Contains(body, "ok") {
			t.Error(body)
		}
	}
	r.drain()
	for status := 200; status == 200; {
		status, _ = probe(t, r, "/readyz", "")
	}
	if status, body := probe(t, r, "/readyz", ""); status != 503 || !strings.Contains(body, `"ending"`) {
		t.Errorf("during shutdown: %d %s", status, body)
	}
	if status, _ := probe(t, r, "/livez", ""); status != 200 {
		t.Errorf("not alive during shutdown: %d", status)
	}
	if err := <-done; err != nil {
		t.Errorf("the call: %v", err)
	}
}

// A bridge is alive and has started even if its backend is not reachable yet.
func TestProbesWithoutABackend(t *testing.T) {
	bridgetest.SkipIfShort(t)
	r := startWithOps(t, "dial: unix:"+filepath.Join(t.TempDir(), "absent.sock"))
	for path, want := range map[string]int{"/livez": 200, "/startupz": 200, "/readyz": 503} {
		if status, body := probe(t, r, path, ""); status != want || !strings.Contains(body, `"b":"not ready"`) {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
}

// A bridge with three panics at one place within a minute is not ready; another bridge in the same process is.
func TestRepeatedPanicsMakeTheBridgeNotReady(t *testing.T) {
	r, other := startWithOps(t, "launch: {command: ["+echoGo(t)+"]}"),
		startWithOps(t, "launch: {command: ["+echoGo(t)+"]}")
	r.defective.Store(true)
	for n, want := range []int{200, 200, 503} {
		if body, err := r.call(t, "echo", `{"text":"x"}`); err == nil || !strings.Contains(err.Error(), "bug") {
			t.Fatalf("call %d: %s %v", n, body, err)
		}
		status, body := probe(t, r, "/readyz", "")
		if status != want || status == 503 && !strings.Contains(body, "panics repeatedly") {
			t.Errorf("after %d panics: %d %s", n+1, status, body)
		}
	}
	if status, body := probe(t, r, "/livez", ""); status != 200 {
		t.Errorf("not alive: %d %s", status, body)
	}
	if status, body := probe(t, other, "/readyz", ""); status != 200 {
		t.Errorf("another bridge: %d %s", status, body)
	}
}
