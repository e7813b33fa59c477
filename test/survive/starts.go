package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/mcpbridge/mcpbridge/test/survive/checker"
	"github.com/mcpbridge/mcpbridge/test/survive/loadgen"
)

// beside starts a bridge with two backends: odd, with a variable of faultplug and its own journal, and healthy.
func (r *Rig) beside(ctx context.Context, variable, value string) (b *Bridge, c *loadgen.Caller, err error) {
	b, err = r.start(ctx, setup{config: func(b *Bridge) string {
		return fmt.Sprintf("version: 1\nbackends:\n- {name: odd, launch: {command: [%[1]q], env: "+
			"{FAULTPLUG_JOURNAL: %[2]q, %[3]s: %[4]q}}}\n"+
			"- {name: healthy, launch: {command: [%[1]q], env: {FAULTPLUG_JOURNAL: %[5]q}}}\n", r.plugin, b.Journal,
			variable, value, b.Journal+"-healthy")
	}})
	if err != nil {
		return nil, nil, err
	}
	c, err = loadgen.NewCaller(b.URL, loadgen.Modern, 0)
	return b, c, err
}

// starting calls a backend that does not start at once until a call succeeds. It returns these calls, the starts, and
// the number of failed calls of another backend. If again is set, it first kills the backend after its start.
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
			return nil, 0, 0, nil, fmt.Errorf("the first call failed: %+v", call)
		}
		if err := syscall.Kill(call.Answers[0].PID, syscall.SIGKILL); err != nil {
			return nil, 0, 0, nil, err
		}
		<-b.Lost // so that the next call is not sent to the killed process
		history = append(history, call)
	}
	for until := time.Now().Add(30 * time.Second); ; {
		if call := c.Call(loadgen.Work{Tool: "healthy_work"}); !call.OK() {
			failed++
		}
		call := c.Call(loadgen.Work{Tool: "odd_work"})
		history = append(history, call)
		if call.OK() {
			break
		}
		if time.Now().After(until) {
			return nil, 0, 0, nil, fmt.Errorf("the backend did not answer within 30 s; the log is in %s", b.Dir)
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

// crashAtStart is F04: a backend crashes at its first two starts. It is restarted with backoff, and the other one is
// served meanwhile.
func crashAtStart(ctx context.Context, r *Rig) error {
	began := time.Now()
	history, starts, failed, wrongs, err := r.starting(ctx, "FAULTPLUG_CRASHES", "2", false)
	if err != nil {
		return err
	}
	r.report("F04", len(wrongs) == 0 && failed == 0 && starts == 3,
		"restarted until it runs, 0 wrong, the other backend is served",
		"answers after %v and %d starts; %d calls refused before: %d wrong %s, %d of the other failed",
		time.Since(began).Round(time.Millisecond), starts,
		len(history)-1, len(wrongs), kinds(wrongs), failed)
	return nil
}

// startSlowly is F06: a backend takes 3 s to start, and is killed. Calls wait for the next one, and the other one is
// served meanwhile.
func startSlowly(ctx context.Context, r *Rig) error {
	history, starts, failed, wrongs, err := r.starting(ctx, "FAULTPLUG_SLOW", "3s", true)
	if err != nil {
		return err
	}
	last := history[len(history)-1]
	r.report("F06", len(wrongs) == 0 && failed == 0 && starts == 2 && len(history) == 2,
		"calls wait for a slow start, 0 wrong, the other backend is served",
		"a call waited %v, %d refused: %d wrong %s, %d of the other failed",
		time.Duration(last.End-last.Begin).Round(time.Millisecond),
		len(history)-2, len(wrongs), kinds(wrongs), failed)
	return nil
}

// printLongLine is F08: a backend prints 100 MiB in one line. It is not blocked, and the bridge does not buffer the
// line.
func printLongLine(ctx context.Context, r *Rig) error {
	b, c, err := r.beside(ctx, "FAULTPLUG_SLOW", "0s")
	if err != nil {
		return err
	}
	defer c.End()
	for _, tool := range []string{"odd_work", "healthy_work"} {
		if call := c.Call(loadgen.Work{Tool: tool}); !call.OK() {
			return fmt.Errorf("the first call failed: %+v", call)
		}
	}
	before := status(b.PID, "VmHWM")
	other, err := loadgen.NewCaller(b.URL, loadgen.Modern, 1)
	if err != nil {
		return err
	}
	defer other.End()
	done := make(chan checker.Call)
	go func() { done <- c.Call(loadgen.Work{Tool: "odd_print", Pad: 100}) }()
	calls, failed := 0, 0
	for {
		select {
		case call := <-done:
			grown := (status(b.PID, "VmHWM") - before) >> 20
			_, err := b.stop()
			r.report("F08", call.OK() && failed == 0 && grown <= 8,
				"100 MiB in one line: the call is answered, at most 8 MiB more memory, the other backend is served",
				"answered after %v, %d MiB more; %d calls of the other, %d failed",
				time.Duration(call.End-call.Begin).Round(time.Millisecond), grown, calls, failed)
			return err
		default:
		}
		calls++
		if call := other.Call(loadgen.Work{Tool: "healthy_work"}); !call.OK() {
			failed++
		}
	}
}
