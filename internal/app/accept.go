package app

import (
	"net"
	"time"

	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/internal/child"
)

// acceptRetryDelay is the pause after a connection could not be accepted because no descriptor was left.
const acceptRetryDelay = 100 * time.Millisecond

// A retryingListener retries soon when there are no descriptors left. net/http and gRPC wait up to a second, during
// which no new client would be served.
type retryingListener struct {
	net.Listener
	log zerolog.Logger
}

func (l retryingListener) Accept() (net.Conn, error) {
	for logged := false; ; {
		c, err := l.Listener.Accept()
		if !child.OutOfFiles(err) {
			return c, err
		}
		if !logged {
			logged = true
			l.log.Warn().Err(err).Str("fix", child.MoreFilesFix).Msg("no file descriptors are left for new connections")
		}
		<-time.After(acceptRetryDelay) // the system does not notify of free descriptors
	}
}
