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

// An exhaustedListener fails with EMFILE until a point in time.
type exhaustedListener struct {
	net.Listener
	until time.Time
}

func (l *exhaustedListener) Accept() (net.Conn, error) {
	if time.Now().Before(l.until) {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	c, _ := net.Pipe()
	return c, nil
}

// Once file descriptors are free again, Accept returns connections. The problem is logged once.
func TestAcceptResumesWhenDescriptorsAreFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		until := time.Now().Add(time.Minute + time.Millisecond)
		ln := &retryingListener{Listener: &exhaustedListener{until: until}, log: zerolog.New(&log)}
		if c, err := ln.Accept(); err != nil || c == nil {
			t.Errorf("%v, %v", c, err)
		}
		if late := time.Since(until); late > 100*time.Millisecond {
			t.Errorf("accepted %v after descriptors were free", late)
		}
		if n := strings.Count(log.String(), "no file descriptors are left"); n != 1 ||
			!strings.Contains(log.String(), "ulimit -n") {
			t.Errorf("the log: %s", log.String())
		}
	})
}
