package mcphttp_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/mcpbridge/mcpbridge/internal/mcphttp"
)

// A request with Transfer-Encoding is the last of its connection, because a proxy may have used its Content-Length.
func TestChunkedRequestsCloseTheConnection(t *testing.T) {
	s := httptest.NewServer(admitted(&mcphttp.Guard{}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	})))
	defer s.Close()
	addr := s.Listener.Addr().String()
	for _, headers := range []string{"Content-Length: 4\r\n", ""} {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c,
			"POST / HTTP/1.1\r\nHost: "+addr+"\r\n"+headers+"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
		in := bufio.NewReader(c)
		res, err := http.ReadResponse(in, nil)
		if err != nil || res.StatusCode != http.StatusOK || !res.Close {
			t.Errorf("%q: got %v, %v, want 200 with Connection: close", headers, res, err)
		}
		if _, err := in.ReadByte(); err != io.EOF {
			t.Errorf("%q: got %v after the response, want EOF", headers, err)
		}
		c.Close()
	}
}
