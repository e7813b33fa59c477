package tasks

import "time"

// A Policy configures which calls of a backend's tools become tasks, of callers that accept a task.
type Policy struct {
	// All is the rule of all tools, and Tools has those of some tools by their names.
	All   Rule
	Tools map[string]Rule
}

// A Rule configures when a call becomes a task. The zero value leaves it to the tool.
type Rule struct {
	// Never means that no call becomes a task, and Set that every call does once it has lasted for After.
	Never, Set bool
	After      time.Duration
	// Retry means that the tool may be called again if the backend is lost.
	Retry bool
}

// Of returns the rule of a tool.
func (p *Policy) Of(tool string) Rule {
	rule, ok := p.Tools[tool]
	if !ok {
		return p.All
	}
	if !rule.Never && !rule.Set {
		rule.Never, rule.Set, rule.After = p.All.Never, p.All.Set, p.All.After
	}
	return rule
}

// CreatesTasks reports whether calls of any tool become tasks, whatever the backend declares.
func (p *Policy) CreatesTasks() bool {
	if p.All.Set {
		return true
	}
	for _, rule := range p.Tools {
		if rule.Set {
			return true
		}
	}
	return false
}
