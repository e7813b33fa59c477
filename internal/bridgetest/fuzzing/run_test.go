package fuzzing

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// variantsOf returns variants of arguments, as plain values.
func variantsOf(n int, args ...any) (all [][]any) {
	var in []reflect.Value
	for _, a := range args {
		in = append(in, reflect.ValueOf(a))
	}
	v, out := newVariants(in), make([]reflect.Value, len(in))
	for range n {
		v.next(out)
		var one []any
		for _, a := range out {
			one = append(one, a.Interface())
		}
		all = append(all, one)
	}
	return all
}

func TestVariantsDependOnTheInputOnly(t *testing.T) {
	args := func(s string) []any {
		return []any{[]byte(`{"a":[12,true]}`), s, uint8(1), int32(-1), uint64(7), 1.5, true}
	}
	a, b, other := variantsOf(300, args("x")...), variantsOf(300, args("x")...), variantsOf(300, args("y")...)
	if diff := cmp.Diff(a, b); diff != "" {
		t.Error(diff)
	}
	if reflect.DeepEqual(a, other) {
		t.Error("got the same variants of another input")
	}
	seen, same := map[string]bool{}, 0
	for _, v := range a {
		text := corpusFile([]reflect.Value{reflect.ValueOf(v[0]), reflect.ValueOf(v[1])})
		seen[text] = true
		if reflect.DeepEqual(v, args("x")) {
			same++
		}
	}
	if len(seen) < 200 || same > 10 {
		t.Errorf("got %d different variants of 300, and %d that are the input, want at least 200 and at most 10",
			len(seen), same)
	}
}

func TestVariantsHaveALimit(t *testing.T) {
	for _, size := range []int{0, 1, 2, 100, 5000} {
		for _, v := range variantsOf(5000, bytes.Repeat([]byte("1"), size), strings.Repeat("x", size)) {
			if b, s := v[0].([]byte), v[1].(string); len(b) > size+maxGrowth || len(s) > size+maxGrowth {
				t.Fatalf("got variants of %d and %d bytes of an input of %d", len(b), len(s), size)
			}
		}
	}
}

// A target may retain and modify its arguments.
func TestVariantsHaveTheirOwnMemory(t *testing.T) {
	in := []byte("0123456789")
	v, out := newVariants([]reflect.Value{reflect.ValueOf(in)}), make([]reflect.Value, 1)
	var all, copies [][]byte
	for range 1000 {
		v.next(out)
		b := out[0].Bytes()
		all, copies = append(all, b), append(copies, slices.Clone(b))
		clear(b[:cap(b)])
		copy(b, copies[len(copies)-1])
	}
	if string(in) != "0123456789" {
		t.Errorf("got input %q after the variants, want 0123456789", in)
	}
	for i := range all {
		if !bytes.Equal(all[i], copies[i]) {
			t.Fatalf("variant %d: got %q after others, want %q", i, all[i], copies[i])
		}
	}
}

func TestRoundRunsTheInputAndItsVariants(t *testing.T) {
	var got [][]byte
	round(reflect.ValueOf(func(_ *testing.T, b []byte) { got = append(got, b) }),
		[]reflect.Value{reflect.ValueOf(t), reflect.ValueOf([]byte("input"))})
	if len(got) != 1+Variants || string(got[0]) != "input" {
		t.Errorf("got %d calls, want %d, the first with the input: %q", len(got), 1+Variants, got)
	}
}

// tiny has targets that fail for inputs that are not seeds. They are indented, so that tools/fuzz does not find them.
const tiny = `package fuzzing

import "testing"

	func FuzzFatal(f *testing.F) { isLong(f, func(t *testing.T) { t.Fatal("it is long") }) }
	func FuzzError(f *testing.F) { isLong(f, func(t *testing.T) { t.Error("it is long") }) }
	func FuzzPanic(f *testing.F) { isLong(f, func(*testing.T) { panic("it is long") }) }

	func isLong(f *testing.F, fail func(*testing.T)) {
		f.Add([]byte("a"), "\xff\"\\", uint8(3), true)
		Run(f, func(t *testing.T, _ []byte, s string, _ uint8, _ bool) {
			if len(s) > 10 {
				fail(t)
			}
		})
	}
`

var named = regexp.MustCompile(
	`this variant of the input.* (testdata/fuzz/\w+):\n\s+(go test fuzz v1)\n\s+(\[\]byte\(.*\))\n\s+(string\(.*\))\n\s+(uint8\(\d+\))\n\s+(bool\(\w+\))\n`)

// The arguments of a failing variant are printed, also by the engine, and fail again as a file of the corpus.
func TestFailingVariantIsPrinted(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	source, overlay, binary := filepath.Join(dir, "tiny_test.go"), filepath.Join(dir, "overlay.json"),
		filepath.Join(dir, "tiny.test")
	text, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(here, "tiny_test.go"): source}})
	if err != nil {
		t.Fatal(err)
	}
	write(t, source, tiny)
	write(t, overlay, string(text))
	if out, err := exec.Command("go", "test", "-overlay="+overlay, "-c", "-o="+binary, ".").
		CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"FuzzFatal", "FuzzError", "FuzzPanic"} {
		run := func(args ...string) string {
			cmd := exec.Command(binary, args...)
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			if err == nil || !bytes.Contains(out, []byte("it is long")) {
				t.Fatalf("%q: %v\n%s", args, err, out)
			}
			return string(out)
		}
		engine, plain := run("-test.run=^$", "-test.fuzz="+name, "-test.fuzzcachedir="+filepath.Join(dir, "cache"),
			"-test.fuzztime=10s"), run("-test.run="+name)
		byEngine, byTest := named.FindStringSubmatch(engine), named.FindStringSubmatch(plain)
		if byEngine == nil || byTest == nil || !slices.Equal(byEngine, byTest) {
			t.Fatalf("got different arguments from the engine:\n%s\nand from a test:\n%s", engine, plain)
		}
		write(t, filepath.Join(dir, byTest[1], "kept"), strings.Join(byTest[2:], "\n"))
		if out := run("-test.run=" + name + "/kept"); named.MatchString(out) {
			t.Errorf("got a failing variant, want the kept input to fail:\n%s", out)
		}
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
