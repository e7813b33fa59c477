package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/mcpbridge/mcpbridge/test/survive/checker"
	"github.com/mcpbridge/mcpbridge/test/survive/loadgen"
)

// blocked is how long the process of a backend is blocked. A stopped backend is replaced sooner.
const blocked = 8 * time.Second

// stopAndBlock is R13: one of two backends is stopped under load, and replaced. Then it is blocked, and keeps its
// calls. Calls of the other one are not affected.
func stopAndBlock(ctx context.Context, r *Rig) error {
	b, err := r.start(ctx, setup{config: func(b *Bridge) string {
		return fmt.Sprintf("version: 1\nbackends:\n- {name: hung, launch: {command: [%[1]q], "+
			"env: {FAULTPLUG_JOURNAL: %[2]q, GOMAXPROCS: '1', GODEBUG: asyncpreemptoff=1}}}\n"+
			"- {name: healthy, launch: {command: [%[1]q], env: {FAULTPLUG_JOURNAL: %[2]q}}}\n", r.plugin, b.Journal)
	}})
	if err != nil {
		return err
	}
	hungCallers, hungClients, err := callersOf(b.URL, 8)
	if err != nil {
		return err
	}
	healthyCallers, healthyClients, err := callersOf(b.URL, 8)
	if err != nil {
		return err
	}
	// Calls take 20 ms, so that the scheduling of few cores does not matter.
	of := func(tool string) func() loadgen.Work {
		return func() loadgen.Work { return loadgen.Work{Tool: tool, Ms: 20} }
	}
	hung, healthy := startGroup(ctx, hungClients, of("hung_work")), startGroup(ctx, healthyClients, of("healthy_work"))
	cur, err := hung.await(ctx, 0)
	var took []time.Duration
	type span struct{ from, to time.Time }
	var out []span
	for n := 0; n < r.cycles(2, 50) && err == nil; n++ {
		time.Sleep(3 * time.Second) // calls without a fault, for comparison
		stopped := time.Now()
		if err = syscall.Kill(cur.pid, syscall.SIGSTOP); err == nil {
			cur, err = hung.await(ctx, cur.pid)
			took = append(took, cur.at.Sub(stopped))
			out = append(out, span{stopped, cur.at})
		}
	}
	var blocks []checker.Call
	blocker, newErr := loadgen.NewCaller(b.URL, loadgen.Modern, 100)
	err = errors.Join(err, newErr)
	for n := 0; n < r.cycles(1, 10) && err == nil; n++ {
		time.Sleep(time.Second)
		call := blocker.Call(loadgen.Work{Tool: "hung_block", Ms: int(blocked.Milliseconds())})
		blocks = append(blocks, call)
		out = append(out, span{time.Unix(0, call.Begin), time.Unix(0, call.End)})
		time.Sleep(time.Second) // time for a restart, which must not happen
	}
	history := append(hung.end(), blocks...)
	others := healthy.end()
	if err != nil {
		return errors.Join(err, fmt.Errorf("the log is in %s", b.Dir))
	}
	for _, c := range slices.Concat(hungCallers, healthyCallers, []*loadgen.Caller{blocker}) {
		c.End()
	}
	if _, err := b.stop(); err != nil {
		return err
	}
	journal, err := b.journal(0)
	if err != nil {
		return err
	}
	var calm, meanwhile []time.Duration
	failed := 0
	for _, c := range others {
		if !c.OK() {
			failed++
			continue
		}
		lasted := time.Duration(c.End - c.Begin)
		in := false
		for _, s := range out {
			in = in || c.Begin > s.from.UnixNano() && c.End < s.to.UnixNano()
		}
		if in {
			meanwhile = append(meanwhile, lasted)
		} else {
			calm = append(calm, lasted)
		}
	}
	waited, lost, err := whileBlocked(blocks, history, journal, cur.pid)
	if err != nil {
		return errors.Join(err, fmt.Errorf("the log is in %s", b.Dir))
	}
	log, err := os.ReadFile(filepath.Join(b.Dir, "log"))
	if err != nil {
		return err
	}
	warned := strings.Count(string(log), " has blocked the backend for ")
	wrongs := checker.Rule{}.Judge(append(history, others...), journal)
	if len(wrongs) > 0 {
		if err := r.keepHistory(b, history, wrongs); err != nil {
			return err
		}
	}
	r.report("R13", len(wrongs)+failed+lost == 0 && len(took) > 0 && quantile(took, 1) <= 6*time.Second && waited > 0 &&
		warned == len(blocks),
		fmt.Sprintf("a stopped backend is replaced within 6 s; one that is blocked for %v is not restarted, loses no "+
			"call and is logged; no call of the other backend fails", blocked),
		"%d times stopped, the new one answers within p50 %v, max %v; %d times blocked, %d warnings, %d calls "+
			"waited, %d failed or were answered by another process; %d calls of it, %d of the other: %d wrong %s, "+
			"%d of the other failed",
		len(took), quantile(took, .5), quantile(took, 1), len(blocks), warned, waited, lost, len(history), len(others),
		len(wrongs),
		kinds(wrongs), failed)
	before, then := quantile(calm, .99), quantile(meanwhile, .99)
	r.report("R13p", then <= before*6/5, "p99 of the other backend + 20 %",
		"p99 %v of %d calls before and after, %v of %d meanwhile", before, len(calm),
		then, len(meanwhile))
	return nil
}

// whileBlocked returns how many calls waited for a blocked backend, and how many failed or were answered by another
// process. It returns an error if the process was not blocked.
func whileBlocked(blocks, history []checker.Call, journal []checker.Entry, pid int) (waited, lost int, err error) {
	for _, block := range blocks {
		from := block.Begin + int64(time.Second)
		to := block.Begin + int64(blocked-time.Second)
		for _, e := range journal {
			if e.PID == pid && e.At > from && e.At < to {
				return 0, 0, fmt.Errorf("%s of %s while the process was blocked", e.What, e.Token)
			}
		}
		for i := range history {
			c := &history[i]
			switch {
			case c.End < from:
			case !c.OK() || c.Answers[0].PID != pid:
				lost++
			case c.Begin < to:
				waited++
			}
		}
	}
	return waited, lost, nil
}
