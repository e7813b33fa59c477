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
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// gofail is what turns comments into failpoints.
const gofail = "go.etcd.io/gofail"

// A failpoint is a place that is named by a comment, `// gofail: var NAME struct{}`.
type failpoint struct{ name, dir string }

var failpointComment = regexp.MustCompile(`(?m)^\s*// gofail: var (\w+) struct\{\}$`)

// buildFailing builds mcpbridge with its failpoints, from a copy of what it is built of in the directory below. It returns the program, and
// the failpoints in it.
func buildFailing(ctx context.Context, source, dir string) (program string, points []failpoint, err error) {
	dirs, err := copySource(ctx, source, dir)
	if err != nil {
		return "", nil, err
	}
	var with []string
	for _, d := range dirs {
		names, err := filepath.Glob(filepath.Join(dir, d, "*.go"))
		if err != nil {
			return "", nil, err
		}
		had := len(points)
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				return "", nil, err
			}
			for _, m := range failpointComment.FindAllSubmatch(text, -1) {
				points = append(points, failpoint{string(m[1]), d})
			}
		}
		if len(points) > had {
			with = append(with, filepath.Join(dir, d))
		}
	}
	version, err := goTool(ctx, ".", "list", "-m", "-f", "{{.Version}}", gofail)
	if err != nil {
		return "", nil, err
	}
	sums, err := os.ReadFile("go.sum")
	if err != nil {
		return "", nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "go.sum"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return "", nil, err
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
	return program, points, err
}

// copySource copies what mcpbridge is built of, and returns the directories that it is in.
func copySource(ctx context.Context, source, dir string) (dirs []string, err error) {
	list, err := goTool(ctx, source, "list", "-deps", "-json=Dir,GoFiles,EmbedFiles,Module", "./cmd/mcpbridge")
	if err != nil {
		return nil, err
	}
	root, err := filepath.Abs(source)
	if err != nil {
		return nil, err
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
			return nil, err
		}
		if p.Module == nil || !p.Module.Main {
			continue
		}
		rel, err := filepath.Rel(root, p.Dir)
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, rel)
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
			return nil, err
		}
	}
	return dirs, nil
}

// goTool runs go and returns what it prints.
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

// hasFailpoints reports whether a program can fail at failpoints.
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

// A fuse sets off the failpoints of a running program, at the address that it was told by GOFAIL_HTTP.
type fuse struct {
	addr   string
	client *http.Client
}

func (f fuse) do(method, path, body string) (string, error) {
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

// light makes whoever comes to a point next panic there, and waits until that has happened. Kick is called now and then meanwhile.
func (f fuse) light(name string, kick func() error) error {
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
	return fmt.Errorf("nobody came to the failpoint %s for 20 s", name)
}
