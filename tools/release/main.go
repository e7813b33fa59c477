// Command release builds what a release of mcpbridge publishes beside the packages of the SDKs:
//
//	binaries/OS-ARCH/mcpbridge         static programs
//	archives/mcpbridge-*.tar.gz, .zip  programs with documents, man pages and shell completions
//	archives/mcpbridge*.deb, .rpm      the same as Linux packages, with systemd units
//	archives/mcpbridge-*.cdx.json      the modules of each program, as CycloneDX
//	archives/SHA256SUMS                checksums of the files in archives
//	notes.md                           the section of the version in CHANGELOG.md
//
// The same sources, version and toolchain result in the same bytes.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	homepage = "https://github.com/mcpbridge/mcpbridge"
	summary  = "serves tools in any language to every client of the Model Context Protocol"
)

// A release is what all programs of one release have in common.
type release struct {
	source    string // the root of the sources
	out       string
	work      string // for intermediate files
	version   string
	platforms []platform
	time      time.Time // of the commit, and of every file
}

// A platform is an operating system and an architecture, as Go names them.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "-" + p.arch }

// program returns the file name of the program.
func (p platform) program() string {
	if p.os == "windows" {
		return "mcpbridge.exe"
	}
	return "mcpbridge"
}

var platforms = []platform{
	{"linux", "amd64"},
	{"linux", "arm64"},
	{"darwin", "amd64"},
	{"darwin", "arm64"},
	{"windows", "amd64"},
	{"windows", "arm64"},
}

func main() {
	r := release{platforms: platforms}
	flag.StringVar(&r.source, "source", "../..", "read the sources in `DIR`")
	flag.StringVar(&r.out, "out", "../../dist", "write into `DIR`")
	flag.StringVar(&r.version, "version", "", "the version, as tools/version prints it")
	flag.Parse()
	if err := run(context.Background(), &r); err != nil {
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		os.Exit(1) //nolint:forbidigo // this is main
	}
}

func run(ctx context.Context, r *release) error {
	var err error
	if r.time, err = commitTime(ctx, r.source); err != nil {
		return err
	}
	if r.source, err = filepath.Abs(r.source); err != nil {
		return err
	}
	if r.out, err = filepath.Abs(r.out); err != nil {
		return err
	}
	if r.work, err = os.MkdirTemp("", "release"); err != nil {
		return err
	}
	return errors.Join(r.build(ctx), os.RemoveAll(r.work))
}

// commitTime returns the time of SOURCE_DATE_EPOCH, or of the commit.
func commitTime(ctx context.Context, source string) (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		git := exec.CommandContext(ctx, "git", "log", "-1", "--format=%ct")
		git.Dir = source
		out, err := git.Output()
		if err != nil {
			return time.Time{}, fmt.Errorf("set SOURCE_DATE_EPOCH, because git log failed: %w", err)
		}
		text = strings.TrimSpace(string(out))
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("the time of the release: %w", err)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

func (r *release) build(ctx context.Context) error {
	for _, name := range []string{"binaries", "archives"} {
		if err := os.RemoveAll(filepath.Join(r.out, name)); err != nil {
			return err
		}
	}
	if err := mkdir(filepath.Join(r.out, "archives")); err != nil {
		return err
	}
	if err := r.writeNotes(); err != nil {
		return err
	}
	if err := r.writeDocuments(ctx); err != nil {
		return err
	}
	for _, p := range r.platforms {
		program := filepath.Join(r.out, "binaries", p.String(), p.program())
		if err := r.compile(ctx, p.os, p.arch, program); err != nil {
			return err
		}
		if err := r.publish(p, program); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	return r.writeChecksums()
}

// publish writes the files in archives for one program.
func (r *release) publish(p platform, program string) error {
	files, err := r.archived(p, program)
	if err != nil {
		return err
	}
	if err := r.writeArchive(p, files); err != nil {
		return err
	}
	if err := r.writeSBOM(p, program); err != nil {
		return err
	}
	if p.os != "linux" {
		return nil
	}
	return r.writePackages(p, program)
}

// compile builds the program. An empty goos or goarch is this machine's.
func (r *release) compile(ctx context.Context, goos, goarch, program string) error {
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -X main.version="+r.version, "-o", program, "./cmd/mcpbridge")
	build.Dir, build.Stderr = r.source, os.Stderr
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOEXPERIMENT=", "GOAMD64=v1", "GOARM64=v8.0",
		"GOOS="+goos, "GOARCH="+goarch)
	return build.Run()
}

// documents returns the directory of what accompanies a program, in the layout of the archives.
func (r *release) documents() string { return filepath.Join(r.work, "documents") }

// archive returns the path of the file of a platform with the suffix.
func (r *release) archive(p platform, suffix string) string {
	return filepath.Join(r.out, "archives", "mcpbridge-"+r.version+"-"+p.String()+suffix)
}

// writeNotes writes the section of the version in CHANGELOG.md. Development versions have that of Unreleased.
func (r *release) writeNotes() error {
	changes, err := os.ReadFile(filepath.Join(r.source, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	heading := regexp.QuoteMeta(r.version)
	if strings.Contains(r.version, "-dev.") {
		heading = "Unreleased"
	}
	_, notes, found := cut(string(changes), regexp.MustCompile(`(?m)^## \[`+heading+`\].*\n+`))
	if !found {
		return fmt.Errorf("CHANGELOG.md has no section [%s]", heading)
	}
	notes, _, _ = cut(notes, regexp.MustCompile(`(?m)^## `))
	return write(r.out, "notes.md", []byte(strings.TrimSpace(notes)+"\n"))
}

// cut is strings.Cut with a regular expression.
func cut(text string, sep *regexp.Regexp) (before, after string, found bool) {
	at := sep.FindStringIndex(text)
	if at == nil {
		return text, "", false
	}
	return text[:at[0]], text[at[1]:], true
}

// writeChecksums writes the checksums of archives in the form of sha256sum.
func (r *release) writeChecksums() error {
	dir := filepath.Join(r.out, "archives")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(content), e.Name())
	}
	return write(dir, "SHA256SUMS", []byte(sums.String()))
}
