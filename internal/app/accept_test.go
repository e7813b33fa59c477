package app

import (
	"bytes"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

// A full listener has no descriptors until a time.
type full struct {
	net.Listener
	until time.Time
}

func (l *full) Accept() (net.Conn, error) {
	if time.Now().Before(l.until) {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	c, _ := net.Pipe()
	return c, nil
}

// Once descriptors are free again, clients are served, and the log has the problem once.
func TestAcceptResumesWhenDescriptorsAreFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		until := time.Now().Add(time.Minute + time.Millisecond)
		if c, err := (retryingListener{&full{until: until}, zerolog.New(&log)}).Accept(); err != nil || c == nil {
			t.Errorf("%v, %v", c, err)
		}
		if late := time.Since(until); late > 100*time.Millisecond {
			t.Errorf("accepted %v after there are descriptors", late)
		}
		if n := strings.Count(log.String(), "no file descriptors are left"); n != 1 ||
			!strings.Contains(log.String(), "ulimit -n") {
			t.Errorf("the log: %s", log.String())
		}
	})
}
