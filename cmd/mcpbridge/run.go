package main

import (
	"bytes"
	"context"
	"io"
	stdlog "log"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mcpbridge/mcpbridge/internal/app"
	"github.com/mcpbridge/mcpbridge/internal/clientcmd"
	"github.com/mcpbridge/mcpbridge/internal/config"
	"github.com/mcpbridge/mcpbridge/internal/problem"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
)

// serve runs an App until ctx ends or the client disconnects.
func (p *Program) serve(ctx context.Context, cfg *config.Config, sockets app.Sockets) error {
	log, _ := app.NewLog(p.errors, cfg.Log, cfg.Secrets)
	// net/http prints messages about servers that violate the protocol to the standard logger. They contain text of the
	// server, and do not have the format of our log.
	stdlog.SetFlags(0)
	stdlog.SetOutput(stdLogWriter{log})
	cfg.LogWarnings(log)
	m := &serviceManager{log: log}
	timeout, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn().Err(err).Msg("the watchdog of the service manager receives nothing")
	}
	o := app.Options{
		Log: log, Stdin: p.Stdin, Stdout: p.Stdout, Backends: p.BackendOptions(), Sockets: sockets,
		Started: func(a *app.App) {
			m.notify(daemon.SdNotifyReady)
			if p.Started != nil {
				p.Started(a)
			}
		},
		Watchdog: app.Watchdog{Timeout: timeout, Beat: func() { m.notify(daemon.SdNotifyWatchdog) }},
	}
	defer context.AfterFunc(ctx, func() { m.notify(daemon.SdNotifyStopping) })()
	if os.Getpid() == 1 { // in a container, where no other process reaps what backends leave behind
		o.Reap = reapOrphans
	}
	a, err := app.New(cfg, o)
	if err != nil {
		return err
	}
	if err := a.Listen(ctx); err != nil {
		return err
	}
	return a.Run(ctx, p.Abort)
}

// An stdLogWriter logs what libraries print to the standard logger.
type stdLogWriter struct{ log zerolog.Logger }

// Write implements io.Writer.
func (a stdLogWriter) Write(line []byte) (int, error) {
	a.log.Debug().Str("line", rawjson.ShortenTo(bytes.TrimSpace(line), 300)).
		Msg("a library printed to the standard logger")
	return len(line), nil
}

// A runFlags holds the flags of `run`.
type runFlags struct {
	clientcmd.TargetFlags

	http, path, grpc string
	stdio, insecure  bool
	origins, hosts   []string
	drainPeriod      time.Duration
}

const runLong = `Serve backends to MCP clients, over stdio or HTTP, and to gRPC clients.

` + clientcmd.TargetHelp + `
Without any of these, all of ./mcpbridge.yaml is served, merged into one.

A socket that systemd passes (socket activation) replaces the address of --http, or of what its
FileDescriptorName= names.

Without --http, --grpc and --stdio, stdio is served if stdin is a pipe, a socket or a file, as it is
when an MCP client starts mcpbridge, and HTTP on 127.0.0.1:8080 otherwise.

Exit codes: 0 success, 1 a wrong command line or an unexpected error, 6 a wrong configuration,
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
			sockets, err := app.InheritedSockets()
			if err != nil {
				return err
			}
			cfg, err := f.load(c, args, p, sockets)
			l.loaded(cfg)
			if err != nil {
				return err
			}
			// By default, SIGPIPE would end the process when the reader of its log exits.
			signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
			return p.serve(c.Context(), cfg, sockets)
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
	flags.DurationVar(&f.drainPeriod, "drain", 30*time.Second, "how long calls may continue after the first signal")
	f.Add(flags)
	return c
}

// load returns the configuration from the file, the environment, the flags, the arguments and the sockets. If the
// configuration can be read but is invalid, load returns it together with the error.
func (f *runFlags) load(
	c *cobra.Command, args []string, p *Program, sockets app.Sockets,
) (*config.Config, error) {
	flags := c.Flags()
	if f.stdio && flags.Changed("http") {
		return nil, problem.Usage("--stdio and --http", "keep one of the two, or run mcpbridge twice",
			"stdio and HTTP cannot both be served by one process yet")
	}
	t, rest, err := p.ParseTarget(args, c.ArgsLenAtDash(), &f.TargetFlags)
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		if c.ArgsLenAtDash() > 0 {
			return nil, problem.Usage(strings.Join(rest, " "), "keep the target before -- or the command after it",
				"both a target and a command are given")
		}
		if t.Name != "" {
			return nil, problem.Usage(strings.Join(args, " "), "write "+p.WithDashes(args),
				"a command to launch goes after --")
		}
		return nil, problem.Usage(strings.Join(args, " "), "put several into a configuration file",
			"one target can be given, and %q comes after it", rest[0])
	}
	values, names := f.values(flags)
	l, err := p.Load(t, &f.TargetFlags, flags, values, names)
	if err != nil {
		return l, err
	}
	if flags.Changed("http") {
		l.Serve.Stdio = "false"
	}
	if f.stdio {
		l.Serve.HTTP.Addr = ""
	}
	sockets.Configure(l)
	l.ChooseFronts(isClientInput(p.Stdin))
	err = l.Validate()
	return l, err
}

// values returns the settings of the given flags by key, and by the same key the name of the flag.
func (f *runFlags) values(flags *pflag.FlagSet) (map[string]any, map[string]string) {
	values, names := clientcmd.LogValues(flags)
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

// isClientInput reports whether stdin seems to come from an MCP client: it is a pipe, a socket or a file. A person uses
// a terminal, and service managers and container runtimes use /dev/null.
func isClientInput(stdin io.Reader) bool {
	f, ok := stdin.(*os.File)
	if !ok {
		return stdin != nil
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice == 0
}
