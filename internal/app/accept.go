package app

import (
	"net"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/internal/child"
)

// acceptRetryDelay is the pause after a connection could not be accepted because no descriptor was left.
const acceptRetryDelay = 100 * time.Millisecond

// A retryingListener retries soon when there are no descriptors left. net/http and gRPC wait up to a second, during
// which no new client would be served. It also reports whether the server that accepts its connections hangs.
type retryingListener struct {
	net.Listener
	log zerolog.Logger

	waiting  atomic.Bool   // for a connection, in Accept
	accepted atomic.Uint64 // number of connections
	checked  atomic.Uint64 // accepted at the previous call of hangs, plus 1; 0: there was none
}

func (l *retryingListener) Accept() (net.Conn, error) {
	l.waiting.Store(true)
	defer l.waiting.Store(false)
	for logged := false; ; {
		c, err := l.Listener.Accept()
		if !child.OutOfFiles(err) {
			l.accepted.Add(1)
			return c, err
		}
		if !logged {
			logged = true
			l.log.Warn().Err(err).Str("fix", child.MoreFilesFix).Msg("no file descriptors are left for new connections")
		}
		<-time.After(acceptRetryDelay) // the system does not notify of free descriptors
	}
}

// hangs reports whether the server has neither accepted a connection since the previous call nor waits for one.
func (l *retryingListener) hangs() bool {
	now := l.accepted.Load() + 1
	return l.checked.Swap(now) == now && !l.waiting.Load()
}
