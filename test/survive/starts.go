package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/mcpbridge/mcpbridge/test/survive/checker"
	"github.com/mcpbridge/mcpbridge/test/survive/loadgen"
)

// beside starts a bridge with two backends: odd, with a variable of faultplug and its own journal, and well.
func (r *Rig) beside(ctx context.Context, variable, value string) (b *Bridge, c *loadgen.Caller, err error) {
	b, err = r.start(ctx, setup{config: func(b *Bridge) string {
		return fmt.Sprintf("version: 1\nbackends:\n- {name: odd, launch: {command: [%[1]q], env: "+
			"{FAULTPLUG_JOURNAL: %[2]q, %[3]s: %[4]q}}}\n"+
			"- {name: well, launch: {command: [%[1]q], env: {FAULTPLUG_JOURNAL: %[5]q}}}\n", r.plugin, b.Journal,
			variable, value, b.Journal+"-well")
	}})
	if err != nil {
		return nil, nil, err
	}
	c, err = loadgen.NewCaller(b.URL, loadgen.Modern, 0)
	return b, c, err
}

// starting returns the calls of a backend that is not available at once, until one succeeds, and the failed calls of
// another one. If again, the backend is first killed after its start.
func (r *Rig) starting(ctx context.Context, variable, value string,
	again bool,
) (history []checker.Call, starts, failed int, wrongs []checker.Wrong, err error) {
	b, c, err := r.beside(ctx, variable, value)
	if err != nil {
		return nil, 0, 0, nil, err
	}
	defer c.End()
	if again {
		call := c.Call(loadgen.Work{Tool: "odd_work"})
		if !call.OK() {
			return nil, 0, 0, nil, fmt.Errorf("a first call failed: %+v", call)
		}
		if err := syscall.Kill(call.Answers[0].PID, syscall.SIGKILL); err != nil {
			return nil, 0, 0, nil, err
		}
		<-b.Lost // so that no call is with the one that was killed
		history = append(history, call)
	}
	for until := time.Now().Add(30 * time.Second); ; {
		if call := c.Call(loadgen.Work{Tool: "well_work"}); !call.OK() {
			failed++
		}
		call := c.Call(loadgen.Work{Tool: "odd_work"})
		history = append(history, call)
		if call.OK() {
			break
		}
		if time.Now().After(until) {
			return nil, 0, 0, nil, fmt.Errorf("the backend is not there after 30 s; the log is in %s", b.Dir)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if _, err := b.stop(); err != nil {
		return nil, 0, 0, nil, err
	}
	journal, err := b.journal(0)
	for _, e := range journal {
		if e.What == checker.Start {
			starts++
		}
	}
	wrongs = checker.Rule{}.Judge(history, journal)
	return history, starts, failed, wrongs, err
}

// crashesAtStart is F04: a backend crashes at its first two starts. It is restarted with backoff, and the other one
// is served meanwhile.
func crashesAtStart(ctx context.Context, r *Rig) error {
	began := time.Now()
	history, starts, failed, wrongs, err := r.starting(ctx, "FAULTPLUG_CRASHES", "2", false)
	if err != nil {
		return err
	}
	r.tell("F04", len(wrongs) == 0 && failed == 0 && starts == 3,
		"started again until it lives, 0 wrong, the other backend is served",
		"answers after %v and %d starts; %d calls before were refused: %d wrong %s, %d of the other failed",
		time.Since(began).Round(time.Millisecond), starts,
		len(history)-1, len(wrongs), kinds(wrongs), failed)
	return nil
}

// startsSlowly is F06: a backend takes 3 s to start, and is killed. Calls wait for the next one, and the other one is
// served meanwhile.
func startsSlowly(ctx context.Context, r *Rig) error {
	history, starts, failed, wrongs, err := r.starting(ctx, "FAULTPLUG_SLOW", "3s", true)
	if err != nil {
		return err
	}
	last := history[len(history)-1]
	r.tell("F06", len(wrongs) == 0 && failed == 0 && starts == 2 && len(history) == 2,
		"a backend that starts slowly is waited for, 0 wrong, the other backend is served",
		"a call waits %v, %d are refused: %d wrong %s, %d of the other failed",
		time.Duration(last.End-last.Begin).Round(time.Millisecond),
		len(history)-2, len(wrongs), kinds(wrongs), failed)
	return nil
}

// printsLongLine is F08: a backend prints 100 MiB in one line. It is not blocked, and the bridge does not buffer the
// line.
func printsLongLine(ctx context.Context, r *Rig) error {
	b, c, err := r.beside(ctx, "FAULTPLUG_SLOW", "0s")
	if err != nil {
		return err
	}
	defer c.End()
	for _, tool := range []string{"odd_work", "well_work"} {
		if call := c.Call(loadgen.Work{Tool: tool}); !call.OK() {
			return fmt.Errorf("a first call failed: %+v", call)
		}
	}
	before := status(b.PID, "VmHWM")
	other, err := loadgen.NewCaller(b.URL, loadgen.Modern, 1)
	if err != nil {
		return err
	}
	defer other.End()
	done := make(chan checker.Call)
	go func() { done <- c.Call(loadgen.Work{Tool: "odd_babble", Pad: 100}) }()
	calls, failed := 0, 0
	for {
		select {
		case call := <-done:
			grown := (status(b.PID, "VmHWM") - before) >> 20
			_, err := b.stop()
			r.tell("F08", call.OK() && failed == 0 && grown <= 8,
				"100 MiB in one line: the call is answered, 8 MiB more at most, the other backend is served",
				"answered after %v, %d MiB more; %d calls of the other, %d failed",
				time.Duration(call.End-call.Begin).Round(time.Millisecond), grown, calls, failed)
			return err
		default:
		}
		calls++
		if call := other.Call(loadgen.Work{Tool: "well_work"}); !call.OK() {
			failed++
		}
	}
}
