package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpbridge/mcpbridge/test/survive/checker"
	"github.com/mcpbridge/mcpbridge/test/survive/loadgen"
)

// exhaustDescriptors is F20 and R17: clients use all file descriptors of the bridge, and its backend is killed
// meanwhile. Connected clients keep their streams, and the backend restarts once descriptors are free.
func exhaustDescriptors(ctx context.Context, r *Rig) error {
	const files = 256
	b, err := r.start(ctx, setup{})
	if err != nil {
		return err
	}
	if err := unix.Prlimit(b.PID, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: files, Max: files}, nil); err != nil {
		return err
	}
	callers, clients, err := callersOf(b.URL, 8)
	if err != nil {
		return err
	}
	var streams []*loadgen.Conn
	for _, c := range callers {
		if call := c.Call(loadgen.Work{}); !call.OK() {
			return fmt.Errorf("the first call failed: %+v", call)
		}
		stream, err := openStream(c)
		if err != nil {
			return err
		}
		streams = append(streams, stream)
	}
	group := startGroup(ctx, clients, func() loadgen.Work { return loadgen.Work{Ms: 20} })
	cur, err := group.await(ctx, 0)
	var back, came []time.Duration
	full := files
	for n := 0; n < r.cycles(2, 30) && err == nil; n++ {
		end := flood(ctx, b.URL, 2*files)
		time.Sleep(time.Second) // until all descriptors are in use
		full = min(full, b.holds().FDs)
		err = syscall.Kill(cur.pid, syscall.SIGKILL)
		time.Sleep(3*time.Second + time.Duration(n%10)*100*time.Millisecond)
		end()
		freed := time.Now()
		if err == nil {
			newcomer, newErr := loadgen.NewCaller(b.URL, loadgen.Modern, 100)
			if newErr != nil {
				return newErr
			}
			call := newcomer.Call(loadgen.Work{})
			came = append(came, time.Since(freed))
			newcomer.End()
			group.add(call)
			cur, err = group.await(ctx, cur.pid)
			back = append(back, max(cur.at.Sub(freed), 0)) // it may have answered before
		}
	}
	history := group.end()
	if err != nil {
		return errors.Join(err, fmt.Errorf("the log is in %s", b.Dir))
	}
	lost := 0
	for i := range streams {
		if streams[i].Dead() {
			lost++
		}
		streams[i].Close()
		callers[i].End()
	}
	if _, err := b.stop(); err != nil {
		return err
	}
	journal, err := b.journal(0)
	if err != nil {
		return err
	}
	wrongs := checker.Rule{}.Judge(history, journal)
	if len(wrongs) > 0 {
		if err := r.keepHistory(b, history, wrongs); err != nil {
			return err
		}
	}
	outcomes := map[string]int{}
	for i := range history {
		outcomes[outcome(&history[i])]++
	}
	r.report("F20", len(wrongs)+lost == 0 && full > files-10,
		"all descriptors are in use: 0 streams lost, 0 wrong answers",
		"%d times, %d of %d descriptors in use; %d calls %v: %d wrong %s; %d of %d streams lost",
		len(back), full, files, len(history), outcomes, len(wrongs), kinds(wrongs), lost, len(streams))
	r.report("R17", quantile(back, 1) <= time.Second && quantile(came, 1) <= time.Second,
		"1 s after descriptors are free, the killed backend runs and new clients are served",
		"backend p50 %v, max %v; new client p50 %v, max %v of %d", quantile(back, .5), quantile(back, 1),
		quantile(came, .5), quantile(came, 1),
		len(back))
	return nil
}

// flood holds connections with an incomplete request until the returned function is called.
func flood(ctx context.Context, url string, n int) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	host, _, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	for range n {
		wg.Go(func() {
			for ctx.Err() == nil {
				c, err := new(net.Dialer).DialContext(ctx, "tcp", host)
				if err != nil {
					continue // refused: retry
				}
				stop := context.AfterFunc(ctx, func() { _ = c.Close() })
				_, err = io.WriteString(c, "POST /mcp HTTP/1.1\r\nHost: "+host+"\r\n")
				if err == nil {
					_, _ = io.Copy(io.Discard, c) // until the bridge closes it
				}
				stop()
				_ = c.Close()
			}
		})
	}
	return func() {
		cancel()
		wg.Wait()
	}
}
