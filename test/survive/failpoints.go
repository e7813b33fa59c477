package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// gofail turns comments into failpoints.
const gofail = "go.etcd.io/gofail"

// buildFailing builds mcpbridge with the failpoints of panicPoints from a copy of its source.
func buildFailing(ctx context.Context, source, dir string) (program string, err error) {
	if err := copySource(ctx, source, dir); err != nil {
		return "", err
	}
	var with []string
	for name, p := range panicPoints {
		if err := p.insert(dir, name); err != nil {
			return "", err
		}
		with = append(with, filepath.Join(dir, filepath.Dir(p.file)))
	}
	slices.Sort(with)
	with = slices.Compact(with)
	version, err := goTool(ctx, ".", "list", "-m", "-f", "{{.Version}}", gofail)
	if err != nil {
		return "", err
	}
	sums, err := os.ReadFile("go.sum")
	if err != nil {
		return "", err
	}
	f, err := os.OpenFile(filepath.Join(dir, "go.sum"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return "", err
	}
	for line := range bytes.Lines(sums) {
		if bytes.HasPrefix(line, []byte(gofail+" ")) {
			_, err = f.Write(line)
		}
	}
	program = filepath.Join(dir, "mcpbridge")
	if err = errors.Join(err, f.Close()); err == nil {
		_, err = goTool(ctx, dir, "mod", "edit", "-require="+gofail+"@"+strings.TrimSpace(version))
	}
	if err == nil {
		_, err = goTool(ctx, ".", append([]string{"tool", "gofail", "enable"}, with...)...)
	}
	if err == nil {
		_, err = goTool(ctx, dir, "build", "-o", program, "./cmd/mcpbridge")
	}
	return program, err
}

// insert inserts a failpoint into a copy of the source.
func (p *panicPoint) insert(dir, name string) error {
	file := filepath.Join(dir, filepath.FromSlash(p.file))
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	lines := strings.Split(string(text), "\n")
	is := func(line string) bool { return strings.TrimSpace(line) == p.line }
	from := 0
	if p.in != "" {
		from = slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, p.in) })
	}
	i := -1
	if from >= 0 {
		i = slices.IndexFunc(lines[from:], is)
	}
	if i < 0 || p.in == "" && slices.ContainsFunc(lines[i+1:], is) {
		return fmt.Errorf("failpoint %s: %s does not have the line %q exactly once: adapt its entry in panicPoints",
			name, p.file, p.line)
	}
	if i += from; p.after {
		i++
	}
	// gofail would take a comment on the next line for the code of the failpoint.
	lines = slices.Insert(lines, i, "// gofail: var "+name+" struct{}", "")
	return os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600)
}

// copySource copies the source of mcpbridge.
func copySource(ctx context.Context, source, dir string) error {
	list, err := goTool(ctx, source, "list", "-deps", "-json=Dir,GoFiles,EmbedFiles,Module", "./cmd/mcpbridge")
	if err != nil {
		return err
	}
	root, err := filepath.Abs(source)
	if err != nil {
		return err
	}
	files := []string{"go.mod", "go.sum"}
	for dec := json.NewDecoder(strings.NewReader(list)); ; {
		var p struct {
			Dir                 string
			GoFiles, EmbedFiles []string
			Module              *struct{ Main bool }
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		if p.Module == nil || !p.Module.Main {
			continue
		}
		rel, err := filepath.Rel(root, p.Dir)
		if err != nil {
			return err
		}
		for _, name := range slices.Concat(p.GoFiles, p.EmbedFiles) {
			files = append(files, filepath.Join(rel, name))
		}
	}
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join(source, name))
		if err == nil {
			err = os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// goTool runs go and returns its output.
func goTool(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, &errs)
	}
	return string(out), nil
}

// hasFailpoints reports whether a program contains failpoints.
func hasFailpoints(program string) (bool, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return false, err
	}
	for _, m := range info.Deps {
		if m.Path == gofail {
			return true, nil
		}
	}
	return false, nil
}

// A failpointClient triggers the failpoints of a running program at its GOFAIL_HTTP address.
type failpointClient struct {
	addr   string
	client *http.Client
}

func (f failpointClient) do(method, path, body string) (string, error) {
	req, err := http.NewRequest(method, "http://"+f.addr+"/"+path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	res, err := f.client.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode >= 300 {
		err = fmt.Errorf("failpoint %s: %s: %s", path, res.Status, text)
	}
	return string(text), err
}

// panicOnce triggers one panic at a failpoint, and waits for it. It calls kick repeatedly.
func (f failpointClient) panicOnce(name string, kick func() error) error {
	if _, err := f.do(http.MethodPut, name, "1*panic"); err != nil {
		return err
	}
	kicked := time.Now()
	if err := kick(); err != nil {
		return err
	}
	for until := time.Now().Add(20 * time.Second); time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
		text, err := f.do(http.MethodGet, name+"/count", "")
		if err != nil {
			return err
		}
		if n, _ := strconv.Atoi(strings.TrimSpace(text)); n > 0 {
			return nil
		}
		if time.Since(kicked) > 2*time.Second {
			kicked = time.Now()
			if err := kick(); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("failpoint %s was not reached within 20 s", name)
}
