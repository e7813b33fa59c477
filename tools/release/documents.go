package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/cpuguy83/go-md2man/v2/md2man"
)

// The man pages, and the documents that they are made from.
var pages = []struct{ file, from, purpose string }{
	{"mcpbridge.1", "commands.md", summary},
	{"mcpbridge.yaml.5", "configuration.md", "configuration of mcpbridge"},
}

// The shells, and the files in which they look for completions.
var shells = map[string]string{
	"bash": "mcpbridge.bash", "zsh": "_mcpbridge", "fish": "mcpbridge.fish", "powershell": "mcpbridge.ps1",
}

// Of deploy, what administrators install by hand where there is no package.
var units = []string{"deploy/systemd/*", "deploy/launchd/*"}

func (r *release) writeDocuments(ctx context.Context) error {
	dir := r.documents()
	files := []string{"LICENSE", "README.md", "CHANGELOG.md"}
	for _, pattern := range units {
		found, err := fs.Glob(os.DirFS(r.source), pattern)
		if err != nil {
			return err
		}
		files = append(files, found...)
	}
	for _, name := range files {
		content, err := os.ReadFile(filepath.Join(r.source, name))
		if err != nil {
			return err
		}
		if err := write(dir, name, content); err != nil {
			return err
		}
	}
	licenses, err := r.licenses(ctx)
	if err != nil {
		return err
	}
	if err := write(dir, "THIRD_PARTY_LICENSES", licenses); err != nil {
		return err
	}
	return errors.Join(r.writePages(dir), r.writeCompletions(ctx, dir))
}

func write(dir, name string, content []byte) error {
	path := filepath.Join(dir, name)
	if err := mkdir(filepath.Dir(path)); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644) //nolint:gosec // everything in a release is public
}

func mkdir(dir string) error {
	return os.MkdirAll(dir, 0o755) //nolint:gosec // everything in a release is public
}

var (
	comment = regexp.MustCompile(`(?m)^<!--.*-->\n`)
	link    = regexp.MustCompile(`\[([^\]\n]+)\]\([^)\n]+\)`)
)

func (r *release) writePages(dir string) error {
	for _, p := range pages {
		text, err := os.ReadFile(filepath.Join(r.source, "docs", p.from))
		if err != nil {
			return err
		}
		_, body, _ := strings.Cut(string(text), "\n") // without the title
		body = link.ReplaceAllString(comment.ReplaceAllString(body, ""), "$1")
		dot := strings.LastIndex(p.file, ".")
		name, section := p.file[:dot], p.file[dot+1:]
		head := fmt.Sprintf("%% %q %q %q %q %q\n\n# NAME\n\n%s - %s\n\n# DESCRIPTION\n", strings.ToUpper(name),
			section, r.time.Format("January 2006"), "mcpbridge "+r.version, "mcpbridge", name, p.purpose)
		page := md2man.Render([]byte(head + body))
		if err := write(dir, "man/man"+section+"/"+p.file, page); err != nil {
			return err
		}
		if err := r.compress(p.file, page); err != nil {
			return err
		}
	}
	return nil
}

// compress writes a man page as packages contain it.
func (r *release) compress(file string, page []byte) error {
	f, err := os.Create(filepath.Join(r.work, file+".gz"))
	if err != nil {
		return err
	}
	w, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	_, err = w.Write(page)
	return errors.Join(err, w.Close(), f.Close())
}

func (r *release) writeCompletions(ctx context.Context, dir string) error {
	program := filepath.Join(r.work, "mcpbridge.exe")
	if err := r.compile(ctx, "", "", program); err != nil {
		return err
	}
	for shell, file := range shells {
		script, err := exec.CommandContext(ctx, program, "completion", shell).Output()
		if err != nil {
			return fmt.Errorf("completion %s: %w", shell, err)
		}
		if err := write(dir, "completions/"+file, script); err != nil {
			return err
		}
	}
	return nil
}

// licenses returns the licenses of the modules that the programs contain, and of Go.
func (r *release) licenses(ctx context.Context) ([]byte, error) {
	goroot, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	dirs := map[string]string{"Go": strings.TrimSpace(string(goroot))}
	for _, p := range r.platforms {
		list := exec.CommandContext(ctx, "go", "list", "-deps", "-json=Module", "./cmd/mcpbridge")
		list.Dir, list.Stderr = r.source, os.Stderr
		list.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.os, "GOARCH="+p.arch)
		out, err := list.Output()
		if err != nil {
			return nil, err
		}
		for d := json.NewDecoder(bytes.NewReader(out)); ; {
			var pkg struct {
				Module *struct {
					Path, Version, Dir string
					Main               bool
				}
			}
			if err := d.Decode(&pkg); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, err
			}
			if m := pkg.Module; m != nil && !m.Main {
				dirs[m.Path+" "+m.Version] = m.Dir
			}
		}
	}
	return licenseTexts(dirs)
}

// licenseTexts returns the licenses and notices in the directories, each below its name.
func licenseTexts(dirs map[string]string) ([]byte, error) {
	names := make([]string, 0, len(dirs))
	for name := range dirs {
		names = append(names, name)
	}
	slices.Sort(names)
	var text bytes.Buffer
	text.WriteString("The programs of mcpbridge contain these modules, whose licenses follow.\n")
	for _, name := range names {
		var files []string
		for _, pattern := range []string{"LICENSE*", "LICENCE*", "COPYING*", "NOTICE*"} {
			found, err := fs.Glob(os.DirFS(dirs[name]), pattern)
			if err != nil {
				return nil, err
			}
			files = append(files, found...)
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("%s has no license", name)
		}
		for _, file := range files {
			content, err := os.ReadFile(filepath.Join(dirs[name], file))
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(&text, "\n%s\n%s, %s\n\n%s\n", strings.Repeat("-", 80), name, file, bytes.TrimSpace(content))
		}
	}
	return text.Bytes(), nil
}
