// Command client performs a client scenario of the official MCP conformance suite through the bridge: it starts
// mcpbridge with the suite's server as its backend, connects to it as a gRPC client, and performs the steps of the
// scenario. The bridge implements all of MCP on the wire; this program only uses the stubs of the contract.
//
// The suite starts it as `client MCPBRIDGE URL`, with the scenario in the environment. For logins it is also the
// browser: mcpbridge starts it as the program that BROWSER names.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

const (
	// scenarioTimeout is shorter than the timeout of the suite, so that no processes are left behind.
	scenarioTimeout = 25 * time.Second
	// asBrowser is set for the program that mcpbridge opens pages with.
	asBrowser = "CONFORMANCE_BROWSER"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), scenarioTimeout)
	var err error
	switch {
	case os.Getenv(asBrowser) != "" && len(os.Args) == 2:
		err = openPage(ctx, os.Args[1])
	case len(os.Args) == 3:
		err = run(ctx, os.Args[1], os.Args[2], os.Getenv("MCP_CONFORMANCE_SCENARIO"))
	default:
		err = errors.New("usage: client MCPBRIDGE URL")
	}
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1) //nolint:forbidigo // main alone ends the process
	}
}

// issuerOf returns the authorization server that the metadata of the server at address name, or "" if there are none. A
// configured client needs an issuer, which is not in the context of the suite.
func issuerOf(ctx context.Context, address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	u.Path = "/.well-known/oauth-protected-resource" + u.Path
	//nolint:gosec // the suite passes the address
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return "", err
	}
	resp, err := (&http.Client{Timeout: 10 * time.Second}).Do(req) //nolint:gosec // as above
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var m struct {
		Servers []string `json:"authorization_servers"`
	}
	if json.NewDecoder(resp.Body).Decode(&m) != nil || len(m.Servers) == 0 {
		return "", nil // they have another address, or there are none
	}
	return m.Servers[0], nil
}

// run performs a scenario against the server at address, with the mcpbridge at path.
func run(ctx context.Context, path, address, name string) (err error) {
	var given suiteContext
	if text := os.Getenv("MCP_CONFORMANCE_CONTEXT"); text != "" {
		if err := json.Unmarshal([]byte(text), &given); err != nil {
			return fmt.Errorf("MCP_CONFORMANCE_CONTEXT: %w", err)
		}
	}
	s, ok := scenarios[name]
	if !ok {
		return fmt.Errorf("there is no scenario %q: add it to scenarios.go", name)
	}
	dir, err := os.MkdirTemp("", "conformance-") // of mode 0700
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	server := map[string]any{"url": address}
	if s.login != nil {
		if given.ClientID != "" {
			if given.Issuer, err = issuerOf(ctx, address); err != nil {
				return err
			}
		}
		login, err := s.login(dir, given)
		if err != nil {
			return err
		}
		login["credentials"] = filepath.Join(dir, "credentials")
		server["auth"] = map[string]any{"oauth": login}
	}
	socket := "unix://" + filepath.Join(dir, "grpc.sock")
	stop, err := start(ctx, path, dir, map[string]any{
		"version": 1,
		"log":     map[string]any{"level": "debug", "format": "json"},
		"serve":   map[string]any{"stdio": "false", "grpc": map[string]any{"addr": socket}},
		"backends": []any{
			map[string]any{"name": "suite", "mcp": server, "skipArguments": s.skipValidation},
		},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()

	// gRPC waits for the socket, which mcpbridge opens when its backend has started.
	conn, err := grpc.NewClient(socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		return err
	}
	defer conn.Close()
	caller := &pb.CallContext{ClientInfo: &pb.Implementation{Name: "conformance-client", Version: "1"}}
	if s.requested {
		caller.ClientCapabilities = &pb.ClientCapabilities{
			Elicitation: &pb.ElicitationCapability{Form: &pb.Capability{}},
		}
	}
	d := &driver{McpServiceClient: pb.NewMcpServiceClient(conn), caller: caller, given: given}
	return s.steps(ctx, d)
}

// start starts mcpbridge with a configuration. The returned function stops it, and returns an error if it failed.
func start(ctx context.Context, path, dir string, config map[string]any) (stop func() error, err error) {
	text, err := json.Marshal(config) // JSON is YAML
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "mcpbridge.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, path, "run", "-c", file) //nolint:gosec // test/conformance/run names the program
	cmd.Env = append(os.Environ(), "BROWSER="+self, asBrowser+"=1")
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 3 * time.Second
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, err
	}
	return func() error {
		cancel()
		if err := cmd.Wait(); err != nil && !errors.Is(err, context.Canceled) {
			return fmt.Errorf("mcpbridge: %w", err)
		}
		return nil
	}, nil
}

// openPage acts as the browser of a user who approves everything: it opens the page of the authorization server and
// follows its redirect.
func openPage(ctx context.Context, address string) error {
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	next, err := get(ctx, client, address)
	if err != nil {
		return err
	}
	if next == "" {
		return errors.New("the authorization server redirects nowhere")
	}
	_, err = get(ctx, client, next)
	return err
}

// get requests a page, and returns the target of its redirect.
func get(ctx context.Context, client *http.Client, address string) (string, error) {
	//nolint:gosec // a browser follows redirects
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return "", err
	}
	res, err := client.Do(req) //nolint:gosec // the same
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(res.Body, 1<<20)); err != nil {
		return "", err
	}
	if u, err := res.Location(); err == nil {
		return u.String(), nil
	}
	return "", nil
}

// A driver is a gRPC client of mcpbridge.
type driver struct {
	pb.McpServiceClient

	caller *pb.CallContext
	given  suiteContext
}

// tools lists all tools.
func (d *driver) tools(ctx context.Context) ([]*pb.Tool, error) {
	var all []*pb.Tool
	for req := (&pb.ListToolsRequest{Context: d.caller}); ; {
		page, err := d.ListTools(ctx, req)
		if err != nil {
			return nil, fmt.Errorf("ListTools: %w", err)
		}
		all = append(all, page.GetTools()...)
		if page.NextCursor == nil {
			return all, nil
		}
		req.Cursor = page.NextCursor
	}
}

// maxRounds is the maximum number of rounds of a call.
const maxRounds = 10

// call calls a tool, and answers its input requests.
func (d *driver) call(ctx context.Context, name string, arguments []byte) error {
	req := &pb.CallToolRequest{Context: d.caller, Name: name, Arguments: arguments}
	for range maxRounds {
		needs, err := d.round(ctx, req)
		if err != nil {
			return fmt.Errorf("CallTool %s: %w", name, err)
		}
		if needs == nil {
			return nil
		}
		req.RequestState, req.InputResponses = needs.RequestState, map[string]*pb.InputResponse{}
		for _, ask := range needs.GetInputRequests() {
			content, err := fill([]byte(ask.GetElicit().GetForm().GetRequestedSchema()))
			if err != nil {
				return fmt.Errorf("CallTool %s: it asks %q: %w", name, ask.GetKey(), err)
			}
			req.InputResponses[ask.GetKey()] = &pb.InputResponse{Response: &pb.InputResponse_Elicit{
				Elicit: &pb.ElicitResult{Action: "accept", Content: string(content)},
			}}
		}
	}
	return fmt.Errorf("CallTool %s: it asks after %d rounds still", name, maxRounds)
}

// round makes one round of a call, and returns the input that it requires, or nil.
func (d *driver) round(ctx context.Context, req *pb.CallToolRequest) (*pb.InputRequired, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := d.CallTool(ctx, req)
	if err != nil {
		return nil, err
	}
	for {
		m, err := stream.Recv()
		switch {
		case err != nil:
			return nil, err
		case m.GetInputRequired() != nil:
			return m.GetInputRequired(), nil
		case m.GetResult().GetIsError():
			return nil, fmt.Errorf("it has failed: %v", m.GetResult().GetContent())
		case m.GetResult() != nil:
			return nil, nil //nolint:nilnil // there is no error, and no input is required
		}
	}
}

// fill fills in a form with its defaults, and answers yes to questions.
func fill(schema []byte) ([]byte, error) {
	var form struct {
		Properties map[string]struct {
			Type    string          `json:"type"`
			Default json.RawMessage `json:"default"`
		} `json:"properties"`
	}
	if err := json.NewDecoder(bytes.NewReader(schema)).Decode(&form); err != nil {
		return nil, fmt.Errorf("it is no form: %w", err)
	}
	content := map[string]json.RawMessage{}
	for name, p := range form.Properties {
		switch {
		case p.Default != nil:
			content[name] = p.Default
		case p.Type == "boolean":
			content[name] = json.RawMessage("true")
		}
	}
	return json.Marshal(content)
}
