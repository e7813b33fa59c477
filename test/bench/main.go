// Command bench measures what a tool call costs: through the bridge, through the least that could stand in its place (the floor), and
// in the official SDKs, and another, that serve the same tool in their own process.
//
//	go run . [-rounds 3 -duration 3s -sizes 200,65536 -callers 1,16,64 -eras legacy,modern -only floor,go-sdk -text mixed -out bench.json]
//
// Every subject runs for the whole run, in processes of its own; the load generator is this process. A round visits each setting once,
// and at each setting each subject in turn, so that whatever else the machine does falls on all of them alike. CPU-seconds per 10,000
// calls, of the server and all its descendants and not of the load generator, is the figure to compare; ratios are taken inside a round.
//
// What the bridge adds between a client and an MCP server is measured with clients that cost as much as real ones do: go-sdk's, and one of
// gRPC. They run in the load generator, whose CPU counts where the subject is compared with go-sdk's client calling the server directly.
// The least that could stand there is net/http's reverse proxy, which passes bytes on and knows no MCP.
//
// Arguments are text as it comes, with escapes and letters beyond ASCII. Most scanners are faster over plain ASCII: -text ascii shows
// how much of a figure is that.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run is a peer when a peer is asked for, and the measurement otherwise.
func run(ctx context.Context, args []string) error {
	if len(args) > 0 {
		if serve, ok := peers[args[0]]; ok {
			return serve(ctx, args[1:])
		}
	}
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	return bench(ctx, o, os.Stdout)
}

// peers are the sub-commands this binary starts itself with.
var peers = map[string]func(context.Context, []string) error{
	"serve-gosdk":   serveGoSDK,
	"serve-mcpgo":   serveMCPGo,
	"serve-behind":  serveBehind,
	"serve-passing": servePassing,
	"serve-floor":   serveFloor,
	"floor-plugin":  floorPlugin,
}

// options say what to measure.
type options struct {
	Rounds   int           `json:"rounds"`
	Duration time.Duration `json:"durationNs"` // of one measurement, after its warm-up
	Sizes    []int         `json:"sizes"`      // bytes of the arguments object
	Callers  []int         `json:"callers"`
	Eras     []era         `json:"eras"`
	Only     []string      `json:"only,omitempty"` // subjects by name; empty: all
	Text     string        `json:"text"`           // mixed or ascii
	Bin      string        `json:"-"`              // where mcpbridge and echo-go are
	Python   string        `json:"-"`
	Node     string        `json:"-"`
	Java     string        `json:"-"`
	Out      string        `json:"-"`
}

func parseOptions(args []string) (options, error) {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	var o options
	f.IntVar(&o.Rounds, "rounds", 3, "rounds; figures are medians over them")
	f.DurationVar(&o.Duration, "duration", 3*time.Second, "length of one measurement")
	f.StringVar(&o.Text, "text", "mixed", "what the arguments hold: mixed (escapes, non-ASCII) or ascii")
	f.StringVar(&o.Bin, "bin", "../../bin", "where mcpbridge and echo-go were built to")
	f.StringVar(&o.Python, "python", "../../.venv/bin/python", "a Python that has the SDK")
	f.StringVar(&o.Node, "node", "node", "a Node, of version 20 or newer")
	f.StringVar(&o.Java, "java", "java", "a Java, of version 17 or newer")
	f.StringVar(&o.Out, "out", "bench.json", "where to write every figure as JSON; empty: nowhere")
	sizes := f.String("sizes", "200,65536", "bytes of the arguments object")
	callers := f.String("callers", "1,16,64", "concurrent callers, a connection (and a legacy session) each")
	eras := f.String("eras", "legacy,modern", "legacy (2025-11-25 with a session), modern (2026-07-28)")
	only := f.String("only", "", "subjects by name; empty: all")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unknown argument %q", f.Arg(0))
	}
	var err error
	if o.Sizes, err = numbers(*sizes); err != nil {
		return o, fmt.Errorf("-sizes: %w", err)
	}
	if o.Callers, err = numbers(*callers); err != nil {
		return o, fmt.Errorf("-callers: %w", err)
	}
	for _, s := range split(*eras) {
		e := era(s)
		if e != legacy && e != modern {
			return o, fmt.Errorf("-eras: %q is neither legacy nor modern", s)
		}
		o.Eras = append(o.Eras, e)
	}
	o.Only = split(*only)
	for _, name := range o.Only {
		if !slices.ContainsFunc(subjects, func(s subject) bool { return s.name == name }) {
			return o, fmt.Errorf("-only: no subject is named %q", name)
		}
	}
	if o.Rounds < 1 || o.Duration <= 0 {
		return o, fmt.Errorf("-rounds %d, -duration %v: both must be positive", o.Rounds, o.Duration)
	}
	for _, size := range o.Sizes {
		if _, err := newPayload(0, size, o.Text); err != nil {
			return o, err
		}
	}
	return o, nil
}

func split(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' })
}

func numbers(s string) ([]int, error) {
	var ns []int
	for _, field := range split(s) {
		n, err := strconv.Atoi(field)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is not a positive number", field)
		}
		ns = append(ns, n)
	}
	return ns, nil
}
