package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpbridge/mcpbridge/test/survive/checker"
	"github.com/mcpbridge/mcpbridge/test/survive/loadgen"
)

// The directions of a cable.
const (
	toBackend = iota
	toBridge
)

// A cable is the network between a bridge and a backend. It can be cut in one direction or both. As in a real
// partition, a cut is silent and data in transit waits. When the cable is healed, the data is delivered, as in TCP, or
// the connections are reset.
type cable struct {
	addr, target string
	ln           *net.TCPListener
	wg           sync.WaitGroup

	mu      sync.Mutex // guards what follows
	changed *sync.Cond
	cut     [2]bool
	refuse  bool // new connections are not accepted
	closed  bool
	ends    map[*net.TCPConn]bool
	fillers map[string]net.Conn // connections that fill the backlog, by address
	made    int                 // number of connections so far
}

func newCable(target string) (*cable, error) {
	// With the shortest backlog, the kernel accepts no connection while one waits.
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "cable")
	defer f.Close()
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}),
		unix.Listen(fd, 0)); err != nil {
		return nil, err
	}
	ln, err := net.FileListener(f)
	if err != nil {
		return nil, err
	}
	c := &cable{addr: ln.Addr().String(), target: target, ends: map[*net.TCPConn]bool{}, fillers: map[string]net.Conn{}}
	c.ln = ln.(*net.TCPListener) //nolint:forcetypeassert // it is a TCP listener or connection
	c.changed = sync.NewCond(&c.mu)
	c.wg.Go(c.accept)
	return c, nil
}

// accept forwards connections.
func (c *cable) accept() {
	for {
		c.mu.Lock()
		for c.refuse && !c.closed {
			c.changed.Wait()
		}
		_ = c.ln.SetDeadline(time.Time{}) // reset by sever
		c.mu.Unlock()
		in, err := c.ln.AcceptTCP()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			continue
		}
		if err != nil {
			return
		}
		c.mu.Lock()
		filler := c.fillers[in.RemoteAddr().String()] != nil
		delete(c.fillers, in.RemoteAddr().String())
		if !filler {
			c.made++
		}
		c.mu.Unlock()
		if filler {
			_ = in.Close() // heal closed the other end
			continue
		}
		out, err := net.Dial("tcp", c.target)
		if err != nil {
			_ = in.Close() // the target refused it
			continue
		}
		back := out.(*net.TCPConn) //nolint:forcetypeassert // it is a TCP listener or connection
		c.mu.Lock()
		c.ends[in], c.ends[back] = true, true
		c.mu.Unlock()
		c.wg.Go(func() { c.carry(in, back, toBackend) })
		c.wg.Go(func() { c.carry(back, in, toBridge) })
	}
}

// carry forwards data and the end of the connection.
func (c *cable) carry(from, to *net.TCPConn, way int) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		c.hold(way)
		if err != nil {
			c.end(to)
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			c.hold(1 - way)
			c.end(from)
			return
		}
	}
}

// hold waits while a direction is cut.
func (c *cable) hold(way int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.cut[way] && !c.closed {
		c.changed.Wait()
	}
}

func (c *cable) end(conn *net.TCPConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.ends, conn)
	_ = conn.Close() // it may have been reset
}

// sever cuts directions. It also stops new connections, because the handshake of TCP needs both directions.
func (c *cable) sever(ways ...int) {
	c.mu.Lock()
	for _, w := range ways {
		c.cut[w] = true
	}
	c.refuse = true
	_ = c.ln.SetDeadline(time.Unix(1, 0)) // stops accept
	c.mu.Unlock()
	for range 3 { // until the backlog is full; other connections may have filled it
		conn, err := net.DialTimeout("tcp", c.addr, 50*time.Millisecond)
		if err != nil {
			return
		}
		c.mu.Lock()
		c.fillers[conn.LocalAddr().String()] = conn
		c.mu.Unlock()
	}
}

// heal ends a cut.
func (c *cable) heal(reset bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if reset {
		for conn := range c.ends {
			_ = conn.SetLinger(0) // which makes Close a reset
			_ = conn.Close()
			delete(c.ends, conn)
		}
	}
	for _, conn := range c.fillers {
		_ = conn.Close()
	}
	c.cut, c.refuse = [2]bool{}, false
	c.changed.Broadcast()
}

// connections returns the number of connections so far.
func (c *cable) connections() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.made
}

func (c *cable) close() {
	c.heal(true)
	c.mu.Lock()
	c.closed = true
	c.changed.Broadcast()
	c.mu.Unlock()
	_ = c.ln.Close()
	c.wg.Wait()
}

// A partition is a kind of network failure.
type partition struct {
	name  string
	ways  []int
	reset bool
}

var partitions = []partition{
	{"both ways", []int{toBackend, toBridge}, false},
	{"to the backend", []int{toBackend}, false},
	{"to the bridge", []int{toBridge}, false},
	{"both ways, then reset", []int{toBackend, toBridge}, true},
}

// A partitionResult is the effect of partitions.
type partitionResult struct {
	cuts, flaps    int
	detected, back []time.Duration
	refused        []time.Duration // until calls were refused, after the cut was detected
	outcomes       map[string]int
	failed         []time.Duration // until calls in flight failed
	early          int             // calls in flight that failed in a short outage
	connections    int
	wrongs         []checker.Wrong
	leaks          []string
}

// failNetwork is F16 and R12: the network between a bridge and a dialed backend is cut in one direction or both, once
// or repeatedly.
func failNetwork(ctx context.Context, r *Rig) error {
	results := make([]partitionResult, len(partitions))
	errs := make([]error, len(partitions))
	var wg sync.WaitGroup
	for i, p := range partitions {
		wg.Go(func() {
			var err error
			if results[i], err = r.partition(ctx, p, r.cycles(1, 15)); err != nil {
				errs[i] = fmt.Errorf("%s: %w", p.name, err)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	sum := partitionResult{outcomes: map[string]int{}}
	calls := 0
	for i, p := range results {
		sum.cuts += p.cuts
		sum.flaps += p.flaps
		sum.detected = append(sum.detected, p.detected...)
		sum.back = append(sum.back, p.back...)
		sum.refused = append(sum.refused, p.refused...)
		for k, n := range p.outcomes {
			sum.outcomes[k] += n
			calls += n
		}
		sum.failed = append(sum.failed, p.failed...)
		sum.early += p.early
		sum.connections += p.connections
		sum.wrongs = append(sum.wrongs, p.wrongs...)
		for _, h := range p.leaks {
			sum.leaks = append(sum.leaks, partitions[i].name+": "+h)
		}
	}
	// A cut may need one new connection and two failed attempts, a short cut with a reset one connection.
	most := len(partitions) + 3*sum.cuts + sum.flaps
	r.report("F16", len(sum.wrongs)+len(sum.leaks) == 0 && sum.outcomes["unknown"] > 0 &&
		sum.outcomes["not_executed"] > 0 && sum.connections <= most,
		"the network is cut in one direction or both, and repeatedly: 0 wrong, 0 leaks, no storm of connections",
		"%d cuts and %d short ones, %d calls %v: %d wrong %s; %d connections (at most %d) %s", sum.cuts, sum.flaps,
		calls, sum.outcomes,
		len(sum.wrongs), kinds(sum.wrongs), sum.connections, most, strings.Join(sum.leaks, "; "))
	r.report("R12", len(sum.detected) == sum.cuts && quantile(sum.detected, .99) <= 3*time.Second &&
		quantile(sum.back, .99) <= time.Second &&
		quantile(sum.refused, .99) <= 50*time.Millisecond && quantile(sum.failed, .99) <= 6*time.Second &&
		sum.early == 0,
		"detected within 3 s, then calls are refused within 50 ms, p99; calls in flight fail within 6 s, none within "+
			"3.8 s; answered within 1 s after the cut",
		"detected within p50 %v, max %v; %d calls refused within p50 %v, p99 %v; %d calls in flight failed within "+
			"max %v, %d too early; answered within p50 %v, max %v",
		quantile(sum.detected, .5), quantile(sum.detected, 1), len(sum.refused), quantile(sum.refused, .5),
		quantile(sum.refused, .99), len(sum.failed), quantile(sum.failed, 1), sum.early, quantile(sum.back, .5),
		quantile(sum.back, 1))
	return nil
}

// shortCut is the duration of a cut that calls in flight survive.
const shortCut = 3800 * time.Millisecond

type outage struct {
	cut, detected, healed time.Time
	long                  bool
}

// partition cuts the network of one bridge repeatedly, and returns the effect.
func (r *Rig) partition(ctx context.Context, p partition, cycles int) (partitionResult, error) {
	res := partitionResult{outcomes: map[string]int{}}
	dir, err := os.MkdirTemp(r.dir, "b")
	if err != nil {
		return res, err
	}
	journal := filepath.Join(dir, "journal")
	backend, at, err := r.listen(ctx, journal)
	if err != nil {
		return res, err
	}
	wire, err := newCable(at)
	if err != nil {
		return res, err
	}
	defer wire.close()
	b, err := r.start(ctx, setup{dir: dir, config: func(*Bridge) string {
		return fmt.Sprintf("version: 1\nbackends: [{name: far, dial: \"tcp:%s\"}]\n", wire.addr)
	}})
	if err != nil {
		return res, err
	}
	callers, clients, err := callersOf(b.URL, 16)
	if err == nil {
		err = warm(callers)
	}
	if err != nil {
		return res, err
	}
	before := settled(b)
	group := startGroup(ctx, clients, func() loadgen.Work {
		time.Sleep(rand.N(20 * time.Millisecond)) // limits the rate of refused calls
		return loadgen.Work{Ms: rand.IntN(60), Events: rand.IntN(3)}
	})
	var outages []outage
	for n := range cycles {
		if n > 0 {
			time.Sleep(1500 * time.Millisecond) // time to recover from the previous cut
		}
		for range 5 {
			time.Sleep(100*time.Millisecond + rand.N(200*time.Millisecond)) // time without a cut
			wire.sever(p.ways...)
			time.Sleep(100*time.Millisecond + rand.N(400*time.Millisecond))
			wire.heal(p.reset)
			res.flaps++
		}
		lasting := 6500 * time.Millisecond
		if r.long {
			lasting += rand.N(8 * time.Second)
		}
		for _, lasts := range []time.Duration{shortCut, lasting} {
			time.Sleep(1200*time.Millisecond + rand.N(time.Second)) // at a random phase of the health checks
			o, err := p.outage(ctx, b, wire, lasts)
			if err != nil {
				group.end()
				return res, err
			}
			outages = append(outages, o)
			res.cuts++
		}
	}
	time.Sleep(1500 * time.Millisecond) // delivers data in transit
	history := group.end()
	for _, c := range callers {
		c.Close()
	}
	after := settled(b)
	if after.FDs > before.FDs || after.Threads > before.Threads+5 {
		res.leaks = append(res.leaks,
			fmt.Sprintf("fds %d → %d, threads %d → %d", before.FDs, after.FDs, before.Threads, after.Threads))
	}
	for _, c := range callers {
		c.End()
	}
	if _, err := b.stop(); err != nil {
		return res, err
	}
	res.connections = wire.connections()
	if err := errors.Join(backend.Process.Signal(os.Interrupt), backend.Wait()); err != nil {
		return res, err
	}
	entries, err := b.journal(0)
	if err != nil {
		return res, err
	}
	res.read(history, outages)
	unknown := map[string]bool{}
	for i := range history {
		unknown[history[i].Token] = outcome(&history[i]) == "unknown"
	}
	// The backend receives the cancellation of a call when the network is healed.
	res.wrongs = slices.DeleteFunc(checker.Rule{}.Judge(history, entries), func(w checker.Wrong) bool {
		return w.Kind == checker.UnrequestedCancel && unknown[w.Token]
	})
	if len(res.wrongs) > 0 {
		err = r.keepHistory(b, history, res.wrongs)
	}
	return res, err
}

// outage cuts the network for a duration.
func (p partition) outage(ctx context.Context, b *Bridge, wire *cable, lasts time.Duration) (outage, error) {
	select {
	case <-b.Lost: // of an earlier cut
	default:
	}
	o := outage{cut: time.Now(), long: lasts > shortCut}
	wire.sever(p.ways...)
	select {
	case o.detected = <-b.Lost:
	case <-time.After(20 * time.Second):
		return o, fmt.Errorf("the bridge did not detect the cut within 20 s; the log is in %s", b.Dir)
	case <-ctx.Done():
		return o, ctx.Err()
	}
	time.Sleep(time.Until(o.cut.Add(lasts)))
	o.healed = time.Now()
	wire.heal(p.reset)
	return o, nil
}

// read finds the effects of outages in a history.
func (res *partitionResult) read(history []checker.Call, outages []outage) {
	back := make([]time.Time, len(outages))
	for i := range history {
		c := &history[i]
		got := outcome(c)
		res.outcomes[got]++
		begin, end := time.Unix(0, c.Begin), time.Unix(0, c.End)
		for n, o := range outages {
			switch {
			case got == "result" && begin.After(o.detected) && end.After(o.healed) &&
				(back[n].IsZero() || end.Before(back[n])):
				back[n] = end
			case got == "not_executed" && begin.After(o.detected.Add(10*time.Millisecond)) && end.Before(o.healed):
				res.refused = append(res.refused, end.Sub(begin))
			case got == "unknown" && end.After(o.cut) && end.Before(o.healed):
				res.failed = append(res.failed, time.Duration(c.End-max(c.Begin, o.cut.UnixNano())))
				if !o.long {
					res.early++
				}
			}
		}
	}
	for n, o := range outages {
		res.detected = append(res.detected, o.detected.Sub(o.cut))
		if back[n].IsZero() {
			back[n] = time.Now() // fails the goal
		}
		res.back = append(res.back, back[n].Sub(o.healed))
	}
}

// listen starts a faultplug to be dialed, and returns its address.
func (r *Rig) listen(ctx context.Context, journal string) (*exec.Cmd, string, error) {
	cmd := exec.CommandContext(ctx, r.plugin, "--listen", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), "FAULTPLUG_JOURNAL="+journal)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, "", err
	}
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	line, err := bufio.NewReader(stderr).ReadString('\n')
	if err != nil {
		return nil, "", errors.Join(err, cmd.Wait())
	}
	return cmd, strings.TrimSpace(line[strings.LastIndex(line, "tcp:")+len("tcp:"):]), nil
}
