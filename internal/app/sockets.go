package app

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/activation"

	"github.com/mcpbridge/mcpbridge/internal/config"
	"github.com/mcpbridge/mcpbridge/internal/problem"
)

// Sockets are the listening sockets that the service manager has passed to this process (systemd's LISTEN_FDS), by what
// they serve: http, grpc or ops. They replace the configured addresses.
type Sockets map[string]*inheritedListener

// socketNames are the names that FileDescriptorName= of a systemd unit can have.
var socketNames = []string{"http", "grpc", "ops"}

// InheritedSockets returns the sockets that were passed to this process. A single one with another name serves HTTP.
func InheritedSockets() (Sockets, error) {
	sockets := Sockets{}
	files := activation.Files(true)
	defer func() { // net.FileListener duplicates them
		for _, f := range files {
			f.Close()
		}
	}()
	for _, f := range files {
		name := f.Name()
		if !slices.Contains(socketNames, name) {
			if len(files) > 1 {
				return nil, socketProblem(name, "set FileDescriptorName= to "+strings.Join(socketNames, ", "),
					"it has no name that mcpbridge serves")
			}
			name = "http"
		}
		if sockets[name] != nil {
			return nil, socketProblem(name, "keep one ListenStream= for each FileDescriptorName=",
				"there are two sockets with this name")
		}
		ln, err := net.FileListener(f)
		if err != nil {
			return nil, socketProblem(name, "use ListenStream= and Accept=no", err.Error())
		}
		sockets[name] = &inheritedListener{Listener: ln, closed: make(chan struct{})}
	}
	return sockets, nil
}

func socketProblem(name, fix, why string) error {
	return &problem.Error{
		Exit: problem.ExitConfig, Code: "socket", Why: why, Fix: fix,
		What: fmt.Sprintf("the socket %q of the service manager cannot be served", name),
	}
}

// Configure replaces the configured addresses by those of the sockets.
func (s Sockets) Configure(cfg *config.Config) {
	for _, name := range slices.Sorted(maps.Keys(s)) {
		cfg.Inherit(name, s[name].Addr())
	}
}

// pause stops accepting connections of clients. New ones wait for the next process that inherits the sockets. Probes
// are answered until the end.
func (s Sockets) pause() {
	for name, ln := range s {
		if name != "ops" {
			ln.pause()
		}
	}
}

// An inheritedListener is the listener of a socket that the service manager keeps when this process exits.
type inheritedListener struct {
	net.Listener

	once   sync.Once
	closed chan struct{}
}

// Accept implements net.Listener. After pause, it waits for Close.
func (l *inheritedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		<-l.closed
		return nil, net.ErrClosed
	}
	return c, err
}

func (l *inheritedListener) pause() {
	if d, ok := l.Listener.(interface{ SetDeadline(t time.Time) error }); ok {
		_ = d.SetDeadline(time.Now()) // an error means that it is closed
	}
}

// Close implements net.Listener.
func (l *inheritedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}
