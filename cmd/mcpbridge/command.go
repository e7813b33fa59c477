package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/app"
	"github.com/mcpbridge/mcpbridge/internal/clientcmd"
	"github.com/mcpbridge/mcpbridge/internal/config"
	"github.com/mcpbridge/mcpbridge/internal/problem"
	"github.com/mcpbridge/mcpbridge/internal/terminal"
)

// Run runs the command and returns its exit code. When ctx ends, it drains.
func (p *Program) Run(ctx context.Context) int {
	if p.Abort == nil {
		p.Abort = context.Background()
	}
	p.errors = terminal.NewQueue(p.Stderr)
	defer p.errors.Close()
	root, logging := p.command()
	root.SetArgs(p.Args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return problem.ExitOK
	}
	pr := problem.Of(err)
	if !logging.isLoaded {
		logging.Format = p.logFormat()
	}
	if !slices.Contains(config.LogFormats, logging.Format) {
		logging.Format = "auto" // the problem may be this setting
	}
	log, asJSON := app.NewLog(p.errors, logging.Log, logging.secrets)
	pr.Write(logging.secrets.Hide(p.errors), log, asJSON)
	return pr.Exit
}

// logFormat returns the format of the log from the arguments or the environment. It is for errors before both have been
// parsed.
func (p *Program) logFormat() string {
	format := "auto"
	for _, entry := range p.Environ {
		if value, ok := strings.CutPrefix(entry, config.EnvPrefix+"LOG__FORMAT="); ok && value != "" {
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

// command returns the tree of commands.
func (p *Program) command() (*cobra.Command, *logging) {
	root := &cobra.Command{
		Use:   "mcpbridge",
		Short: "Serve tools written in any language to every MCP client",
		Long: "mcpbridge serves tools that are written in any language to every client of the Model Context " +
			"Protocol,\n" +
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
	flags.StringVar(&l.Format, "log-format", "auto",
		"log as text or json; auto is text on a terminal and json elsewhere")
	root.AddCommand(p.runCommand(l), p.VerifyCommand(), p.ProtoCommand(), p.versionCommand())
	root.AddCommand(p.ClientCommands(l.loaded)...)
	return root, l
}

// noCommand returns the problem that the first argument is not a command: it is mistyped, or `run` is missing.
func noCommand(args []string) error {
	fix := problem.DidYouMean(args[0], clientcmd.CommandNames)
	switch _, err := exec.LookPath(args[0]); {
	case otherNames[args[0]] != "":
		fix = "did you mean " + otherNames[args[0]] + "?"
	case problem.Nearest(args[0], clientcmd.CommandNames) != "":
	case config.ValidateDial(args[0], "") == nil || config.IsURL(args[0]):
		fix = "write mcpbridge run " + args[0]
	case len(args) > 1 || err == nil || config.IsScript(args[0]):
		fix = "write mcpbridge run -- " + strings.Join(config.SuggestCommand(args), " ")
	}
	return problem.Usage("", fix, "there is no command %q", args[0])
}

// otherNames maps names of similar commands in other programs to ours.
var otherNames = map[string]string{
	"serve": "run", "start": "run", "launch": "run", "dev": "run", "proxy": "run", "ls": "list", "tools": "list",
	"resources": "list", "prompts": "list",
	"invoke": "call", "exec": "call", "tool": "call", "show": "describe", "inspect": "describe", "get": "read",
	"cat": "read", "check": "verify",
	"test": "verify", "lint": "verify",
}

// flagError returns all problems with the flags: the flags package reports only the first one.
func (p *Program) flagError(c *cobra.Command, err error) error {
	errs := []error{p.wrongFlag(c, err)}
	for args := p.Args; err != nil; {
		i := slices.IndexFunc(args, func(arg string) bool { return isFlag(arg, err) })
		if i < 0 || slices.Contains(args[:i], "--") {
			break
		}
		args = args[i+1:]
		if err = c.Flags().Parse(args); err != nil && !errors.Is(err, pflag.ErrHelp) {
			errs = append(errs, p.wrongFlag(c, err))
		}
	}
	return problem.Join(errs...)
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
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		name := unknown.GetSpecifiedName()
		if guess := problem.Nearest(name, names); guess != "" {
			fix = "did you mean --" + guess + "?"
		}
		if c.Name() == "run" && c.Flags().NArg() > 0 || unknown.GetSpecifiedShortnames() != "" {
			fix = "flags of the backend's command go after --: " + c.CommandPath() + " -- python3 tools.py --its-flag"
		}
		if arg := p.suggestedArgument(c, unknown.GetSpecifiedName()); arg != "" {
			fix = "an argument of a tool or prompt has no dashes: " + arg
			if guess := problem.Nearest(name, names); guess != "" {
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
	return &problem.Error{Exit: problem.ExitUsage, Code: "usage", What: err.Error(), Fix: fix, Cause: err}
}

// suggestedArgument returns an unknown flag in the form NAME=VALUE, if the command passes arguments to a tool or
// prompt: the user probably meant one.
func (p *Program) suggestedArgument(c *cobra.Command, name string) string {
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
		Short: "Print the version, and the supported revisions of MCP",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return problem.Usage(args[0], "leave it out", "version takes no argument")
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(c.OutOrStdout(), p.versionLine())
			return err
		},
	}
}

// versionLine returns the version in one line.
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
