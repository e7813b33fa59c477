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

// Pipe replaces the program of c by serve, which reads from in and writes to out until in ends. The Client may have any
// Command.
func (c *Client) Pipe(serve func(ctx context.Context, in io.Reader, out io.Writer)) {
	c.launch = func(p *peer) error {
		inR, inW := io.Pipe()
		outR, outW := io.Pipe()
		in := func() io.WriteCloser { return inW }
		s := c.newStdio(p, in)
		s.exitReport = func() string { return "" }
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

// Hasten shortens all intervals between attempts.
func (c *Client) Hasten() {
	c.intervals.Backoff, c.intervals.CallWait, c.intervals.sweep = 5*time.Millisecond, 5*time.Second,
		10*time.Millisecond
}

// TrustRoots makes c trust the certificates of roots and check idle HTTP/2 connections after a short time. The timeout
// of the check is long enough for a busy machine.
func (c *Client) TrustRoots(roots *x509.CertPool) {
	t := c.http.Transport.(*http.Transport)
	t.TLSClientConfig = &tls.Config{RootCAs: roots}
	t.HTTP2.SendPingTimeout, t.HTTP2.PingTimeout = 100*time.Millisecond, 3*time.Second
}

// SpendRetries uses up the budget of retries.
func (c *Client) SpendRetries() {
	for c.super.Retries.Retry() {
	}
}

// HastenHangChecks makes the client check programs at intervals that are short enough for a test.
func (c *Client) HastenHangChecks() {
	c.intervals.hangCheck, c.intervals.pingAfter = 20*time.Millisecond, 50*time.Millisecond
}

// FailStarts makes starts of programs fail with EMFILE while exhausted returns true.
func (c *Client) FailStarts(exhausted func() bool) {
	launch := c.launch
	c.launch = func(p *peer) error {
		if exhausted() {
			return c.notStarted(os.NewSyscallError("pipe2", syscall.EMFILE))
		}
		return launch(p)
	}
}

// Topics returns the number of resources that have a subscriber.
func (c *Client) Topics() int {
	h := &c.super.Live().peer.subs
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.topics)
}

// PoolSize returns the number of sessions that count toward the limit, and how many of them are ending.
func (c *Client) PoolSize() (total, ending int) {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	return c.pool.total, c.pool.ending
}
