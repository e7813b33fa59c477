package fuzzing

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A failing is a test that notes that it has failed.
type failing struct {
	testing.TB

	failed bool
}

func (f *failing) Helper()               {}
func (f *failing) Fatalf(string, ...any) { f.failed = true }

var kept []byte // what is allocated must not be on the stack

func TestWhatTakesTooMuchIsFound(t *testing.T) {
	for size, want := range map[int]bool{100: true, 1 << 20: false} {
		f := &failing{TB: t}
		Bounded(f, size, func() { kept = make([]byte, 1<<20) })
		if f.failed != want {
			t.Errorf("a MiB for %d bytes: failed is %t", size, f.failed)
		}
	}
}

// What seems to cost little is not measured exactly: whatever takes too much must not.
func TestWhatTakesTooMuchDoesNotSeemLittle(t *testing.T) {
	const most = 16 << 10
	for name, c := range map[string]struct {
		allocate func()
		little   bool
	}{
		"nothing":       {func() {}, true},
		"large objects": {func() { kept = make([]byte, 10*most) }, false},
		"small objects": {func() {
			for range 10 * most / 128 {
				kept = make([]byte, 128)
			}
		}, false},
	} {
		if got := seemsCheap(most, c.allocate); got != c.little {
			t.Errorf("%s: costs little is %t", name, got)
		}
	}
}

func BenchmarkCostsLittle(b *testing.B) {
	for b.Loop() {
		seemsCheap(1<<20, func() {})
	}
}

func TestValuesAreWhatIsWritten(t *testing.T) {
	got, err := Value([]byte(`{"a":[1.0,-0,true,null,"é\ud83d\ude00"],"b":{}}`))
	want := map[string]any{"a": []any{Literal("1.0"), Literal("-0"), Literal("true"), Literal("null"), "é😀"}, "b": map[string]any{}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	for _, bad := range []string{"", "{", `{"a":1,"a":2}`, "1 2", "[1,]", "\"\xff\"", `{"a"}`, `"\ud800"`, "]", "[1"} {
		if v, err := Value([]byte(bad)); err == nil {
			t.Errorf("%q is %v", bad, v)
		}
	}
}
