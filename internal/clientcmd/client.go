// Package clientcmd implements the commands that call, inspect and verify backends: list, describe, call, read, prompt,
// complete, verify and proto.
package clientcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/app"
	"github.com/mcpbridge/mcpbridge/internal/config"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/problem"
	"github.com/mcpbridge/mcpbridge/internal/terminal"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A clientCommand describes a command that calls a target.
type clientCommand struct {
	use, short, long, examples string
	// minArgs and maxArgs limit the number of arguments after the target. -1: no limit.
	minArgs, maxArgs int
	// runs means that the target must be a server that runs already.
	runs bool
	// flags adds the command's own flags, if it has any.
	flags func(c *client, cmd *cobra.Command)
	run   func(ctx context.Context, c *client, args []string) error
}

// A client is one run of a client command.
type client struct {
	env *Env
	log zerolog.Logger
	bar *terminal.Progress
	// backends is the log of the backends.
	backends *backendLog
	target   TargetFlags
	asJSON   bool
	// timeout limits the duration of the command. If zero, there is no limit.
	timeout time.Duration

	ownFlags

	*app.Connection // nil until the backends are connected

	terminal  bool // stdout is one
	detect    bool // the command may be an MCP server
	caller    *pb.CallContext
	responder *responder
	called    atomic.Bool // a tools/call was sent to a backend
}

// A callRecorder Handler records whether a tools/call was sent: an error before that is a mistake in the arguments.
type callRecorder struct {
	bridge.Handler

	called *atomic.Bool
}

// Handle implements bridge.Handler.
func (w *callRecorder) Handle(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
	if call.Method == bridge.CallTool {
		w.called.Store(true)
	}
	return w.Handler.Handle(ctx, call, emit)
}

// ownFlags are the flags of some commands.
type ownFlags struct {
	// answers, samples and roots answer input requests.
	answers, samples, roots []string
	output                  string
	// task lets a call become a task, and detach does not wait for it.
	task, detach bool
}

// inputFlags adds the flags of commands whose server may request input.
func inputFlags(c *client, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&c.answers, "answer", nil,
		"answer a form with `FIELD=VALUE`, or /accept, /decline or /cancel a form or a page (repeatable)")
	flags.StringArrayVar(&c.samples, "sample", nil,
		"answer with the text or the JSON in `FILE`, or - for stdin, to sampling requests (repeatable)")
	flags.StringArrayVar(&c.roots, "root", nil, "offer `DIR` to the server as a root (repeatable)")
}

// taskFlags adds the flags of `call` for tasks.
func taskFlags(c *client, cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.task, "task", false,
		"let the server continue the call as a task: print its id, and wait for its result")
	cmd.Flags().BoolVar(&c.detach, "detach", false, "as --task, and do not wait")
}

// checkRuns returns an error unless the target is one server that runs already: tasks end with the program that keeps
// them, and the command ends what it launches.
func checkRuns(cfg *config.Config) error {
	if len(cfg.Backends) != 1 {
		return problem.Usage("", "name one of its backends as the target",
			"tasks belong to one server, and the configuration has %d", len(cfg.Backends))
	}
	if cfg.Backends[0].Command() == nil {
		return nil
	}
	return problem.Usage("", "start it with mcpbridge run, and name its address as the target, such as\n"+
		"http://127.0.0.1:8080/mcp", "tasks need a server that runs already: they would end with this command")
}

// errFollowing is the cause of a command that was interrupted while its task continues.
var errFollowing = errors.New("the task continues: `mcpbridge tasks result TARGET ID` waits for it again, and " +
	"`mcpbridge tasks cancel TARGET ID` cancels it")

// run loads the configuration, and runs the command of row.
func (c *client) run(cmd *cobra.Command, loaded func(*config.Config), row *clientCommand, args []string) error {
	t, rest, err := c.env.ParseTarget(args, cmd.ArgsLenAtDash(), &c.target)
	switch {
	case err != nil && row.minArgs > 0 && len(args) == 1 && strings.Contains(args[0], "://"): // a URI to read
		return problem.Usage(args[0], c.env.targetFix(args), "the target or what to %s is missing", cmd.Name())
	case err != nil:
		return err
	}
	if row.minArgs > 0 && t.backend == nil && t.Name != "" && len(rest) == 0 && len(args) > 0 {
		return problem.Usage(args[0], "write "+cmd.UseLine(), "the target or what to %s is missing", cmd.Name())
	}
	if len(rest) < row.minArgs || row.maxArgs >= 0 && len(rest) > row.maxArgs {
		return c.argumentCountProblem(cmd, row, t, args, rest)
	}
	values, names := LogValues(cmd.Flags())
	if _, given := values["log.level"]; !given {
		if _, given := config.Lookup(c.env.Environ, config.EnvPrefix+"LOG__LEVEL"); !given {
			values["log.level"], names["log.level"] = "warn", "the default of this command"
		}
	}
	cfg, err := c.env.Load(t, &c.target, cmd.Flags(), values, names)
	loaded(cfg)
	if err == nil {
		err = cfg.ValidateClient()
	}
	if err == nil && (row.runs || c.task || c.detach) {
		err = checkRuns(cfg)
	}
	if err != nil {
		return err
	}
	c.bar = terminal.NewProgress(c.env.Stderr)
	out, _ := app.LogWriter(c.env.Stderr, cfg.Log, cfg.Secrets)
	out = c.bar.Writer(out)
	c.log = zerolog.New(out).Level(cfg.Log.MinLevel()).With().Timestamp().Logger()
	c.backends = &backendLog{next: out, level: cfg.Log.MinLevel(), exited: make(chan struct{})}
	cfg.LogWarnings(c.log)
	ctx := cmd.Context()
	if c.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.timeout, fmt.Errorf("--timeout %s exceeded", c.timeout))
		defer cancel()
	}
	cfg.Limits = withoutTimeouts(cfg.Limits)
	c.detect = t.backend != nil && !c.target.plugin
	err = c.backends.explain(c.perform(ctx, cfg, row, rest))
	switch {
	case err != nil && cmd.Context().Err() != nil:
		why := "the server has been notified"
		if errors.Is(err, errFollowing) {
			why = err.Error()
		} else if errors.Is(err, errIncomplete) {
			why = "nothing was called: " + err.Error()
		}
		return &problem.Error{Exit: problem.ExitInterrupted, Code: "cancelled", What: "cancelled", Why: why, Cause: err}
	case err != nil && c.timeout > 0 && (ctx.Err() != nil || errors.Is(err, errFollowing) ||
		bridge.AsError(err).Code == codes.DeadlineExceeded):
		return &problem.Error{
			Exit: problem.ExitTimeout, Code: "timeout",
			What: fmt.Sprintf("the command did not finish within %s", c.timeout), Why: err.Error(),
			Where: "--timeout", Fix: "raise it", Cause: err,
		}
	}
	return err
}

// perform runs the command of row while its backends run.
func (c *client) perform(ctx context.Context, cfg *config.Config, row *clientCommand, args []string) (err error) {
	if c.responder, err = c.newResponder(ctx); err != nil {
		return err
	}
	if c.caller, err = c.context(cfg.Log.Level); err != nil {
		return err
	}
	return c.withBackends(ctx, cfg, func(ctx context.Context) error {
		err := row.run(ctx, c, args)
		// a command that failed before it called a tool could not use answers
		if err == nil || c.called.Load() || len(c.responder.requested) > 0 {
			c.responder.warnUnused(c.log)
		}
		return err
	})
}

// argumentCountProblem returns the problem of too few or too many arguments after the target. Too many may be a command
// without its --.
func (c *client) argumentCountProblem(cmd *cobra.Command, row *clientCommand, t Target, args, rest []string) error {
	fix := "write " + cmd.UseLine()
	switch {
	case len(rest) == 0 && cmd.ArgsLenAtDash() == 0:
		what := strings.Fields(row.use)[3] // TOOL, URI or another
		return problem.Usage("", "write it before --: mcpbridge "+cmd.Name()+" "+what+" -- "+strings.Join(args, " "),
			"what to %s is missing", cmd.Name())
	case len(args) == 0 && t.backend == nil:
		return problem.Usage("", fix, "the target and what to %s are missing", cmd.Name())
	case len(rest) == 0:
		return problem.Usage("", fix, "what to %s is missing", cmd.Name())
	case len(rest) < row.minArgs:
		return problem.Usage(strings.Join(rest, " "), fix, "%s needs %d arguments or more after its target", cmd.Name(),
			row.minArgs)
	case t.Name != "" && row.maxArgs > 0:
		if line := c.env.suggestedCommand(args); line != "" {
			fix = "write " + line
		}
	case t.Name != "" && row.maxArgs == 0:
		return problem.Usage(strings.Join(args, " "), "write "+c.env.WithDashes(args),
			"a command to launch goes after --")
	}
	return problem.Usage(strings.Join(rest[row.maxArgs:], " "), fix,
		"%s takes fewer arguments after its target: %d at most", cmd.Name(), row.maxArgs)
}

// withoutTimeouts returns limits without timeouts of calls, because the user can end a call by --timeout or Ctrl-C.
func withoutTimeouts(l limits.Limits) limits.Limits {
	const forEver = 100 * 365 * 24 * time.Hour
	l.CallIdle, l.CallTotal = cmp.Or(l.CallIdle, forEver), cmp.Or(l.CallTotal, forEver)
	return l
}

// context returns the context of calls: the client and its capabilities.
func (c *client) context(logLevel string) (*pb.CallContext, error) {
	revisions := bridge.Revisions()
	cc := &pb.CallContext{
		Verified:           bridge.Verified(revisions[len(revisions)-1], nil, nil),
		ClientInfo:         c.env.clientInfo(),
		ClientCapabilities: c.responder.capabilities(),
		LogLevel:           logLevels[strings.ToLower(logLevel)],
		ProgressWanted:     true,
	}
	for _, dir := range c.roots {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return nil, problem.Usage("--root "+dir, "name a directory", "%s has no absolute path: %v", dir, err)
		}
		if info, err := os.Stat(abs); err != nil || !info.IsDir() {
			return nil, problem.Usage("--root "+dir, "name a directory that exists", "%s is not a directory", abs)
		}
		c.responder.roots = append(c.responder.roots,
			&pb.Root{Uri: fileURI(abs), Name: proto.String(filepath.Base(abs))})
		cc.ClientCapabilities.Roots = &pb.RootsCapability{}
	}
	return cc, nil
}

// logLevels are the levels of the protocol for those of the log.
var logLevels = map[string]pb.LogLevel{
	"trace": pb.LogLevel_LOG_LEVEL_DEBUG, "debug": pb.LogLevel_LOG_LEVEL_DEBUG, "info": pb.LogLevel_LOG_LEVEL_INFO,
	"warn": pb.LogLevel_LOG_LEVEL_WARNING, "error": pb.LogLevel_LOG_LEVEL_ERROR,
}

// withBackends calls do while the backends run or are connected.
func (c *client) withBackends(ctx context.Context, cfg *config.Config, do func(ctx context.Context) error) error {
	o := app.ConnectOptions{
		Abort: c.env.Abort, Log: c.log, BackendLog: c.backends.logger(), ShowProgress: c.bar.Begin,
		Backends: c.env.BackendOptions(),
	}
	o.Backends.Detect = c.detect
	wrap := o.Backends.Wrap
	o.Backends.Wrap = func(h bridge.Handler) bridge.Handler {
		if wrap != nil {
			h = wrap(h)
		}
		return &callRecorder{h, &c.called}
	}
	return app.Connect(ctx, cfg, o, func(s *app.Connection) error {
		c.Connection = s
		c.backends.begin()
		err := do(ctx)
		if p, ok := errors.AsType[*problem.Error](err); ok && p.Exit == problem.ExitCrashed && s.Launched {
			c.backends.await()
		}
		return err
	})
}

// fileURI returns the URI of a directory.
func fileURI(abs string) string {
	slashes := filepath.ToSlash(abs)
	if !strings.HasPrefix(slashes, "/") {
		slashes = "/" + slashes // C:/...
	}
	return (&url.URL{Scheme: "file", Path: slashes}).String()
}
