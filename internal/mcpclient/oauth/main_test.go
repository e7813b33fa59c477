package oauth

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
)

// With the variables of the official suite set, the test binary is the client that the suite tests:
//
//	go test -c -o client ./internal/mcpclient/oauth
//	node test/conformance/node_modules/@modelcontextprotocol/conformance/dist/index.js client \
//		--command ./client --scenario auth/metadata-default
func TestMain(m *testing.M) {
	if os.Getenv("MCP_CONFORMANCE_SCENARIO") != "" {
		if err := conform(os.Args[len(os.Args)-1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// conform lists the tools of the server at url and calls one.
func conform(url string) error {
	var c struct {
		ClientID     string `json:"client_id"`
		ClientSecret string `json:"client_secret"`
		Issuer       string `json:"issuer"`
		Key          string `json:"private_key_pem"`
		Algorithm    string `json:"signing_algorithm"`
		JWT          string `json:"valid_jwt"`
		IDPClientID  string `json:"idp_client_id"`
		IDToken      string `json:"idp_id_token"`
		IDPEndpoint  string `json:"idp_token_endpoint"`
	}
	if text := os.Getenv("MCP_CONFORMANCE_CONTEXT"); text != "" {
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			return err
		}
	}
	o := Options{
		Server: url, Issuer: c.Issuer, ClientID: c.ClientID, ClientSecret: c.ClientSecret, Algorithm: c.Algorithm,
		ClientMetadataURL: "https://conformance-test.local/client-metadata.json", Browser: browse,
	}
	switch {
	case strings.HasPrefix(os.Getenv("MCP_CONFORMANCE_SCENARIO"), "auth/client-credentials"):
		o.Grant = ClientCredentials
	case c.JWT != "":
		o.Grant, o.Assertion = JWTBearer, func(context.Context, Target) (string, error) { return c.JWT, nil }
	case c.IDToken != "":
		o.Grant, o.IDP = JWTBearer, &IDP{
			TokenEndpoint: c.IDPEndpoint, ClientID: c.IDPClientID,
			IDToken: func(context.Context) (string, error) { return c.IDToken, nil },
		}
	}
	if c.Key != "" {
		o.PrivateKey = []byte(c.Key)
	}
	t, err := New(o)
	if err != nil {
		return err
	}
	defer t.Close()
	mcp := &mcpClient{
		http: &http.Client{Transport: t}, url: url,
		revision: os.Getenv("MCP_CONFORMANCE_PROTOCOL_VERSION"),
	}
	if mcp.revision < "2026" {
		if err := mcp.call("initialize", "", `"protocolVersion":"`+mcp.revision+
			`","capabilities":{},"clientInfo":{"name":"oauth","version":"1"}`); err != nil {
			return err
		}
		if err := mcp.call("notifications/initialized", "", ""); err != nil {
			return err
		}
	}
	if err := mcp.call("tools/list", "", ""); err != nil {
		return err
	}
	return mcp.call("tools/call", "test-tool", `"name":"test-tool","arguments":{}`)
}

// browse is a browser whose user agrees to everything.
func browse(ctx context.Context, address string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	resp, err := new(http.Client).Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// An mcpClient supports as much of MCP as a call of a tool needs.
type mcpClient struct {
	http          *http.Client
	url, revision string
	session       string
}

func (c *mcpClient) call(method, name, params string) error {
	id := `"id":1,`
	if strings.HasPrefix(method, "notifications/") {
		id = ""
	}
	if c.revision >= "2026" {
		params = strings.TrimSuffix(`"_meta":{"io.modelcontextprotocol/protocolVersion":"`+c.revision+
			`","io.modelcontextprotocol/clientCapabilities":{},
			"io.modelcontextprotocol/clientInfo":{"name":"oauth","version":"1"}},`+params, ",")
	}
	body := `{"jsonrpc":"2.0",` + id + `"method":"` + method + `","params":{` + params + `}}`
	req, err := http.NewRequest(http.MethodPost, c.url, bytes.NewReader([]byte(body)))
	if err != nil {
		return err
	}
	for k, v := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": c.revision,
		"Mcp-Method":           method, "Mcp-Name": name, "Mcp-Session-Id": c.session,
	} {
		if v != "" && (c.revision >= "2026" || k != "Mcp-Method" && k != "Mcp-Name") {
			req.Header.Set(k, v)
		}
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
		c.session = id
	}
	if resp.StatusCode/100 != 2 || bytes.Contains(text, []byte(`"error":{`)) {
		return fmt.Errorf("%s: %s %s", method, resp.Status, text)
	}
	return nil
}
