package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/mcpbridge/mcpbridge/survive/checker"
	"github.com/mcpbridge/mcpbridge/survive/loadgen"
)

// hangs is R13: of two backends, one is stopped in the middle of everything. It is restarted, and callers of the other do not notice.
func hangs(ctx context.Context, r *Rig) error {
	b, err := r.start(ctx, setup{config: func(b *Bridge) string {
		return fmt.Sprintf("version: 1\nbackends:\n- {name: hung, launch: {command: [%[1]q], env: {FAULTPLUG_JOURNAL: %[2]q}}}\n"+
			"- {name: well, launch: {command: [%[1]q], env: {FAULTPLUG_JOURNAL: %[2]q}}}\n", r.plugin, b.Journal)
	}})
	if err != nil {
		return err
	}
	hungCallers, hungClients, err := callersOf(b.URL, 8)
	if err != nil {
		return err
	}
	wellCallers, wellClients, err := callersOf(b.URL, 8)
	if err != nil {
		return err
	}
	// Work that takes a while, so that what is measured is the bridge, and not who gets a core.
	of := func(tool string) func() loadgen.Work {
		return func() loadgen.Work { return loadgen.Work{Tool: tool, Ms: 20} }
	}
	hung, well := newHerd(ctx, hungClients, of("hung_work")), newHerd(ctx, wellClients, of("well_work"))
	cur, err := hung.await(ctx, 0)
	var took []time.Duration
	type span struct{ from, to time.Time }
	var out []span
	for n := 0; n < r.cycles(2, 50) && err == nil; n++ {
		time.Sleep(3 * time.Second) // as long as it is well, for comparison
		stopped := time.Now()
		if err = syscall.Kill(cur.pid, syscall.SIGSTOP); err == nil {
			cur, err = hung.await(ctx, cur.pid)
			took = append(took, cur.at.Sub(stopped))
			out = append(out, span{stopped, cur.at})
		}
	}
	history := hung.end()
	others := well.end()
	if err != nil {
		return errors.Join(err, fmt.Errorf("the log is in %s", b.Dir))
	}
	for _, c := range append(hungCallers, wellCallers...) {
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
	wrongs := checker.Rule{}.Judge(append(history, others...), journal)
	if len(wrongs) > 0 {
		if err := r.keepHistory(b, history, wrongs); err != nil {
			return err
		}
	}
	r.tell("R13", len(wrongs) == 0 && failed == 0 && len(took) > 0 && quantile(took, 1) <= 6*time.Second,
		"a backend that hangs is replaced within 6 s, and no call of another one fails",
		"%d times, replaced and answering within p50 %v, max %v; %d calls of it, %d of the other: %d wrong %s, %d of the other failed",
		len(took), quantile(took, .5), quantile(took, 1), len(history), len(others), len(wrongs), kinds(wrongs), failed)
	before, during := quantile(calm, .99), quantile(meanwhile, .99)
	r.tell("R13p", during <= before*6/5, "the other's p99 + 20 %", "p99 %v of %d calls before and after, %v of %d meanwhile", before, len(calm),
		during, len(meanwhile))
	return nil
}
