package app

import (
	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/config"
	"github.com/mcpbridge/mcpbridge/internal/contain"
	"github.com/mcpbridge/mcpbridge/internal/lifecycle"
	"github.com/mcpbridge/mcpbridge/internal/problem"
	"github.com/mcpbridge/mcpbridge/internal/tasks"
)

// newTasks returns the Tasks of all backends, with those of earlier runs if the configuration has a directory for them.
func newTasks(
	cfg *config.Config, life *lifecycle.Lifecycle, panics *contain.Panics, log zerolog.Logger,
) (*tasks.Tasks, error) {
	o := tasks.Options{
		Log: log, Panics: panics, Limits: cfg.Tasks, CallTotal: cfg.Limits.OrDefaults().CallTotal, Lifecycle: life,
	}
	var err error
	if cfg.State.Dir != "" {
		o.Store, err = tasks.OpenStore(cfg.State.Dir)
	}
	var t *tasks.Tasks
	if err == nil {
		t, err = tasks.New(o)
	}
	if err != nil {
		return nil, &problem.Error{
			Exit: problem.ExitConfig, Code: "state", What: "the tasks of " + cfg.State.Dir + " cannot be used",
			Where: cfg.Where("state.dir"), Why: err.Error(),
			Fix: "stop the other mcpbridge, give each its own directory, or remove the file tasks.db to start " +
				"without tasks",
			Cause: err,
		}
	}
	return t, nil
}

// resumeTasks continues the tasks of earlier runs.
func (a *App) resumeTasks() {
	catalogs := map[string]bridge.Handler{}
	for _, b := range a.backends {
		catalogs[b.Name] = b.catalog
	}
	a.tasks.Resume(catalogs)
}
