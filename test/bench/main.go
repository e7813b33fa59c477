// Command bench measures the cost of a tool call: through the bridge, through the minimum in its place (the floor), and
// in SDKs that serve the same tool in their own process.
//
//	go run . [-rounds 3 -duration 3s -sizes 200,65536 -callers 1,16,64 -eras legacy,modern
//		-only floor,go-sdk -text mixed -out bench.json]
//
// Every subject runs during the whole run in its own processes; this process generates the load. A round measures
// each setting once, with each subject in turn, so that other load affects all of them. The figure to compare is the
// CPU time per 10,000 calls of the server and its descendants, without the load generator. Ratios are computed within
// a round.
//
// The cost of the bridge between a client and an MCP server is measured with real clients, of go-sdk and gRPC. They
// run in the load generator, whose CPU time counts where the subject is compared with go-sdk's client and no bridge.
// The minimum in place of the bridge is net/http's reverse proxy.
//
// Arguments are ordinary text, with escapes and non-ASCII letters. Most parsers are faster with ASCII: -text ascii
// shows by how much.
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

// run runs a peer if its name is given, and the benchmark otherwise.
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

// peers are the subcommands with which this program starts itself.
var peers = map[string]func(context.Context, []string) error{
	"serve-gosdk":   serveGoSDK,
	"serve-mcpgo":   serveMCPGo,
	"serve-behind":  serveBehind,
	"serve-passing": servePassing,
	"serve-floor":   serveFloor,
	"floor-plugin":  floorPlugin,
}

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
