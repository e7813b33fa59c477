package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpbridge/mcpbridge/test/survive/checker"
	"github.com/mcpbridge/mcpbridge/test/survive/loadgen"
)

// A pool is a set of connections that callers share.
type pool struct {
	url, header string
	mu          sync.Mutex
	free        []*loadgen.Caller
}

func (p *pool) take() (*loadgen.Caller, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		c := p.free[n-1]
		p.free = p.free[:n-1]
		return c, nil
	}
	c, err := loadgen.NewCaller(p.url, loadgen.Modern, 0)
	if err == nil {
		c.Header = p.header
	}
	return c, err
}

func (p *pool) give(c *loadgen.Caller) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, c)
}

func (p *pool) close() {
	for _, c := range p.free {
		c.Close()
	}
}

// offer makes calls at a rate for a duration, whether or not earlier ones are answered.
func (p *pool) offer(ctx context.Context, rate float64, d time.Duration, w loadgen.Work) []checker.Call {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var history []checker.Call
	began := time.Now()
	for n := 0; ctx.Err() == nil; n++ {
		due := time.Duration(float64(n) / rate * float64(time.Second))
		if due > d {
			break
		}
		time.Sleep(time.Until(began.Add(due)))
		wg.Go(func() {
			c, err := p.take()
			if err != nil {
				return
			}
			call := c.Call(w)
			p.give(c)
			mu.Lock()
			history = append(history, call)
			mu.Unlock()
		})
	}
	wg.Wait()
	return history
}

// outcomeCounts counts the outcomes of calls.
type outcomeCounts struct {
	offered, good, refused, bad int
	goodput                     float64 // a second
	latency, refusal            []time.Duration
	first                       string // the first bad one
}

func countOutcomes(history []checker.Call) outcomeCounts {
	t := outcomeCounts{offered: len(history)}
	var begin, end int64
	for i := range history {
		c := &history[i]
		if begin == 0 || c.Begin < begin {
			begin = c.Begin
		}
		end = max(end, c.Begin)
		took := time.Duration(c.End - c.Begin)
		switch {
		case c.OK():
			t.good++
			t.latency = append(t.latency, took)
		case len(c.Answers) == 1 && c.Answers[0].Outcome == "not_executed" && c.Answers[0].Reason != "" &&
			c.Status == 503:
			t.refused++
			t.refusal = append(t.refusal, took)
		default:
			t.bad++
			if t.first == "" {
				t.first = fmt.Sprintf("; the first bad one: %+v", *c)
			}
		}
	}
	t.goodput = float64(t.good) / (float64(end-begin)/1e9 + 1e-9)
	return t
}

// workMs is the duration of a call in overload: long enough that the number of calls is the limit, and not the
// machine, which the callers share with the bridge.
const workMs = 500

// overload is L8: four and ten times the capacity.
func overload(ctx context.Context, r *Rig) error {
	b, err := r.start(ctx, setup{})
	if err != nil {
		return err
	}
	p := &pool{url: b.URL}
	defer p.close()
	const capacity = 256 * 1000 / workMs // limits.calls, divided by the duration of a call
	d := time.Duration(r.cycles(10, 60)) * time.Second
	peak := countOutcomes(p.offer(ctx, capacity*.9, d, loadgen.Work{Ms: workMs}))
	pass := peak.bad == 0
	figures := []string{fmt.Sprintf("peak %.0f/s, p99 %v%s", peak.goodput, quantile(peak.latency, .99), peak.first)}
	for _, times := range []float64{4, 10} {
		t := countOutcomes(p.offer(ctx, capacity*times, d, loadgen.Work{Ms: workMs}))
		pass = pass && t.bad == 0 && t.goodput >= .9*peak.goodput &&
			quantile(t.latency, .99) <= 2*quantile(peak.latency, .99) &&
			quantile(t.refusal, .99) <= 50*time.Millisecond && t.refused > 0
		figures = append(figures,
			fmt.Sprintf("%.0f times: goodput %.0f/s, p99 %v, %d refused, p99 %v, %d bad%s", times, t.goodput,
				quantile(t.latency, .99), t.refused, quantile(t.refusal, .99), t.bad, t.first))
	}
	rss := status(b.PID, "VmHWM")
	_, err = b.stop()
	r.report("L8", pass, "at 4 and 10 times the capacity goodput 90 % of the peak, p99 twice the peak's, valid "+
		"refusals within 50 ms",
		"%s; at most %d MiB RSS", strings.Join(figures, "; "), rss>>20)
	return err
}

// noisyNeighbor is L10: a caller that requests fifty times its quota, beside a modest one.
func noisyNeighbor(ctx context.Context, r *Rig) error {
	b, err := r.start(ctx, setup{
		auth: `{tokens: [{token: "token-of-the-quiet-one", subject: quiet}, {token: "token-of-the-noisy-one", subject: noisy}]}`,
	})
	if err != nil {
		return err
	}
	quiet := &pool{url: b.URL, header: "Authorization: Bearer token-of-the-quiet-one\r\n"}
	noisy := &pool{url: b.URL, header: "Authorization: Bearer token-of-the-noisy-one\r\n"}
	defer quiet.close()
	defer noisy.close()
	// 64 concurrent calls of 10 s each are 6.4 per second. A machine that the callers share with the bridge can handle
	// fifty times as many.
	const quota, long = 64, 10_000
	d := time.Duration(r.cycles(10, 60)) * time.Second
	const rate = 100
	w := loadgen.Work{Ms: 20}
	quiet.offer(ctx, rate, time.Second, w) // initializes caches
	var alone, beside []time.Duration
	bad, noise, refused := 0, 0, 0
	var errs string
	for range r.cycles(2, 5) { // alternate, so that other load affects both
		t := countOutcomes(quiet.offer(ctx, rate, d/2, w))
		alone, bad, errs = append(alone, t.latency...), bad+t.bad+t.refused, errs+t.first
		var wg sync.WaitGroup
		loud, stopLoud := context.WithCancel(ctx)
		wg.Go(func() {
			t := countOutcomes(noisy.offer(loud, 50*quota*1000/long, d, loadgen.Work{Ms: long}))
			noise, refused, bad, errs = noise+t.offered, refused+t.refused, bad+t.bad, errs+t.first
		})
		time.Sleep(500 * time.Millisecond) // until the quota is used up
		t = countOutcomes(quiet.offer(ctx, rate, d/2, w))
		stopLoud()
		wg.Wait()
		beside, bad, errs = append(beside, t.latency...), bad+t.bad+t.refused, errs+t.first
	}
	_, err = b.stop()
	before, after := quantile(alone, .99), quantile(beside, .99)
	r.report("L10", bad == 0 && refused > 0 && float64(after) <= 1.2*float64(before),
		"a caller at 50 times its quota increases another's p99 by at most 20 %",
		"p99 alone %v, beside %v (%+.0f %%); p50 %v, %v; %d calls of the other, %d refused; %d bad%s", before,
		after,
		100*(float64(after)/float64(before)-1), quantile(alone, .5), quantile(beside, .5), noise, refused, bad, errs)
	return err
}

// A badBody is a kind of body that is rejected at any length.
type badBody struct {
	name string
	make func(size int) string
}

const start = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"work","arguments":{"token":"x","a":`

// fill repeats a text up to a size.
func fill(text string, size int) string { return strings.Repeat(text, size/len(text)) }

var badBodies = []badBody{
	{"not JSON", func(n int) string { return fill("x", n) }},
	{"spaces", func(n int) string { return fill(" ", n) }},
	{"open arrays", func(n int) string { return fill("[", n) }},
	{"open objects", func(n int) string { return fill(`{"a":`, n) }},
	{"deep arguments", func(n int) string { return start + fill("[", n) }},
	{"open string", func(n int) string { return start + `"` + fill("x", n) }},
	{"escapes", func(n int) string { return start + `"` + fill(`\u0041`, n) }},
	{"bad UTF-8", func(n int) string { return start + `"` + fill("x", n) + "\xff\"}}}" }},
	{"many members", func(n int) string {
		var b strings.Builder
		b.WriteString(start + "{")
		for i := 0; b.Len() < n; i++ {
			fmt.Fprintf(&b, `"k%d":0,`, i)
		}
		return b.String() + `"k0":0}}}}`
	}},
	{"many elements", func(n int) string { return start + "[" + fill("0,", n) + "0]}}}" }},
	{"small arrays", func(n int) string {
		return start + "[" + fill("[[[]],[[]],[[]],[[]],[[]],[[]],[[]],[[]]],", n) + "0]}}}"
	}},
	{"small objects", func(n int) string {
		return start + "[" + fill(`{"a":{"a":{"a":{}}},"b":{"a":0},"c":{"a":0}},`, n) + "0]}}}"
	}},
	{"small strings", func(n int) string {
		return start + "[" + fill(`["a","a","a","a","a","a","a","a","a","a","a"],`, n) + "0]}}}"
	}},
	{"escaped names", func(n int) string { return start + "[" + fill(`{"\u0061":0},`, n) + "0]}}}" }},
	{"deep objects", func(n int) string {
		return start + strings.Repeat(`{"":[`, 120) + fill(`{"":0},`, n-2000) + "0" + strings.Repeat("]}", 120) + "}}}"
	}},
	{"long number", func(n int) string { return start + fill("1", n) + "}}}" }},
	{"long id", func(n int) string { return `{"jsonrpc":"2.0","id":"` + fill("1", n) + `","method":"ping"}` }},
	{"long method", func(n int) string { return `{"jsonrpc":"2.0","id":1,"method":"` + fill("m", n) + `"}` }},
	{"trailing data", func(n int) string { return start + `"` + fill("x", n) + `"}}} {}` }},
	{"batch of nothing", func(n int) string { return "[" + fill("1,", n) + "1]" }},
	{"batch of pings", func(n int) string { return "[" + fill(`{"jsonrpc":"2.0","id":1,"method":"ping"},`, n) + "1]" }},
	{"unknown arguments", func(n int) string { return start + `"` + fill("x", n) + `"}}}` }},
}

// cpuOf returns the CPU time of a process.
func cpuOf(pid int) (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|2), &t); err != nil {
		return 0, fmt.Errorf("read the CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}

// A kindOfCost is the cost of one kind of bad requests.
type kindOfCost struct {
	name string
	cpu  time.Duration // per MiB
	heap float64       // memory of a request, in multiples of its size
}

// badRequests is L9: the cost of rejected requests.
func badRequests(ctx context.Context, r *Rig) error {
	const size = 4<<20 - 4096 // just below the limit
	const mib = float64(size) / (1 << 20)
	var cost []kindOfCost
	for _, body := range badBodies {
		b, err := r.start(ctx, setup{}) // a new one, so that kinds do not affect each other
		if err != nil {
			return err
		}
		c, err := loadgen.NewCaller(b.URL, loadgen.Legacy, 0)
		if err == nil {
			err = c.Open()
		}
		if err != nil {
			return err
		}
		text := []byte(body.make(size))
		text = text[:min(len(text), 4<<20)]
		before, err := cpuOf(b.PID)
		if err != nil {
			return err
		}
		rss := status(b.PID, "VmRSS")
		n := r.cycles(5, 50)
		its := kindOfCost{name: body.name}
		for i := range n {
			resp, answer, err := c.Do(http.MethodPost, c.Headers(""), text)
			if err != nil {
				return fmt.Errorf("%s: %w", body.name, err)
			}
			if resp.StatusCode == http.StatusOK && !strings.Contains(string(answer), `"error"`) &&
				!strings.Contains(string(answer), `"isError":true`) {
				return fmt.Errorf("%s: the body was accepted: %.200s", body.name, answer)
			}
			if i == 0 { // of one request: with more, garbage would count
				its.heap = float64(status(b.PID, "VmHWM")-rss) / size
			}
		}
		after, err := cpuOf(b.PID)
		if err != nil {
			return err
		}
		its.cpu = time.Duration(float64(after-before) / float64(n) / mib).Round(10 * time.Microsecond)
		cost = append(cost, its)
		c.Close()
		if _, err := b.stop(); err != nil {
			return err
		}
	}
	runtime.GC() // frees the bodies before the next scenario measures time
	large := slices.MaxFunc(cost, func(a, b kindOfCost) int { return cmp.Compare(a.heap, b.heap) })
	slices.SortFunc(cost, func(a, b kindOfCost) int { return cmp.Compare(b.cpu, a.cpu) })
	var dearest []string
	for _, c := range cost[:3] {
		dearest = append(dearest, fmt.Sprintf("%v per MiB (%s)", c.cpu, c.name))
	}
	r.report("L9", cost[0].cpu <= 10*time.Millisecond && large.heap <= 10,
		"a bad request costs at most 10 ms of CPU per MiB and 10 times its size in memory",
		"%d kinds of %.1f MiB: %s, %.1f times its size (%s)", len(badBodies), mib, strings.Join(dearest, ", "),
		large.heap, large.name)
	return nil
}
