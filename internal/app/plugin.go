package app

import (
	"github.com/mcpbridge/mcpbridge/internal/config"
	"github.com/mcpbridge/mcpbridge/internal/plugin"
)

func openLaunch(b *backend) (back, error) {
	c := b.Launch
	return plugin.New(plugin.Options{
		Name: b.Name, Command: c.Command, Dir: c.Dir, Env: environment(c.Env), PassEnv: c.PassEnv,
		StartTimeout: c.StartTimeout,
		HangTimeout:  c.HangTimeout, Log: b.log, Panics: b.panics, Limits: b.cfg.Limits, Machine: c.Limits,
	})
}

func openDial(b *backend) (back, error) {
	return plugin.New(plugin.Options{
		Name: b.Name, Address: b.Dial, TLS: tlsFiles(b.TLS), HangTimeout: b.HangTimeout,
		Log: b.log, Panics: b.panics, Limits: b.cfg.Limits,
	})
}

// tlsFiles converts TLS settings to the type of package plugin.
func tlsFiles(t *config.DialTLS) *plugin.TLS {
	if t == nil {
		return nil
	}
	return &plugin.TLS{CA: t.CA, Cert: t.Cert, Key: t.Key, ServerName: t.ServerName}
}
