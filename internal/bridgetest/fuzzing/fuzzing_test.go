package fuzzing

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A recorder is a test that records its failure.
type recorder struct {
	testing.TB

	failed bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Fatalf(string, ...any) { r.failed = true }

var kept []byte // so that allocations are not on the stack

func TestExcessiveAllocationIsReported(t *testing.T) {
	for size, want := range map[int]bool{100: true, 1 << 20: false} {
		f := &recorder{TB: t}
		Bounded(f, size, func() { kept = make([]byte, 1<<20) })
		if f.failed != want {
			t.Errorf("1 MiB for %d bytes: got failed %t, want %t", size, f.failed, want)
		}
	}
}

// Allocations that seem cheap are not measured exactly. Excessive ones must not seem cheap.
func TestExcessiveAllocationIsNotEstimatedAsCheap(t *testing.T) {
	const most = 16 << 10
	for name, c := range map[string]struct {
		allocate func()
		cheap    bool
	}{
		"nothing":       {func() {}, true},
		"large objects": {func() { kept = make([]byte, 10*most) }, false},
		"small objects": {func() {
			for range 10 * most / 128 {
				kept = make([]byte, 128)
			}
		}, false},
	} {
		if got := seemsCheap(most, c.allocate); got != c.cheap {
			t.Errorf("%s: got %t, want %t", name, got, c.cheap)
		}
	}
}

func BenchmarkSeemsCheap(b *testing.B) {
	for b.Loop() {
		seemsCheap(1<<20, func() {})
	}
}

func TestValueKeepsLiterals(t *testing.T) {
	got, err := Value([]byte(`{"a":[1.0,-0,true,null,"é\ud83d\ude00"],"b":{}}`))
	want := map[string]any{
		"a": []any{Literal("1.0"), Literal("-0"), Literal("true"), Literal("null"), "é😀"},
		"b": map[string]any{},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	for _, bad := range []string{"", "{", `{"a":1,"a":2}`, "1 2", "[1,]", "\"\xff\"", `{"a"}`, `"\ud800"`, "]", "[1"} {
		if v, err := Value([]byte(bad)); err == nil {
			t.Errorf("Value(%q): got %v, want an error", bad, v)
		}
	}
}
