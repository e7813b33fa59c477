package app

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/config"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mcpclient"
	"github.com/mcpbridge/mcpbridge/internal/mcpclient/oauth"
	"github.com/mcpbridge/mcpbridge/internal/problem"
)

// openMCP returns the back of an MCP server.
func openMCP(b *backend) (back, error) {
	m := b.MCP
	revision, _ := m.ParseRevision()
	o := mcpclient.Options{
		Revision: revision,
		Name:     b.Name, Command: m.Command, Dir: m.Dir, Env: environment(m.Env), PassEnv: m.PassEnv,
		StartTimeout: m.StartTimeout,
		ProbeTimeout: m.ProbeTimeout, Limits: b.cfg.Limits, HangTimeout: m.HangTimeout, Machine: m.Limits,
		URL: m.URL, ClientInfo: b.ClientInfo, Log: b.log, Panics: b.panics, MaxSessions: m.Sessions.Processes,
		SessionIdle: m.Sessions.Idle,
	}
	if m.URL == "" {
		return mcpclient.New(o)
	}
	o.Header = http.Header{}
	for name, value := range m.Headers {
		o.Header.Set(name, value)
	}
	if !config.IsConfidential(m.URL) && (m.Auth != nil || config.HasHeader(m.Headers, "Authorization")) {
		b.log.Warn().Str("backend", b.Name).Str("where", b.cfg.Where(b.configKey+".mcp.url")).
			Str("fix", "write https://").
			Msg("the credentials for this server are sent without encryption")
	}
	if m.Auth == nil {
		return mcpclient.New(o)
	}
	if m.Auth.Bearer != "" {
		o.Header.Set("Authorization", "Bearer "+m.Auth.Bearer)
		return mcpclient.New(o)
	}
	transport, err := b.oauth(b.configKey + ".mcp.auth.oauth")
	if err != nil {
		return nil, err
	}
	o.Transport = transport
	c, err := mcpclient.New(o)
	if err != nil {
		transport.Close()
		return nil, err
	}
	return &authorized{c, transport}, nil
}

// An authorized back is an MCP server that requires tokens.
type authorized struct {
	back

	tokens io.Closer
}

// Run implements back.
func (a *authorized) Run(ctx context.Context) error {
	defer a.tokens.Close()
	return a.back.Run(ctx)
}

var _ bridge.Handler = (*authorized)(nil)

// oauth returns a transport that obtains tokens for an MCP server.
func (b *backend) oauth(at string) (*oauth.Transport, error) {
	m, l := b.MCP, b.cfg
	c := m.Auth.OAuth
	o := oauth.Options{
		Server: m.URL, AllowPrivate: c.AllowPrivate, Dir: c.Credentials, Grant: oauth.Grant(c.Grant), Issuer: c.Issuer,
		ClientID: c.ClientID, ClientSecret: c.ClientSecret, ClientMetadataURL: c.ClientMetadataURL, Scopes: c.Scopes,
		Redirect: c.Redirect, LoginTimeout: cmp.Or(b.LoginTimeout, limits.LoginTimeout), Log: b.log, Panics: b.panics,
	}
	if o.Dir == "" {
		if dir, err := os.UserConfigDir(); err == nil { // without one, tokens end with the process
			o.Dir = filepath.Join(dir, "mcpbridge", "credentials")
		}
	}
	if c.PrivateKey != "" {
		text, info, err := config.ReadText(c.PrivateKey)
		if err != nil {
			return nil, problem.Config(l.Where(at+".privateKey"), "name a PEM file that can be read",
				"cannot read the private key: %v", problem.Cause(err))
		}
		if info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
			b.log.Warn().Str("file", c.PrivateKey).Msg("other users can read the private key; run chmod 600")
		}
		o.PrivateKey = text
	}
	if b.Login != nil {
		o.Browser = b.Login
	}
	return oauth.New(o)
}
