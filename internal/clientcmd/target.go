package clientcmd

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/net/http/httpguts"

	"github.com/mcpbridge/mcpbridge/internal/config"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/problem"
)

// A Target is the object of a command, from its arguments: one backend, or those of a file.
type Target struct {
	// backend is the configuration of the backend. It is nil if a file has it.
	backend map[string]any
	// key is the setting of backend that an argument sets, and where describes the argument.
	key, where string
	// file is the configuration to read instead of the default one, and Name the only backend in it to call.
	file, Name string
}

// TargetFlags are the flags that configure a target. They are the same for every command.
type TargetFlags struct {
	config       string
	dir          string
	mcp, plugin  bool
	passEnv, env []string
	headers      []string
	startTimeout time.Duration
	revision     string
	plaintext    bool
	// argsFollow means that other arguments follow the target, so that only the first argument can be a target.
	argsFollow bool
}

// TargetHelp explains targets, for the help of commands.
const TargetHelp = `A TARGET is a command after --; the address of a backend that runs already, as unix:///path/to.sock,
tcp:host:port or dns:host:port; the URL of an MCP server; a configuration file, mcpbridge's own or one with
"mcpServers"; or the name of a backend in -c FILE, which is ./mcpbridge.yaml if it is not given.`

// Add adds the flags to those of a command.
func (f *TargetFlags) Add(flags *pflag.FlagSet) {
	flags.StringVarP(&f.config, "config", "c", "", "read `FILE` first; flags override it")
	flags.BoolVar(&f.plugin, "plugin", false, "the command is a backend of mcpbridge, as it is for run")
	flags.BoolVar(&f.mcp, "mcp", false, "the command is an MCP server on stdin and stdout")
	flags.StringArrayVar(&f.env, "env", nil, "set `NAME=VALUE` in the backend's environment (repeatable)")
	flags.StringArrayVar(&f.passEnv, "pass-env", nil, "pass the variable `NAME` on to the backend (repeatable)")
	flags.StringVar(&f.dir, "dir", "", "start the backend in `DIR`")
	flags.DurationVar(&f.startTimeout, "start-timeout", limits.Timeouts{}.OrDefaults().Start,
		"how long the backend may take to start")
	flags.StringVar(&f.revision, "revision", "", "use `REVISION` of MCP, or legacy or modern, with an MCP server")
	flags.BoolVar(&f.plaintext, "plaintext", false,
		"dial another machine without TLS, at tcp:host:port or dns:host:port")
	flags.StringArrayVar(&f.headers, "header", nil,
		"send `'NAME: VALUE'` to the URL; ${env:NAME} in it is replaced (repeatable)")
}

// isFile reports whether an argument names a configuration file.
func isFile(arg string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(arg)))
}

// isAddress reports whether an argument is a target that is not launched.
func isAddress(arg string) bool {
	return config.IsURL(arg) || strings.Contains(arg, ":") && config.ValidateDial(arg, "") == nil
}

// withoutDashes returns the command line with the target that was written after -- as the first argument of its
// command.
func (e *Env) withoutDashes(target []string) string {
	line := e.Args[:slices.Index(e.Args, "--")]
	command := slices.IndexFunc(line, func(arg string) bool { return slices.Contains(CommandNames, arg) }) + 1
	words := slices.Concat([]string{"mcpbridge"}, line[:command], target[:1], line[command:], target[1:])
	return strings.Join(words, " ")
}

// ParseTarget returns the target in the arguments of a command, and the other arguments. dash is the number of
// arguments before --, or -1. If there is a command after --, rest has all arguments before it.
func (e *Env) ParseTarget(args []string, dash int, f *TargetFlags) (t Target, rest []string, err error) {
	t.file = f.config
	switch {
	case dash >= 0 && dash == len(args):
		return t, nil, problem.Usage("--", "write -- python3 tools.py", "there is no command after --")
	case dash >= 0 && isAddress(args[dash]):
		return t, nil, problem.Usage(args[dash], "write "+e.withoutDashes(args[dash:]),
			"only a command goes after --, and %s is none", args[dash])
	case dash >= 0:
		command := args[dash:]
		f.mcp = f.mcp || f.revision != "" // only MCP servers have a revision
		key := "launch"
		if f.mcp {
			key = "mcp"
		}
		t.backend = map[string]any{"name": config.BackendName(command), key: map[string]any{"command": command}}
		t.key, t.where = key+".command", "the command after --"
		return t, args[:dash], nil
	case len(args) == 0:
		return t, nil, nil
	}
	arg := args[0]
	t.where = "the argument " + arg
	switch {
	case config.IsURL(arg):
		t.backend, t.key = map[string]any{"name": "server", "mcp": map[string]any{"url": arg}}, "mcp.url"
	case isFile(arg):
		if f.config != "" {
			return t, nil, problem.Usage(arg, "keep one of them", "both -c %s and %s are given", f.config, arg)
		}
		t.file = arg
	case strings.Contains(arg, ":"):
		if err := config.ValidateDial(arg, t.where); err != nil {
			return t, nil, err
		}
		t.backend, t.key = map[string]any{"name": "backend", "dial": arg}, "dial"
	case !config.IsBackendName(arg):
		command := args
		if f.argsFollow {
			command = args[:1]
		}
		if address := suggestedAddress(arg); address != "" {
			return t, nil, problem.Usage(t.where, "write "+address, "%q is not the address of a backend", arg)
		}
		return t, nil, problem.Usage(strings.Join(args, " "), "write "+e.WithDashes(command),
			"a command to launch goes after --")
	default:
		t.Name = arg
	}
	return t, args[1:], nil
}

// host matches the beginning of the URL of an MCP server without https://.
var host = regexp.MustCompile(`^[\w-]+(\.[\w-]+)+/`)

// suggestedAddress returns the whole address if an argument is one without its scheme, or "".
func suggestedAddress(arg string) string {
	info, err := os.Stat(arg)
	switch {
	case err == nil && info.Mode()&fs.ModeSocket != 0, err != nil && strings.HasSuffix(arg, ".sock"):
		if abs, err := filepath.Abs(arg); err == nil {
			return "unix://" + filepath.ToSlash(abs)
		}
	case err != nil && host.MatchString(arg):
		return "https://" + arg
	}
	return ""
}

// suggestedCommand returns the command line with -- before the arguments that are probably a command, or "".
func (e *Env) suggestedCommand(args []string) string {
	for i, arg := range args {
		_, err := exec.LookPath(arg)
		runs := config.IsInterpreter([]string{arg})
		switch {
		case i == 0 && runs && len(args) > 1: // anything may follow its script
			return e.WithDashes(args[:2])
		case i > 0 && (err == nil || config.IsScript(arg)): // the first one must be the target
			return e.WithDashes(args[i:])
		}
	}
	return ""
}

// targetFix returns the fix for a command line without a target.
func (e *Env) targetFix(args []string) string {
	if line := e.suggestedCommand(args); line != "" {
		return "write " + line
	}
	return "name the target: mcpbridge " + strings.Join(e.Args, " ") + " -- python3 tools.py, or before its name\n" +
		"unix:///path/to.sock, https://host/mcp, a configuration file, or the name of a backend in -c FILE"
}

// values adds the settings of the target to values, and their origins to names.
func (t *Target) values(values map[string]any, names map[string]string) {
	if t.backend == nil {
		return
	}
	values["backends"] = []any{t.backend}
	for _, key := range []string{"backends", "backends.0." + t.key} {
		names[key] = t.where
	}
}

// Load returns the configuration of a target. If it was read but is invalid, Load returns both it and an error.
func (e *Env) Load(
	t Target, f *TargetFlags, flags *pflag.FlagSet, values map[string]any, names map[string]string,
) (*config.Config, error) {
	name := t.file
	if name == "" && t.backend == nil {
		if _, err := os.Stat(config.DefaultFile); err == nil || !errors.Is(err, fs.ErrNotExist) {
			name = config.DefaultFile
		}
	}
	if name == "" && t.Name != "" && f.argsFollow {
		return nil, problem.Usage(t.Name, e.targetFix(flags.Args()),
			"the target is missing: %q is none, because there is no %s", t.Name, config.DefaultFile)
	}
	if name == "" && t.Name != "" {
		return nil, problem.Usage(t.Name,
			"write "+e.WithDashes([]string{t.Name})+", give the file with -c,\n"+
				"or write an address: unix:///path/to.sock, tcp:host:port, dns:host:port, https://host/mcp",
			"there is no backend %q, because there is no %s", t.Name, config.DefaultFile)
	}
	t.values(values, names)
	l, err := config.Load(name, e.Environ, values, names)
	if err != nil {
		return nil, err
	}
	if t.Name != "" {
		if err := l.SelectBackend(t.Name); err != nil {
			return l, err
		}
	}
	return l, f.adjust(flags, l)
}

// adjust applies the flags to the backend of the target.
func (f *TargetFlags) adjust(flags *pflag.FlagSet, l *config.Config) error {
	if f.mcp && f.plugin {
		return problem.Usage("--mcp and --plugin", "keep one of the two", "a command cannot be both")
	}
	for _, flag := range []string{
		"env", "pass-env", "dir", "start-timeout", "mcp", "plugin", "revision", "plaintext", "header",
	} {
		if !flags.Changed(flag) {
			continue
		}
		if len(l.Backends) != 1 {
			return problem.Usage("--"+flag, "set it in the file, for each backend",
				"--%s is ambiguous with several backends", flag)
		}
		b := &l.Backends[0]
		isCommand := b.Launch != nil || b.MCP != nil && len(b.MCP.Command) > 0
		switch {
		case flag == "header":
			if b.MCP == nil || isCommand {
				return problem.Usage("--header", "leave it out",
					"--header is for the URL of an MCP server, and this is none")
			}
		case flag == "revision":
			if b.MCP == nil {
				return problem.Usage("--revision", "add --mcp if it is one, or leave --revision out",
					"--revision is for an MCP server")
			}
			b.MCP.Revision = f.revision
			l.SetBy("backends.0.mcp.revision", "--revision")
		case flag == "plaintext":
			if b.Dial == "" {
				return problem.Usage("--plaintext", "leave it out",
					"--plaintext is for tcp:host:port or dns:host:port, and this is neither")
			}
			b.Insecure = f.plaintext
			l.SetBy("backends.0.insecure", "--plaintext")
		case !isCommand:
			return problem.Usage("--"+flag, "leave it out",
				"--%s is for a backend that mcpbridge launches, and this one runs already", flag)
		}
	}
	if len(l.Backends) != 1 {
		l.AllowLogin()
		return nil
	}
	b := &l.Backends[0]
	if err := f.adjustHeaders(b, l); err != nil {
		return err
	}
	l.AllowLogin()
	switch {
	case b.Launch != nil:
		return f.adjustLaunch(flags, l, "launch", b.Launch)
	case b.MCP != nil:
		c := b.MCP.Launch()
		if err := f.adjustLaunch(flags, l, "mcp", c); err != nil {
			return err
		}
		b.MCP.Dir, b.MCP.Env, b.MCP.PassEnv, b.MCP.StartTimeout = c.Dir, c.Env, c.PassEnv, c.StartTimeout
	}
	return nil
}

// adjustLaunch applies the flags of a launched backend.
func (f *TargetFlags) adjustLaunch(flags *pflag.FlagSet, l *config.Config, key string, c *config.Launch) error {
	var errs []error
	for _, e := range f.env {
		name, value, ok := strings.Cut(e, "=")
		if !ok || name == "" {
			errs = append(errs,
				problem.Usage("--env "+e,
					"write --env NAME=VALUE, or --pass-env NAME to pass on what mcpbridge itself has",
					"%q does not set a variable", e))
			continue
		}
		if c.Env == nil {
			c.Env = map[string]string{}
		}
		c.Env[name] = value
	}
	c.PassEnv = append(c.PassEnv, f.passEnv...)
	if flags.Changed("dir") {
		c.Dir = f.dir
	}
	if flags.Changed("start-timeout") {
		c.StartTimeout = f.startTimeout
		l.SetBy("backends.0."+key+".startTimeout", "--start-timeout")
	}
	return problem.Join(errs...)
}

// adjustHeaders adds the headers of the flags.
func (f *TargetFlags) adjustHeaders(b *config.Backend, l *config.Config) error {
	for _, header := range f.headers {
		name, value, ok := strings.Cut(header, ":")
		if value = strings.TrimSpace(value); !ok || !httpguts.ValidHeaderFieldName(name) {
			return problem.Usage("--header", "write --header 'NAME: VALUE'",
				"%q does not begin with the name of a header", strings.TrimSpace(name))
		}
		value, p := l.Expand(value)
		if p != nil {
			p.Where = "--header " + name
			return p
		}
		if b.MCP.Headers == nil {
			b.MCP.Headers = map[string]string{}
		}
		b.MCP.Headers[name] = value
	}
	return nil
}

// CommandNames are the names of the commands.
var CommandNames = []string{
	"run", "list", "describe", "call", "read", "prompt", "complete", "tasks", "verify", "proto",
	"version", "help",
}

// LogValues returns the flags of the log that are set, as values by key, and their names by key.
func LogValues(flags *pflag.FlagSet) (map[string]any, map[string]string) {
	values, names := map[string]any{}, map[string]string{}
	for _, name := range []string{"log-level", "log-format"} {
		if flag := flags.Lookup(name); flag != nil && flag.Changed {
			key := strings.ReplaceAll(name, "-", ".")
			values[key], names[key] = flag.Value.String(), "--"+name
		}
	}
	return values, names
}

// WithDashes returns the command line with some arguments moved after --, as the command of the backend.
func (e *Env) WithDashes(args []string) string {
	line := slices.Clone(e.Args)
	for _, arg := range slices.Backward(args) {
		for i := len(line) - 1; i >= 0; i-- {
			if line[i] == arg {
				line = slices.Delete(line, i, i+1)
				break
			}
		}
	}
	return strings.Join(slices.Concat([]string{"mcpbridge"}, line, []string{"--"}, config.SuggestCommand(args)), " ")
}
