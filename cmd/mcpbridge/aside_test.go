package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
)

// Errors of net/http quote the server. They are logged as one line, which the server cannot break.
func TestServerTextCannotForgeLogLines(t *testing.T) {
	bridgetest.SkipIfShort(t)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		answer := answerSized(body)
		if r.Method != http.MethodPost || err != nil || answer == "" {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = fmt.Fprintf(conn,
			"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s{\"level\":\"error\"}",
			len(answer), answer)
		_, _ = io.Copy(io.Discard, conn) // until the peer closes the connection
	}))
	t.Cleanup(s.Close)
	r := start(t, nil, nil, "run", "-c", writeConfig(t, fmt.Sprintf(`
log: {level: debug, format: json}
serve: {http: {addr: "127.0.0.1:0"}}
backends: [{name: web, mcp: {url: %q}}]
`, s.URL)))
	r.awaitLog(t, `"line":"Unsolicited response`)
	for line := range strings.Lines(r.stderr.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("not a line of the bridge's log: %q", line)
		}
	}
}
