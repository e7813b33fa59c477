package main

import (
	"github.com/mcpbridge/mcpbridge/internal/app"
	"github.com/mcpbridge/mcpbridge/internal/clientcmd"
	"github.com/mcpbridge/mcpbridge/internal/config"
	"github.com/mcpbridge/mcpbridge/internal/terminal"
)

// A Program is one run of the command.
type Program struct {
	clientcmd.Env

	// Started is called when the App of `run` serves. It may be nil.
	Started func(*app.App)

	// errors writes to Stderr without blocking: the log of what is served, and the error that ends it.
	errors *terminal.Queue
}

// A logging is the format of errors, which is that of the log.
type logging struct {
	config.Log

	isLoaded bool // the configuration has been read
	secrets  config.Secrets
}

// loaded records that the configuration has been read, unless it is nil.
func (l *logging) loaded(cfg *config.Config) {
	if cfg != nil {
		l.Log, l.secrets, l.isLoaded = cfg.Log, cfg.Secrets, true
	}
}
