package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mcpbridge/mcpbridge/bridge"
)

// A Program is one run of the command. Everything that it takes from its surroundings is a field, so that a test can run
// it in its own process.
type Program struct {
	// Version is the version of mcpbridge.
	Version string
	// Args are the arguments, without the program's name.
	Args []string
	// Stdin, Stdout and Stderr are the standard streams. Only what was asked for goes to Stdout.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Environ is the environment, as os.Environ has it.
	Environ []string
	// Now ends when there is no time left to drain. Nil stands for never.
	Now context.Context //nolint:containedctx // it is an input of the program, as a signal is, and not of one call
	// Started is called when the App of `run` serves. It may be nil.
	Started func(*App)
	// Wrap returns what is called in place of the Handler of each backend. It may be nil.
	Wrap func(bridge.Handler) bridge.Handler
	// ReachTimeout is how long a backend that is not launched may take to answer a client command, and LoginTimeout how
	// long a user may take to log in. If zero, 10 s and 5 m are used.
	ReachTimeout, LoginTimeout time.Duration

	// errors is Stderr without waiting for whoever reads it: the log of what is served, and the error that ends it.
	errors *queue
}

// Run runs the command and returns its exit code. When ctx ends, it drains.
func (p *Program) Run(ctx context.Context) int {
	if p.Now == nil {
		p.Now = context.Background()
	}
	p.errors = newQueue(p.Stderr)
	defer p.errors.close()
	root, logging := p.command()
	root.SetArgs(p.Args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	pr := asProblem(err)
	if !logging.known {
		logging.Format = p.logFormat()
	}
	if !slices.Contains(logFormats, logging.Format) {
		logging.Format = "auto" // which is perhaps what the problem is about
	}
	log, asJSON := newLog(p.errors, logging.LogConfig, logging.secrets)
	pr.tell(logging.secrets.hide(p.errors), log, asJSON)
	return pr.Exit
}

// logFormat returns the format of the log that the arguments or the environment say. It is for errors that come before both
// have been read: what reads them reads these, too.
func (p *Program) logFormat() string {
	format := "auto"
	for _, entry := range p.Environ {
		if value, ok := strings.CutPrefix(entry, envPrefix+"LOG__FORMAT="); ok && value != "" {
			format = value
		}
	}
	for i, arg := range p.Args {
		if arg == "--" {
			break
		}
		if value, ok := strings.CutPrefix(arg, "--log-format="); ok {
			format = value
		} else if arg == "--log-format" && i+1 < len(p.Args) {
			format = p.Args[i+1]
		}
	}
	return format
}

// A logging is how errors are told: as the log is.
type logging struct {
	LogConfig

	known   bool // the configuration has been read
	secrets secrets
}

// loaded says that the configuration has been read, unless it is nil.
func (l *logging) loaded(cfg *loaded) {
	if cfg != nil {
		l.LogConfig, l.secrets, l.known = cfg.Log, cfg.secrets, true
	}
}

// command returns the tree of commands.
func (p *Program) command() (*cobra.Command, *logging) {
	root := &cobra.Command{
		Use:   "mcpbridge",
		Short: "Serve tools written in any language to every MCP client",
		Long: "mcpbridge serves tools that are written in any language to every client of the Model Context Protocol,\n" +
			"old or new, over HTTP or stdio. The tools run in a process of their own and speak one gRPC contract.",
		SilenceErrors: true, SilenceUsage: true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return noCommand(args)
			}
			return nil
		},
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
		Version: p.versionLine(),
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetIn(p.Stdin)
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	root.SetFlagErrorFunc(p.flagError)
	l := &logging{}
	flags := root.PersistentFlags()
	flags.StringVar(&l.Level, "log-level", "info", "lowest `LEVEL` to log: trace, debug, info, warn, error")
	flags.StringVar(&l.Format, "log-format", "auto", "log as text or json; auto is text on a terminal and json elsewhere")
	root.AddCommand(p.runCommand(l), p.verifyCommand(), p.protoCommand(), p.versionCommand())
	root.AddCommand(p.clientCommands(l)...)
	return root, l
}

// noCommand says that the first argument is no command: it is mistyped, or `run` has been forgotten.
func noCommand(args []string) error {
	fix := didYouMean(args[0], commandNames)
	switch _, err := exec.LookPath(args[0]); {
	case otherNames[args[0]] != "":
		fix = "did you mean " + otherNames[args[0]] + "?"
	case nearest(args[0], commandNames) != "":
	case validateDial(args[0], "") == nil || isURL(args[0]):
		fix = "write mcpbridge run " + args[0]
	case len(args) > 1 || err == nil || isScript(args[0]):
		fix = "write mcpbridge run -- " + strings.Join(runnable(args), " ")
	}
	return usage("", fix, "there is no command %q", args[0])
}

// commandNames are the names of the commands.
var commandNames = []string{"run", "list", "describe", "call", "read", "prompt", "complete", "verify", "proto", "version", "help"}

// otherNames are what other programs call the commands.
var otherNames = map[string]string{
	"serve": "run", "start": "run", "launch": "run", "dev": "run", "proxy": "run", "ls": "list", "tools": "list", "resources": "list", "prompts": "list",
	"invoke": "call", "exec": "call", "tool": "call", "show": "describe", "inspect": "describe", "get": "read", "cat": "read", "check": "verify",
	"test": "verify", "lint": "verify",
}

// withDashes returns the command line with the arguments that are meant as the backend's command after --. The flags stay.
func (p *Program) withDashes(args []string) string {
	line := slices.Clone(p.Args)
	for _, arg := range slices.Backward(args) {
		for i := len(line) - 1; i >= 0; i-- {
			if line[i] == arg {
				line = slices.Delete(line, i, i+1)
				break
			}
		}
	}
	return strings.Join(slices.Concat([]string{"mcpbridge"}, line, []string{"--"}, runnable(args)), " ")
}

// flagError returns the problems with the flags, of which the flags package reports the first.
func (p *Program) flagError(c *cobra.Command, err error) error {
	wrong := []error{p.wrongFlag(c, err)}
	for args := p.Args; err != nil; {
		i := slices.IndexFunc(args, func(arg string) bool { return isFlag(arg, err) })
		if i < 0 || slices.Contains(args[:i], "--") {
			break
		}
		args = args[i+1:]
		if err = c.Flags().Parse(args); err != nil && !errors.Is(err, pflag.ErrHelp) {
			wrong = append(wrong, p.wrongFlag(c, err))
		}
	}
	return allOf(wrong...)
}

// isFlag reports whether an argument is the flag that an error of the flags package is about.
func isFlag(arg string, err error) bool {
	name := ""
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok {
		if letters := e.GetSpecifiedShortnames(); letters != "" {
			return strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "--") && strings.HasSuffix(arg, letters)
		}
		name = e.GetSpecifiedName()
	} else if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		name = e.GetFlag().Name
	} else if e, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		name = e.GetSpecifiedName()
	}
	return name != "" && (arg == "--"+name || strings.HasPrefix(arg, "--"+name+"="))
}

// wrongFlag returns the problem with a flag.
func (p *Program) wrongFlag(c *cobra.Command, err error) error {
	fix := fmt.Sprintf("`%s --help` lists the flags", c.CommandPath())
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		var known []string
		c.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		name := unknown.GetSpecifiedName()
		if guess := nearest(name, known); guess != "" {
			fix = "did you mean --" + guess + "?"
		}
		if c.Name() == "run" && c.Flags().NArg() > 0 || unknown.GetSpecifiedShortnames() != "" {
			fix = "flags of the backend's command go after --: " + c.CommandPath() + " -- python3 tools.py --its-flag"
		}
		if arg := p.meantFor(c, unknown.GetSpecifiedName()); arg != "" {
			fix = "an argument of what is called has no dashes: " + arg
			if guess := nearest(name, known); guess != "" {
				fix += "\nif it is a flag: did you mean --" + guess + "?"
			}
		}
		if args := c.Flags().Args(); !c.HasParent() && len(args) > 0 {
			return noCommand(p.Args[slices.Index(p.Args, args[0]):])
		}
	}
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok && invalid.GetFlag().Value.Type() == "duration" {
		fix = "write a time such as 30s"
		if _, err := strconv.ParseFloat(invalid.GetValue(), 64); err == nil {
			fix = fmt.Sprintf("write --%s %ss", invalid.GetFlag().Name, invalid.GetValue())
		}
	}
	return &problem{Exit: exitUsage, Code: "usage", What: err.Error(), Fix: fix, Cause: err}
}

// meantFor returns an unknown flag as an argument of the tool or prompt that a command calls: it is probably one.
func (p *Program) meantFor(c *cobra.Command, name string) string {
	if c.Name() != "call" && c.Name() != "prompt" || name == "" {
		return ""
	}
	value := "VALUE"
	for i, arg := range p.Args {
		if _, v, ok := strings.Cut(arg, "="); ok && strings.HasPrefix(arg, "--"+name+"=") {
			value = v
		} else if arg == "--"+name && i+1 < len(p.Args) && !strings.HasPrefix(p.Args[i+1], "-") {
			value = p.Args[i+1]
		}
	}
	return name + "=" + value
}

func (p *Program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, and the revisions of MCP that it speaks",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage(args[0], "leave it out", "version takes no argument")
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(c.OutOrStdout(), p.versionLine())
			return err
		},
	}
}

// versionLine says what this is, in one line.
func (p *Program) versionLine() string {
	commit := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				commit = " " + s.Value[:min(12, len(s.Value))]
			}
		}
	}
	revisions := bridge.Revisions()
	return fmt.Sprintf("mcpbridge %s%s (%s %s/%s), MCP %s to %s, contract mcpbridge.v1", p.Version, commit,
		runtime.Version(), runtime.GOOS, runtime.GOARCH, revisions[0], revisions[len(revisions)-1])
}

// A runFlags is what the flags of `run` say.
type runFlags struct {
	targetFlags

	http, path, grpc string
	stdio, insecure  bool
	origins, hosts   []string
	drainPeriod      time.Duration
}

const runLong = `Serve backends to MCP clients, over stdio or HTTP, and to gRPC clients.

` + targetHelp + `
Without any of these, all of ./mcpbridge.yaml is served, merged into one.

Without --http, --grpc and --stdio, stdio is served if stdin is a pipe, a socket or a file, as it is
when an MCP client starts mcpbridge, and HTTP on 127.0.0.1:8080 otherwise.

Exit codes: 0 all is well, 1 a wrong command line or an unexpected error, 6 a wrong configuration,
7 the backend did not start, 130 interrupted twice.`

const runExamples = `  mcpbridge run -- python3 tools.py
  mcpbridge run --http 127.0.0.1:9000 -- ./my-tools --verbose
  mcpbridge run --stdio unix:///run/tools.sock
  mcpbridge run --mcp --grpc unix:///tmp/files.sock -- npx -y @modelcontextprotocol/server-filesystem .
  mcpbridge run -c mcpbridge.yaml`

func (p *Program) runCommand(l *logging) *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:     "run [flags] [TARGET | -- COMMAND [ARG]...]",
		Short:   "Serve backends to MCP clients and gRPC clients",
		Long:    runLong,
		Example: runExamples,
		RunE: func(c *cobra.Command, args []string) error {
			cfg, err := f.load(c, args, p)
			l.loaded(cfg)
			if err != nil {
				return err
			}
			signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // else the process would end when whoever reads the log does
			return p.serve(c.Context(), cfg)
		},
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.http, "http", "", "serve HTTP on `ADDR`, such as 127.0.0.1:8080")
	flags.BoolVar(&f.stdio, "stdio", false, "serve stdin and stdout")
	flags.StringVar(&f.grpc, "grpc", "", "serve gRPC on `ADDR`, such as unix:///tmp/mcp.sock or 127.0.0.1:50051")
	flags.StringVar(&f.path, "path", "/mcp", "serve HTTP at this `PATH`, and each backend at its name below")
	flags.StringArrayVar(&f.origins, "allow-origin", nil, "let pages of this web `ORIGIN` call (repeatable)")
	flags.StringArrayVar(&f.hosts, "allow-host", nil, "let clients use this `HOST` name (repeatable)")
	flags.BoolVar(&f.insecure, "insecure", false, "allow an --http or --grpc address that other machines reach")
	flags.DurationVar(&f.drainPeriod, "drain", 30*time.Second, "how long calls may go on after the first signal")
	f.add(flags)
	return c
}

// load returns the configuration that the file, the environment, the flags and the arguments make together. It
// returns it with an error, too, if there is one as a whole.
func (f *runFlags) load(c *cobra.Command, args []string, p *Program) (*loaded, error) {
	flags := c.Flags()
	if f.stdio && flags.Changed("http") {
		return nil, usage("--stdio and --http", "keep one of the two, or run mcpbridge twice",
			"stdio and HTTP cannot both be served by one process yet")
	}
	t, rest, err := p.targetOf(args, c.ArgsLenAtDash(), &f.targetFlags)
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		if c.ArgsLenAtDash() > 0 {
			return nil, usage(strings.Join(rest, " "), "keep the target before -- or the command after it",
				"both a target and a command are given")
		}
		if t.name != "" {
			return nil, usage(strings.Join(args, " "), "write "+p.withDashes(args), "a command to launch goes after --")
		}
		return nil, usage(strings.Join(args, " "), "put several into a configuration file", "one target can be given, and %q comes after it", rest[0])
	}
	values, names := f.values(flags)
	l, err := p.loadTarget(t, &f.targetFlags, flags, values, names)
	if err != nil {
		return l, err
	}
	if flags.Changed("http") {
		l.Serve.Stdio = "false"
	}
	if f.stdio {
		l.Serve.HTTP.Addr = ""
	}
	l.settle(p.Stdin)
	err = l.validate()
	return l, err
}

// values returns the flags that were given, as settings, and which flag each setting comes from.
func (f *runFlags) values(flags *pflag.FlagSet) (map[string]any, map[string]string) {
	values, names := logValues(flags)
	set := func(flag, key string, value any) {
		if flags.Changed(flag) {
			values[key], names[key] = value, "--"+flag
		}
	}
	set("http", "serve.http.addr", f.http)
	set("grpc", "serve.grpc.addr", f.grpc)
	set("stdio", "serve.stdio", strconv.FormatBool(f.stdio))
	set("path", "serve.http.path", f.path)
	set("allow-origin", "serve.http.allowedOrigins", f.origins)
	set("allow-host", "serve.http.allowedHosts", f.hosts)
	set("insecure", "serve.http.insecure", f.insecure)
	if f.grpc != "" {
		set("insecure", "serve.grpc.insecure", f.insecure)
	}
	set("drain", "serve.drain", f.drainPeriod)
	return values, names
}

// logValues returns the flags about the log that were given, as settings, and which flag each setting comes from.
func logValues(flags *pflag.FlagSet) (map[string]any, map[string]string) {
	values, names := map[string]any{}, map[string]string{}
	for _, name := range []string{"log-level", "log-format"} {
		if flag := flags.Lookup(name); flag != nil && flag.Changed {
			key := strings.ReplaceAll(name, "-", ".")
			values[key], names[key] = flag.Value.String(), "--"+name
		}
	}
	return values, names
}
