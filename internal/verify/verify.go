// Package verify drives a backend through every behaviour of the contract and says what is wrong with it, in the words of
// whoever wrote it. It launches and dials backends by itself, and does not use the bridge's own back: what that one tolerates
// is a finding here.
package verify

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// Options say which backend to verify. Exactly one of Command and Address is set.
type Options struct {
	// Command is the program to launch and its arguments. It is launched several times.
	Command []string
	// Dir is the directory it runs in. Empty: ours.
	Dir string
	// Env is its environment, to which what a host says is added.
	Env []string
	// Address is where a backend listens: unix:PATH or tcp:HOST:PORT.
	Address string
	// StartTimeout is how long it may take until its handshake. 0: 30 s.
	StartTimeout time.Duration
	// Only names the checks to make. Empty: all of them.
	Only []string
	// Told is called with each check when it has ended. It may be nil.
	Told func(Check)
}

// An Outcome is what became of a check.
type Outcome string

// What can become of a check.
const (
	Passed  Outcome = "passed"
	Failed  Outcome = "failed"
	LeftOut Outcome = "left out" // what it needs is not there: see Needs
)

// What a check can need that a backend does not have.
const (
	needsKit    = "the kit's tools"
	needsLaunch = "a command to launch"
)

// A Check is one behaviour, and whether the backend has it.
type Check struct {
	// Name is the check's name, and stays the same.
	Name string `json:"name"`
	// Does says what a backend does that passes.
	Does string `json:"does"`
	// Clause is where that is written.
	Clause  string  `json:"clause"`
	Outcome Outcome `json:"outcome"`
	// Needs is what is missing for a check that was left out.
	Needs string `json:"needs,omitempty"`
	// Defects are what is wrong. At most maxDefects are kept.
	Defects []Defect      `json:"defects,omitempty"`
	Took    time.Duration `json:"nanoseconds"`
}

// A Defect is something that is wrong with a backend.
type Defect struct {
	What  string `json:"what"`
	Where string `json:"where,omitempty"`
	Why   string `json:"why"`
	Fix   string `json:"fix"`
}

const (
	maxDefects = 10               // that are kept of a check
	maxShown   = 600              // bytes of what a backend said, in a defect
	patience   = 60 * time.Second // the most that a check takes
	settle     = 300 * time.Millisecond
)

// A StartError says why a backend could not be verified at all.
type StartError struct{ Defect }

// Error implements error.
func (e *StartError) Error() string { return e.What }

// Run verifies a backend and returns the checks in their order. The error is a *StartError if the backend did not start or does
// not answer, and otherwise that ctx has ended.
func Run(ctx context.Context, o Options) ([]Check, error) {
	if o.StartTimeout == 0 {
		o.StartTimeout = 30 * time.Second
	}
	d := &driver{o: o}
	defer d.stop()
	if err := d.begin(ctx); err != nil {
		return nil, err
	}
	var err error
	if d.kit, err = d.hasKit(ctx); err != nil {
		return nil, err
	}
	var all []Check
	for _, r := range rows() {
		if len(o.Only) > 0 && !slices.Contains(o.Only, r.name) {
			continue
		}
		c := Check{Name: r.name, Does: r.does, Clause: r.clause}
		switch {
		case r.needs == needsKit && !d.kit:
			c.Outcome, c.Needs = LeftOut, needsKit
		case r.launch && o.Address != "":
			c.Outcome, c.Needs = LeftOut, needsLaunch
		default:
			d.try(ctx, r, &c)
		}
		if ctx.Err() != nil {
			return all, fmt.Errorf("verifying: %w", context.Cause(ctx))
		}
		all = append(all, c)
		if o.Told != nil {
			o.Told(c)
		}
	}
	return all, nil
}

// Checks returns all the checks there are, in their order, with what they need.
func Checks() []Check {
	var all []Check
	for _, r := range rows() {
		c := Check{Name: r.name, Does: r.does, Clause: r.clause, Needs: r.needs}
		if r.launch {
			c.Needs = needsLaunch
		}
		all = append(all, c)
	}
	return all
}

// A row is a check: what it is about, and how it is made. Why and fix are those of its defects, unless they say otherwise.
type row struct {
	name, does, clause, why, fix string
	needs                        string // needsKit, or nothing
	launch                       bool   // it launches processes of its own, or does something to one
	run                          func(*trial)
}

// A driver drives one backend.
type driver struct {
	o   Options
	b   *backend // the one that most checks share
	kit bool     // it has the kit's tools
}

// A trial is a check under way.
type trial struct {
	*backend
	ctx   context.Context //nolint:containedctx // a trial is one run of a check and ends with it
	d     *driver
	row   row
	where string
	found []Defect
}

// wrong says that something is wrong.
func (t *trial) wrong(format string, args ...any) {
	t.defect(Defect{What: rawjson.ShortenTo(fmt.Sprintf(format, args...), maxShown)})
}

// defect adds one that has words of its own.
func (t *trial) defect(d Defect) {
	if len(t.found) == maxDefects {
		return
	}
	d.Where = rawjson.ShortenTo(d.Where, maxShown)
	if d.Why == "" {
		d.Why = t.row.why
	}
	if d.Fix == "" {
		d.Fix = t.row.fix
	}
	if d.Where == "" {
		d.Where = rawjson.ShortenTo(t.where, maxShown)
	}
	t.found = append(t.found, d)
}

// at says where what is wrong is, until the function is called that it returns.
func (t *trial) at(place string) func() {
	before := t.where
	t.where = place
	return func() { t.where = before }
}

// begin launches the backend that most checks share, or dials it.
func (d *driver) begin(ctx context.Context) error {
	b, err := d.open(ctx)
	if err != nil {
		return err
	}
	d.b = b
	return nil
}

func (d *driver) stop() {
	if d.b != nil {
		d.b.close()
	}
}

// open launches a backend, or dials the one there is, and returns it when it answers.
func (d *driver) open(ctx context.Context) (*backend, error) {
	if d.o.Address != "" {
		return dialled(ctx, d.o.Address)
	}
	p, err := d.start(ctx)
	if err != nil {
		return nil, err
	}
	b, err := p.connect(ctx)
	if err != nil {
		p.stop()
		return nil, err
	}
	return b, nil
}

// try makes one check, and has a backend for the next one that runs.
func (d *driver) try(ctx context.Context, r row, c *Check) {
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	t := &trial{ctx: limited, d: d, row: r, backend: d.b}
	r.run(t)
	if p := d.b.proc; p != nil && len(t.found) > 0 {
		p.exits(settle) // if it is that what has gone wrong
	}
	if p := d.b.proc; p != nil && p.Context().Err() != nil && ctx.Err() == nil {
		if !r.launch {
			p.Finish()
			ended := Defect{
				What: "the process has ended: " + p.ExitReason(), Why: "its other calls end with it\n" + p.said(),
				Fix: "an error of one call must not end the program: catch it where the call is answered",
			}
			t.found = slices.Insert(t.found, 0, ended) // the others follow from it
		}
		d.b.close()
		if err := d.begin(ctx); err != nil {
			t.wrong("it could not be started again: %v", err)
		}
	}
	c.Took, c.Outcome = time.Since(began), Passed
	if len(t.found) > 0 {
		c.Outcome, c.Defects = Failed, t.found[:min(len(t.found), maxDefects)]
	}
}

// kitTools are the tools that a backend must have for the checks that need the kit.
var kitTools = []string{
	"add", "ask", "blob", "count", "echo", "ended", "exact", "fail", "levels", "many", "meta", "noise", "remove", "sleep",
	"started", "steps", "structured", "survey", "tell", "update", "wait", "who",
}

// hasKit reports whether the backend has the kit's tools.
func (d *driver) hasKit(ctx context.Context) (bool, error) {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var have []string
	var cursor *string
	size := 0
	for range maxPages {
		tools, next, err := lists[0].page(limited, d.b, cursor)
		if ctx.Err() != nil {
			return false, fmt.Errorf("listing tools: %w", context.Cause(ctx))
		}
		if err != nil {
			return false, nil // it may have no tools; what else is wrong with the list, a check says
		}
		for _, m := range tools {
			if name := m.(*pb.Tool).GetName(); slices.Contains(kitTools, name) {
				have = append(have, name)
			}
			size += proto.Size(m)
		}
		if cursor = next; next == nil || size > maxMessage {
			break
		}
	}
	return !slices.ContainsFunc(kitTools, func(name string) bool { return !slices.Contains(have, name) }), nil
}
