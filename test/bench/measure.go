package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A setting is a combination of parameters.
type setting struct {
	Era     era `json:"era"`
	Size    int `json:"size"`
	Callers int `json:"callers"`
}

// A sample is a measurement of a subject.
type sample struct {
	Calls     int     `json:"calls"`
	PerSecond float64 `json:"callsPerSecond"`
	P50       float64 `json:"p50ms"`
	P99       float64 `json:"p99ms"`
	CPU       float64 `json:"cpuSecondsPer10k"`       // of the server and its descendants
	ServerCPU float64 `json:"serverCPUSecondsPer10k"` // of the server alone
	ClientCPU float64 `json:"loadGeneratorCPUSecondsPer10k"`
	Whole     float64 `json:"wholeCPUSecondsPer10k"` // of the server, its descendants and the load generator
	Decoded   int     `json:"answersDecoded"`        // the others were compared with one that was
}

// The phases of a measurement. A call counts if it ends during measuring.
const (
	warming = iota
	measuring
	over
)

// measure runs callers for d after a warm-up. It returns an error if any answer was wrong.
func measure(ctx context.Context, p *process, s setting, text string, d time.Duration) (sample, error) {
	callers, err := dialAll(p, s, text)
	if err != nil {
		return sample{}, err
	}
	var (
		phase    atomic.Int32
		failed   = make([]error, len(callers))
		took     = make([][]time.Duration, len(callers))
		callersG sync.WaitGroup
	)
	for i, c := range callers {
		callersG.Go(func() {
			defer c.close()
			took[i], failed[i] = drive(c, &phase)
		})
	}
	wait(ctx, max(d/8, 200*time.Millisecond))
	before, err1 := p.cpu()
	own := ownCPU()
	phase.Store(measuring)
	from := time.Now()
	wait(ctx, d)
	phase.Store(over)
	elapsed := time.Since(from)
	after, err2 := p.cpu()
	own = ownCPU() - own
	callersG.Wait()

	err = errors.Join(err1, err2, ctx.Err())
	if err == nil && !slices.Equal(before.pids, after.pids) {
		err = errChanged
	}
	if wrong := failures(failed); wrong != nil {
		err = errors.Join(err, wrong)
	}
	if err != nil {
		return sample{}, err
	}
	all := slices.Concat(took...)
	if len(all) == 0 {
		return sample{}, fmt.Errorf("no call ended within %v", d)
	}
	slices.Sort(all)
	per10k := func(cpu time.Duration) float64 { return cpu.Seconds() / float64(len(all)) * 10_000 }
	r := sample{
		Calls: len(all), PerSecond: float64(len(all)) / elapsed.Seconds(),
		P50: quantile(all, 0.50), P99: quantile(all, 0.99),
		CPU: per10k(after.total - before.total), ServerCPU: per10k(after.server - before.server),
		ClientCPU: per10k(own),
	}
	r.Whole = r.CPU + r.ClientCPU
	for _, c := range callers {
		r.Decoded += c.decoded()
	}
	return r, nil
}

func dialAll(server *process, s setting, text string) ([]client, error) {
	dial := server.dial
	if dial == nil {
		dial = dialRaw
	}
	var callers []client
	for i := range s.Callers {
		p, err := newPayload(i, s.Size, text)
		if err == nil {
			var c client
			if c, err = dial(server.url, s.Era, p); err == nil {
				callers = append(callers, c)
				continue
			}
		}
		for _, c := range callers {
			c.close()
		}
		return nil, err
	}
	return callers, nil
}

// drive makes calls until the end, and returns the durations of those that count. It stops at the first wrong answer.
func drive(c client, phase *atomic.Int32) ([]time.Duration, error) {
	took := make([]time.Duration, 0, 1<<14)
	for {
		from := time.Now()
		if err := c.call(); err != nil {
			return took, err
		}
		switch phase.Load() {
		case measuring:
			took = append(took, time.Since(from))
		case over:
			return took, nil
		}
	}
}

// failures returns an error with the number of callers that failed and the first failure.
func failures(failed []error) error {
	var first error
	n := 0
	for _, err := range failed {
		if err == nil {
			continue
		}
		n++
		if first == nil {
			first = err
		}
	}
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d callers got a wrong answer: %w", n, len(failed), first)
}

// quantile of sorted durations, in milliseconds.
func quantile(sorted []time.Duration, q float64) float64 {
	i := int(q * float64(len(sorted)))
	return float64(sorted[min(i, len(sorted)-1)]) / float64(time.Millisecond)
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
