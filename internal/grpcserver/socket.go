package grpcserver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
)

// TLS names the PEM files for encrypted connections.
type TLS struct {
	// Cert and Key are the server's certificate chain and private key.
	Cert, Key string
	// ClientCA has the authorities for client certificates, which are then required (mutual TLS). If empty, clients
	// need none.
	ClientCA string
}

// load reads the files.
func (t *TLS) load() (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return nil, fmt.Errorf("TLS certificate %q and key %q: %w", t.Cert, t.Key, err)
	}
	c := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	if t.ClientCA == "" {
		return c, nil
	}
	pem, err := os.ReadFile(t.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("TLS client CA: %w", err)
	}
	c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !c.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("TLS client CA: %s has no certificate in PEM", t.ClientCA)
	}
	return c, nil
}

// defaultMode allows only the owner to connect.
const defaultMode = 0o600

// Listen listens at an address: unix:PATH (also unix:///PATH), or HOST:PORT (also tcp:HOST:PORT). The file of a unix
// socket has the given mode, 0600 if it is 0; on Linux from the beginning. An unused socket of a process that has ended
// is replaced; a socket in use, or another kind of file, is an error.
func Listen(ctx context.Context, address string, mode fs.FileMode) (net.Listener, error) {
	path, ok := strings.CutPrefix(address, "unix:")
	if !ok {
		address = strings.TrimPrefix(strings.TrimPrefix(address, "tcp:"), "//")
		if _, port, err := net.SplitHostPort(address); err != nil || port == "" {
			return nil, fmt.Errorf("listen on %q: it must be unix:PATH or HOST:PORT", address)
		}
		return new(net.ListenConfig).Listen(ctx, "tcp", address)
	}
	path = strings.TrimPrefix(path, "//")
	if path == "" {
		return nil, fmt.Errorf("listen on %q: there is no path after %s", address, "unix:")
	}
	if mode == 0 {
		mode = defaultMode
	}
	// Two processes that find the same unused socket must not both replace it.
	unlock, err := lock(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	defer unlock()
	if err := makeRoom(ctx, path); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		// On Linux a socket's file inherits the mode of the socket, so that no other user can connect even for a
		// moment. Elsewhere this has no effect, and the mode is set below.
		return c.Control(func(fd uintptr) { _ = restrict(fd, mode) })
	}}
	ln, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, mode); err != nil {
		ln.Close()
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	return ln, nil
}

// ErrInUse is the error of an address in use.
var ErrInUse = errors.New("another process listens there; end it, or choose another path")

// makeRoom removes an unused socket.
func makeRoom(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("the file is not a socket, and is not removed")
	case alive(ctx, path):
		return ErrInUse
	}
	return os.Remove(path)
}

// alive reports whether a unix socket is, or may be, in use.
func alive(ctx context.Context, path string) bool {
	c, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err == nil {
		c.Close() // nothing was sent
		return true
	}
	return !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, fs.ErrNotExist)
}
