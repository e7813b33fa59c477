package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
)

// prove runs the Go tests that rows name, package by package, concurrently with the other rows. A row fails if one of
// its tests fails, is skipped or does not exist.
func (r *rig) prove(ctx context.Context, rows []Row) *sync.WaitGroup {
	byPackage := map[string]map[string][]string{} // the rows, by package and test
	for i := range rows {
		for _, t := range rows[i].Tests {
			pkg, test, _ := strings.Cut(t, " ")
			if byPackage[pkg] == nil {
				byPackage[pkg] = map[string][]string{}
			}
			byPackage[pkg][test] = append(byPackage[pkg][test], rows[i].ID)
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for pkg, tests := range byPackage {
			r.provePackage(ctx, pkg, tests)
		}
	})
	return &wg
}

func (r *rig) provePackage(ctx context.Context, pkg string, tests map[string][]string) {
	var tops []string
	for name := range tests {
		if top := topLevel(name); !slices.Contains(tops, top) {
			tops = append(tops, top)
		}
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-json", "-run", "^("+strings.Join(tops, "|")+")$",
		"./"+pkg)
	cmd.Dir = r.root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	ended := map[string]string{}
	output := map[string]string{}
	for line := range strings.Lines(string(out)) {
		var e struct{ Action, Test, Output string }
		if json.Unmarshal([]byte(line), &e) != nil {
			continue
		}
		if e.Test == "" {
			stderr.WriteString(e.Output)
			continue
		}
		switch e.Action {
		case "pass", "fail", "skip":
			ended[e.Test] = e.Action
		case "output":
			output[topLevel(e.Test)] += e.Output // subtests have the reason
		}
	}
	for name, ids := range tests {
		var why error
		switch ended[name] {
		case "pass":
		case "":
			why = fmt.Errorf("the test did not run: %w %.500s", errors.Join(err), stderr.String())
		default:
			why = fmt.Errorf("the test ended with %s: %.4000s", ended[name], output[topLevel(name)])
		}
		for _, id := range ids {
			r.check(id+" "+pkg+" "+name, why)
		}
	}
}

// topLevel returns the name of the test that a subtest belongs to.
func topLevel(test string) string {
	name, _, _ := strings.Cut(test, "/")
	return name
}
