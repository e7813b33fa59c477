// Package verify checks whether a backend fulfills the contract and reports its defects to its author. It launches and
// dials backends itself, without the bridge's own back, which tolerates some of the defects.
package verify

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// Options configure a verification. Exactly one of Command and Address must be set.
type Options struct {
	// Command is the program to launch, several times, and its arguments.
	Command []string
	// Dir is the working directory of the program. If empty, that of this process is used.
	Dir string
	// Env is the environment of the program, to which the variables of the bridge are added.
	Env []string
	// Address is the address of a running backend: unix:PATH or tcp:HOST:PORT.
	Address string
	// StartTimeout limits the time until the handshake. If zero, 30s is used.
	StartTimeout time.Duration
	// Only has the names of the checks to run. If empty, all are run.
	Only []string
	// Report, if not nil, is called with each check when it is done.
	Report func(Check)
}

// An Outcome is the result of a check.
type Outcome string

// The outcomes.
const (
	Passed  Outcome = "passed"
	Failed  Outcome = "failed"
	Skipped Outcome = "skipped" // see Needs
)

// Preconditions of checks.
const (
	needsKit    = "the kit's tools"
	needsLaunch = "a command to launch"
)

// A Check is one behavior, and whether the backend has it.
type Check struct {
	// Name identifies the check, and does not change between versions.
	Name string `json:"name"`
	// Does describes the behavior.
	Does string `json:"does"`
	// Clause is the place in the specification.
	Clause  string  `json:"clause"`
	Outcome Outcome `json:"outcome"`
	// Needs is the missing precondition of a skipped check.
	Needs string `json:"needs,omitempty"`
	// Defects are what the check found, at most maxDefects.
	Defects []Defect      `json:"defects,omitempty"`
	Took    time.Duration `json:"nanoseconds"`
}

// A Defect is a violation of the contract.
type Defect struct {
	What  string `json:"what"`
	Where string `json:"where,omitempty"`
	Why   string `json:"why"`
	Fix   string `json:"fix"`
}

const (
	maxDefects   = 10  // of a check
	maxShown     = 600 // bytes of a backend's text in a defect
	checkTimeout = 60 * time.Second
	exitGrace    = 300 * time.Millisecond // for a process that a failed check may have ended
)

// A StartError means that a backend could not be verified at all.
type StartError struct{ Defect }

// Error implements error.
func (e *StartError) Error() string { return e.What }

// Run verifies a backend and returns the checks in their order. The error is a *StartError if the backend did not start
// or does not respond, and otherwise that of ctx.
func Run(ctx context.Context, o Options) ([]Check, error) {
	o.StartTimeout = limits.Timeouts{Start: o.StartTimeout}.OrDefaults().Start
	d := &driver{o: o}
	defer d.stop()
	if err := d.openShared(ctx); err != nil {
		return nil, err
	}
	var err error
	if d.kit, err = d.hasKit(ctx); err != nil {
		return nil, err
	}
	var all []Check
	for _, r := range rows {
		if len(o.Only) > 0 && !slices.Contains(o.Only, r.name) {
			continue
		}
		c := Check{Name: r.name, Does: r.does, Clause: r.clause}
		switch {
		case r.needs == needsKit && !d.kit:
			c.Outcome, c.Needs = Skipped, needsKit
		case r.launch && o.Address != "":
			c.Outcome, c.Needs = Skipped, needsLaunch
		default:
			d.run(ctx, r, &c)
		}
		if ctx.Err() != nil {
			return all, fmt.Errorf("verifying: %w", context.Cause(ctx))
		}
		all = append(all, c)
		if o.Report != nil {
			o.Report(c)
		}
	}
	return all, nil
}

// Checks returns all checks in their order, with their preconditions.
func Checks() []Check {
	var all []Check
	for _, r := range rows {
		c := Check{Name: r.name, Does: r.does, Clause: r.clause, Needs: r.needs}
		if r.launch {
			c.Needs = needsLaunch
		}
		all = append(all, c)
	}
	return all
}

// A row defines a check. why and fix apply to its defects, unless they have their own.
type row struct {
	name, does, clause, why, fix string
	needs                        string // needsKit or empty
	launch                       bool   // it launches processes of its own, or changes the state of the shared one
	run                          func(*trial)
}

// rows has all checks in the order in which they run.
var rows = slices.Concat(startRows, listRows, toolRows, shutdownRows)

// Places of clauses.
const (
	inStart   = "docs/verify.md: Starting"
	inService = "proto/mcpbridge/v1/service.proto: "
	inInput   = "proto/mcpbridge/v1/input.proto: "
	inTool    = "proto/mcpbridge/v1/tool.proto: "
	inErrors  = "docs/errors.md"
)

// A driver runs checks against one backend.
type driver struct {
	o   Options
	b   *backend // shared by most checks
	kit bool     // the backend has the kit's tools
}

// A trial is one run of a check.
type trial struct {
	*backend
	ctx   context.Context //nolint:containedctx // ends with the trial
	d     *driver
	row   row
	where string
	found []Defect
}

// failf adds a defect.
func (t *trial) failf(format string, args ...any) {
	t.defect(Defect{What: rawjson.ShortenTo(fmt.Sprintf(format, args...), maxShown)})
}

// defect adds a defect, completed by the texts of the row.
func (t *trial) defect(d Defect) {
	if len(t.found) == maxDefects {
		return
	}
	d.Where = rawjson.ShortenTo(cmp.Or(d.Where, t.where), maxShown)
	d.Why = cmp.Or(d.Why, t.row.why)
	d.Fix = cmp.Or(d.Fix, t.row.fix)
	t.found = append(t.found, d)
}

// setWhere sets the place of defects until the returned function is called.
func (t *trial) setWhere(place string) func() {
	before := t.where
	t.where = place
	return func() { t.where = before }
}

// openShared launches or dials the backend that most checks share.
func (d *driver) openShared(ctx context.Context) error {
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

// open launches or dials a backend, and returns it when it responds.
func (d *driver) open(ctx context.Context) (*backend, error) {
	if d.o.Address != "" {
		return dialAddress(ctx, d.o.Address)
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

// run runs one check. If the shared backend exited, it opens another one for the following checks.
func (d *driver) run(ctx context.Context, r row, c *Check) {
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	t := &trial{ctx: limited, d: d, row: r, backend: d.b}
	r.run(t)
	if p := d.b.proc; p != nil && len(t.found) > 0 {
		p.awaitExit(exitGrace) // its exit may be the cause
	}
	if p := d.b.proc; p != nil && p.Context().Err() != nil && ctx.Err() == nil {
		if !r.launch {
			p.Finish()
			ended := Defect{
				What: "the process exited: " + p.ExitReason(), Why: "its other calls fail\n" + p.output(),
				Fix: "an error in one call must not end the program: handle it where the call is handled",
			}
			t.found = slices.Insert(t.found, 0, ended) // the cause of the others
		}
		d.b.close()
		if err := d.openShared(ctx); err != nil {
			t.failf("could not be started again: %v", err)
		}
	}
	c.Took, c.Outcome = time.Since(began), Passed
	if len(t.found) > 0 {
		c.Outcome, c.Defects = Failed, t.found[:min(len(t.found), maxDefects)]
	}
}

// kitTools are the tools that checks with needsKit call.
var kitTools = []string{
	"add", "ask", "blob", "count", "echo", "ended", "exact", "fail", "levels", "many", "meta", "noise", "remove",
	"sleep", "started", "steps", "structured", "survey", "tell", "unknown", "update", "wait", "who",
}

// hasKit reports whether the backend has the kit's tools.
func (d *driver) hasKit(ctx context.Context) (bool, error) {
	limited, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	var found []string
	var cursor *string
	size := 0
	for range limits.ListPages {
		tools, next, err := lists[0].page(limited, d.b, cursor)
		if ctx.Err() != nil {
			return false, fmt.Errorf("listing tools: %w", context.Cause(ctx))
		}
		if err != nil {
			return false, nil // the backend may have no tools; other errors are for the checks
		}
		for _, m := range tools {
			if name := m.(*pb.Tool).GetName(); slices.Contains(kitTools, name) {
				found = append(found, name)
			}
			size += proto.Size(m)
		}
		if cursor = next; next == nil || size > limits.MaxMessage {
			break
		}
	}
	return !slices.ContainsFunc(kitTools, func(name string) bool { return !slices.Contains(found, name) }), nil
}
