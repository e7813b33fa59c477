package app

import (
	"bytes"

	"github.com/rs/zerolog"
	"golang.org/x/time/rate"
)

// headerExtra is what net/http adds to MaxHeaderBytes.
const headerExtra = 4 << 10

// A debugLog logs the messages of net/http about failed connections at debug level: the client is at fault, and the
// operator can do nothing.
type debugLog struct{ log zerolog.Logger }

func (d debugLog) Write(line []byte) (int, error) {
	d.log.Debug().Msg(string(bytes.TrimSpace(line)))
	return len(line), nil
}

// A handshakeLog is a debugLog that also warns of clients that were rejected in the TLS handshake, for example because
// of their certificate, at most once a second. A port scan disconnects before the handshake.
type handshakeLog struct {
	debug   debugLog
	limiter rate.Sometimes
}

func (h *handshakeLog) Write(line []byte) (int, error) {
	refused, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("http: TLS handshake error from "))
	disconnected := bytes.HasSuffix(refused, []byte(": EOF")) || bytes.HasSuffix(refused, []byte("timeout")) ||
		bytes.HasSuffix(refused, []byte("reset by peer"))
	if !ok || disconnected {
		return h.debug.Write(line)
	}
	remote, why, _ := bytes.Cut(refused, []byte(": "))
	h.limiter.Do(func() {
		h.debug.log.Warn().Bytes("remote", remote).Bytes("error", why).
			Msg("refused an HTTP client: its TLS handshake failed; serve.http.tls configures the accepted certificates")
	})
	return len(line), nil
}
