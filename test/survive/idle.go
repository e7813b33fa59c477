package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpbridge/mcpbridge/internal/mcpserver"
	"github.com/mcpbridge/mcpbridge/internal/plugin"
	"github.com/mcpbridge/mcpbridge/test/survive/loadgen"
)

// idleSessions is L4: the maximum number of legacy sessions, all idle.
func idleSessions(ctx context.Context, r *Rig) error {
	const most = 100_000
	perSession, err := r.goroutines(ctx)
	if err != nil {
		return err
	}
	b, err := r.start(ctx, setup{})
	if err != nil {
		return err
	}
	before := b.holds()
	began := time.Now()
	if err := open(ctx, b.URL, most); err != nil {
		return err
	}
	took := time.Since(began)
	one, err := loadgen.NewCaller(b.URL, loadgen.Legacy, 0)
	if err != nil {
		return err
	}
	more := one.Open()
	one.Close()
	after := settled(b)
	if _, err := b.stop(); err != nil {
		return err
	}
	r.report("L4", after.RSS <= 500<<20 && perSession == 0 && more == nil,
		"100,000 idle legacy sessions in 500 MiB, without a goroutine per session; a further session replaces unused "+
			"ones",
		"%d sessions in %d MiB RSS (%d MiB before), %d threads, %.3f goroutines each; opened %.0f/s; a further one is "+
			"accepted: %v", most, after.RSS>>20,
		before.RSS>>20, after.Threads, perSession, most/took.Seconds(), more == nil)
	return nil
}

// open opens legacy sessions over a few connections.
func open(ctx context.Context, url string, sessions int) error {
	var left atomic.Int64
	left.Store(int64(sessions))
	errs := make([]error, 16)
	var wg sync.WaitGroup
	for n := range errs {
		wg.Go(func() {
			c, err := loadgen.NewCaller(url, loadgen.Legacy, n)
			if err != nil {
				errs[n] = err
				return
			}
			defer c.Close()
			for left.Add(-1) >= 0 && ctx.Err() == nil {
				if errs[n] = c.Open(); errs[n] != nil {
					return
				}
				c.Leave()
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// goroutines returns the number of goroutines per idle session.
func (r *Rig) goroutines(ctx context.Context) (each float64, err error) {
	const sessions = 2000
	err = r.inside(ctx, func(b *Bridge) error {
		if err := open(ctx, b.URL, 1); err != nil { // initializes caches
			return err
		}
		before := stableGoroutines()
		err := open(ctx, b.URL, sessions)
		each = float64(max(stableGoroutines()-before-goroutineNoise, 0)) / sessions
		return err
	})
	return each, err
}

// goroutineNoise is the tolerated difference in the number of goroutines.
const goroutineNoise = 5

// inside calls f with a bridge in this process, with the same server and backend as in mcpbridge. The number of
// goroutines is not visible from outside.
func (r *Rig) inside(ctx context.Context, f func(b *Bridge) error) error {
	dir, err := os.MkdirTemp(r.dir, "b")
	if err != nil {
		return err
	}
	b := &Bridge{Dir: dir, Journal: filepath.Join(dir, "journal"), PID: os.Getpid()}
	p, err := plugin.New(plugin.Options{
		Name: "faultplug", Command: []string{r.plugin},
		Env: []string{"FAULTPLUG_JOURNAL=" + b.Journal},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { _ = p.Run(ctx) }) // Ready returns the error
	if err := p.Ready(ctx); err != nil {
		return err
	}
	mcp := mcpserver.New(p, mcpserver.Options{})
	defer mcp.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: mcp, ReadHeaderTimeout: 5 * time.Second}
	wg.Go(func() { _ = srv.Serve(ln) }) // always returns an error
	defer srv.Close()
	b.URL = "http://" + ln.Addr().String() + "/mcp"
	return f(b)
}

// countGoroutines is K1g: the number of goroutines after kills under load. killUnderLoad checks the other resources
// with the real process.
func countGoroutines(ctx context.Context, r *Rig) error {
	kills := r.cycles(20, 200)
	return r.inside(ctx, func(b *Bridge) error {
		callers, clients, err := callersOf(b.URL, 32)
		if err != nil {
			return err
		}
		defer func() {
			for _, c := range callers {
				c.End()
			}
		}()
		if err := warm(callers); err != nil {
			return err
		}
		killer, err := loadgen.NewCaller(b.URL, loadgen.Modern, 100)
		if err != nil {
			return err
		}
		before := stableGoroutines()
		k, err := r.killRepeatedly(ctx, b, clients, killer, kills)
		for _, c := range append(callers, killer) {
			c.Close()
		}
		after := stableGoroutines()
		r.report("K1g", after <= before+goroutineNoise && len(k.wrongs) == 0,
			"after kills under load at most 5 more goroutines than before",
			"goroutines %d → %d after %d kills and %d calls", before, after, kills, k.calls)
		return err
	})
}

// stableGoroutines returns the number of goroutines when it is stable.
func stableGoroutines() int {
	last := -1
	for same, tries := 0, 0; same < 5 && tries < 100; tries++ {
		time.Sleep(20 * time.Millisecond) // goroutines of closed connections end without an event
		n := runtime.NumGoroutine()
		if same++; n != last {
			same = 0
		}
		last = n
	}
	return last
}

// idleStreams is L5: streams that only wait for changes.
func idleStreams(ctx context.Context, r *Rig) error {
	const most = 15_000
	hold := time.Duration(r.cycles(20, 3600)) * time.Second // the bridge sends a keepalive every 15 s
	b, err := r.start(ctx, setup{})
	if err != nil {
		return err
	}
	before := settled(b)
	conns := make([]*loadgen.Conn, most)
	bodies := make([]*http.Response, most)
	errs := make([]error, 16)
	began := time.Now()
	var wg sync.WaitGroup
	for n := range errs {
		wg.Go(func() {
			for i := n; i < most && errs[n] == nil; i += len(errs) {
				c, err := loadgen.NewConn(b.URL)
				if err == nil {
					bodies[i], err = loadgen.Listen(c, "listen")
				}
				if err == nil && bodies[i].StatusCode != http.StatusOK {
					err = fmt.Errorf("stream %d: status %d", i, bodies[i].StatusCode)
				}
				conns[i], errs[n] = c, err
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	opened := time.Since(began)
	time.Sleep(hold)
	held := b.holds()
	dead := 0
	for _, c := range conns {
		if c.Dead() {
			dead++
		}
	}
	for i, c := range conns {
		c.Close()
		_ = bodies[i].Body.Close()
	}
	after := settled(b)
	if _, err := b.stop(); err != nil {
		return err
	}
	each := float64(held.RSS-before.RSS) / most / 1024
	r.report("L5", each <= 28 && dead == 0 && after.FDs <= before.FDs,
		fmt.Sprintf("15,000 idle streams for %v in 28 KiB each, 0 lost", hold),
		"%d streams in %.1f KiB each (%d MiB), %d lost; opened %.0f/s; fds %d → %d → %d", most, each, held.RSS>>20,
		dead, most/opened.Seconds(),
		before.FDs, held.FDs, after.FDs)
	return nil
}
