package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mcpbridge/mcpbridge/test/survive/checker"
	"github.com/mcpbridge/mcpbridge/test/survive/loadgen"
)

// A sample is the resources of a bridge at one time.
type sample struct {
	after           time.Duration
	rss, anon, file int64 // bytes; the kernel can reclaim file
	heap            int64 // bytes after the last collection
	minor, major    int64 // page faults so far
	fds, threads    int
	collected       int // number of collections
}

// collection matches a line of GODEBUG=gctrace=1: the number of the collection, and the heap in MiB at its start,
// end, and after.
var collection = regexp.MustCompile(`(?m)^gc (\d+) @.* (\d+)->(\d+)->(\d+) MB`)

// sample returns the current resources of the bridge.
func (b *Bridge) sample(began time.Time) sample {
	h := b.holds()
	s := sample{
		after: time.Since(began), rss: h.RSS, anon: status(b.PID, "RssAnon"), file: status(b.PID, "RssFile"),
		fds: h.FDs, threads: h.Threads,
	}
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", b.PID))
	if f := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])); len(f) > 9 {
		s.minor, _ = strconv.ParseInt(f[7], 10, 64)
		s.major, _ = strconv.ParseInt(f[9], 10, 64)
	}
	log, _ := os.ReadFile(filepath.Join(b.Dir, "log"))
	if all := collection.FindAllSubmatch(log, -1); len(all) > 0 {
		last := all[len(all)-1]
		s.collected, _ = strconv.Atoi(string(last[1]))
		mib, _ := strconv.ParseInt(string(last[4]), 10, 64)
		s.heap = mib << 20
	}
	return s
}

// measureMemory is K2: the memory of a bridge under calls of every kind, for a long time. GOGC is set to disable the
// ballast, which lets the heap grow by 64 MiB before the first collection: that could hide a leak, or look like one.
func measureMemory(ctx context.Context, r *Rig) error {
	lasts := 90 * time.Second
	if r.long {
		lasts = time.Hour
	}
	var target string
	b, err := r.start(ctx, setup{
		own: []string{"GOGC=100", "GODEBUG=gctrace=1"},
		config: func(b *Bridge) string {
			target = "unix://" + filepath.Join(b.Dir, "grpc")
			return fmt.Sprintf("version: 1\nserve: {grpc: {addr: %q}}\nbackends: [{name: faultplug, launch: "+
				"{command: [%q], env: {FAULTPLUG_JOURNAL: %q}}}]\n",
				target, r.plugin, b.Journal)
		},
	})
	if err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(b.Dir, "samples"))
	if err != nil {
		return err
	}
	defer out.Close()
	ctx, cancel := context.WithTimeout(ctx, lasts)
	defer cancel()
	var mu sync.Mutex // guards what follows
	calls, failed := 0, []checker.Call(nil)
	var wg sync.WaitGroup
	for n := range 12 {
		wg.Go(func() {
			for ctx.Err() == nil {
				done, wrong := mixed(ctx, b.URL, target, n)
				mu.Lock()
				calls += done
				failed = append(failed, wrong...)
				mu.Unlock()
			}
		})
	}
	const count = 60
	tick := time.NewTicker(lasts / (count + 1))
	defer tick.Stop()
	var samples []sample
	for began := time.Now(); len(samples) < count && ctx.Err() == nil; {
		select {
		case <-tick.C:
			s := b.sample(began)
			samples = append(samples, s)
			fmt.Fprintf(out, "%v rss %d anon %d file %d heap %d collections %d faults %d major %d fds %d threads %d\n",
				s.after.Round(time.Second),
				s.rss>>10, s.anon>>10, s.file>>10, s.heap>>10, s.collected, s.minor, s.major, s.fds, s.threads)
		case <-ctx.Done():
		}
	}
	cancel()
	wg.Wait()
	if _, err := b.stop(); err != nil {
		return err
	}
	if len(samples) < 3 {
		return ctx.Err()
	}
	most := func(of []sample) (anon int64) {
		for _, s := range of {
			anon = max(anon, s.anon)
		}
		return anon
	}
	first, last := most(samples[:len(samples)*2/3]), most(samples[len(samples)*2/3:])
	end := samples[len(samples)-1]
	r.report("K2", len(failed) == 0 && last <= first+growth,
		fmt.Sprintf("in the last third of %v of calls of every kind, memory grows by at most 2 MiB", lasts),
		"%d calls, %d failed; anonymous memory at most %d KiB, and %d KiB in the last third; at the end RSS %d "+
			"KiB, of it files %d KiB, heap %d KiB, %d collections",
		calls, len(failed), first>>10, last>>10, end.rss>>10, end.file>>10, end.heap>>10, end.collected)
	return nil
}

// growth is the tolerated growth of memory.
const growth = 2 << 20

// mixed makes some calls of one client over HTTP or gRPC, and disconnects.
func mixed(ctx context.Context, url, target string, n int) (calls int, failed []checker.Call) {
	judge := func(c checker.Call) {
		calls++
		if !c.OK() && c.Dropped == 0 {
			failed = append(failed, c)
		}
	}
	work := func() loadgen.Work {
		w := loadgen.Work{Ms: rand.IntN(20)}
		switch rand.IntN(10) {
		case 0:
			w.Events = 1 + rand.IntN(20)
		case 1:
			w.Events, w.Pad = 1, 1<<rand.IntN(17)
		}
		return w
	}
	times := 20 + rand.IntN(100)
	if n%4 == 3 {
		g, err := newGRPCCaller(target, n)
		if err != nil {
			return 0, []checker.Call{{Broken: err.Error()}}
		}
		defer g.conn.Close()
		for i := 0; i < times && ctx.Err() == nil; i++ {
			judge(g.Call(work()))
			pause(ctx)
		}
		return calls, failed
	}
	era := []string{loadgen.Legacy, loadgen.Modern}[n%2]
	c, err := loadgen.NewCaller(url, era, n)
	if err != nil {
		return 0, []checker.Call{{Broken: err.Error()}}
	}
	aside, err := loadgen.NewConn(url)
	if err != nil {
		return 0, []checker.Call{{Broken: err.Error()}}
	}
	defer c.End()
	defer aside.Close()
	for i := 0; i < times && ctx.Err() == nil; i++ {
		w := work()
		switch rand.IntN(30) {
		case 0: // cancels the call
			w = loadgen.Work{Tool: "hang"}
			w.OnEvent = func(call *checker.Call) bool {
				if era == loadgen.Legacy {
					_ = c.Notify(aside, call.Token)
				}
				return false
			}
		case 1:
			_, _, _ = aside.Do(http.MethodPost, c.Headers(""), []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
		case 2:
			_, _, _ = aside.Do(http.MethodPost, c.Headers(""), []byte(`{"jsonrpc":"2.0","id":1,"meth`))
		}
		judge(c.Call(w))
		pause(ctx)
	}
	return calls, failed
}

// pause waits between two calls of a client.
func pause(ctx context.Context) {
	select {
	case <-time.After(rand.N(150 * time.Millisecond)):
	case <-ctx.Done():
	}
}
