package loadgen

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A session that ends before notifications/initialized is replaced by a new one, at most three times.
func TestSessionThatEndsDuringItsStartIsReplaced(t *testing.T) {
	for _, tt := range []struct{ ends, renewed int }{{0, 0}, {1, 1}, {3, 3}, {4, 3}} {
		started := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			switch {
			case strings.Contains(string(body), `"initialize"`):
				started++
				w.Header().Set("Mcp-Session-Id", fmt.Sprint("s", started))
				fmt.Fprint(w, `{"jsonrpc":"2.0","id":0,"result":{}}`)
			case started <= tt.ends || r.Header.Get("Mcp-Session-Id") != fmt.Sprint("s", started):
				w.WriteHeader(http.StatusNotFound)
			default:
				w.WriteHeader(http.StatusAccepted)
			}
		}))
		c, err := NewCaller(server.URL+"/mcp", Legacy, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Open(); (err == nil) != (tt.ends == tt.renewed) || c.Renewed != tt.renewed {
			t.Errorf("%d sessions end: got %d new ones, error %v, want %d", tt.ends, c.Renewed, err, tt.renewed)
		}
		c.Close()
		server.Close()
	}
}
