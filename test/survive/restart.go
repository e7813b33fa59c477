package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpbridge/mcpbridge/test/survive/checker"
	"github.com/mcpbridge/mcpbridge/test/survive/loadgen"
)

// killBridge is R5: the bridge is killed, and restarted in the same directory.
func killBridge(ctx context.Context, r *Rig) error {
	cycles := r.cycles(100, 1000)
	dir, err := os.MkdirTemp(r.dir, "b")
	if err != nil {
		return err
	}
	var starts, ends []time.Duration
	orphans := 0
	for len(ends) < cycles && orphans == 0 {
		b, err := r.start(ctx, setup{dir: dir, env: []string{"FAULTPLUG_DETACHED=1"}})
		if err != nil {
			return err
		}
		starts = append(starts, b.Started)
		c, err := loadgen.NewCaller(b.URL, loadgen.Modern, 0)
		if err != nil {
			return err
		}
		if call := c.Call(loadgen.Work{}); !call.OK() {
			return fmt.Errorf("a call failed: %+v", call)
		}
		kids := children(b.PID)
		if len(kids) == 0 {
			return errors.New("the bridge has no child process that it could orphan")
		}
		journal, err := b.journal(0)
		if err != nil {
			return err
		}
		for _, e := range journal { // processes of earlier bridges have ended
			if pid, err := strconv.Atoi(e.Token); err == nil && e.What == checker.Detached && alive(pid) {
				kids = append(kids, pid)
			}
		}
		killed := time.Now()
		b.kill()
		for _, pid := range kids {
			for alive(pid) && time.Since(killed) < 5*time.Second {
				time.Sleep(time.Millisecond) // only a parent can wait for a process
			}
			if alive(pid) {
				orphans++
			}
		}
		ends = append(ends, time.Since(killed))
		c.Close()
	}
	// A starting bridge removes files of killed ones that are at least a minute old.
	tmp := filepath.Join(dir, "t")
	left, err := os.ReadDir(tmp)
	if err != nil {
		return err
	}
	old := time.Now().Add(-2 * time.Minute)
	for _, e := range left {
		if err := os.Chtimes(filepath.Join(tmp, e.Name()), old, old); err != nil {
			return err
		}
	}
	b, err := r.start(ctx, setup{dir: dir})
	if err != nil {
		return err
	}
	stale := b.holds()
	_, err = b.stop()
	after, readErr := os.ReadDir(tmp)
	// One socket and one directory belong to the running bridge.
	r.report("R5", orphans == 0 && stale.Sockets <= 1 && len(after) == 0,
		"bridge kill -9: 0 orphans, 0 stale sockets or directories after the next start",
		"%d kills: %d orphans, %d stale sockets, %d of %d directories left", len(ends), orphans,
		max(stale.Sockets-1, 0), len(after), len(left))
	r.report("R5t", quantile(ends, .99) <= 100*time.Millisecond && quantile(starts, .99) <= 300*time.Millisecond,
		"no orphan after 100 ms, ready within 300 ms",
		"processes ended within p50 %v, p99 %v; ready within p50 %v, p99 %v", quantile(ends, .5), quantile(ends, .99),
		quantile(starts, .5), quantile(starts, .99))
	return errors.Join(err, readErr)
}

// terminateBridge is R7: the time from SIGTERM to exit, without and with calls in flight.
func terminateBridge(ctx context.Context, r *Rig) error {
	var idle, loaded []time.Duration
	for range r.cycles(10, 100) {
		b, err := r.start(ctx, setup{})
		if err != nil {
			return err
		}
		var conns []*loadgen.Conn
		for n := range 10 { // idle clients with open streams
			c, err := loadgen.NewCaller(b.URL, []string{loadgen.Legacy, loadgen.Modern}[n%2], n)
			if err != nil {
				return err
			}
			if call := c.Call(loadgen.Work{}); !call.OK() {
				return fmt.Errorf("a call failed: %+v", call)
			}
			stream, err := openStream(c)
			if err != nil {
				return err
			}
			conns = append(conns, stream, c.Conn)
		}
		took, err := b.stop()
		if err != nil {
			return err
		}
		idle = append(idle, took)
		for _, c := range conns {
			c.Close()
		}
	}
	lost := 0
	for range r.cycles(3, 30) {
		b, err := r.start(ctx, setup{})
		if err != nil {
			return err
		}
		var wg sync.WaitGroup
		history := make([]checker.Call, 64)
		begun := make(chan struct{}, len(history))
		for n := range history {
			c, err := loadgen.NewCaller(b.URL, []string{loadgen.Legacy, loadgen.Modern}[n%2], n)
			if err != nil {
				return err
			}
			wg.Go(func() {
				defer c.Close()
				once := false
				history[n] = c.Call(loadgen.Work{Ms: 2000, Events: 20, OnEvent: func(*checker.Call) bool {
					if !once {
						once = true
						begun <- struct{}{}
					}
					return true
				}})
			})
		}
		for range history {
			select {
			case <-begun:
			case <-time.After(20 * time.Second):
				return errors.New("calls did not start within 20 s")
			}
		}
		took, err := b.stop()
		if err != nil {
			return err
		}
		wg.Wait()
		loaded = append(loaded, took)
		for i := range history {
			if !history[i].OK() {
				lost++
			}
		}
	}
	r.report("R7", lost == 0, "64 calls of 2 s in flight at SIGTERM are answered",
		"%d times, %d calls lost", len(loaded), lost)
	r.report("R7t", quantile(idle, 1) <= time.Second && quantile(loaded, 1) <= 30*time.Second,
		"SIGTERM to exit within 1 s when idle, and within 30 s with 64 calls of 2 s",
		"idle p50 %v, max %v of %d; loaded max %v of %d", quantile(idle, .5), quantile(idle, 1), len(idle),
		quantile(loaded, 1), len(loaded))
	return nil
}

// openStream opens a stream of change notifications.
func openStream(c *loadgen.Caller) (*loadgen.Conn, error) {
	conn, err := loadgen.NewConn(c.URL)
	if err != nil {
		return nil, err
	}
	var resp *http.Response
	if c.Era == loadgen.Modern {
		resp, err = loadgen.Listen(conn, "listen")
	} else {
		resp, err = c.Stream(conn, "")
	}
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("open a stream: status %d", resp.StatusCode)
	}
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// A balancer forwards connections to the configured servers in turn.
type balancer struct {
	ln net.Listener
	wg sync.WaitGroup

	mu      sync.Mutex // guards what follows
	targets []string
	next    int
}

func newBalancer() (*balancer, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b := &balancer{ln: ln}
	b.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			b.wg.Go(func() { b.pass(c) })
		}
	})
	return b, nil
}

// set replaces the servers for new connections.
func (b *balancer) set(urls ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.targets = nil
	for _, u := range urls {
		host, _, _ := strings.Cut(strings.TrimPrefix(u, "http://"), "/")
		b.targets = append(b.targets, host)
	}
}

func (b *balancer) pass(client net.Conn) {
	defer client.Close()
	b.mu.Lock()
	b.next++
	target := b.targets[b.next%len(b.targets)]
	b.mu.Unlock()
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer server.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(server, client) // the client and the server detect errors
		if tcp, ok := server.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
	}()
	_, _ = io.Copy(client, server) // as above
	client.Close()
	<-done
}

// close closes the balancer, after all connections have ended.
func (b *balancer) close() {
	b.ln.Close()
	b.wg.Wait()
}

// rolling counts the effects of a rolling restart on clients.
type rolling struct {
	calls, renewed, streams atomic.Int64

	mu     sync.Mutex
	failed []checker.Call
	cut    []string // streams that did not end as specified
}

// call makes calls until ctx ends. A legacy client whose session is lost starts a new one, as 2025-11-25 requires.
func (s *rolling) call(ctx context.Context, c *loadgen.Caller, work func() loadgen.Work) {
	defer c.Close()
	for ctx.Err() == nil {
		call := c.Call(work())
		s.calls.Add(1)
		if call.Status == http.StatusNotFound && c.Era == loadgen.Legacy {
			c.Forget()
			s.renewed.Add(1)
			continue
		}
		if !call.OK() {
			s.mu.Lock()
			s.failed = append(s.failed, call)
			s.mu.Unlock()
			if c.Era == loadgen.Legacy {
				c.Forget()
			}
		}
	}
}

// listen keeps a modern stream open until ctx ends. If the server ends it, it must end with its JSON-RPC response and
// a complete HTTP response.
func (s *rolling) listen(ctx context.Context, url string, n int) {
	conn, err := loadgen.NewConn(url)
	if err != nil {
		return
	}
	ended := false
	for ctx.Err() == nil {
		id := fmt.Sprintf("listen-%d", n)
		ended = false
		resp, err := loadgen.Listen(conn, id)
		if err == nil && resp.StatusCode != http.StatusOK {
			err = fmt.Errorf("status %d", resp.StatusCode)
		}
		if err == nil {
			s.streams.Add(1)
			stop := context.AfterFunc(ctx, func() { _ = resp.Body.Close(); conn.Close() })
			err = conn.Messages(resp, func(m checker.Message) bool {
				ended = ended || loadgen.IsResponse(m, id)
				return true
			})
			stop()
		}
		conn.Close()
		if ctx.Err() == nil && (err != nil || !ended) {
			s.mu.Lock()
			s.cut = append(s.cut, fmt.Sprintf("got its response: %v, error: %v", ended, err))
			s.mu.Unlock()
		}
	}
}

// restartRolling is R6: two bridges behind a balancer, which are removed, stopped and restarted one at a time.
func restartRolling(ctx context.Context, r *Rig) error {
	restarts, streams := r.cycles(10, 100), r.cycles(200, 1000)
	var bridges [2]*Bridge
	for i := range bridges {
		var err error
		if bridges[i], err = r.start(ctx, setup{}); err != nil {
			return err
		}
	}
	lb, err := newBalancer()
	if err != nil {
		return err
	}
	lb.set(bridges[0].URL, bridges[1].URL)
	url := "http://" + lb.ln.Addr().String() + "/mcp"
	clients, stop := context.WithCancel(ctx)
	defer stop()
	var s rolling
	var wg sync.WaitGroup
	for n := range 64 {
		c, err := loadgen.NewCaller(url, []string{loadgen.Legacy, loadgen.Modern}[n%2], n)
		if err != nil {
			return err
		}
		work := func() loadgen.Work { return loadgen.Work{Ms: 2000} }
		if n >= 32 {
			work = func() loadgen.Work { return loadgen.Work{Ms: 30 + rand.IntN(70)} } // 500 calls a second in all
		}
		wg.Go(func() { s.call(clients, c, work) })
	}
	for n := range streams {
		wg.Go(func() { s.listen(clients, url, n) })
	}
	began := time.Now()
	var drains []time.Duration
	for i := range restarts {
		out, other := i%2, 1-i%2
		time.Sleep(200 * time.Millisecond) // both bridges receive calls
		lb.set(bridges[other].URL)
		took, err := bridges[out].stop()
		if err != nil {
			return err
		}
		drains = append(drains, took)
		if bridges[out], err = r.start(ctx, setup{}); err != nil {
			return err
		}
		lb.set(bridges[0].URL, bridges[1].URL)
	}
	rate := float64(s.calls.Load()) / time.Since(began).Seconds()
	stop()
	wg.Wait()
	for _, b := range bridges {
		if _, err := b.stop(); err != nil {
			return err
		}
	}
	lb.close()
	why := ""
	if len(s.failed) > 0 {
		why = fmt.Sprintf("; the first failed: %+v", s.failed[0])
	}
	if len(s.cut) > 0 {
		why += "; the first cut: " + s.cut[0]
	}
	r.report("R6", len(s.failed)+len(s.cut) == 0,
		fmt.Sprintf("%d rolling restarts of 2 replicas under calls of 2 s and %d streams: 0 failed", restarts, streams),
		"%d restarts, %d calls (%.0f/s), %d failed; %d streams opened, %d ended badly; %d legacy sessions "+
			"replaced; drained within p50 %v, max %v%s",
		restarts, s.calls.Load(), rate, len(s.failed), s.streams.Load(), len(s.cut), s.renewed.Load(),
		quantile(drains, .5), quantile(drains, 1), why)
	return nil
}
