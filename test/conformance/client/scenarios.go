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

// A scenario is the behavior of a client that the suite checks.
type scenario struct {
	// steps performs the scenario. Its error is the scenario's status.
	steps func(context.Context, *driver) error
	// requested reports whether the client supports form elicitation.
	requested bool
	// skipValidation reports whether mcpbridge must not validate arguments: those of the suite do not conform to the
	// schema of its tool.
	skipValidation bool
	// login returns the OAuth configuration for the server. It is nil if the server requires no tokens.
	login login
}

// A login returns mcp.auth.oauth of the configuration. Files that it names are in dir.
type login func(dir string, g suiteContext) (map[string]any, error)

// suiteContext is the context that the suite passes to the client in some scenarios.
type suiteContext struct {
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
	PrivateKey   string `json:"private_key_pem"`
	// Issuer is the authorization server of the client. It is not in the context: main reads it from the server.
	Issuer    string `json:"-"`
	ToolCalls []struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"toolCalls"`
}

// scenarios are the client scenarios of the suite, by name.
var scenarios = map[string]scenario{
	"initialize":                          {steps: list},
	"tools_call":                          {steps: call("add_numbers", `{"a":5,"b":3}`)},
	"elicitation-sep1034-client-defaults": {steps: call("test_client_elicitation_defaults", `{}`), requested: true},
	"sse-retry":                           {steps: call("test_reconnection", `{}`)},
	"request-metadata":                    {steps: list},
	"sep-2322-client-request-state":       {steps: mrtr, requested: true},
	"http-standard-headers":               {steps: everyMethod},
	"http-custom-headers":                 {steps: givenCalls, skipValidation: true},
	"http-invalid-tool-headers":           {steps: everyTool},
	"json-schema-ref-no-deref":            {steps: list},
	"json-schema-2020-12-preservation":    {steps: echoSchema},

	"auth/metadata-default":                     loginScenario,
	"auth/metadata-var1":                        loginScenario,
	"auth/metadata-var2":                        loginScenario,
	"auth/metadata-var3":                        loginScenario,
	"auth/metadata-issuer-mismatch":             loginScenario,
	"auth/2025-03-26-oauth-metadata-backcompat": loginScenario,
	"auth/2025-03-26-oauth-endpoint-fallback":   loginScenario,
	"auth/basic-cimd":                           loginScenario,
	"auth/scope-from-www-authenticate":          loginScenario,
	"auth/scope-from-scopes-supported":          loginScenario,
	"auth/scope-omitted-when-undefined":         loginScenario,
	"auth/scope-step-up":                        loginScenario,
	"auth/scope-retry-limit":                    loginScenario,
	"auth/token-endpoint-auth-basic":            loginScenario,
	"auth/token-endpoint-auth-post":             loginScenario,
	"auth/token-endpoint-auth-none":             loginScenario,
	"auth/resource-mismatch":                    loginScenario,
	"auth/offline-access-scope":                 loginScenario,
	"auth/offline-access-not-supported":         loginScenario,
	"auth/authorization-server-migration":       loginScenario,
	"auth/iss-supported":                        loginScenario,
	"auth/iss-not-advertised":                   loginScenario,
	"auth/iss-supported-missing":                loginScenario,
	"auth/iss-wrong-issuer":                     loginScenario,
	"auth/iss-unexpected":                       loginScenario,
	"auth/iss-normalized":                       loginScenario,
	"auth/dpop":                                 loginScenario,
	"auth/dpop-nonce":                           loginScenario,
	"auth/pre-registration":                     {steps: testTool, login: withClientID},
	"auth/client-credentials-basic":             {steps: testTool, login: withSecret},
	"auth/client-credentials-jwt":               {steps: testTool, login: withPrivateKey},
}

// loginScenario is a scenario in which a user logs in so that a tool can be called.
var loginScenario = scenario{steps: testTool, login: withMetadataDocument}

// withMetadataDocument configures a client that is not registered and has a client ID metadata document, at the address
// that the suite expects.
func withMetadataDocument(string, suiteContext) (map[string]any, error) {
	return map[string]any{"clientMetadataUrl": "https://conformance-test.local/client-metadata.json"}, nil
}

// withClientID configures a client that was registered manually.
func withClientID(_ string, g suiteContext) (map[string]any, error) {
	return map[string]any{"issuer": g.Issuer, "clientId": g.ClientID, "clientSecret": g.ClientSecret}, nil
}

// withSecret configures a client without a user, with a secret.
func withSecret(_ string, g suiteContext) (map[string]any, error) {
	return map[string]any{
		"grant": "client_credentials", "issuer": g.Issuer, "clientId": g.ClientID,
		"clientSecret": g.ClientSecret,
	}, nil
}

// withPrivateKey configures a client without a user, with a private key.
func withPrivateKey(dir string, g suiteContext) (map[string]any, error) {
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

// mrtr calls tools that require input. The kind of result of one of them is not documented, so all are called, and
// errors are ignored.
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

// everyMethod calls every method whose name or target is in a header.
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

// givenCalls makes the calls in the context of the suite.
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

// everyTool calls every tool of the server.
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

// echoSchema returns a tool's schema to the server unchanged.
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
