package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/blakesmith/ar"
	"github.com/cavaliergopher/cpio"
	"github.com/google/go-cmp/cmp"
)

// maxSize is the maximum size of a program for Linux in bytes.
const maxSize = 25_000_000

// TestRelease releases twice, from this directory and from a copy, for this machine, Linux and Windows.
func TestRelease(t *testing.T) {
	here, linux := platform{runtime.GOOS, runtime.GOARCH}, platform{"linux", runtime.GOARCH}
	windows := platform{"windows", "arm64"}
	built := slices.Compact([]platform{here, linux, windows})
	version := strings.TrimSpace(output(t, "../version"))
	r := &release{source: "../..", out: t.TempDir(), version: version, platforms: built}
	runRelease(t, r)

	t.Setenv("SOURCE_DATE_EPOCH", strconv.FormatInt(r.time.Unix(), 10)) // the copy has no commit
	again := &release{source: copySources(t), out: t.TempDir(), version: version, platforms: built}
	runRelease(t, again)
	compareTrees(t, r.out, again.out)

	program := filepath.Join(r.out, "binaries", here.String(), here.program())
	if got := output(t, program, "version"); !strings.HasPrefix(got, "mcpbridge "+version+" (") {
		t.Errorf("mcpbridge version printed %q, want version %s", got, version)
	}
	info, err := os.Stat(filepath.Join(r.out, "binaries", linux.String(), "mcpbridge"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > maxSize {
		t.Errorf("the program for Linux has %d bytes, want at most %d", info.Size(), maxSize)
	}

	checkArchives(t, r, linux, windows)
	checkCompletion(t, r, here)
	checkPackages(t, r)
}

func runRelease(t *testing.T, r *release) {
	t.Helper()
	if err := run(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

// output returns what a command prints.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// copySources copies the files that git tracks, and returns their directory. Other tests write files beside them.
func copySources(t *testing.T) string {
	t.Helper()
	to := t.TempDir()
	names := output(t, "git", "-C", "../..", "ls-files", "-z")
	for name := range strings.SplitSeq(strings.TrimSuffix(names, "\x00"), "\x00") {
		from := filepath.Join("../..", name)
		info, err := os.Lstat(from)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
			continue
		}
		content, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := write(to, name, content); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// compareTrees reports files that differ between two directories.
func compareTrees(t *testing.T, a, b string) {
	t.Helper()
	for _, dirs := range [][2]string{{a, b}, {b, a}} {
		err := filepath.WalkDir(dirs[0], func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			name, err := filepath.Rel(dirs[0], path)
			if err != nil {
				return err
			}
			one, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			other, err := os.ReadFile(filepath.Join(dirs[1], name))
			if err != nil || !bytes.Equal(one, other) {
				t.Errorf("%s differs between two releases of the same sources (%v)", name, err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// archiveFiles are in every archive, beside the program and what deploy has.
var archiveFiles = []string{
	"CHANGELOG.md", "LICENSE", "README.md", "THIRD_PARTY_LICENSES", "completions/_mcpbridge",
	"completions/mcpbridge.bash", "completions/mcpbridge.fish", "completions/mcpbridge.ps1", "man/man1/mcpbridge.1",
	"man/man5/mcpbridge.yaml.5",
}

// deployed returns the files that match units.
func deployed(t *testing.T, pattern string) []string {
	t.Helper()
	names, err := fs.Glob(os.DirFS("../.."), pattern)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func checkArchives(t *testing.T, r *release, linux, windows platform) {
	t.Helper()
	wanted := func(p platform) []string {
		names := append(slices.Clone(archiveFiles), p.program())
		for _, pattern := range units {
			names = append(names, deployed(t, pattern)...)
		}
		for i, name := range names {
			names[i] = "mcpbridge-" + r.version + "-" + p.String() + "/" + name
		}
		slices.Sort(names)
		return names
	}

	files := untar(t, open(t, r.archive(linux, ".tar.gz")))
	if diff := cmp.Diff(wanted(linux), names(files)); diff != "" {
		t.Errorf("the archive for Linux has other files (-want +got):\n%s", diff)
	}

	z, err := zip.OpenReader(r.archive(windows, ".zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	var got []string
	for _, f := range z.File {
		got = append(got, f.Name)
	}
	if diff := cmp.Diff(wanted(windows), got); diff != "" {
		t.Errorf("the archive for Windows has other files (-want +got):\n%s", diff)
	}
}

// complete completes `mcpbridge ver` in bash. _get_comp_words_by_ref is what the package bash-completion defines, and
// compopt works only when the user completes.
const complete = `
compopt() { :; }
_get_comp_words_by_ref() { words=("${COMP_WORDS[@]}"); cword=$COMP_CWORD cur=${COMP_WORDS[COMP_CWORD]} prev=mcpbridge; }
source "$1"
COMP_WORDS=(mcpbridge ver) COMP_CWORD=1 COMP_LINE='mcpbridge ver' COMP_POINT=13 COMP_TYPE=9
__start_mcpbridge
printf '%s\n' "${COMPREPLY[@]}"
`

// checkCompletion completes a command with the script of an archive and the program of this machine.
func checkCompletion(t *testing.T, r *release, here platform) {
	t.Helper()
	files := untar(t, open(t, r.archive(here, ".tar.gz")))
	script := files["mcpbridge-"+r.version+"-"+here.String()+"/completions/mcpbridge.bash"]
	dir, scripts := filepath.Join(r.out, "binaries", here.String()), t.TempDir()
	if err := write(scripts, "mcpbridge.bash", []byte(script)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	got := output(t, "bash", "--norc", "-c", complete, "bash", filepath.Join(scripts, "mcpbridge.bash"))
	if diff := cmp.Diff("verify\nversion\n", got); diff != "" {
		t.Errorf("bash completes `mcpbridge ver` differently (-want +got):\n%s", diff)
	}
}

// checkPackages compares the files of the deb and the rpm.
func checkPackages(t *testing.T, r *release) {
	t.Helper()
	wanted := func(more ...string) []string {
		names := append(more, "/usr/bin/mcpbridge", "/usr/share/bash-completion/completions/mcpbridge",
			"/usr/share/doc/mcpbridge/CHANGELOG.md", "/usr/share/doc/mcpbridge/README.md",
			"/usr/share/doc/mcpbridge/THIRD_PARTY_LICENSES", "/usr/share/fish/vendor_completions.d/mcpbridge.fish",
			"/usr/share/man/man1/mcpbridge.1.gz", "/usr/share/man/man5/mcpbridge.yaml.5.gz")
		for _, unit := range deployed(t, "deploy/systemd/*") {
			names = append(names, "/usr/lib/systemd/system/"+filepath.Base(unit))
		}
		slices.Sort(names)
		return names
	}

	deb := debFiles(t, r)
	want := wanted("/usr/share/doc/mcpbridge/copyright", "/usr/share/zsh/vendor-completions/_mcpbridge")
	if diff := cmp.Diff(want, deb); diff != "" {
		t.Errorf("the deb has other files (-want +got):\n%s", diff)
	}
	found := rpmFiles(t, r)
	want = wanted("/usr/share/licenses/mcpbridge/LICENSE", "/usr/share/zsh/site-functions/_mcpbridge")
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("the rpm has other files (-want +got):\n%s", diff)
	}
}

// debFiles returns the files of the deb, and checks its version.
func debFiles(t *testing.T, r *release) []string {
	t.Helper()
	members := ar.NewReader(open(t, glob(t, r, "*.deb")))
	for {
		header, err := members.Next()
		if err != nil {
			t.Fatal(err)
		}
		switch header.Name {
		case "control.tar.gz":
			want := "\nVersion: " + strings.Replace(r.version, "-", "~", 1) + "-1\n"
			if control := untar(t, members)["./control"]; !strings.Contains("\n"+control, want) {
				t.Errorf("the control file of the deb is\n%s\nwant%s", control, want)
			}
		case "data.tar.gz":
			var found []string
			for _, name := range names(untar(t, members)) {
				found = append(found, strings.TrimPrefix(name, "."))
			}
			return found
		}
	}
}

// rpmFiles returns the files of the rpm: 96 bytes, the headers of the signature and of the package, and a cpio archive.
func rpmFiles(t *testing.T, r *release) []string {
	t.Helper()
	file := glob(t, r, "mcpbridge-"+strings.Replace(r.version, "-", "~", 1)+"-1.*.rpm")
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	at := 96
	for range 2 {
		at = (at + 7) / 8 * 8
		if !bytes.HasPrefix(content[at:], []byte{0x8e, 0xad, 0xe8, 1}) {
			t.Fatalf("%s has no header at %d", file, at)
		}
		entries, size := binary.BigEndian.Uint32(content[at+8:]), binary.BigEndian.Uint32(content[at+12:])
		at += 16 + 16*int(entries) + int(size)
	}
	z, err := gzip.NewReader(bytes.NewReader(content[at:]))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for archive := cpio.NewReader(z); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			slices.Sort(found)
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, strings.TrimPrefix(header.Name, "."))
	}
}

func glob(t *testing.T, r *release, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(r.out, "archives", pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %q, %v; want one file", pattern, found, err)
	}
	return found[0]
}

func open(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// untar returns the contents of the regular files of a compressed archive, by their names.
func untar(t *testing.T, r io.Reader) map[string]string {
	t.Helper()
	z, err := gzip.NewReader(r)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for archive := tar.NewReader(z); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeReg {
			files[header.Name] = string(content)
		}
	}
}

func names(files map[string]string) []string {
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
