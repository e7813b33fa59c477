package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mcpbridge/mcpbridge/internal/problem"
)

// openers return a back of each kind, by its key. Nothing is started yet.
var openers = map[string]func(b *backend) (back, error){"launch": openLaunch, "dial": openDial, "mcp": openMCP}

// open makes a new back.
func (b *backend) open() error {
	if c := b.Command(); c != nil {
		if err := checkCommand(c, b.cfg.Where(b.configKey+"."+b.Key()+".command")); err != nil {
			return err
		}
	}
	open := openers[b.Key()]
	if b.Detect && b.Launch != nil {
		open = openDetecting
	}
	current, err := open(b)
	if err != nil {
		if p, ok := errors.AsType[*problem.Error](err); ok {
			return p
		}
		return &problem.Error{
			Exit: problem.ExitConfig, Code: "backend", What: fmt.Sprintf("backend %q cannot be set up", b.Name),
			Where: b.cfg.Where(b.configKey), Why: err.Error(), Fix: "correct the backend's settings", Cause: err,
		}
	}
	b.setBack(current)
	return nil
}

// runWithRetries runs the back until ctx ends. If it does not start, it opens and runs it again later; the other
// backends are served meanwhile.
func (b *backend) runWithRetries(ctx context.Context) {
	err := b.openErr
	for delay := firstRetry; ; delay, err = min(2*delay, lastRetry), b.open() {
		if err == nil {
			err = b.runOnce(ctx)
		}
		b.recordStart()
		if ctx.Err() != nil {
			return
		}
		p := problem.Of(b.startProblem(err))
		line := b.log.Error().Str("backend", b.Name)
		for _, m := range []struct{ name, text string }{{"where", p.Where}, {"why", p.Why}, {"fix", p.Fix}} {
			if m.text != "" {
				line = line.Str(m.name, m.text)
			}
		}
		line.Stringer("retryIn", delay).Msg(p.What)
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return
		}
	}
}

// runOnce runs the back once, and settles when it is ready.
func (b *backend) runOnce(ctx context.Context) error {
	current := *b.back.Load()
	ready, cancel := context.WithCancel(ctx)
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		if current.Ready(ready) == nil {
			b.recordStart()
		}
	}()
	err := current.Run(ctx)
	cancel()
	<-waited
	return err
}

// recordStart records that the first start has succeeded or failed.
func (b *backend) recordStart() {
	select {
	case <-b.startDone:
	default:
		close(b.startDone)
	}
}

// The first and the longest pause before another attempt to start one of several backends.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)
