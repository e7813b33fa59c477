package clientcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcpbridge/mcpbridge/internal/child"
	"github.com/mcpbridge/mcpbridge/internal/config"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mcpclient"
	"github.com/mcpbridge/mcpbridge/internal/problem"
	"github.com/mcpbridge/mcpbridge/internal/terminal"
	"github.com/mcpbridge/mcpbridge/internal/verify"
)

const verifyLong = `Checks every behavior that the contract requires of a backend, and prints each defect: what, where, why, the fix, and
the clause. A command is launched several times, as by the bridge; an address is dialed.

No tool of the backend is called. Checks that need one are made if the backend has the tools of the contract kit,
as those in examples/kit-*: see docs/verify.md.

It exits with 0 if every check passed, 2 if one failed, 7 if the backend did not start.`

// VerifyCommand returns the command `verify`.
func (e *Env) VerifyCommand() *cobra.Command {
	var o verify.Options
	var env, pass []string
	var asJSON, plaintext bool
	c := &cobra.Command{
		Use:   "verify {-- COMMAND [ARGS] | ADDRESS}",
		Short: "Check a backend against the contract",
		Long:  verifyLong,
		Example: `  mcpbridge verify -- python3 tools.py
  mcpbridge verify unix:/run/tools.sock`,
		RunE: func(c *cobra.Command, args []string) error {
			switch dash := c.ArgsLenAtDash(); {
			case (dash == 0 && len(args) > 0 || dash < 0 && len(args) == 1) && config.IsURL(args[0]):
				return notABackend(args[0], "mcpbridge list "+args[0])
			case dash == 0 && len(args) > 0 && isAddress(args[0]):
				return problem.Usage(args[0], "write "+e.withoutDashes(args),
					"only a command goes after --, and %s is none", args[0])
			case dash == 0 && len(args) > 0:
				o.Command = args
			case dash < 0 && len(args) == 1 && config.ValidateDial(args[0], "") == nil &&
				!strings.HasPrefix(args[0], "dns:"):
				if o.Address = args[0]; !plaintext && !config.IsLocal(o.Address) {
					return config.MissingTLS(o.Address, "the argument "+o.Address, "verify it on its own machine",
						"add --plaintext")
				}
			case dash < 0 && len(args) > 0:
				return problem.Usage("the arguments", e.WithDashes(args), "%q is neither unix:PATH nor tcp:HOST:PORT",
					args[0])
			default:
				return problem.Usage("the arguments",
					"write mcpbridge verify -- python3 tools.py, or mcpbridge verify unix:/run/tools.sock",
					"there is no backend to verify, or more than one")
			}
			for _, kv := range env {
				if !child.ValidEnv(kv) {
					return problem.Usage("--env", "write --env NAME=VALUE", "%q is not NAME=VALUE", kv)
				}
			}
			var names []string
			for _, check := range verify.Checks() {
				names = append(names, check.Name)
			}
			for _, name := range o.Only {
				if !slices.Contains(names, name) {
					return problem.Usage("--only", problem.DidYouMean(name, names), "there is no check %q", name)
				}
			}
			o.Env = child.Env(e.Environ, pass, env)
			return e.verify(c.Context(), o, asJSON)
		},
	}
	flags := c.Flags()
	flags.StringVar(&o.Dir, "dir", "", "start the backend in `DIR`")
	flags.StringArrayVar(&env, "env", nil, "set `NAME=VALUE` in the backend's environment (repeatable)")
	flags.StringArrayVar(&pass, "pass-env", nil, "pass the variable `NAME` on to the backend (repeatable)")
	flags.DurationVar(&o.StartTimeout, "start-timeout", limits.Timeouts{}.OrDefaults().Start,
		"how long the backend may take to start")
	flags.BoolVar(&plaintext, "plaintext", false, "dial another machine, which is done without TLS, at tcp:HOST:PORT")
	flags.StringSliceVar(&o.Only, "only", nil, "run only these checks: `NAMES`, separated by commas")
	flags.BoolVar(&asJSON, "json", false, "print one JSON object, for programs")
	return c
}

// notABackend returns the problem of verifying an MCP server.
func notABackend(what, try string) error {
	return problem.Usage(what, "an MCP server has no contract to verify: "+try+" shows what it has",
		"verify checks backends of mcpbridge, and this is an MCP server")
}

// probeAfter is how long a command may print no handshake before it is probed for an MCP server.
const probeAfter = 3 * time.Second

// stopTime is how long that server may take to exit.
const stopTime = 2 * time.Second

// errIsServer is the error of a verification if the command is an MCP server.
var errIsServer = errors.New("it is an MCP server")

// whileNotMCP returns a context that is canceled if the command proves to be an MCP server before started is called.
// done ends the probe and waits for it.
func (e *Env) whileNotMCP(ctx context.Context, o verify.Options) (both context.Context, started, done func()) {
	both, end := context.WithCancelCause(ctx)
	probe, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	if len(o.Command) > 0 {
		wg.Go(func() {
			select {
			case <-time.After(probeAfter):
			case <-probe.Done():
				return
			}
			server, err := mcpclient.New(mcpclient.Options{
				Name: "verify", Command: o.Command, Dir: o.Dir, Env: o.Env, StartTimeout: o.StartTimeout,
				StopTimeout: stopTime, ClientInfo: e.clientInfo(),
			})
			if err != nil {
				return
			}
			running, finish := context.WithCancel(probe)
			defer finish()
			wg.Go(func() { _ = server.Run(running) }) // Ready returns the error too
			if server.Ready(probe) == nil {
				end(errIsServer)
			}
		})
	}
	return both, stop, func() {
		stop()
		wg.Wait()
		end(nil)
	}
}

// verify makes the checks and prints their outcomes.
func (e *Env) verify(ctx context.Context, o verify.Options, asJSON bool) error {
	ctx, started, done := e.whileNotMCP(ctx, o)
	defer done()
	o.Report = func(c verify.Check) {
		started()
		if !asJSON {
			printCheck(e.Stdout, c)
		}
	}
	checks, err := verify.Run(ctx, o)
	if errors.Is(err, errIsServer) {
		return notABackend(strings.Join(o.Command, " "), "mcpbridge list -- "+strings.Join(o.Command, " "))
	}
	if start, ok := errors.AsType[*verify.StartError](err); ok {
		return &problem.Error{
			Exit: problem.ExitPlugin, Code: "plugin_start", What: terminal.Escape(start.What),
			Why: terminal.Escape(start.Why), Fix: start.Fix, Cause: err,
		}
	}
	if err != nil {
		return &problem.Error{Exit: problem.ExitInterrupted, Code: "interrupted", What: err.Error(), Cause: err}
	}
	var failed []string
	left := map[string][]string{}
	var of []string // the keys of left, in order
	for _, c := range checks {
		switch c.Outcome {
		case verify.Failed:
			failed = append(failed, c.Name)
		case verify.Skipped:
			if left[c.Needs] == nil {
				of = append(of, c.Needs)
			}
			left[c.Needs] = append(left[c.Needs], c.Name)
		case verify.Passed:
		}
	}
	if asJSON {
		e := json.NewEncoder(e.Stdout)
		e.SetEscapeHTML(false)
		if err := e.Encode(map[string]any{"checks": checks}); err != nil {
			return fmt.Errorf("writing the result: %w", err)
		}
	} else {
		missing := 0
		for _, needs := range of {
			missing += len(left[needs])
			fmt.Fprintf(e.Stdout, "skipped, because they need %s: %s (see docs/verify.md)\n", needs,
				strings.Join(left[needs], ", "))
		}
		fmt.Fprintf(e.Stdout, "%d checks: %d passed, %d failed, %d skipped\n", len(checks),
			len(checks)-len(failed)-missing, len(failed), missing)
	}
	if len(failed) > 0 {
		return &problem.Error{
			Exit: problem.ExitFindings, Code: "findings",
			What: "the backend violates the contract: " + strings.Join(failed, ", "),
			Fix:  "see the fix printed for each of them",
		}
	}
	return nil
}

// printCheck prints a check in one line, and its errors in further lines.
func printCheck(w io.Writer, c verify.Check) {
	if c.Outcome == verify.Skipped {
		return // the last line reports it
	}
	mark := map[verify.Outcome]string{verify.Passed: "ok    ", verify.Failed: "FAILED"}[c.Outcome]
	fmt.Fprintf(w, "%s  %-15s  %s\n", mark, c.Name, c.Does)
	for _, d := range c.Defects {
		for _, m := range []struct{ name, text string }{
			{"what: ", d.What},
			{"where:", d.Where},
			{"why:  ", d.Why},
			{"fix:  ", d.Fix},
			{"see:  ", c.Clause},
		} {
			if m.text != "" {
				fmt.Fprintf(w, "        %s %s\n", m.name,
					strings.ReplaceAll(terminal.Escape(m.text), "\n", "\n               "))
			}
		}
	}
}
