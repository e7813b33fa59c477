package conns_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"golang.org/x/net/http2"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/conns"
)

// More requests of a stock client on one connection than a flood may have frames are no flood.
func TestManyRequestsAreAllowed(t *testing.T) {
	bridgetest.SkipIfShort(t)
	t.Parallel()
	var log bytes.Buffer
	p := &conns.Port{MaxConns: 1, Log: zerolog.New(&log)}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		c, err := ln.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
		opts := &http2.ServeConnOpts{Handler: answer}         //nolint:staticcheck // http.Server does not show frames
		new(http2.Server).ServeConn(p.Add(c).Framed(c), opts) //nolint:staticcheck // as above
	}()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	client, url := &http.Client{Transport: transport}, "http://"+ln.Addr().String()
	for i := range 12_000 {
		res, err := client.Post(url, "text/plain", strings.NewReader("x"))
		if err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		if string(text) != "x" || err != nil {
			t.Fatalf("request %d: %q, %v", i, text, err)
		}
	}
	ln.Close()
	transport.CloseIdleConnections()
	<-served
	if log.Len() > 0 {
		t.Errorf("got the log %s", &log)
	}
}
