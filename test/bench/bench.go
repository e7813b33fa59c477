package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// bench starts the subjects, measures every setting once per round with each subject in turn, and reports.
func bench(ctx context.Context, o options, w io.Writer) error {
	r := newReport(o)
	fmt.Fprint(w, r.Machine)
	running, err := startAll(w, r, o)
	defer func() {
		for _, s := range running {
			s.stop()
		}
	}()
	if err != nil {
		return err
	}
	settings := settingsOf(o)
	slots := o.Rounds * len(settings) * len(running)
	fmt.Fprintf(w, "%d measurements of %v, about %v\n", slots, o.Duration,
		(time.Duration(slots) * (o.Duration + o.Duration/8 + 300*time.Millisecond)).Round(time.Minute))
	warmUp(ctx, running, o)
	for round := range o.Rounds {
		for i, s := range settings {
			for j := range running {
				// Rotate the order, so that no subject always has the cold or the warm machine.
				subject := running[(j+i+round)%len(running)]
				if !speaks(subject.name, s.Era) {
					continue
				}
				sample, err := measure(ctx, subject.process, s, o.Text, o.Duration)
				if ctx.Err() != nil {
					return ctx.Err()
				}
				r.add(subject.name, s, sample, err)
				if err != nil {
					fmt.Fprintf(w, "refused: %s, %s, %d B, %d callers: %v\n", subject.name, s.Era, s.Size, s.Callers,
						err)
				}
			}
		}
		fmt.Fprintf(os.Stderr, "round %d of %d done\n", round+1, o.Rounds)
	}
	r.conclude()
	r.print(w)
	if o.Out != "" {
		if err := r.write(o.Out); err != nil {
			return err
		}
	}
	if n := r.refused(); n > 0 {
		return fmt.Errorf("%d measurements had errors and are not reported", n)
	}
	return nil
}

type runningSubject struct {
	name string
	*process
}

// warmUp calls the subjects that need it. Errors occur again in the measurement, which reports them.
func warmUp(ctx context.Context, running []runningSubject, o options) {
	for _, subject := range running {
		for _, size := range o.Sizes {
			for _, e := range o.Eras {
				if !speaks(subject.name, e) {
					continue
				}
				began := time.Now()
				for calls := 0; calls < warmUps[subject.name] && time.Since(began) < 2*time.Minute; {
					sample, err := measure(ctx, subject.process, setting{e, size, 16}, o.Text, time.Second)
					if err != nil {
						return
					}
					calls += sample.Calls
				}
			}
		}
	}
}

// startAll starts the subjects. Those that are not built are skipped with a message, unless they were selected by
// name.
func startAll(w io.Writer, r *report, o options) ([]runningSubject, error) {
	var running []runningSubject
	for _, s := range wanted(o) {
		cmd, err := s.command(o)
		if err == nil {
			var p *process
			if p, err = start(cmd, 30*time.Second); err == nil {
				p.dial = s.dial
				running = append(running, runningSubject{s.name, p})
				r.Subjects = append(r.Subjects, subjectInfo{s.name, s.about})
				continue
			}
		}
		if len(o.Only) > 0 {
			return running, fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Fprintf(w, "left out: %s: %v\n", s.name, err)
		r.LeftOut = append(r.LeftOut, fmt.Sprintf("%s: %v", s.name, err))
	}
	if len(running) == 0 {
		return nil, errors.New("nothing to measure")
	}
	return running, nil
}

func settingsOf(o options) []setting {
	var settings []setting
	for _, size := range o.Sizes {
		for _, callers := range o.Callers {
			for _, e := range o.Eras {
				settings = append(settings, setting{e, size, callers})
			}
		}
	}
	return settings
}
