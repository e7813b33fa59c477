package config

import (
	"fmt"
	"time"

	"github.com/mcpbridge/mcpbridge/internal/problem"
	"github.com/mcpbridge/mcpbridge/internal/tasks"
)

// Policy returns the policy for valid settings.
func (t *Tasks) Policy() tasks.Policy {
	p := tasks.Policy{Tools: map[string]tasks.Rule{}}
	p.All, _ = TaskRule{t.After, t.Retry}.rule()
	for name, r := range t.Tools {
		p.Tools[name], _ = r.rule()
	}
	return p
}

// rule returns the rule of the settings.
func (r TaskRule) rule() (tasks.Rule, error) {
	rule := tasks.Rule{Retry: r.Retry}
	switch r.After {
	case "":
	case "never":
		rule.Never = true
	case "always":
		rule.Set = true
	default:
		after, err := time.ParseDuration(r.After)
		if err != nil || after <= 0 {
			return rule, fmt.Errorf("%q is not a duration", r.After)
		}
		rule.Set, rule.After = true, after
	}
	return rule, nil
}

// validateTasks returns the problems with the settings of tasks at a key.
func (l *Config) validateTasks(t *Tasks, at string) error {
	check := func(r TaskRule, at string) error {
		if _, err := r.rule(); err != nil {
			return l.problem(at+".after", "write always, never, or a duration such as 10s",
				"%q is not a time after which a call becomes a task", r.After)
		}
		return nil
	}
	wrong := []error{check(TaskRule{t.After, t.Retry}, at)}
	for name, r := range t.Tools {
		wrong = append(wrong, check(r, at+".tools."+name))
	}
	return problem.Join(wrong...)
}
