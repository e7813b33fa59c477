package main

import (
	"sync"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/rs/zerolog"
)

// A serviceManager is what started this process, if it receives notifications: systemd, or a program that implements
// sd_notify(3).
type serviceManager struct {
	log    zerolog.Logger
	failed sync.Once
}

// notify sends a state. Without a service manager, it does nothing.
func (m *serviceManager) notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		m.failed.Do(func() { m.log.Warn().Err(err).Msg("the service manager cannot be notified") })
	}
}
