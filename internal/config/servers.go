package config

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// serversKey returns the key of the servers in a file of another MCP client, or "" if the file is ours: Claude, Cursor
// and most others call it mcpServers, VS Code calls it servers.
func serversKey(root *yaml.Node) string {
	if root.Kind != yaml.MappingNode {
		return ""
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		if key := root.Content[i].Value; key == "mcpServers" || key == "servers" {
			return key
		}
	}
	return ""
}

// serverMembers maps the supported members of a server to keys of `mcp`, or to "" if there is no such key.
var serverMembers = map[string]string{
	"command": "command", "args": "", "env": "env", "cwd": "dir",
	"url": "url", "serverUrl": "url", "httpUrl": "url", "headers": "headers",
	"type": "", "transport": "", "disabled": "",
}

// readServers reads a file of another MCP client. Members that mcpbridge does not support are ignored with a warning:
// every client has members of its own.
func (f *file) readServers(root *yaml.Node, key string) error {
	f.places[""], f.otherClient = root, true
	backends := []any{}
	for name, value := range pairs(root) {
		if name.Value != key {
			f.warn(name, "ignoring %s: mcpbridge reads only %s", name.Value, key)
			continue
		}
		if value.Kind != yaml.MappingNode {
			return f.problem(value, "write a mapping", "%s is %s and has to be a mapping", key,
				describe(value))
		}
		f.places["backends"] = value
		for name, server := range pairs(value) {
			b, err := f.readServer(name, server, "backends."+strconv.Itoa(len(backends)))
			if err != nil {
				return err
			}
			if b != nil {
				backends = append(backends, b)
			}
		}
	}
	f.values = map[string]any{"version": 1, "backends": backends}
	return nil
}

// readServer returns a server as a backend, or nil if it is disabled.
func (f *file) readServer(name, server *yaml.Node, at string) (map[string]any, error) {
	if server.Kind != yaml.MappingNode {
		return nil, f.problem(server, `write {"command": ...} or {"url": ...}`,
			"the server %q is %s and has to be a mapping", name.Value, describe(server))
	}
	f.places[at], f.places[at+".name"] = server, name
	mcp := map[string]any{}
	b := map[string]any{"name": f.serverName(name), "mcp": mcp}
	var args []any
	for key, value := range pairs(server) {
		member, supported := serverMembers[key.Value]
		path := at + ".mcp." + cmp.Or(member, "args")
		if member != "" {
			f.places[path] = value
		}
		var err error
		switch {
		case key.Value == "envFile":
			f.warn(key, "ignoring envFile of %s: mcpbridge does not read such files; set its variables "+
				"where mcpbridge is started, and name them in env", name.Value)
		case key.Value == "type":
			err = f.serverType(value)
		case !supported:
			f.warn(key, "ignoring %s of %s: mcpbridge does not support it", key.Value, name.Value)
		case key.Value == "disabled":
			if value.Value == "true" {
				return nil, nil //nolint:nilnil // there is no error, and no server
			}
		case key.Value == "args":
			args, err = f.texts(value, key.Value)
		case member == "command":
			var text string
			text, err = f.text(value, key.Value)
			mcp[member] = []any{text}
		case member == "env" || member == "headers":
			mcp[member], err = f.textMap(value, key.Value)
		case member != "":
			mcp[member], err = f.text(value, key.Value)
		}
		if err != nil {
			return nil, err
		}
	}
	if command, ok := mcp["command"].([]any); ok {
		mcp["command"] = append(command, args...)
		if _, ok := mcp["dir"]; !ok {
			mcp["dir"] = workingDir() // these files lie in directories of the client
		}
	}
	return b, nil
}

// serverTypes are the types of servers, as clients write them: VS Code and Claude stdio, http and sse, others
// streamableHttp or streamable-http, and local for commands. They have no effect.
var serverTypes = []string{"stdio", "http", "sse", "local", "streamablehttp"}

// serverType returns the problem with an unknown type of server.
func (f *file) serverType(n *yaml.Node) error {
	given, err := f.text(n, "type")
	if err != nil {
		return err
	}
	if !slices.Contains(serverTypes, strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(given))) {
		return f.problem(n, "servers are of type stdio, http or sse", "there is no type %q", given)
	}
	return nil
}

// serverName returns the name of a backend for that of a server, which may have any characters.
func (f *file) serverName(n *yaml.Node) string {
	name := strings.Trim(notInName.ReplaceAllString(n.Value, "-"), "-")
	name = name[:min(len(name), 32)]
	if name != n.Value {
		f.warn(n, "the server %s is called %s here", strconv.Quote(n.Value), strconv.Quote(name))
	}
	return name
}

// text, texts and textMap return the value of a node.
func (f *file) text(n *yaml.Node, what string) (string, error) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return "", f.problem(n, "write a string here", "%s is %s and has to be a string", what, describe(n))
	}
	replaced := *n
	replaced.Value = editorVariable.ReplaceAllStringFunc(n.Value, func(found string) string {
		if text, ok := f.editorValue(editorVariable.FindStringSubmatch(found)[1]); ok &&
			!strings.HasPrefix(found, "$$") {
			return text
		}
		return found
	})
	if prompted := promptVariable.FindStringSubmatch(replaced.Value); prompted != nil {
		return "", f.problem(n, "write ${env:NAME} instead, and set that variable",
			"%s prompts the user of an editor, which mcpbridge does not support", prompted[1])
	}
	return f.expand(&replaced, clientVariable)
}

// The variables that editors define (VS Code and Cursor: variables reference), and those for which VS Code prompts its
// user.
var (
	editorVariable = regexp.MustCompile(`\$?\$\{(workspaceFolder|workspaceFolderBasename|userHome|pathSeparator|/)\}`)
	promptVariable = regexp.MustCompile(`(?:^|[^$])(\$\{(?:input|command):[^}]*\})`)
)

// editorValue returns the value of an editor's variable. The open folder is the one that contains the file, or the
// .vscode or .cursor with the file.
func (f *file) editorValue(variable string) (string, bool) {
	folder, err := filepath.Abs(filepath.Dir(f.name))
	if base := filepath.Base(folder); base == ".vscode" || base == ".cursor" {
		folder = filepath.Dir(folder)
	}
	switch variable {
	case "workspaceFolder":
		return folder, err == nil
	case "workspaceFolderBasename":
		return filepath.Base(folder), err == nil
	case "userHome":
		home, err := os.UserHomeDir()
		return home, err == nil
	}
	return string(filepath.Separator), true
}

func (f *file) texts(n *yaml.Node, what string) ([]any, error) {
	if n.Kind != yaml.SequenceNode {
		return nil, f.problem(n, "write a list of strings here", "%s is %s and has to be a list of strings",
			what, describe(n))
	}
	list := []any{}
	for _, item := range n.Content {
		text, err := f.text(item, what)
		if err != nil {
			return nil, err
		}
		list = append(list, text)
	}
	return list, nil
}

func (f *file) textMap(n *yaml.Node, what string) (map[string]any, error) {
	if n.Kind != yaml.MappingNode {
		return nil, f.problem(n, "write a mapping here", "%s is %s and has to be a mapping", what,
			describe(n))
	}
	texts := map[string]any{}
	for key, value := range pairs(n) {
		text, err := f.text(value, what+"."+key.Value)
		if err != nil {
			return nil, err
		}
		texts[key.Value] = text
	}
	return texts, nil
}

// workingDir returns the working directory of mcpbridge.
func workingDir() string {
	dir, err := os.Getwd()
	if err != nil {
		return "." // the directory was removed, and starting a program there reports it
	}
	return dir
}
