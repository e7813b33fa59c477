package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// root is the repository, relative to this directory.
const root = "../.."

var (
	rowID     = regexp.MustCompile(`(?m)^ {2}- \{?id: ([A-Z]\d\d)\b`)
	namedRow  = regexp.MustCompile(`^[A-Z]\d\d$`)
	attacked  = regexp.MustCompile(`S1 rows (\d+), checks (\d+), failed (\d+)`)
	looked    = regexp.MustCompile(`S6 (\d+) places, (\d+) with a secret`)
	fuzzed    = regexp.MustCompile(`S3 targets (\d+), executions (\d+), failed (\d+)`)
	compared  = regexp.MustCompile(`S4 (seed \d+, documents \d+, accepted \d+, refused \d+), wrong (\d+)`)
	aTest     = regexp.MustCompile(`\bTest[\w/-]+|\b[A-Z]\d\d\b( to [A-Z]\d\d\b)?`)
	testsFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
)

// runAttacks is S1 and S6: all attacks of test/survive/attack in a long run, and otherwise those on tokens, headers and
// names.
func runAttacks(ctx context.Context, r *Rig) error {
	args := []string{"run", "./attack", "-bin", r.bin, "-root", root}
	if !r.long {
		args = append(args, "-only", "D,F")
	}
	text, failed := exec.CommandContext(ctx, "go", args...).CombinedOutput()
	s1, s6 := attacked.FindStringSubmatch(string(text)), looked.FindStringSubmatch(string(text))
	if s1 == nil || s6 == nil {
		return fmt.Errorf("run the attacks: %w\n%s", failed, text)
	}
	rows, err := attackRows()
	if err != nil {
		return err
	}
	if s1[3] != "0" {
		fmt.Printf("%s", text)
	}
	r.report("S1", s1[3] == "0" && len(rows) >= 175, "175 rows, 0 fail",
		"%s of %d rows run, %s checks: %s failed; make test-attack runs all rows",
		s1[1], len(rows), s1[2], s1[3])
	r.report("S6", s6[2] == "0", "0 secrets",
		"%s logs, journals, environments and command lines: %s contain a secret", s6[1], s6[2])
	return nil
}

// attackRows returns the IDs of the attacks.
func attackRows() (map[string]bool, error) {
	text, err := os.ReadFile(filepath.Join(root, "test", "survive", "attack", "attacks.yaml"))
	rows := map[string]bool{}
	for _, m := range rowID.FindAllStringSubmatch(string(text), -1) {
		rows[m[1]] = true
	}
	return rows, err
}

// runFuzzTargets is S3: every fuzz target for 10 s in a long run, otherwise one, and the corpus of all.
func runFuzzTargets(ctx context.Context, r *Rig) error {
	args := []string{"3s", "jsonrpc FuzzParse"}
	if r.long {
		args = []string{"10s"}
	}
	text, failed := exec.CommandContext(ctx, filepath.Join(root, "tools", "fuzz"), args...).CombinedOutput()
	s3 := fuzzed.FindStringSubmatch(string(text))
	if s3 == nil {
		return fmt.Errorf("run the fuzz targets: %w\n%s", failed, text)
	}
	if failed != nil {
		fmt.Printf("%s", text)
	}
	targets, err := exec.CommandContext(ctx, "git", "-C", root, "grep", "--untracked", "-hoE",
		"^func Fuzz[A-Za-z0-9_]+", "--", "*_test.go").Output()
	if err != nil {
		return fmt.Errorf("find fuzz targets: %w", err)
	}
	corpus, err := exec.CommandContext(ctx, "git", "-C", root, "ls-files", "*/testdata/fuzz/*").Output()
	if err != nil {
		return fmt.Errorf("find inputs of fuzz targets: %w", err)
	}
	has := strings.Count(string(targets), "\n")
	r.report("S3", failed == nil && has >= 16, "16 targets, 0 fail",
		"%d targets with %d inputs; %s run, %s executions: %s failed; make fuzz runs all targets",
		has, strings.Count(string(corpus), "\n"), s3[1], s3[2], s3[3])
	return nil
}

// compareParsers is S4: random documents, parsed by the bridge and by the strict reference.
func compareParsers(ctx context.Context, r *Rig) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-timeout=0", "-v", "-run=^TestGeneratedDocuments$",
		"./internal/jsonrpc",
		"-documents", strconv.Itoa(r.cycles(1_000_000, 100_000_000)), "-seed",
		strconv.FormatInt(time.Now().UnixNano(), 10))
	cmd.Dir = root
	text, failed := cmd.CombinedOutput()
	s4 := compared.FindStringSubmatch(string(text))
	if s4 == nil {
		return fmt.Errorf("parse documents: %w\n%s", failed, text)
	}
	if failed != nil {
		fmt.Printf("%s", text)
	}
	r.report("S4", failed == nil && s4[2] == "0", "0 accepted with another meaning", "%s: %s with another meaning",
		s4[1], s4[2])
	return nil
}

// checkLimits is S10: every limit of docs/security.md names an existing test. make test-attack runs the rows, and make
// test the tests.
func checkLimits(_ context.Context, r *Rig) error {
	n, tests, wrong, err := limitTests()
	if err != nil {
		return err
	}
	r.report("S10", len(wrong) == 0, "every limit has a test", "%d limits, %d rows and tests; %d missing %s",
		n, tests, len(wrong), strings.Join(wrong, ", "))
	return nil
}

// limitTests returns the number of limits in docs/security.md, the number of their tests, and the missing tests.
func limitTests() (n, tests int, wrong []string, err error) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "security.md"))
	if err != nil {
		return 0, 0, nil, err
	}
	there, err := attackRows()
	if err != nil {
		return 0, 0, nil, err
	}
	for _, dir := range []string{"bridge", "internal", "cmd"} {
		err = errors.Join(err, filepath.WalkDir(filepath.Join(root, dir),
			func(path string, _ os.DirEntry, err error) error {
				if _, transcript, ok := strings.Cut(filepath.ToSlash(path), "/testdata/transcripts/"); ok {
					there["TestTranscripts/"+strings.TrimSuffix(transcript, ".txtar")] = true
				}
				if err != nil || !strings.HasSuffix(path, "_test.go") {
					return err
				}
				source, err := os.ReadFile(path)
				for _, m := range testsFunc.FindAllStringSubmatch(string(source), -1) {
					there[m[1]] = true
				}
				return err
			}))
	}
	_, table, _ := strings.Cut(string(text), "| what | how much | key | over it | test |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if strings.HasPrefix(line, "|---") {
			continue
		}
		n++
		named := aTest.FindAllString(cells[len(cells)-1], -1)
		if len(named) == 0 {
			wrong = append(wrong, strings.TrimSpace(cells[0])+" (no test)")
		}
		for _, name := range named {
			for _, id := range through(name) {
				tests++
				if !there[id] {
					wrong = append(wrong, id)
				}
			}
		}
	}
	if n == 0 {
		wrong = append(wrong, "the table")
	}
	return n, tests, wrong, err
}

// through returns the rows of a range, as in "L01 to L03", or the other name.
func through(name string) (ids []string) {
	first, last, ok := strings.Cut(name, " to ")
	if !ok {
		return []string{name}
	}
	for id := first; id <= last && namedRow.MatchString(id); {
		ids = append(ids, id)
		var n int
		_, _ = fmt.Sscan(strings.TrimLeft(id[1:], "0"), &n) // ids have two digits
		id = fmt.Sprintf("%s%02d", first[:1], n+1)
	}
	return ids
}
