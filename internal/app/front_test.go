package app

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/time/rate"
)

// An HTTP client that is refused for its certificate leaves a line in the log, and one that only looks whether the port
// is open does not.
func TestRejectedHTTPCertificatesAreLogged(t *testing.T) {
	var log bytes.Buffer
	h := &handshakeLog{
		debug:   debugLog{zerolog.New(&log).Level(zerolog.WarnLevel)},
		limiter: rate.Sometimes{Interval: time.Second},
	}
	for _, line := range []string{
		"http: TLS handshake error from 10.0.0.1:1: EOF",
		"http: TLS handshake error from 10.0.0.1:1: read tcp: i/o timeout", "http: something else",
	} {
		fmt.Fprintln(h, line)
	}
	if log.Len() > 0 {
		t.Errorf("got the log %s", &log)
	}
	for range 5 {
		fmt.Fprintln(h, "http: TLS handshake error from 10.0.0.1:1: tls: client didn't provide a certificate")
	}
	if text := log.String(); strings.Count(text, "\n") != 1 ||
		!strings.Contains(text, `"remote":"10.0.0.1:1","error":"tls: client didn't provide a certificate"`) {
		t.Errorf("got the log %s", text)
	}
}
