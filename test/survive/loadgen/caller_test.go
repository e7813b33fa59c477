package loadgen

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A session that ends before the server hears that the client is ready is begun again, as one that ends later is.
func TestASessionThatEndsAtOnceIsBegunAgain(t *testing.T) {
	for _, tt := range []struct{ ends, renewed int }{{0, 0}, {1, 1}, {3, 3}, {4, 3}} {
		begun := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			switch {
			case strings.Contains(string(body), `"initialize"`):
				begun++
				w.Header().Set("Mcp-Session-Id", fmt.Sprint("s", begun))
				fmt.Fprint(w, `{"jsonrpc":"2.0","id":0,"result":{}}`)
			case begun <= tt.ends || r.Header.Get("Mcp-Session-Id") != fmt.Sprint("s", begun):
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
			t.Errorf("%d sessions end: %d begun again, error %v", tt.ends, c.Renewed, err)
		}
		c.Close()
		server.Close()
	}
}
