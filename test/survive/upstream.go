package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcpbridge/mcpbridge/test/survive/checker"
	"github.com/mcpbridge/mcpbridge/test/survive/loadgen"
)

// killUpstream is R16: MCP servers on stdio, one of each era, are killed or kill themselves at a named point, like the
// backend of R1.
func killUpstream(ctx context.Context, r *Rig) error {
	total := r.cycles(200, 5000)
	var sum killResult
	const batch = 250 // cycles of both servers
	eras := []string{loadgen.Legacy, loadgen.Modern}
	bridges := make([]*Bridge, len(eras))
	clients := make([][]client, len(eras))
	killers := make([]client, len(eras))
	for i, era := range eras {
		b, err := r.start(ctx, setup{config: func(b *Bridge) string {
			return fmt.Sprintf("version: 1\nbackends: [{name: up, mcp: {command: [%q], env: {FAULTMCP_JOURNAL: %q, "+
				"FAULTMCP_ERA: %s}}}]\n", r.upstream, b.Journal, era)
		}})
		if err != nil {
			return err
		}
		callers, its, err := callersOf(b.URL, 32)
		if err == nil {
			err = warm(callers)
		}
		if err != nil {
			return err
		}
		killer, err := loadgen.NewCaller(b.URL, loadgen.Modern, 100)
		if err != nil {
			return err
		}
		bridges[i], clients[i], killers[i] = b, its, killer
	}
	for sum.cycles < total {
		n := min(batch, total-sum.cycles)
		var wg sync.WaitGroup
		results, errs := make([]killResult, len(eras)), make([]error, len(eras))
		for i := range eras {
			wg.Go(func() {
				results[i],
					errs[i] = r.killRepeatedly(ctx, bridges[i], clients[i], killers[i], (n+i)/len(eras))
			})
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
		for _, k := range results {
			sum.add(k)
		}
		if r.long {
			fmt.Fprintf(os.Stderr, "R16: %d of %d cycles, %d calls, %d violations\n", sum.cycles, total, sum.calls,
				len(sum.wrongs))
		}
	}
	for _, b := range bridges {
		if _, err := b.stop(); err != nil {
			return err
		}
	}
	r.report("R16", len(sum.wrongs) == 0 && sum.waited > 0 && sum.crashed > 0,
		fmt.Sprintf("%d kills of a stdio server under 64 callers: 0 lost, duplicate or misdirected responses, 0 "+
			"double executions, 0 wrong outcomes", total),
		"%d kills, %d calls (%d failed with a server, %d waited for the next one, %d refused): %d wrong %s; failed "+
			"within p99 %v, replaced within p50 %v, p99 %v",
		sum.cycles, sum.calls, sum.crashed, sum.waited, sum.refused, len(sum.wrongs), kinds(sum.wrongs),
		quantile(sum.failed, .99),
		quantile(sum.replaced, .5), quantile(sum.replaced, .99))
	return nil
}

// printInvalidLines is I01: a server on stdio prints lines that are not MCP. If there are too many, the bridge restarts
// the server: its calls fail, other calls continue, and the log contains the fix once.
func printInvalidLines(ctx context.Context, r *Rig) error {
	b, err := r.start(ctx, setup{config: func(b *Bridge) string {
		return fmt.Sprintf("version: 1\nbackends: [{name: up, mcp: {command: [%q], env: {FAULTMCP_JOURNAL: %q, "+
			"FAULTMCP_ERA: legacy}}}]\n", r.upstream, b.Journal)
	}})
	if err != nil {
		return err
	}
	_, clients, err := callersOf(b.URL, 8)
	if err != nil {
		return err
	}
	noisy, err := loadgen.NewCaller(b.URL, loadgen.Modern, 100)
	if err != nil {
		return err
	}
	group := startGroup(ctx, clients, func() loadgen.Work { return loadgen.Work{Ms: rand.IntN(20)} })
	cur, err := group.await(ctx, 0)
	times := r.cycles(3, 100)
	outcomes := map[string]int{}
	for n := 0; n < times && err == nil; n++ {
		little := noisy.Call(loadgen.Work{Fault: "print", Bytes: 900})
		much := noisy.Call(loadgen.Work{Fault: "print", Bytes: 1001, Ms: 100})
		group.add(little)
		group.add(much)
		outcomes[outcome(&little)+" "+outcome(&much)]++
		cur, err = group.await(ctx, cur.pid)
	}
	history := group.end()
	if err != nil {
		return fmt.Errorf("%w; the log is in %s", err, b.Dir)
	}
	if _, err := b.stop(); err != nil {
		return err
	}
	journal, err := b.journal(0)
	if err != nil {
		return err
	}
	log, err := os.ReadFile(filepath.Join(b.Dir, "log"))
	if err != nil {
		return err
	}
	wrongs := slices.DeleteFunc(checker.Rule{}.Judge(history, journal), func(w checker.Wrong) bool {
		return w.Kind == checker.UnrequestedCancel // a server that exits cancels its calls
	})
	warned := strings.Count(string(log), "let it log to standard error")
	r.report("I01", len(wrongs) == 0 && outcomes["result unknown"] == times && warned == times,
		"900 lines that are not MCP have no effect; after 1,001 within a minute the server is restarted, with one "+
			"warning; 0 wrong responses",
		"%d times, outcomes %v, %d warnings; %d calls, %d wrong %s", times, outcomes, warned, len(history), len(wrongs),
		kinds(wrongs))
	return nil
}

// kinds counts violations by kind.
func kinds(wrongs []checker.Wrong) string {
	count := map[string]int{}
	for _, w := range wrongs {
		count[w.Kind]++
	}
	return text(count)
}

// An httpServer is a faultmcp over HTTP.
type httpServer struct {
	URL string
	cmd *exec.Cmd
	in  io.Closer
}

// serveUpstream starts a faultmcp over HTTP.
func (r *Rig) serveUpstream(ctx context.Context, era, addr, journal string) (*httpServer, error) {
	cmd := exec.CommandContext(ctx, r.upstream)
	cmd.Env = append(os.Environ(), "FAULTMCP_JOURNAL="+journal, "FAULTMCP_ERA="+era, "FAULTMCP_HTTP="+addr)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, errors.Join(err, cmd.Wait())
	}
	return &httpServer{strings.TrimSpace(url), cmd, in}, nil
}

// kill kills it with SIGKILL.
func (s *httpServer) kill() {
	_ = s.cmd.Process.Kill() // may have exited
	_ = s.cmd.Wait()         // reports the kill
}

func (s *httpServer) stop() error {
	_ = s.in.Close() // ends the server
	return s.cmd.Wait()
}

// An httpFault is how an upstream server fails over HTTP, and the expected outcome.
type httpFault struct {
	name string
	work loadgen.Work
	want map[string]string // the outcome by the server's era, or "result"
}

func both(outcome string) map[string]string {
	return map[string]string{loadgen.Legacy: outcome, loadgen.Modern: outcome}
}

var httpFaults = []httpFault{
	{"reset before the work", loadgen.Work{Fault: "reset", Before: true}, both("unknown")},
	{"cut before the work", loadgen.Work{Fault: "cut", Before: true}, both("unknown")},
	{"reset before the answer", loadgen.Work{Fault: "reset"}, both("unknown")},
	{"cut before the answer", loadgen.Work{Fault: "cut"}, both("unknown")},
	{"reset within the head", loadgen.Work{Fault: "reset", Bytes: 20}, both("unknown")},
	{"cut within the head", loadgen.Work{Fault: "cut", Bytes: 40}, both("unknown")},
	{"cut after the head", loadgen.Work{Fault: "cut", Bytes: 71}, both("unknown")},
	{"reset within the body", loadgen.Work{Fault: "reset", Bytes: 150}, both("unknown")},
	{"cut within the body", loadgen.Work{Fault: "cut", Bytes: 150}, both("unknown")},
	{"cut within the first event", loadgen.Work{Fault: "cut", Events: 5, Bytes: 120}, both("unknown")},
	// A stream with an event ID can be resumed in the legacy era, without a second execution.
	{
		"cut within a later event",
		loadgen.Work{Fault: "cut", Events: 5, Bytes: 500},
		map[string]string{loadgen.Legacy: "result", loadgen.Modern: "unknown"},
	},
	{
		"cut between events",
		loadgen.Work{Events: 5, Fault: "cut", Bytes: 300},
		map[string]string{loadgen.Legacy: "result", loadgen.Modern: "unknown"},
	},
	{"session forgotten", loadgen.Work{Fault: "forget", Before: true}, map[string]string{loadgen.Legacy: "result"}},
	// A 404 for a session means that it has ended and that nothing was executed (2025-11-25: basic/transports, session
	// management). A server without sessions may return it after the work.
	{
		"404",
		loadgen.Work{Fault: "404", Before: true},
		map[string]string{loadgen.Legacy: "not_executed", loadgen.Modern: "unknown"},
	},
	{"429", loadgen.Work{Fault: "429", Before: true}, both("not_executed")},
	{"500", loadgen.Work{Fault: "500", Before: true}, both("unknown")},
	{"502", loadgen.Work{Fault: "502", Before: true}, both("unknown")},
	{"503", loadgen.Work{Fault: "503", Before: true}, both("unknown")},
	{"none", loadgen.Work{}, both("result")},
	{"none, with events", loadgen.Work{Events: 5}, both("result")},
}

// failUpstream is F15: MCP servers over HTTP, one of each era, break connections, lose sessions, return error statuses
// and are killed. Each fault is first tested alone, for its exact outcome, and then all of them under load.
func failUpstream(ctx context.Context, r *Rig) error {
	var calls, kills int
	var wrongs []checker.Wrong
	outcomes := map[string]int{}
	for _, era := range []string{loadgen.Legacy, loadgen.Modern} {
		journal, err := os.CreateTemp(r.dir, "up")
		if err != nil {
			return err
		}
		_ = journal.Close() // the server opens it by name
		up, err := r.serveUpstream(ctx, era, "127.0.0.1:0", journal.Name())
		if err != nil {
			return err
		}
		b, err := r.start(ctx, setup{config: func(*Bridge) string {
			return fmt.Sprintf("version: 1\nbackends: [{name: up, mcp: {url: %q}}]\n", up.URL)
		}})
		if err != nil {
			return err
		}
		b.Journal = journal.Name()
		history, unexpected, err := eachFault(b.URL, era, r.cycles(3, 50))
		if err != nil {
			return err
		}
		wrongs = append(wrongs, unexpected...)
		var loaded []checker.Call
		loaded, up, err = r.faultsUnderLoad(ctx, b, up, era, r.cycles(5, 100))
		if err != nil {
			return err
		}
		kills += r.cycles(5, 100)
		history = append(history, loaded...)
		if _, err := b.stop(); err != nil {
			return err
		}
		if err := up.stop(); err != nil {
			return err
		}
		entries, err := b.journal(0)
		if err != nil {
			return err
		}
		found := checker.Rule{}.Judge(history, entries)
		if len(found) > 0 {
			if err := r.keepHistory(b, history, found); err != nil {
				return err
			}
		}
		wrongs = append(wrongs, found...)
		calls += len(history)
		for _, c := range history {
			outcomes[outcome(&c)]++
		}
	}
	first := ""
	if len(wrongs) > 0 {
		first = fmt.Sprintf("; the first: %s %s", wrongs[0].Token, wrongs[0].Why)
	}
	r.report("F15", len(wrongs) == 0 && outcomes["unknown"] > 0 && outcomes["not_executed"] > 0,
		fmt.Sprintf("%d faults over HTTP and %d kills: one response with the right outcome for each call, 0 double "+
			"executions", len(httpFaults), kills),
		"%d calls %v: %d wrong %s%s", calls, outcomes, len(wrongs), kinds(wrongs), first)
	return nil
}

// outcome returns the outcome in the answer to a call.
func outcome(c *checker.Call) string {
	switch {
	case len(c.Answers) != 1:
		return fmt.Sprintf("%d answers", len(c.Answers))
	case c.Answers[0].Result():
		return "result"
	}
	return c.Answers[0].Outcome
}

// eachFault causes each fault a number of times for callers of both eras.
func eachFault(url, era string, times int) (history []checker.Call, wrongs []checker.Wrong, err error) {
	callers, _, err := callersOf(url, 2)
	if err != nil {
		return nil, nil, err
	}
	for _, f := range httpFaults {
		want, ok := f.want[era]
		if !ok {
			continue
		}
		for range times {
			for _, c := range callers {
				call := c.Call(f.work)
				if got := outcome(&call); got != want {
					wrongs = append(wrongs, checker.Wrong{Kind: "outcome", Token: call.Token, Why: fmt.Sprintf(
						"%s of a %s server: got %s, want %s: %+v", f.name, era, got, want, call.Answers)})
				}
				history = append(history, call)
			}
		}
	}
	for _, c := range callers {
		c.End()
	}
	return history, wrongs, nil
}

// faultsUnderLoad causes random faults under load, and kills the server a number of times.
func (r *Rig) faultsUnderLoad(ctx context.Context, b *Bridge, up *httpServer, era string,
	kills int,
) ([]checker.Call, *httpServer, error) {
	_, clients, err := callersOf(b.URL, 16)
	if err != nil {
		return nil, nil, err
	}
	group := startGroup(ctx, clients, func() loadgen.Work {
		w := httpFaults[rand.IntN(len(httpFaults))].work
		w.Ms = rand.IntN(20)
		if w.Bytes > 0 {
			w.Bytes = rand.IntN(2 * w.Bytes)
		}
		return w
	})
	addr := strings.TrimSuffix(strings.TrimPrefix(up.URL, "http://"), "/mcp")
	for range kills {
		time.Sleep(500*time.Millisecond + rand.N(100*time.Millisecond)) // at a random moment
		up.kill()
		if up, err = r.serveUpstream(ctx, era, addr, b.Journal); err != nil {
			group.end()
			return nil, nil, err
		}
	}
	time.Sleep(200 * time.Millisecond) // calls of the last server
	return slices.Clip(group.end()), up, nil
}
