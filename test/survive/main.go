// Command survive injects faults into the bridge's environment under load, and counts lost calls.
//
//	go run . -bin ../../bin/mcpbridge [-long] [-laws] [-only R1,R8] [-out survive.json] [-keep]
//
// Each scenario prints a line with its goal, the figure, and whether it passes. docs/survive.md describes the
// scenarios. The exit code is 1 if a goal is missed. With -laws, the goals in measured do not count, because times and
// sizes depend on the machine and its load, and scenarios that only measure are skipped unless -only names them.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "survive:", err)
		os.Exit(1)
	}
}

// A Rig is the environment of scenarios.
type Rig struct {
	bin, plugin, upstream string // programs
	dir                   string // logs, journals and histories
	long, laws            bool
	results               []Result
}

// A Result is one line of the table.
type Result struct {
	ID     string  `json:"id"`
	Figure string  `json:"figure"`
	Goal   string  `json:"goal"`
	Pass   bool    `json:"pass"`
	Load   string  `json:"load"` // load average of the machine
	Took   float64 `json:"seconds"`
}

// A scenario is a row of the table.
type scenario struct {
	ids string // its goals
	run func(ctx context.Context, r *Rig) error
}

var scenarios = []scenario{
	{"R1 R2 R4 K1", killUnderLoad},
	{"R3 F01", killWithOneCaller},
	{"K1g", countGoroutines},
	{"K2", measureMemory},
	{"R5 R5t", killBridge},
	{"R6", restartRolling},
	{"R7 R7t", terminateBridge},
	{"R8 R8t", cancelCalls},
	{"R9", disconnectClients},
	{"R10", resumeStreams},
	{"R13 R13p", stopAndBlock},
	{"R15", panicAtFailpoints},
	{"R16", killUpstream},
	{"F15", failUpstream},
	{"F16 R12", failNetwork},
	{"R18", keepTasks},
	{"I01", printInvalidLines},
	{"L4", idleSessions},
	{"L5", idleStreams},
	{"L8", overload},
	{"L8m L8s", fillMemory},
	{"L9", badRequests},
	{"L11", measureTasks},
	{"L12", pollTasks},
	{"L10", noisyNeighbor},
	{"F04", crashAtStart},
	{"F06", startSlowly},
	{"F20 R17", exhaustDescriptors},
	{"F08", printLongLine},
	{"S1 S6", runAttacks},
	{"S3", runFuzzTargets},
	{"S4", compareParsers},
	{"S10", checkLimits},
}

// measured are the goals that depend on the machine.
var measured = []string{
	"R2", "R3", "F01", "R5t", "R7t", "R8t", "R12", "R13p", "R17", "L5", "L8", "L8s", "L9", "L10",
	"L11", "L12", "K2",
}

// counts reports whether a goal counts with -laws.
func counts(id string) bool { return !slices.Contains(measured, id) }

func run(ctx context.Context, args []string) error {
	r := &Rig{}
	flags := flag.NewFlagSet("survive", flag.ContinueOnError)
	flags.StringVar(&r.bin, "bin", "../../bin/mcpbridge", "the mcpbridge to test")
	flags.BoolVar(&r.long, "long", false, "run as many cycles as the goals require, which takes some hours")
	flags.BoolVar(&r.laws, "laws", false, "fail only for goals that do not depend on the machine")
	only := flags.String("only", "", "run only the scenarios of these goals, such as R1,R8")
	out := flags.String("out", "", "write the figures to this file, as JSON")
	keep := flags.Bool("keep", false, "keep logs, journals and histories even if all goals pass")
	if err := flags.Parse(args); err != nil {
		return err
	}
	wanted := strings.FieldsFunc(*only, func(c rune) bool { return c == ',' || c == ' ' })
	for _, id := range wanted {
		if !slices.ContainsFunc(scenarios,
			func(s scenario) bool { return slices.Contains(strings.Fields(s.ids), id) }) {
			return fmt.Errorf("-only %s: unknown goal", id)
		}
	}
	var err error
	if r.bin, err = filepath.Abs(r.bin); err != nil {
		return err
	}
	if r.dir, err = os.MkdirTemp("", "survive"); err != nil {
		return err
	}
	r.plugin, r.upstream = filepath.Join(r.dir, "faultplug"), filepath.Join(r.dir, "faultmcp")
	if text, err := exec.CommandContext(ctx, "go", "build", "-o", r.dir, "./faultplug", "./faultmcp").
		CombinedOutput(); err != nil {
		return fmt.Errorf("build faultplug and faultmcp: %w\n%s", err, text)
	}
	fmt.Printf("%d cores, %s, load %s; the callers share the cores\n", runtime.NumCPU(), runtime.Version(), load())
	err = r.runAll(ctx, wanted)
	if *out != "" {
		text, jsonErr := json.MarshalIndent(r.results, "", "  ")
		err = errors.Join(err, jsonErr, os.WriteFile(*out, append(text, '\n'), 0o600))
	}
	if err != nil || *keep {
		fmt.Println("\nlogs, journals and histories are in", r.dir)
		return err
	}
	return os.RemoveAll(r.dir)
}

func (r *Rig) runAll(ctx context.Context, wanted []string) error {
	var failed []string
	for _, s := range scenarios {
		ids := strings.Fields(s.ids)
		if len(wanted) > 0 && !slices.ContainsFunc(ids, func(id string) bool { return slices.Contains(wanted, id) }) {
			continue
		}
		if len(wanted) == 0 && r.laws && !slices.ContainsFunc(ids, counts) {
			continue
		}
		began, had := time.Now(), len(r.results)
		its, cancel := context.WithCancel(ctx) // ends the bridges of a scenario that fails
		err := s.run(its, r)
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for i := had; i < len(r.results); i++ {
			r.results[i].Took = time.Since(began).Seconds()
		}
		if err != nil { // nothing was measured
			fmt.Printf("%-4s FAIL  %v\n", ids[0], err)
			failed = append(failed, ids[0])
		}
		for _, res := range r.results[had:] {
			if !res.Pass && (!r.laws || counts(res.ID)) {
				failed = append(failed, res.ID)
			}
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("missed goals: %s", strings.Join(failed, ", "))
	}
	return nil
}

// report records a figure and prints it.
func (r *Rig) report(id string, pass bool, goal, figure string, args ...any) {
	res := Result{ID: id, Pass: pass, Goal: goal, Figure: fmt.Sprintf(figure, args...), Load: load()}
	r.results = append(r.results, res)
	word := "pass"
	if !pass {
		word = "MISS"
		if !r.laws || counts(id) {
			word = "FAIL"
		}
	}
	fmt.Printf("%-4s %s  %s  (goal: %s; load %s)\n", id, word, res.Figure, goal, res.Load)
}

// cycles returns the number of repetitions in this run.
func (r *Rig) cycles(short, long int) int {
	if r.long {
		return long
	}
	return short
}

// load returns the load average of the last minute.
func load() string {
	text, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

// quantile returns a quantile of durations, which it sorts.
func quantile(ds []time.Duration, q float64) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	slices.Sort(ds)
	return ds[min(int(q*float64(len(ds))), len(ds)-1)].Round(10 * time.Microsecond)
}
