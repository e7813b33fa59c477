// Package transcript plays transcripts: files with the messages of a client and a server, of which a test sends one
// side's and compares the other side's. testdata/transcripts/README.md of internal/mcpserver and internal/mcpclient
// describe the format.
package transcript

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/mcpbridge/mcpbridge/internal/limits"
)

var update = flag.Bool("update", false, "write the actual output into the transcripts")

const root = "testdata/transcripts"

// Run plays each file in testdata/transcripts in a bubble of testing/synctest. author is the mark of the lines that the
// file's author writes: ">" for a client, "<" for a server. begin returns the player of a file; it is called in the
// bubble.
func Run(t *testing.T, author string, begin func(t *testing.T, sections *Sections) Player) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".txtar" {
			return err
		}
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.ToSlash(path), root+"/"), ".txtar")
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { playFile(t, path, author, begin) })
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// playFile plays the conversation of a file and compares the output with the file.
func playFile(t *testing.T, path, author string, begin func(t *testing.T, sections *Sections) Player) {
	t.Helper()
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(archive.Comment), "20") {
		t.Errorf("%s does not begin with its subject and the clause of a revision", path)
	}
	sections := &Sections{map[string]*txtar.File{}}
	for i := range archive.Files {
		sections.files[archive.Files[i].Name] = &archive.Files[i]
	}
	conversation := sections.files["conversation"]
	if conversation == nil {
		t.Fatalf("%s has no conversation", path)
	}
	delete(sections.files, "conversation")
	player := begin(t, sections)
	for name := range sections.files {
		t.Errorf("%s: unknown section %q", path, name)
	}
	got := play(t, player, author, string(conversation.Data))
	if *update {
		conversation.Data = []byte(got)
		if err := os.WriteFile(path, txtar.Format(archive), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(conversation.Data), got); diff != "" {
		t.Errorf("the conversation differs (-file +actual); to accept it: go test -run %s -update\n%s", t.Name(), diff)
	}
}

// Sections are the sections of a file, without the conversation.
type Sections struct{ files map[string]*txtar.File }

// Text returns the text of a section, once.
func (s *Sections) Text(name string) string {
	file := s.files[name]
	delete(s.files, name)
	if file == nil {
		return ""
	}
	return string(file.Data)
}

// Settings parses lines of the form "name: value". An indented line continues the previous value.
func Settings(t *testing.T, text string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for line := range strings.Lines(strings.ReplaceAll(text, "\n"+indent, "")) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok {
			t.Fatalf("invalid setting %q, want \"name: value\"", line)
		}
		all[name] = value
	}
	return all
}

// SetLimits sets limits, by their keys in the configuration, and the other durations.
func SetLimits(t *testing.T, set map[string]string, l *limits.Limits, durations map[string]*time.Duration) {
	t.Helper()
	fields := map[string]reflect.Value{}
	for field, value := range reflect.ValueOf(l).Elem().Fields() {
		fields[field.Tag.Get("koanf")] = value
	}
	for name, d := range durations {
		fields[name] = reflect.ValueOf(d).Elem()
	}
	for name, text := range set {
		field, ok := fields[name]
		if !ok {
			t.Fatalf("unknown setting %q", name)
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if field.Type() == reflect.TypeFor[time.Duration]() {
			var d time.Duration
			d, err = time.ParseDuration(text)
			n = int64(d)
		}
		if err != nil {
			t.Fatal(err)
		}
		field.SetInt(n)
	}
}
