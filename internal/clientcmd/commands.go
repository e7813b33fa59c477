package clientcmd

import (
	"github.com/spf13/cobra"

	"github.com/mcpbridge/mcpbridge/internal/config"
	"github.com/mcpbridge/mcpbridge/internal/problem"
	"github.com/mcpbridge/mcpbridge/internal/terminal"
)

// clientCommands are the commands that call backends. They call a bridge.Handler, so they support every kind of
// backend.
var clientCommands = [...]clientCommand{
	{
		use: "list [flags] [TARGET | -- COMMAND [ARG]...]", short: "List tools, resources and prompts, as functions",
		examples: "  mcpbridge list -- python3 tools.py\n  mcpbridge list https://example.com/mcp\n  mcpbridge " +
			"list --json unix:///run/tools.sock",
		maxArgs: 0, run: runList,
	},
	{
		use:      "describe [flags] TARGET [NAME]",
		short:    "Describe a tool, prompt or resource with its schema, or the server",
		examples: "  mcpbridge describe greet -- python3 tools.py\n  mcpbridge describe https://example.com/mcp",
		maxArgs:  1, run: runDescribe,
	},
	{
		use: "call [flags] TARGET TOOL [NAME=VALUE... | JSON | @FILE | -]", short: "Call a tool",
		long: `Arguments are NAME=VALUE, converted by the tool's schema: whole numbers of any size, true and false, a list
by repeating NAME or as JSON, members of an object as a.b=VALUE or as JSON. VALUE is @FILE for the content of a
file, @- for stdin, and @@ for a text that begins with @. Or all arguments are one JSON object, or come from
@FILE or - (stdin).

If a tool requests input from its user or a model, the command prompts on the terminal; in scripts, --answer and
--sample provide the input. Of several --answer for one field, each form uses the next one, and later forms the last
one. For a list, they are its items, or lists in JSON, one for each form.`,
		examples: "  mcpbridge call greet name=Ada -- python3 tools.py\n  mcpbridge call --answer value=Ada " +
			"--answer value=36 survey -- python3 tools.py\n  mcpbridge call tools.json search query=x tags=a tags=b\n" +
			"  mcpbridge call --answer language=French unix:///run/tools.sock greet '{\"name\": \"Ada\"}'",
		minArgs: 1, maxArgs: -1,
		flags: func(c *client, cmd *cobra.Command) {
			taskFlags(c, cmd)
			inputFlags(c, cmd)
		},
		run: runCall,
	},
	{
		use: "read [flags] TARGET URI", short: "Read a resource",
		long: "Writes text as it is, and other content as its bytes, which a terminal is not shown.",
		examples: "  mcpbridge read demo://resource/static/document/features.md -- npx -y " +
			"@modelcontextprotocol/server-everything\n  mcpbridge read --output logo.png https://example.com/mcp " +
			"logo://png",
		minArgs: 1, maxArgs: 1,
		flags: func(c *client, cmd *cobra.Command) {
			cmd.Flags().StringVarP(&c.output, "output", "o", "", "write to `FILE`")
			inputFlags(c, cmd)
		},
		run: runRead,
	},
	{
		use: "prompt [flags] TARGET PROMPT [NAME=VALUE]...", short: "Print the messages of a prompt",
		examples: "  mcpbridge prompt review style=brief -- python3 tools.py",
		minArgs:  1, maxArgs: -1, flags: inputFlags, run: runPrompt,
	},
	{
		use:   "complete [flags] TARGET PROMPT|URI-TEMPLATE NAME=PREFIX [NAME=VALUE]...",
		short: "Print completions of an argument",
		long: "Prints the values that an argument of a prompt or of a resource template can have, one a line. " +
			"The first NAME=PREFIX is\nthe argument to complete; the others are known already.",
		examples: "  mcpbridge complete review style=b -- python3 tools.py",
		minArgs:  2, maxArgs: -1, run: runComplete,
	},
}

// taskCommands are the commands of `tasks`.
var taskCommands = [...]clientCommand{
	{
		use: "list [flags] TARGET", short: "List your tasks, the newest first",
		long:     "A server lists tasks only to callers that authenticate.",
		examples: "  mcpbridge tasks list -c bridge.yaml tools", maxArgs: 0, runs: true, run: runTasksList,
	},
	{
		use: "get [flags] TARGET ID", short: "Print a task: its status, input requests and result",
		examples: "  mcpbridge tasks get http://127.0.0.1:8080/mcp KI4HBWGFYFHGM4N5UZTZTDB74Y",
		minArgs:  1, maxArgs: 1, runs: true, run: runTasksGet,
	},
	{
		use: "watch [flags] TARGET ID", short: "Print a line whenever a task changes, until it ends",
		examples: "  mcpbridge tasks watch unix:///run/tools.sock KI4HBWGFYFHGM4N5UZTZTDB74Y",
		minArgs:  1, maxArgs: 1, runs: true, run: runTasksWatch,
	},
	{
		use: "answer [flags] TARGET ID", short: "Answer the input requests of a task",
		examples: "  mcpbridge tasks answer --answer name=Ada http://127.0.0.1:8080/mcp KI4HBWGFYFHGM4N5UZTZTDB74Y",
		minArgs:  1, maxArgs: 1, runs: true, flags: inputFlags, run: runTasksAnswer,
	},
	{
		use: "cancel [flags] TARGET ID", short: "Cancel a task",
		examples: "  mcpbridge tasks cancel http://127.0.0.1:8080/mcp KI4HBWGFYFHGM4N5UZTZTDB74Y",
		minArgs:  1, maxArgs: 1, runs: true, run: runTasksCancel,
	},
	{
		use:      "result [flags] TARGET ID",
		short:    "Wait for the result of a task, answer its input requests, and print it",
		examples: "  mcpbridge tasks result http://127.0.0.1:8080/mcp KI4HBWGFYFHGM4N5UZTZTDB74Y",
		minArgs:  1, maxArgs: 1, runs: true, flags: inputFlags, run: runTasksResult,
	},
}

const clientExits = `

Without --log-level, only warnings and errors are logged.

Exit codes: 0 success, 1 a wrong command line or wrong arguments, or an unexpected error, 3 the server requires
authentication, 4 no server responds, 5 the tool failed or there is none, 6 a wrong configuration, 7 the backend did
not start, 8 the backend crashed during the call, 9 timeout, 130 cancelled.`

// ClientCommands returns the commands that call a target. They pass the configuration to loaded once it has been read;
// loaded must accept nil.
func (e *Env) ClientCommands(loaded func(*config.Config)) []*cobra.Command {
	commands := make([]*cobra.Command, 0, len(clientCommands)+1)
	for i := range clientCommands {
		commands = append(commands, e.clientCommand(&clientCommands[i], loaded))
	}
	parent := &cobra.Command{
		Use: "tasks", Short: "List, watch, answer and cancel tasks: calls that continue in the background",
		Long: "List, watch, answer and cancel tasks: calls that continue in the background.\n\n" +
			"`mcpbridge call --task` begins one. The server that keeps it must run already, as mcpbridge run does.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return problem.Usage(args[0], "write one of: list, get, watch, answer, cancel, result",
				"there is no command %q of tasks", args[0])
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	for i := range taskCommands {
		parent.AddCommand(e.clientCommand(&taskCommands[i], loaded))
	}
	return append(commands, parent)
}

// clientCommand returns the command of a row.
func (e *Env) clientCommand(row *clientCommand, loaded func(*config.Config)) *cobra.Command {
	c := &client{env: e, terminal: terminal.IsTerminal(e.Stdout), target: TargetFlags{argsFollow: row.maxArgs != 0}}
	long := row.short + ".\n\n"
	if row.long != "" {
		long += row.long + "\n\n"
	}
	cmd := &cobra.Command{
		Use: row.use, Short: row.short, Long: long + TargetHelp + clientExits, Example: row.examples,
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd, loaded, row, args) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVar(&c.asJSON, "json", false, "print one JSON document")
	flags.DurationVar(&c.timeout, "timeout", 0, "time limit of the whole command, such as 30s; 0 is none")
	if row.flags != nil {
		row.flags(c, cmd)
	}
	c.target.Add(flags)
	return cmd
}
