package mcpserver_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/mcpbridge/mcpbridge/internal/mcpserver"
)

// Responses reuse the buffers of earlier ones. Concurrent responses of all sizes, some of them unread, match their
// requests.
func TestResponsesAreNotShared(t *testing.T) {
	f := newFront(t, mcpserver.Options{})
	var callers sync.WaitGroup
	for i := range 16 {
		callers.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			for n := range 40 {
				text := strings.Repeat(fmt.Sprintf("%d of %d ", n, i), 1+random.IntN(1<<random.IntN(16)))
				body, h := modern(n, "tools/call", `"name":"echo","arguments":{"text":"`+text+`"}`, noCaps, "Mcp-Name",
					"echo")
				res := f.do(t.Context(), http.MethodPost, f.url, body, h)
				if random.IntN(8) == 0 {
					res.Body.Close()
					continue
				}
				got, err := io.ReadAll(res.Body)
				res.Body.Close()
				if err != nil || !strings.Contains(string(got), `"{\"text\":\"`+text+`\"}"`) {
					t.Errorf("%.50q: %v, %.200q", text, err, got)
				}
			}
		})
	}
	callers.Wait()
}
