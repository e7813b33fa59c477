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

// A herd is a group of callers and their history.
type herd struct {
	mu      sync.Mutex // guards what follows
	history []checker.Call
	pids    []int // of the last backends that answered
	news    chan sighting

	wg   sync.WaitGroup
	stop context.CancelFunc
}

// A sighting is the first answer of a new backend process.
type sighting struct {
	pid int
	at  time.Time
}

// A client makes one call.
type client interface {
	Call(w loadgen.Work) checker.Call
}

// newHerd starts clients; next returns their work.
func newHerd(ctx context.Context, clients []client, next func() loadgen.Work) *herd {
	h := &herd{news: make(chan sighting, 1), pids: make([]int, 0, 100)}
	ctx, h.stop = context.WithCancel(ctx)
	for _, c := range clients {
		h.wg.Go(func() {
			for ctx.Err() == nil {
				h.add(c.Call(next()))
			}
		})
	}
	return h
}

// add adds a call to the history.
func (h *herd) add(c checker.Call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.history = append(h.history, c)
	if !c.OK() || slices.Contains(h.pids, c.Answers[0].PID) { // a late answer of a backend before is no news
		return
	}
	if len(h.pids) == cap(h.pids) { // processes so far apart may have the same PID
		h.pids = slices.Delete(h.pids, 0, 1)
	}
	h.pids = append(h.pids, c.Answers[0].PID)
	select {
	case <-h.news: // nobody has looked
	default:
	}
	h.news <- sighting{c.Answers[0].PID, time.Unix(0, c.End)}
}

// await returns the first answer of another backend process.
func (h *herd) await(ctx context.Context, before int) (sighting, error) {
	limit := time.After(40 * time.Second)
	for {
		select {
		case s := <-h.news:
			if s.pid != before {
				return s, nil
			}
		case <-limit:
			return sighting{}, errors.New("no backend answers for 40 s")
		case <-ctx.Done():
			return sighting{}, ctx.Err()
		}
	}
}

// end waits for the calls in flight, and returns the history.
func (h *herd) end() []checker.Call {
	h.stop()
	h.wg.Wait()
	return h.history
}

// A pipeClient is one of several clients on a pipe.
type pipeClient struct {
	*loadgen.Pipe
	number int
}

func (p pipeClient) Call(w loadgen.Work) checker.Call { return p.Pipe.Call(p.number, w) }

// A killing is the result of a kill loop.
type killing struct {
	cycles    int
	calls     int
	crashed   int // calls that were with a backend that died
	refused   int // calls that were not executed
	rode      int // calls that were begun while there was no backend, and succeeded
	learn     []time.Duration
	replaced  []time.Duration
	wrongs    []checker.Wrong
	unmatched []string
}

// killUnderLoad is R1, R2, R4 and K1: 64 callers of every era, and a backend that is killed, or kills itself at a
// named point, as soon as it is stable.
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

	late := ruler(ctx)
	// A fifth of the cycles are over stdio.
	var sum killing
	const chapter = 100 // cycles whose history is judged, and forgotten, together
	for sum.cycles < total && len(sum.wrongs) == 0 {
		var wg sync.WaitGroup
		var results [2]killing
		var errs [2]error
		n := min(chapter, total-sum.cycles)
		poisons := make([]client, 2)
		poison, err := loadgen.NewCaller(web.URL, loadgen.Modern, 100)
		if err != nil {
			return err
		}
		poisons[0], poisons[1] = poison, pipeClient{p, 101}
		wg.Go(func() { results[0], errs[0] = r.killChapter(ctx, web, webClients, poisons[0], n-n/5) })
		wg.Go(func() { results[1], errs[1] = r.killChapter(ctx, pipe, pipeClients, poisons[1], n/5) })
		wg.Wait()
		poison.End()
		if err := errors.Join(errs[:]...); err != nil {
			return err
		}
		for _, k := range results {
			sum.add(k)
		}
		if r.long {
			fmt.Fprintf(os.Stderr, "R1: %d of %d cycles, %d calls, %d wrongs\n", sum.cycles, total, sum.calls,
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
	r.tell("R1", len(sum.wrongs)+len(sum.unmatched) == 0,
		fmt.Sprintf("%d kills under 64 callers: 0 lost, duplicate or misdirected answers, 0 double executions, 0 "+
			"wrong outcomes", total),
		"%d kills, %d calls (%d died with a backend): %d wrong %s%s", sum.cycles, sum.calls, sum.crashed,
		len(sum.wrongs)+len(sum.unmatched),
		text(count), unmatchedText(sum.unmatched))
	r.tell("R2", quantile(sum.learn, .99) <= 50*time.Millisecond, "a call learns of the death within 50 ms, p99",
		"p50 %v, p99 %v, max %v of %d; a timer of the rig was p50 %v, p99 %v late meanwhile", quantile(sum.learn, .5),
		quantile(sum.learn, .99), quantile(sum.learn, 1), len(sum.learn), quantile(lateness, .5),
		quantile(lateness, .99))
	r.tell("R4", sum.refused == 0 && sum.rode > 0, "every call that was not sent yet rides over the outage",
		"%d calls begun without a backend succeeded, %d were refused; replaced under load within p50 %v, p99 %v",
		sum.rode, sum.refused,
		quantile(sum.replaced, .5), quantile(sum.replaced, .99))
	same := after.Children == before.Children && after.Sockets == before.Sockets && after.Files == before.Files &&
		after.FDs == before.FDs &&
		after.Threads <= before.Threads+5
	r.tell("K1", same, "after it all fds, children, sockets and files are as before; threads + 5 at most",
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
			return fmt.Errorf("a first call failed: %+v", call)
		}
		c.Close()
	}
	return nil
}

// ruler measures the delay of timers, which is the scheduling delay, until the returned function is called.
func ruler(ctx context.Context) (end func() []time.Duration) {
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
		time.Sleep(100 * time.Millisecond) // what is let go of when a client has gone, nobody tells
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
	return fmt.Sprintf("; on stdio for nobody: %d, the first %.200q", len(lines), lines[0])
}

func (k *killing) add(o killing) {
	k.cycles += o.cycles
	k.calls += o.calls
	k.crashed += o.crashed
	k.refused += o.refused
	k.rode += o.rode
	k.learn = append(k.learn, o.learn...)
	k.replaced = append(k.replaced, o.replaced...)
	k.wrongs = append(k.wrongs, o.wrongs...)
}

// points are where a backend can kill itself.
var points = []string{"received", "begun", "event", "done"}

// settle is how long a backend has to run, and to answer calls, to be restarted without backoff.
const settle = 110 * time.Millisecond

// killChapter kills the backend of a bridge repeatedly, and checks the history of the clients.
func (r *Rig) killChapter(ctx context.Context, b *Bridge, clients []client, poison client,
	cycles int,
) (killing, error) {
	from := b.journalSize()
	herd := newHerd(ctx, clients, func() loadgen.Work {
		w := loadgen.Work{Ms: rand.IntN(60)}
		if rand.IntN(8) == 0 {
			w.Events = 1 + rand.IntN(20)
		}
		return w
	})
	type death struct {
		token      string // of the call that it was told to die by, if it was
		kill, back time.Time
	}
	var deaths []death
	cur, err := herd.await(ctx, 0)
	for i := 0; i < cycles && err == nil; i++ {
		time.Sleep(time.Until(cur.at.Add(settle)) + rand.N(40*time.Millisecond)) // at no particular moment
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
			herd.add(poison.Call(w))
		}
		if err == nil {
			cur, err = herd.await(ctx, cur.pid)
			d.back = cur.at
			deaths = append(deaths, d)
		}
	}
	history := herd.end()
	if err != nil {
		return killing{}, fmt.Errorf("%w; the log is in %s", err, b.Dir)
	}
	journal, err := b.journal(from)
	if err != nil {
		return killing{}, err
	}
	k := killing{cycles: cycles, calls: len(history)}
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
	// it was dead already when it was told to die
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
		// The last kill before its end.
		at, found := slices.BinarySearchFunc(deaths, c.End,
			func(d death, end int64) int { return cmp.Compare(d.kill.UnixNano(), end) })
		if !found {
			at--
		}
		switch {
		case a.Outcome == "unknown":
			k.crashed++
			if at >= 0 {
				k.learn = append(k.learn, time.Duration(c.End-max(c.Begin, deaths[at].kill.UnixNano())))
			}
		case a.Outcome == "not_executed":
			k.refused++
		case a.Result() && at >= 0 && c.Begin > deaths[at].kill.UnixNano() && c.Begin < deaths[at].back.UnixNano():
			k.rode++
		}
	}
	if len(k.wrongs) > 0 {
		if err := r.keepHistory(b, history, k.wrongs); err != nil {
			return k, err
		}
	}
	return k, nil
}

// keepHistory writes a wrong history beside the journal, for debugging.
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
	fmt.Fprintf(os.Stderr, "%d wrongs, the first: %s of %s: %s; in %s\n", len(wrongs), wrongs[0].Kind, wrongs[0].Token,
		wrongs[0].Why,
		strings.TrimPrefix(f.Name(), filepath.Dir(r.dir)+"/"))
	return err
}

// killQuietly is R3: the time from the death of the backend to the answer of the next one, for one caller.
func killQuietly(ctx context.Context, r *Rig) error {
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
				return fmt.Errorf("no backend answers: %+v", call)
			}
		}
		if pid != 0 {
			took = append(took, time.Since(began))
			select {
			case at := <-b.Lost:
				noticed = append(noticed, at.Sub(began))
			case <-time.After(5 * time.Second):
				return fmt.Errorf("it is not told that the backend was lost; the log is in %s", b.Dir)
			}
		}
		pid = call.Answers[0].PID
		time.Sleep(settle)
	}
	_, err = b.stop()
	r.tell("R3", quantile(took, .5) <= 60*time.Millisecond && quantile(took, .99) <= 250*time.Millisecond,
		"from kill -9 to the replacement's answer p50 60 ms, p99 250 ms", "p50 %v, p99 %v, max %v of %d",
		quantile(took, .5),
		quantile(took, .99), quantile(took, 1), len(took))
	r.tell("F01", quantile(noticed, .99) <= 20*time.Millisecond, "from kill -9 to the log line that says so, p99 20 ms",
		"p50 %v, p99 %v, max %v of %d",
		quantile(noticed, .5), quantile(noticed, .99), quantile(noticed, 1), len(noticed))
	return err
}
