package mcpclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"os"
	"syscall"
	"time"
)

// Pipe makes serve the program of c: it reads in and writes out until in ends. It is for a Client with any Command.
func (c *Client) Pipe(serve func(ctx context.Context, in io.Reader, out io.Writer)) {
	c.launch = func(p *peer) error {
		inR, inW := io.Pipe()
		outR, outW := io.Pipe()
		in := func() io.WriteCloser { return inW }
		s := c.newStdio(p, in)
		s.words = func() string { return "" }
		ctx, cancel := context.WithCancel(context.Background())
		s.end = func() {
			_ = outR.Close()
			cancel()
		}
		s.wg.Go(func() {
			serve(ctx, inR, outW)
			_ = inR.Close()
			_ = outW.Close()
		})
		s.wg.Go(func() { s.read(outR) })
		s.write(in)
		return nil
	}
}

// Hasten makes everything that takes time between attempts take less of it.
func (c *Client) Hasten() {
	c.pace.Backoff, c.pace.Patience, c.pace.sweep = 5*time.Millisecond, 5*time.Second, 10*time.Millisecond
}

// Dial makes c trust the servers of roots, and ask soon whether a connection of HTTP/2 still leads somewhere. The
// answer has as long as a busy machine may take.
func (c *Client) Dial(roots *x509.CertPool) {
	t := c.http.Transport.(*http.Transport)
	t.TLSClientConfig = &tls.Config{RootCAs: roots}
	t.HTTP2.SendPingTimeout, t.HTTP2.PingTimeout = 100*time.Millisecond, 3*time.Second
}

// SpendRetries has as many calls made again as may be at once.
func (c *Client) SpendRetries() {
	for c.super.Retries.Retry() {
	}
}

// Watch has programs watched so closely that a test can wait for it.
func (c *Client) Watch() {
	c.pace.look, c.pace.quiet = 20*time.Millisecond, 50*time.Millisecond
}

// Starve has no program started while there are no descriptors.
func (c *Client) Starve(none func() bool) {
	launch := c.launch
	c.launch = func(p *peer) error {
		if none() {
			return c.notStarted(os.NewSyscallError("pipe2", syscall.EMFILE))
		}
		return launch(p)
	}
}

// Topics returns how many resources a client remembers that somebody listens to.
func (c *Client) Topics() int {
	h := &c.super.Live().peer.subs
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.topics)
}

// Room returns how many sessions take the room that there is for them, and how many of them have yet to end.
func (c *Client) Room() (total, ending int) {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	return c.pool.total, c.pool.ending
}
