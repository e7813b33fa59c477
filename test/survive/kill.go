package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mcpbridge/mcpbridge/test/survive/checker"
	"github.com/mcpbridge/mcpbridge/test/survive/loadgen"
)

// A group is a set of concurrent clients with their history.
type group struct {
	mu      sync.Mutex // guards what follows
	history []checker.Call
	pids    []int // the last backend processes that answered
	news    chan firstAnswer

	wg   sync.WaitGroup
	stop context.CancelFunc
}

// A firstAnswer is the first answer of a new backend process.
type firstAnswer struct {
	pid int
	at  time.Time
}

// A client makes one call.
type client interface {
	Call(w loadgen.Work) checker.Call
}

// startGroup starts clients, which make calls with the work that next returns.
func startGroup(ctx context.Context, clients []client, next func() loadgen.Work) *group {
	g := &group{news: make(chan firstAnswer, 1), pids: make([]int, 0, 100)}
	ctx, g.stop = context.WithCancel(ctx)
	for _, c := range clients {
		g.wg.Go(func() {
			for ctx.Err() == nil {
				g.add(c.Call(next()))
			}
		})
	}
	return g
}

// add adds a call to the history.
func (g *group) add(c checker.Call) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.history = append(g.history, c)
	if !c.OK() || slices.Contains(g.pids, c.Answers[0].PID) { // it may be a late response of an earlier process
		return
	}
	if len(g.pids) == cap(g.pids) { // PIDs are reused
		g.pids = slices.Delete(g.pids, 0, 1)
	}
	g.pids = append(g.pids, c.Answers[0].PID)
	select {
	case <-g.news: // replace a value that was not received
	default:
	}
	g.news <- firstAnswer{c.Answers[0].PID, time.Unix(0, c.End)}
}

// await returns the first answer of another backend process.
func (g *group) await(ctx context.Context, before int) (firstAnswer, error) {
	limit := time.After(40 * time.Second)
	for {
		select {
		case s := <-g.news:
			if s.pid != before {
				return s, nil
			}
		case <-limit:
			return firstAnswer{}, errors.New("no new backend answered within 40 s")
		case <-ctx.Done():
			return firstAnswer{}, ctx.Err()
		}
	}
}

// end waits for the calls in flight, and returns the history.
func (g *group) end() []checker.Call {
	g.stop()
	g.wg.Wait()
	return g.history
}

// A pipeClient is one of several clients on a pipe.
type pipeClient struct {
	*loadgen.Pipe
	number int
}

func (p pipeClient) Call(w loadgen.Work) checker.Call { return p.Pipe.Call(p.number, w) }

// A killResult is the result of repeated kills.
type killResult struct {
	cycles    int
	calls     int
	crashed   int             // calls whose backend was killed
	refused   int             // calls that were not executed
	waited    int             // calls that were sent while no backend ran, and succeeded
	failed    []time.Duration // from the kill to the failure of a call
	replaced  []time.Duration // from the kill to the first answer of the next backend
	wrongs    []checker.Wrong
	unmatched []string
}

// killUnderLoad is R1, R2, R4 and K1: the backend of 64 callers of every era is killed, or kills itself at a named
// point, as soon as it is stable.
func killUnderLoad(ctx context.Context, r *Rig) error {
	total := r.cycles(500, 10_000)
	web, err := r.start(ctx, setup{})
	if err != nil {
		return err
	}
	pipe, err := r.start(ctx, setup{stdio: true})
	if err != nil {
		return err
	}
	p, err := loadgen.NewPipe(pipe.In, pipe.Out)
	if err != nil {
		return err
	}
	callers, webClients, err := callersOf(web.URL, 56)
	if err != nil {
		return err
	}
	var pipeClients []client
	for n := range 8 {
		pipeClients = append(pipeClients, pipeClient{p, len(callers) + n})
	}
	if err := warm(callers); err != nil {
		return err
	}
	before := settled(web)

	late := measureDelays(ctx)
	// A fifth of the cycles are over stdio.
	var sum killResult
	const batch = 100 // cycles whose history is checked together
	for sum.cycles < total && len(sum.wrongs) == 0 {
		var wg sync.WaitGroup
		var results [2]killResult
		var errs [2]error
		n := min(batch, total-sum.cycles)
		killers := make([]client, 2)
		killer, err := loadgen.NewCaller(web.URL, loadgen.Modern, 100)
		if err != nil {
			return err
		}
		killers[0], killers[1] = killer, pipeClient{p, 101}
		wg.Go(func() { results[0], errs[0] = r.killRepeatedly(ctx, web, webClients, killers[0], n-n/5) })
		wg.Go(func() { results[1], errs[1] = r.killRepeatedly(ctx, pipe, pipeClients, killers[1], n/5) })
		wg.Wait()
		killer.End()
		if err := errors.Join(errs[:]...); err != nil {
			return err
		}
		for _, k := range results {
			sum.add(k)
		}
		if r.long {
			fmt.Fprintf(os.Stderr, "R1: %d of %d cycles, %d calls, %d violations\n", sum.cycles, total, sum.calls,
				len(sum.wrongs))
		}
	}
	lateness := late()
	for _, c := range callers {
		c.Close()
	}
	after := settled(web)
	for _, c := range callers {
		c.End()
	}
	sum.unmatched, err = p.Close()
	if err != nil {
		return err
	}
	<-pipe.done
	if _, err := web.stop(); err != nil {
		return err
	}
	count := map[string]int{}
	for _, w := range sum.wrongs {
		count[w.Kind]++
	}
	r.report("R1", len(sum.wrongs)+len(sum.unmatched) == 0,
		fmt.Sprintf("%d kills under 64 callers: 0 lost, duplicate or misdirected responses, 0 double executions, 0 "+
			"wrong outcomes", total),
		"%d kills, %d calls (%d failed with a backend): %d wrong %s%s", sum.cycles, sum.calls, sum.crashed,
		len(sum.wrongs)+len(sum.unmatched),
		text(count), unmatchedText(sum.unmatched))
	r.report("R2", quantile(sum.failed, .99) <= 50*time.Millisecond, "a call fails within 50 ms of the kill, p99",
		"p50 %v, p99 %v, max %v of %d; timers were late by p50 %v, p99 %v", quantile(sum.failed, .5),
		quantile(sum.failed, .99), quantile(sum.failed, 1), len(sum.failed), quantile(lateness, .5),
		quantile(lateness, .99))
	r.report("R4", sum.refused == 0 && sum.waited > 0, "calls that are sent while no backend runs succeed",
		"%d calls succeeded, %d were refused; backend replaced within p50 %v, p99 %v",
		sum.waited, sum.refused,
		quantile(sum.replaced, .5), quantile(sum.replaced, .99))
	same := after.Children == before.Children && after.Sockets == before.Sockets && after.Files == before.Files &&
		after.FDs == before.FDs &&
		after.Threads <= before.Threads+5
	r.report("K1", same, "descriptors, children, sockets and files as before, at most 5 more threads",
		"fds %d → %d, threads %d → %d, children %d → %d, sockets %d → %d, files %d → %d, RSS %d → %d MiB", before.FDs,
		after.FDs,
		before.Threads, after.Threads, before.Children, after.Children, before.Sockets, after.Sockets, before.Files,
		after.Files,
		before.RSS>>20, after.RSS>>20)
	return nil
}

// callersOf returns clients over HTTP of both eras.
func callersOf(url string, n int) (callers []*loadgen.Caller, clients []client, err error) {
	for i := range n {
		c, err := loadgen.NewCaller(url, []string{loadgen.Legacy, loadgen.Modern}[i%2], i)
		if err != nil {
			return nil, nil, err
		}
		callers, clients = append(callers, c), append(clients, c)
	}
	return callers, clients, nil
}

// warm makes one call of each client, which initializes caches, and closes their connections.
func warm(callers []*loadgen.Caller) error {
	for _, c := range callers {
		if call := c.Call(loadgen.Work{}); !call.OK() {
			return fmt.Errorf("the first call failed: %+v", call)
		}
		c.Close()
	}
	return nil
}

// measureDelays measures the delay of timers, which is the scheduling delay, until the returned function is called.
func measureDelays(ctx context.Context) (end func() []time.Duration) {
	ctx, cancel := context.WithCancel(ctx)
	var late []time.Duration
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			due := time.Now().Add(5 * time.Millisecond)
			time.Sleep(time.Until(due))
			late = append(late, time.Since(due))
		}
	})
	return func() []time.Duration {
		cancel()
		wg.Wait()
		return late
	}
}

// settled returns the resources of a bridge when they are stable.
func settled(b *Bridge) holding {
	var last holding
	for same, tries := 0, 0; same < 3 && tries < 50; tries++ {
		time.Sleep(100 * time.Millisecond) // resources of closed connections are freed without an event
		now := b.holds()
		same++
		if now.FDs != last.FDs || now.Files != last.Files || now.Children != last.Children {
			same = 0
		}
		last = now
	}
	return last
}

func text(count map[string]int) string {
	if len(count) == 0 {
		return ""
	}
	return fmt.Sprint(count)
}

func unmatchedText(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return fmt.Sprintf("; %d unmatched messages on stdio, the first: %.200q", len(lines), lines[0])
}

func (k *killResult) add(o killResult) {
	k.cycles += o.cycles
	k.calls += o.calls
	k.crashed += o.crashed
	k.refused += o.refused
	k.waited += o.waited
	k.failed = append(k.failed, o.failed...)
	k.replaced = append(k.replaced, o.replaced...)
	k.wrongs = append(k.wrongs, o.wrongs...)
}

// points are where a backend can kill itself.
var points = []string{"received", "begun", "event", "done"}

// settle is how long a backend must run and answer calls to be restarted without backoff.
const settle = 110 * time.Millisecond

// killRepeatedly kills the backend of a bridge repeatedly, and checks the history of the clients.
func (r *Rig) killRepeatedly(ctx context.Context, b *Bridge, clients []client, killer client,
	cycles int,
) (killResult, error) {
	from := b.journalSize()
	group := startGroup(ctx, clients, func() loadgen.Work {
		w := loadgen.Work{Ms: rand.IntN(60)}
		if rand.IntN(8) == 0 {
			w.Events = 1 + rand.IntN(20)
		}
		return w
	})
	type death struct {
		token      string // the call that requested it, if any
		kill, back time.Time
	}
	var deaths []death
	cur, err := group.await(ctx, 0)
	for i := 0; i < cycles && err == nil; i++ {
		time.Sleep(time.Until(cur.at.Add(settle)) + rand.N(40*time.Millisecond)) // at a random moment
		d := death{}
		if i%2 == 0 {
			d.kill = time.Now()
			err = syscall.Kill(cur.pid, syscall.SIGKILL)
		} else {
			point := points[i/2%len(points)]
			d.token = loadgen.NewToken()
			w := loadgen.Work{Token: d.token, Die: point}
			if point == "event" {
				w.Events, w.Ms, w.At = 20, 20, 1+rand.IntN(20)
			}
			group.add(killer.Call(w))
		}
		if err == nil {
			cur, err = group.await(ctx, cur.pid)
			d.back = cur.at
			deaths = append(deaths, d)
		}
	}
	history := group.end()
	if err != nil {
		return killResult{}, fmt.Errorf("%w; the log is in %s", err, b.Dir)
	}
	journal, err := b.journal(from)
	if err != nil {
		return killResult{}, err
	}
	k := killResult{cycles: cycles, calls: len(history)}
	k.wrongs = checker.Rule{}.Judge(history, journal)
	for _, e := range journal {
		if e.What != checker.Die {
			continue
		}
		for i := range deaths {
			if deaths[i].token == e.Token {
				deaths[i].kill = time.Unix(0, e.At)
			}
		}
	}
	// The backend was killed before the request reached it.
	deaths = slices.DeleteFunc(deaths, func(d death) bool { return d.kill.IsZero() })
	for _, d := range deaths {
		k.replaced = append(k.replaced, d.back.Sub(d.kill))
	}
	for i := range history {
		c := &history[i]
		if len(c.Answers) != 1 {
			continue
		}
		a := c.Answers[0]
		// The last kill before the end of the call.
		at, found := slices.BinarySearchFunc(deaths, c.End,
			func(d death, end int64) int { return cmp.Compare(d.kill.UnixNano(), end) })
		if !found {
			at--
		}
		switch {
		case a.Outcome == "unknown":
			k.crashed++
			if at >= 0 {
				k.failed = append(k.failed, time.Duration(c.End-max(c.Begin, deaths[at].kill.UnixNano())))
			}
		case a.Outcome == "not_executed":
			k.refused++
		case a.Result() && at >= 0 && c.Begin > deaths[at].kill.UnixNano() && c.Begin < deaths[at].back.UnixNano():
			k.waited++
		}
	}
	if len(k.wrongs) > 0 {
		if err := r.keepHistory(b, history, k.wrongs); err != nil {
			return k, err
		}
	}
	return k, nil
}

// keepHistory writes a history with violations beside the journal, for debugging.
func (r *Rig) keepHistory(b *Bridge, history []checker.Call, wrongs []checker.Wrong) error {
	f, err := os.CreateTemp(b.Dir, "history*.ndjson")
	if err != nil {
		return err
	}
	defer f.Close()
	enc := json.NewEncoder(f)
	for _, w := range wrongs {
		err = errors.Join(err, enc.Encode(w))
	}
	for _, c := range history {
		err = errors.Join(err, enc.Encode(c))
	}
	fmt.Fprintf(os.Stderr, "%d violations, the first: %s of %s: %s; history in %s\n",
		len(wrongs), wrongs[0].Kind, wrongs[0].Token, wrongs[0].Why,
		strings.TrimPrefix(f.Name(), filepath.Dir(r.dir)+"/"))
	return err
}

// killWithOneCaller is R3 and F01: the time from the kill of the backend to the first answer of the next one, and to
// the log line that reports the kill, for one caller.
func killWithOneCaller(ctx context.Context, r *Rig) error {
	b, err := r.start(ctx, setup{})
	if err != nil {
		return err
	}
	c, err := loadgen.NewCaller(b.URL, loadgen.Modern, 0)
	if err != nil {
		return err
	}
	defer c.End()
	var took, noticed []time.Duration
	pid := 0
	for range r.cycles(100, 500) + 1 {
		began := time.Now()
		if pid != 0 {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				return err
			}
		}
		var call checker.Call
		for call = c.Call(loadgen.Work{}); !call.OK(); call = c.Call(loadgen.Work{}) {
			if time.Since(began) > 30*time.Second {
				return fmt.Errorf("no new backend answered within 30 s: %+v", call)
			}
		}
		if pid != 0 {
			took = append(took, time.Since(began))
			select {
			case at := <-b.Lost:
				noticed = append(noticed, at.Sub(began))
			case <-time.After(5 * time.Second):
				return fmt.Errorf("the bridge did not log the lost backend within 5 s; the log is in %s", b.Dir)
			}
		}
		pid = call.Answers[0].PID
		time.Sleep(settle)
	}
	_, err = b.stop()
	r.report("R3", quantile(took, .5) <= 60*time.Millisecond && quantile(took, .99) <= 250*time.Millisecond,
		"from kill -9 to the answer of the next backend p50 60 ms, p99 250 ms", "p50 %v, p99 %v, max %v of %d",
		quantile(took, .5),
		quantile(took, .99), quantile(took, 1), len(took))
	r.report("F01", quantile(noticed, .99) <= 20*time.Millisecond, "from kill -9 to the log line p99 20 ms",
		"p50 %v, p99 %v, max %v of %d",
		quantile(noticed, .5), quantile(noticed, .99), quantile(noticed, 1), len(noticed))
	return err
}
