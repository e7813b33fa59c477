package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mcpjson"
	"github.com/mcpbridge/mcpbridge/internal/signature"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A clientCommand is a row of the table of commands that are a client of a target.
type clientCommand struct {
	use, short, long, examples string
	// args says how many arguments it takes after the target: at least and at most. -1 is any number.
	atLeast, atMost int
	// flags adds the command's own flags, if it has any.
	flags func(c *client, cmd *cobra.Command)
	run   func(ctx context.Context, c *client, args []string) error
}

// clientCommands are the commands. They call a bridge.Handler, so they work with whatever can be behind one.
var clientCommands = [...]clientCommand{
	{
		use: "list [flags] [TARGET | -- COMMAND [ARG]...]", short: "List tools, resources and prompts, as functions",
		examples: "  mcpbridge list -- python3 tools.py\n  mcpbridge list https://example.com/mcp\n  mcpbridge list --json unix:///run/tools.sock",
		atMost:   0, run: runList,
	},
	{
		use: "describe [flags] TARGET [NAME]", short: "Describe a tool, prompt or resource with its schema, or the server",
		examples: "  mcpbridge describe greet -- python3 tools.py\n  mcpbridge describe https://example.com/mcp",
		atMost:   1, run: runDescribe,
	},
	{
		use: "call [flags] TARGET TOOL [NAME=VALUE... | JSON | @FILE | -]", short: "Call a tool",
		long: `Arguments are NAME=VALUE, read as the tool's schema says: whole numbers of any size, true and false, a list
by repeating NAME or as JSON, members of an object as a.b=VALUE or as JSON. VALUE is @FILE for the content of a
file, @- for stdin, and @@ for a text that begins with @. Or all arguments are one JSON object, or come from
@FILE or - (stdin).

A tool that asks its user, or a model, asks on the terminal; --answer and --sample answer for scripts. Several
--answer of one field answer one form each, in the order in which the tool asks, and the last one also the forms
after it; to a list they are its items, or lists in JSON, each for one form.`,
		examples: "  mcpbridge call greet name=Ada -- python3 tools.py\n  mcpbridge call --answer value=Ada --answer value=36 survey -- python3 tools.py\n  mcpbridge call tools.json search query=x tags=a tags=b\n" +
			"  mcpbridge call --answer language=French unix:///run/tools.sock greet '{\"name\": \"Ada\"}'",
		atLeast: 1, atMost: -1, flags: askFlags, run: runCall,
	},
	{
		use: "read [flags] TARGET URI", short: "Read a resource",
		long:     "Writes text as it is, and other content as its bytes, which a terminal is not shown.",
		examples: "  mcpbridge read demo://resource/static/document/features.md -- npx -y @modelcontextprotocol/server-everything\n  mcpbridge read --output logo.png https://example.com/mcp logo://png",
		atLeast:  1, atMost: 1,
		flags: func(c *client, cmd *cobra.Command) {
			cmd.Flags().StringVarP(&c.output, "output", "o", "", "write to `FILE`")
			askFlags(c, cmd)
		},
		run: runRead,
	},
	{
		use: "prompt [flags] TARGET PROMPT [NAME=VALUE]...", short: "Print the messages of a prompt",
		examples: "  mcpbridge prompt review style=brief -- python3 tools.py",
		atLeast:  1, atMost: -1, flags: askFlags, run: runPrompt,
	},
	{
		use: "complete [flags] TARGET PROMPT|URI-TEMPLATE NAME=PREFIX [NAME=VALUE]...", short: "Print how an argument can go on",
		long:     "Prints the values that an argument of a prompt or of a resource template can have, one a line. The first NAME=PREFIX is\nthe argument to complete; the others are known already.",
		examples: "  mcpbridge complete review style=b -- python3 tools.py",
		atLeast:  2, atMost: -1, run: runComplete,
	},
}

const clientExits = `

Without --log-level, only warnings and errors are logged.

Exit codes: 0 success, 1 a wrong command line or wrong arguments, or an unexpected error, 3 the server requires authentication,
4 nothing answers there, 5 the tool failed or there is none, 6 a wrong configuration, 7 the backend did not start, 8 the
backend crashed during the call, 9 timeout, 130 cancelled.`

// A client is one run of a client command.
type client struct {
	p   *Program
	log zerolog.Logger
	bar *bar
	// backends is the log of the backends.
	backends *backendLog
	target   targetFlags
	asJSON   bool
	// timeout is how long all of it may take. 0: as long as it takes.
	timeout time.Duration

	answers []string
	samples []string
	roots   []string
	output  string

	*connected // nil until the backends are

	terminal bool // stdout is one
	caller   *pb.CallContext
	asker    *asker
	called   atomic.Bool // a call of a tool has got as far as its backend
}

// A watched Handler notes whether tools of it are called: what is refused before is a mistake in the arguments.
type watched struct {
	bridge.Handler

	called *atomic.Bool
}

// Handle implements bridge.Handler.
func (w *watched) Handle(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
	if call.Method == bridge.CallTool {
		w.called.Store(true)
	}
	return w.Handler.Handle(ctx, call, emit)
}

func (p *Program) clientCommands(l *logging) []*cobra.Command {
	commands := make([]*cobra.Command, 0, len(clientCommands))
	for i := range clientCommands {
		row := &clientCommands[i]
		c := &client{p: p, terminal: isTerminal(p.Stdout), target: targetFlags{names: row.atMost != 0}}
		long := row.short + ".\n\n"
		if row.long != "" {
			long += row.long + "\n\n"
		}
		cmd := &cobra.Command{
			Use: row.use, Short: row.short, Long: long + targetHelp + clientExits, Example: row.examples,
			RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd, l, row, args) },
		}
		flags := cmd.Flags()
		flags.SortFlags = false
		flags.BoolVar(&c.asJSON, "json", false, "print one JSON document")
		flags.DurationVar(&c.timeout, "timeout", 0, "how long it may take in all, such as 30s; 0 is for ever")
		if row.flags != nil {
			row.flags(c, cmd)
		}
		c.target.add(flags)
		commands = append(commands, cmd)
	}
	return commands
}

// askFlags are the flags of commands whose server may ask something.
func askFlags(c *client, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&c.answers, "answer", nil, "answer `FIELD=VALUE` when asked, or /accept, /decline or /cancel a form or a page (repeatable)")
	flags.StringArrayVar(&c.samples, "sample", nil, "answer with the text or the JSON in `FILE`, or - for stdin, when a model is asked (repeatable)")
	flags.StringArrayVar(&c.roots, "root", nil, "tell the server that it may work in `DIR` (repeatable)")
}

// run connects, and does what a command is for.
func (c *client) run(cmd *cobra.Command, l *logging, row *clientCommand, args []string) error {
	t, rest, err := c.p.targetOf(args, cmd.ArgsLenAtDash(), &c.target)
	switch {
	case err != nil && row.atLeast > 0 && len(args) == 1 && strings.Contains(args[0], "://"): // a URI to read
		return usage(args[0], c.p.withTarget(args), "the target or what to %s is missing", cmd.Name())
	case err != nil:
		return err
	}
	if row.atLeast > 0 && t.backend == nil && t.name != "" && len(rest) == 0 && len(args) > 0 {
		return usage(args[0], "write mcpbridge "+row.use, "the target or what to %s is missing", cmd.Name())
	}
	if len(rest) < row.atLeast || row.atMost >= 0 && len(rest) > row.atMost {
		return c.wrongNumber(cmd, row, t, args, rest)
	}
	values, names := logValues(cmd.Flags())
	if _, given := values["log.level"]; !given {
		if _, given := lookup(c.p.Environ, envPrefix+"LOG__LEVEL"); !given {
			values["log.level"], names["log.level"] = "warn", "the default of this command"
		}
	}
	cfg, err := c.p.loadTarget(t, &c.target, cmd.Flags(), values, names)
	l.loaded(cfg)
	if err == nil {
		err = cfg.validateCalling()
	}
	if err != nil {
		return err
	}
	c.bar = newBar(c.p.Stderr)
	out, _ := logWriter(c.p.Stderr, cfg.Log, cfg.secrets)
	out = c.bar.over(out)
	c.log = zerolog.New(out).Level(cfg.Log.level()).With().Timestamp().Logger()
	c.backends = &backendLog{next: out, level: cfg.Log.level(), gone: make(chan struct{})}
	cfg.tellWarnings(c.log)
	ctx := cmd.Context()
	if c.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.timeout, fmt.Errorf("--timeout %s is over", c.timeout))
		defer cancel()
	}
	cfg.Limits = patient(cfg.Limits)
	cfg.auto = t.backend != nil && !c.target.plugin
	err = c.backends.explain(c.perform(ctx, cfg, row, rest))
	switch {
	case err != nil && cmd.Context().Err() != nil:
		why := "the server has been told"
		if errors.Is(err, errNoEnd) {
			why = "nothing was called: " + err.Error()
		}
		return &problem{Exit: exitInterrupted, Code: "cancelled", What: "cancelled", Why: why, Cause: err}
	case err != nil && c.timeout > 0 && (ctx.Err() != nil || bridge.AsError(err).Code == codes.DeadlineExceeded):
		return &problem{
			Exit: exitTimeout, Code: "timeout", What: fmt.Sprintf("it was not done within %s", c.timeout), Why: err.Error(),
			Where: "--timeout", Fix: "allow it more time", Cause: err,
		}
	}
	return err
}

// perform does what a command is for, while its backends run.
func (c *client) perform(ctx context.Context, cfg *loaded, row *clientCommand, args []string) (err error) {
	if c.asker, err = c.newAsker(ctx); err != nil {
		return err
	}
	if c.caller, err = c.context(cfg.Log.Level); err != nil {
		return err
	}
	return c.with(ctx, cfg, func(ctx context.Context) error {
		err := row.run(ctx, c, args)
		if err == nil || c.called.Load() || len(c.asker.asked) > 0 { // else nobody could have asked
			c.asker.tellUnused(c.log)
		}
		return err
	})
}

// wrongNumber says that there are too few or too many arguments after the target. Too many may be a command without its --.
func (c *client) wrongNumber(cmd *cobra.Command, row *clientCommand, t target, args, rest []string) error {
	fix := "write mcpbridge " + row.use
	switch {
	case len(rest) == 0 && cmd.ArgsLenAtDash() == 0:
		what := strings.Fields(row.use)[3] // TOOL, URI or another
		return usage("", "write it before --: mcpbridge "+cmd.Name()+" "+what+" -- "+strings.Join(args, " "), "what to %s is missing", cmd.Name())
	case len(args) == 0 && t.backend == nil:
		return usage("", fix, "the target and what to %s are missing", cmd.Name())
	case len(rest) == 0:
		return usage("", fix, "what to %s is missing", cmd.Name())
	case len(rest) < row.atLeast:
		return usage(strings.Join(rest, " "), fix, "%s needs %d arguments or more after its target", cmd.Name(), row.atLeast)
	case t.name != "" && row.atMost > 0:
		if line := c.p.meantCommand(args); line != "" {
			fix = "write " + line
		}
	case t.name != "" && row.atMost == 0:
		return usage(strings.Join(args, " "), "write "+c.p.withDashes(args), "a command to launch goes after --")
	}
	return usage(strings.Join(rest[row.atMost:], " "), fix, "%s takes fewer arguments after its target: %d at most", cmd.Name(), row.atMost)
}

// patient returns limits by which a call may last as long as whoever waits for it wants, who can end it by --timeout or Ctrl-C.
func patient(l limits.Limits) limits.Limits {
	const forEver = 100 * 365 * 24 * time.Hour
	l.CallIdle, l.CallTotal = cmp.Or(l.CallIdle, forEver), cmp.Or(l.CallTotal, forEver)
	return l
}

// context returns what calls say of who makes them.
func (c *client) context(logLevel string) (*pb.CallContext, error) {
	revisions := bridge.Revisions()
	cc := &pb.CallContext{
		ProtocolVersion:    revisions[len(revisions)-1].String(),
		ClientInfo:         c.p.clientInfo(),
		ClientCapabilities: c.asker.capabilities(),
		LogLevel:           logLevels[strings.ToLower(logLevel)],
		ProgressWanted:     true,
	}
	for _, dir := range c.roots {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return nil, usage("--root "+dir, "name a directory", "%s has no absolute path: %v", dir, err)
		}
		if info, err := os.Stat(abs); err != nil || !info.IsDir() {
			return nil, usage("--root "+dir, "name a directory that there is", "%s is no directory", abs)
		}
		c.asker.roots = append(c.asker.roots, &pb.Root{Uri: fileURI(abs), Name: proto.String(filepath.Base(abs))})
		cc.ClientCapabilities.Roots = &pb.RootsCapability{}
	}
	return cc, nil
}

// logLevels are the levels of the protocol for those of the log.
var logLevels = map[string]pb.LogLevel{
	"trace": pb.LogLevel_LOG_LEVEL_DEBUG, "debug": pb.LogLevel_LOG_LEVEL_DEBUG, "info": pb.LogLevel_LOG_LEVEL_INFO,
	"warn": pb.LogLevel_LOG_LEVEL_WARNING, "error": pb.LogLevel_LOG_LEVEL_ERROR,
}

// with calls do while the backends run or are connected.
func (c *client) with(ctx context.Context, cfg *loaded, do func(ctx context.Context) error) error {
	o := connectOptions{
		Now: c.p.Now, Log: c.log, BackendLog: c.backends.logger(), Waiting: c.bar.begin,
		Wrap: func(h bridge.Handler) bridge.Handler {
			if c.p.Wrap != nil {
				h = c.p.Wrap(h)
			}
			return &watched{h, &c.called}
		},
	}
	return connect(ctx, cfg, o, func(s *connected) error {
		c.connected = s
		c.backends.begin()
		err := do(ctx)
		if p, ok := errors.AsType[*problem](err); ok && p.Exit == exitCrashed && s.Launched {
			c.backends.await()
		}
		return err
	})
}

// reach waits until the backend answers. One that runs somewhere already is not waited for: it answers, or it does not, unless its user is
// logging in.
func (b *backend) reach(ctx context.Context) error {
	if b.command() != nil {
		if err := (*b.back.Load()).Ready(ctx); err != nil {
			return b.startProblem(err)
		}
		return nil
	}
	unreachable := func(why, fix string, err error) error {
		return &problem{
			Exit: exitUnreachable, Code: "unreachable", What: fmt.Sprintf("nothing that can be talked to answers at %s", b.text()),
			Where: b.cfg.where(b.at + "." + b.place()), Why: why, Fix: fix, Cause: err,
		}
	}
	const start = "start the server, or correct its address"
	reach := cmp.Or(b.cfg.reachTimeout, reachTime)
	until := time.Now().Add(reach)
	if b.Dial != "" {
		limited, cancel := context.WithDeadline(ctx, until)
		defer cancel()
		if err := b.dialOnce(limited); err != nil {
			why, fix := b.whyAbsent(err)
			return unreachable(why, cmp.Or(fix, start), err)
		}
	}
	tick := time.NewTicker(reachTick)
	defer tick.Stop()
	for asked := false; ; {
		err := b.now()
		if b.logins.Load() > 0 {
			asked, until = true, time.Now().Add(reach)
		}
		late := time.Now().After(until)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, context.Canceled) && late:
			return unreachable("it has not answered within "+reach.String(), start, err)
		case errors.Is(err, context.Canceled): // it has not failed yet
		case errors.Is(err, context.DeadlineExceeded) && asked && !late: // the login goes on, and so do attempts
		default:
			if p := callProblem(err, "connecting to "+b.text(), b.authFix()); p.Exit == exitAuth {
				return p
			}
			return unreachable(err.Error(), start, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return unreachable("it has not answered in time", start, ctx.Err())
		}
	}
}

// counting returns the configuration of the backend by which its logins are counted while they go on.
func (b *backend) counting() *loaded {
	l := *b.cfg
	if login := l.login; login != nil {
		l.login = func(ctx context.Context, address string) error {
			b.logins.Add(1)
			context.AfterFunc(ctx, func() { b.logins.Add(-1) })
			return login(ctx, address)
		}
	}
	return &l
}

// reachTime is how long a backend that runs already may take to answer, if the configuration does not say it.
const reachTime = 10 * time.Second

// reachTick is how often it is looked whether a backend answers: a back keeps trying, and does not tell that it has failed once.
const reachTick = 20 * time.Millisecond

// maxRounds is how often a call is answered what it asks.
const maxRounds = 10

// do makes a call, answers what its server asks, and returns its result. What the server tells meanwhile is shown.
func (c *client) do(ctx context.Context, call *bridge.Call) (proto.Message, error) {
	what := call.Method.Name
	if call.Method.Target != nil {
		what = fmt.Sprintf("%s %q", what, call.Method.Target(call.Request))
	}
	for range maxRounds {
		end := c.bar.begin(what + ", Ctrl-C cancels")
		res, err := c.Handler.Handle(ctx, call, c.emit)
		end()
		switch {
		case err != nil:
			p := callProblem(err, what, c.AuthFix)
			if fix := lacking(err); fix != "" {
				p.Fix = fix
			}
			return nil, p
		case res.Complete != nil:
			return res.Complete, nil
		}
		answers, err := c.asker.answer(ctx, res.InputRequired)
		if err != nil {
			return nil, err
		}
		call = call.Retry(answers, res.InputRequired.State)
	}
	return nil, &problem{
		Exit: exitTool, Code: "asks_too_often", What: fmt.Sprintf("%s asks again and again", what), Why: fmt.Sprintf("it was answered %d times", maxRounds),
		Fix: "look into the server",
	}
}

// emit shows progress and logs.
func (c *client) emit(_ context.Context, e bridge.Event) error {
	switch {
	case e.Progress != nil:
		c.bar.show(e.Progress)
	case e.Log != nil:
		level := zerolog.InfoLevel
		switch e.Log.GetLevel() {
		case pb.LogLevel_LOG_LEVEL_DEBUG:
			level = zerolog.DebugLevel
		case pb.LogLevel_LOG_LEVEL_WARNING:
			level = zerolog.WarnLevel
		case pb.LogLevel_LOG_LEVEL_ERROR, pb.LogLevel_LOG_LEVEL_CRITICAL, pb.LogLevel_LOG_LEVEL_ALERT, pb.LogLevel_LOG_LEVEL_EMERGENCY:
			level = zerolog.ErrorLevel
		case pb.LogLevel_LOG_LEVEL_UNSPECIFIED, pb.LogLevel_LOG_LEVEL_INFO, pb.LogLevel_LOG_LEVEL_NOTICE:
		}
		line := c.log.WithLevel(level)
		if level < c.log.GetLevel() {
			return nil // WithLevel writes whatever the level is
		}
		if name := e.Log.GetLogger(); name != "" {
			line = line.Str("logger", harmless(name))
		}
		line.Msg(harmless(signature.Value(e.Log.GetData())))
	}
	return nil
}

// authFix says what to do when the backend wants to know who calls, or does not like who it is.
func (b *backend) authFix() string {
	m := b.MCP
	switch {
	case b.command() != nil:
		return "give it the credentials that it wants: --pass-env NAME, or --env NAME=VALUE"
	case m == nil:
		return "ask whoever runs the backend"
	case hasHeader(m.Headers, "Authorization"), m.Auth != nil && m.Auth.Bearer != "":
		fix := "the Authorization that was passed was refused: it may be mistyped, expired, for another server, or not enough"
		for name, value := range m.Headers {
			if strings.EqualFold(name, "Authorization") && !strings.Contains(value, " ") {
				return fix + "\na token is written 'Authorization: Bearer TOKEN'"
			}
		}
		return fix
	case m.Auth != nil && b.cfg.hasFile():
		return "correct auth in the configuration"
	}
	return "say who you are: --header 'Authorization: Bearer ${env:TOKEN}', or auth in the configuration"
}

// callProblem says why a call has no result. authFix is what to do when the server wants to know who calls.
func callProblem(err error, what, authFix string) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	e := bridge.AsError(err)
	p := &problem{Exit: exitTool, Code: "server_error", What: what + " failed", Why: e.Message, Cause: err}
	if e.RPC != nil {
		p.Why = fmt.Sprintf("%s (JSON-RPC error %d)", e.RPC.GetMessage(), e.RPC.GetCode())
	}
	f := e.Redacted().Failure // what became of the call, also where its backend does not say
	unknown := f != nil && f.GetOutcome() == pb.CallFailure_OUTCOME_UNKNOWN
	switch e.Code {
	case codes.Unauthenticated, codes.PermissionDenied:
		p.Exit, p.Code, p.Fix = exitAuth, "auth_required", authFix
	case codes.Unavailable:
		if !unknown { // which is its own answer
			p.Exit, p.Code, p.Fix = exitUnreachable, "unreachable", "start the server, and try again"
		}
	case codes.NotFound:
		p.Code = "not_found"
	case codes.Unimplemented:
		p.Code, p.Fix = "not_found", "`mcpbridge list` shows what the server has"
	}
	if f != nil && p.Exit != exitAuth {
		p.Code = strings.ToLower(f.GetReason())
		switch f.GetReason() {
		case "BACKEND_CRASHED", "BACKEND_OOM":
			p.Exit, p.What = exitCrashed, "the backend was lost during "+what
		case "DEADLINE":
			p.Exit = exitTimeout
		}
		if unknown {
			p.Fix = "it may have been executed: look before calling it again"
		}
	}
	return p
}

// discover returns what the server is.
func (c *client) discover(ctx context.Context) (*pb.DiscoverResponse, error) {
	res, err := c.do(ctx, &bridge.Call{Method: bridge.Discover, Request: &pb.DiscoverRequest{Context: c.caller}})
	if err != nil {
		return nil, err
	}
	return res.(*pb.DiscoverResponse), nil
}

// maxPages is how many pages of a list are asked for.
const maxPages = 1000

// all returns what is in every page of a list. A server without such a list has nothing in it.
func all[T any](ctx context.Context, c *client, d *pb.DiscoverResponse, m *bridge.Method,
	request func(cursor *string) bridge.Request, page func(proto.Message) (items []T, next *string),
) ([]T, error) {
	if !m.SupportedBy(d.GetCapabilities()) {
		return nil, nil
	}
	var list []T
	var cursor *string
	for range maxPages {
		res, err := c.do(ctx, &bridge.Call{Method: m, Request: request(cursor)})
		if err != nil {
			if cursor == nil && bridge.AsError(err).Code == codes.Unimplemented {
				return nil, nil
			}
			if len(c.Names) > 1 && bridge.AsError(err).Code == codes.Unavailable {
				c.log.Warn().Str("why", asProblem(err).Why).Msg("nothing that answers has " + m.Name)
				return list, nil
			}
			return nil, err
		}
		items, next := page(res)
		list = append(list, items...)
		if next == nil {
			return list, nil
		}
		cursor = next
	}
	c.log.Warn().Int("pages", maxPages).Msg(m.Name + " does not end; the rest is left out")
	return list, nil
}

func (c *client) tools(ctx context.Context, d *pb.DiscoverResponse) ([]*pb.Tool, error) {
	return all(ctx, c, d, bridge.ListTools,
		func(cursor *string) bridge.Request { return &pb.ListToolsRequest{Context: c.caller, Cursor: cursor} },
		func(m proto.Message) ([]*pb.Tool, *string) {
			page := m.(*pb.ListToolsResponse)
			return page.GetTools(), page.NextCursor
		})
}

func (c *client) resources(ctx context.Context, d *pb.DiscoverResponse) ([]*pb.Resource, error) {
	return all(ctx, c, d, bridge.ListResources,
		func(cursor *string) bridge.Request {
			return &pb.ListResourcesRequest{Context: c.caller, Cursor: cursor}
		},
		func(m proto.Message) ([]*pb.Resource, *string) {
			page := m.(*pb.ListResourcesResponse)
			return page.GetResources(), page.NextCursor
		})
}

func (c *client) templates(ctx context.Context, d *pb.DiscoverResponse) ([]*pb.ResourceTemplate, error) {
	return all(ctx, c, d, bridge.ListResourceTemplates,
		func(cursor *string) bridge.Request {
			return &pb.ListResourceTemplatesRequest{Context: c.caller, Cursor: cursor}
		},
		func(m proto.Message) ([]*pb.ResourceTemplate, *string) {
			page := m.(*pb.ListResourceTemplatesResponse)
			return page.GetResourceTemplates(), page.NextCursor
		})
}

func (c *client) prompts(ctx context.Context, d *pb.DiscoverResponse) ([]*pb.Prompt, error) {
	return all(ctx, c, d, bridge.ListPrompts,
		func(cursor *string) bridge.Request { return &pb.ListPromptsRequest{Context: c.caller, Cursor: cursor} },
		func(m proto.Message) ([]*pb.Prompt, *string) {
			page := m.(*pb.ListPromptsResponse)
			return page.GetPrompts(), page.NextCursor
		})
}

// print writes a document: in lines, and harmless, on a terminal.
func (c *client) print(raw []byte) error {
	text := string(raw)
	if c.terminal {
		lines, err := indented(raw)
		if err != nil {
			return err
		}
		text = harmless(lines)
	}
	return c.write(text + "\n")
}

// printMessage prints a message as JSON of the newest revision.
func (c *client) printMessage(m proto.Message) error {
	raw, err := encode(m)
	if err != nil {
		return err
	}
	return c.print(raw)
}

// write writes data.
func (c *client) write(text string) error {
	_, err := io.WriteString(c.p.Stdout, text)
	return err
}

// encode returns a message as JSON of the newest revision.
func encode(m proto.Message) (json.RawMessage, error) {
	revisions := bridge.Revisions()
	return mcpjson.Append(nil, m, revisions[len(revisions)-1])
}

// fileURI returns the URI of a directory.
func fileURI(abs string) string {
	slashes := filepath.ToSlash(abs)
	if !strings.HasPrefix(slashes, "/") {
		slashes = "/" + slashes // C:/...
	}
	return (&url.URL{Scheme: "file", Path: slashes}).String()
}
