package app

import (
	"net"
	"time"

	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/internal/child"
)

// acceptAgain is the pause after a connection could not be accepted because no descriptor was left.
const acceptAgain = 100 * time.Millisecond

// A retryingListener retries soon when there are no descriptors left. net/http and gRPC wait up to a second, during
// which no new client would be served.
type retryingListener struct {
	net.Listener
	log zerolog.Logger
}

func (l retryingListener) Accept() (net.Conn, error) {
	for told := false; ; {
		c, err := l.Listener.Accept()
		if !child.OutOfFiles(err) {
			return c, err
		}
		if !told {
			told = true
			l.log.Warn().Err(err).Str("fix", child.MoreFilesFix).Msg("there are no descriptors left for connections")
		}
		<-time.After(acceptAgain) // the system does not notify of free descriptors
	}
}
