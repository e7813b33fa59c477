package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A scenario is what a client does that the suite looks at.
type scenario struct {
	// steps does it. What it returns is the scenario's status.
	steps func(context.Context, *driver) error
	// requested says that the client can show forms to its user.
	requested bool
	// unchecked says that the suite gives arguments that the schema of its tool does not allow: mcpbridge is told not
	// to look.
	unchecked bool
	// login returns the configuration of the server's OAuth. Nil: the server wants no tokens.
	login login
}

// A login returns mcp.auth.oauth of the configuration. Files that it names are in dir.
type login func(dir string, g given) (map[string]any, error)

// given is what the suite tells the client of some scenarios.
type given struct {
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
	PrivateKey   string `json:"private_key_pem"`
	// Issuer is where the client is registered, which the suite does not say: main asks the server.
	Issuer    string `json:"-"`
	ToolCalls []struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"toolCalls"`
}

// scenarios are what the suite has for clients, by its names.
var scenarios = map[string]scenario{
	"initialize":                          {steps: list},
	"tools_call":                          {steps: call("add_numbers", `{"a":5,"b":3}`)},
	"elicitation-sep1034-client-defaults": {steps: call("test_client_elicitation_defaults", `{}`), requested: true},
	"sse-retry":                           {steps: call("test_reconnection", `{}`)},
	"request-metadata":                    {steps: list},
	"sep-2322-client-request-state":       {steps: mrtr, requested: true},
	"http-standard-headers":               {steps: everyMethod},
	"http-custom-headers":                 {steps: givenCalls, unchecked: true},
	"http-invalid-tool-headers":           {steps: everyTool},
	"json-schema-ref-no-deref":            {steps: list},
	"json-schema-2020-12-preservation":    {steps: echoSchema},

	"auth/metadata-default":                     aLogin,
	"auth/metadata-var1":                        aLogin,
	"auth/metadata-var2":                        aLogin,
	"auth/metadata-var3":                        aLogin,
	"auth/metadata-issuer-mismatch":             aLogin,
	"auth/2025-03-26-oauth-metadata-backcompat": aLogin,
	"auth/2025-03-26-oauth-endpoint-fallback":   aLogin,
	"auth/basic-cimd":                           aLogin,
	"auth/scope-from-www-authenticate":          aLogin,
	"auth/scope-from-scopes-supported":          aLogin,
	"auth/scope-omitted-when-undefined":         aLogin,
	"auth/scope-step-up":                        aLogin,
	"auth/scope-retry-limit":                    aLogin,
	"auth/token-endpoint-auth-basic":            aLogin,
	"auth/token-endpoint-auth-post":             aLogin,
	"auth/token-endpoint-auth-none":             aLogin,
	"auth/resource-mismatch":                    aLogin,
	"auth/offline-access-scope":                 aLogin,
	"auth/offline-access-not-supported":         aLogin,
	"auth/authorization-server-migration":       aLogin,
	"auth/iss-supported":                        aLogin,
	"auth/iss-not-advertised":                   aLogin,
	"auth/iss-supported-missing":                aLogin,
	"auth/iss-wrong-issuer":                     aLogin,
	"auth/iss-unexpected":                       aLogin,
	"auth/iss-normalized":                       aLogin,
	"auth/dpop":                                 aLogin,
	"auth/dpop-nonce":                           aLogin,
	"auth/pre-registration":                     {steps: testTool, login: registered},
	"auth/client-credentials-basic":             {steps: testTool, login: secret},
	"auth/client-credentials-jwt":               {steps: testTool, login: key},
}

// aLogin is a scenario in which a user logs in so that a tool can be called.
var aLogin = scenario{steps: testTool, login: introduced}

// introduced is a client that nobody has registered: it has a metadata document, at the address where the suite takes
// one to be.
func introduced(string, given) (map[string]any, error) {
	return map[string]any{"clientMetadataUrl": "https://conformance-test.local/client-metadata.json"}, nil
}

// registered is a client that somebody has registered by hand.
func registered(_ string, g given) (map[string]any, error) {
	return map[string]any{"issuer": g.Issuer, "clientId": g.ClientID, "clientSecret": g.ClientSecret}, nil
}

// secret is a client that acts for itself, with a secret.
func secret(_ string, g given) (map[string]any, error) {
	return map[string]any{
		"grant": "client_credentials", "issuer": g.Issuer, "clientId": g.ClientID,
		"clientSecret": g.ClientSecret,
	}, nil
}

// key is a client that acts for itself, with a private key.
func key(dir string, g given) (map[string]any, error) {
	file := filepath.Join(dir, "key.pem")
	if err := os.WriteFile(file, []byte(g.PrivateKey), 0o600); err != nil {
		return nil, err
	}
	return map[string]any{
		"grant": "client_credentials", "issuer": g.Issuer, "clientId": g.ClientID,
		"privateKey": file,
	}, nil
}

// list lists the tools.
func list(ctx context.Context, d *driver) error {
	_, err := d.tools(ctx)
	return err
}

// call lists the tools and calls one.
func call(name, arguments string) func(context.Context, *driver) error {
	return func(ctx context.Context, d *driver) error {
		tools, err := d.tools(ctx)
		if err != nil {
			return err
		}
		if find(tools, name) == nil {
			return fmt.Errorf("there is no tool %s", name)
		}
		return d.call(ctx, name, []byte(arguments))
	}
}

var testTool = call("test-tool", `{}`)

func find(tools []*pb.Tool, name string) *pb.Tool {
	for _, t := range tools {
		if t.GetName() == name {
			return t
		}
	}
	return nil
}

// mrtr calls tools that ask. One of them does not say which kind of result it returns, so all are called, whatever
// comes of it.
func mrtr(ctx context.Context, d *driver) error {
	if err := list(ctx, d); err != nil {
		return err
	}
	var errs []error
	for _, name := range []string{
		"test_mrtr_echo_state", "test_mrtr_no_state", "test_mrtr_unrelated",
		"test_mrtr_no_result_type",
	} {
		errs = append(errs, d.call(ctx, name, []byte(`{}`)))
	}
	return errors.Join(errs...)
}

// everyMethod does everything that is named in a header.
func everyMethod(ctx context.Context, d *driver) error {
	tools, err := d.tools(ctx)
	if err != nil {
		return err
	}
	for _, t := range tools {
		if err := d.call(ctx, t.GetName(), []byte(`{}`)); err != nil {
			return err
		}
	}
	resources, err := d.ListResources(ctx, &pb.ListResourcesRequest{Context: d.caller})
	if err != nil {
		return fmt.Errorf("ListResources: %w", err)
	}
	for _, r := range resources.GetResources() {
		s, err := d.ReadResource(ctx, &pb.ReadResourceRequest{Context: d.caller, Uri: r.GetUri()})
		if err := drain(s, err); err != nil {
			return fmt.Errorf("ReadResource %s: %w", r.GetUri(), err)
		}
	}
	prompts, err := d.ListPrompts(ctx, &pb.ListPromptsRequest{Context: d.caller})
	if err != nil {
		return fmt.Errorf("ListPrompts: %w", err)
	}
	for _, p := range prompts.GetPrompts() {
		s, err := d.GetPrompt(ctx, &pb.GetPromptRequest{Context: d.caller, Name: p.GetName()})
		if err := drain(s, err); err != nil {
			return fmt.Errorf("GetPrompt %s: %w", p.GetName(), err)
		}
	}
	return nil
}

// drain reads a stream to its end.
func drain[M any](s interface{ Recv() (M, error) }, err error) error {
	for err == nil {
		_, err = s.Recv()
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// givenCalls makes the calls that the suite gives.
func givenCalls(ctx context.Context, d *driver) error {
	if err := list(ctx, d); err != nil {
		return err
	}
	var errs []error
	for _, c := range d.given.ToolCalls {
		errs = append(errs, d.call(ctx, c.Name, c.Arguments))
	}
	return errors.Join(errs...)
}

// everyTool calls every tool that there is.
func everyTool(ctx context.Context, d *driver) error {
	tools, err := d.tools(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, t := range tools {
		errs = append(errs, d.call(ctx, t.GetName(), []byte(`{"region":"us-west1"}`)))
	}
	return errors.Join(errs...)
}

// echoSchema sends a tool's schema back as it came.
func echoSchema(ctx context.Context, d *driver) error {
	tools, err := d.tools(ctx)
	if err != nil {
		return err
	}
	arguments, err := json.Marshal(
		map[string]json.RawMessage{"schema": []byte(find(tools, "json_schema_2020_12_tool").GetInputSchema())})
	if err != nil {
		return err
	}
	return d.call(ctx, "json_schema_echo", arguments)
}
