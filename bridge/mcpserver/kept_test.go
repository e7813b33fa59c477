package mcpserver

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge/bridgetest"
)

// heap returns how many bytes are in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A session keeps what initialize says of its client, and not the message around it.
func TestASessionKeepsLittleOfItsMessage(t *testing.T) {
	const n, long = 16, 1 << 20
	s := New(bridgetest.New(), Options{})
	defer s.Close()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"initialize","pad":%q,"params":{"protocolVersion":"2025-11-25",`+
		`"capabilities":{"experimental":{"x":{}}},"clientInfo":{"name":"c","version":"1","x":1}}}`, strings.Repeat("x", long))
	begin := func() {
		if res := sent(t, s, "", body); res.StatusCode != http.StatusOK {
			t.Fatal(res.Status)
		}
	}
	begin()
	before := heap()
	for range n {
		begin()
	}
	if kept := heap() - before; kept > n*long/4 {
		t.Errorf("%d sessions keep %d KiB, and each began with a message of %d KiB", n, kept>>10, long>>10)
	}
	runtime.KeepAlive(s)
}
