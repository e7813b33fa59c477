// Command mutate builds mcpbridge with one deliberate defect at a time, and checks that make survive, make test-attack
// or a Go test detects it.
//
//	go run ./mutate [-only TEXT] [-list]
//
// It prints a line for each defect. The exit code is 1 if one is not detected. The source is not changed: each defect
// is an overlay of go build.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	only := flag.String("only", "", "run only the defects whose name contains this text")
	list := flag.Bool("list", false, "list the defects and run none")
	root := flag.String("root", "../..", "the repository")
	flag.Parse()
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	l := lab{dir: dir}
	if l.root, err = filepath.Abs(*root); err != nil {
		return err
	}
	if !*list {
		if out, err := l.command(ctx, "test/survive", "go", "build", "-o", dir, "./attack"); err != nil {
			return fmt.Errorf("build the detector: %w\n%s", err, out)
		}
	}
	ran, missed := 0, 0
	for _, m := range mutants {
		if !strings.Contains(m.name, *only) {
			continue
		}
		if *list {
			fmt.Printf("%s  (%s, detected by %s)\n", m.name, m.file, m.detector)
			continue
		}
		ran++
		began := time.Now()
		verdict, err := l.try(ctx, m)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			missed++
			fmt.Printf("FAIL  %s: %v\n", m.name, err)
		default:
			fmt.Printf("ok    %s: %s (%.0f s)\n", m.name, verdict, time.Since(began).Seconds())
		}
	}
	if missed > 0 {
		return fmt.Errorf("%d of %d defects were not detected", missed, ran)
	}
	if !*list {
		fmt.Printf("%d passed, %d failed\n", ran, missed)
	}
	return nil
}

// A lab builds defective programs.
type lab struct{ root, dir string }

// try builds a defect and runs its detector. It returns the line with which the detector reports the defect.
func (l lab) try(ctx context.Context, m mutant) (string, error) {
	overlay, err := l.overlay(m)
	if err != nil {
		return "", err
	}
	kind, what, _ := strings.Cut(m.detector, " ")
	bin := filepath.Join(l.dir, "mcpbridge")
	if kind != "test" {
		if out, err := l.command(ctx, ".", "go", "build", "-overlay", overlay, "-o", bin,
			"./cmd/mcpbridge"); err != nil {
			return "", fmt.Errorf("does not build: %w\n%s", err, out)
		}
	}
	var out string
	switch kind {
	case "test":
		pkg, name, _ := strings.Cut(what, " ")
		out, err = l.command(ctx, ".", "go", "test", "-count=1", "-failfast", "-overlay", overlay, "-run", name, pkg)
	case "survive": // which runs parts of mcpbridge in its own process
		if out, err := l.command(ctx, "test/survive", "go", "build", "-overlay", overlay, "-o", l.dir,
			"."); err != nil {
			return "", fmt.Errorf("survive does not build: %w\n%s", err, out)
		}
		out, err = l.command(ctx, "test/survive", filepath.Join(l.dir, "survive"), "-laws", "-bin", bin, "-only", what)
	case "attack":
		out, err = l.command(ctx, "test/survive", filepath.Join(l.dir, "attack"), "-bin", bin, "-only", what)
	default:
		return "", fmt.Errorf("unknown detector %q", kind)
	}
	if err == nil {
		return "", fmt.Errorf("not detected by %s", m.detector)
	}
	line := reports[kind].FindString(out)
	if line == "" { // the detector failed for another reason
		return "", fmt.Errorf("%s failed without a report: %w\n%s", m.detector, err, out[max(0, len(out)-2000):])
	}
	return strings.TrimSpace(line), nil
}

// reports match the failure lines of each kind of detector. For a scenario that could not be measured, survive prints
// a line without a goal.
var reports = map[string]*regexp.Regexp{
	"test":    regexp.MustCompile(`(?m)^\s*(--- FAIL|panic): .*$`),
	"survive": regexp.MustCompile(`(?m)^\S+ +FAIL .*\(goal: .*$`),
	"attack":  regexp.MustCompile(`(?m)^FAIL \S.*$`),
}

// overlay writes a source file with the defect and the overlay of go build that refers to it. It returns the path of
// the overlay.
func (l lab) overlay(m mutant) (string, error) {
	name := filepath.Join(l.root, filepath.FromSlash(m.file))
	text, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	text, err = m.apply(text)
	if err != nil {
		return "", err
	}
	mutated := filepath.Join(l.dir, "mutated.go")
	overlay := filepath.Join(l.dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {name: mutated}})
	return overlay, errors.Join(err, os.WriteFile(mutated, text, 0o600), os.WriteFile(overlay, replace, 0o600))
}

// command runs a command in a directory of the repository and returns its output.
func (l lab) command(ctx context.Context, dir, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // so that it can end its child processes
	cmd.WaitDelay = 30 * time.Second
	cmd.Dir = filepath.Join(l.root, dir)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}
