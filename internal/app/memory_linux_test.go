package app

import (
	"encoding/binary"
	"os"
	"runtime"
	"testing"
	"unsafe"
)

// TestBallastUsesNoMemory allocates the ballast in a heap that has free memory, as after the first collection.
func TestBallastUsesNoMemory(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	for range 1000 {
		runtime.KeepAlive(make([]byte, 40<<10))
	}
	runtime.GC()
	ballast := Ballast()
	if len(ballast) == 0 {
		t.Fatal("there is no ballast")
	}
	pagemap, err := os.Open("/proc/self/pagemap")
	if err != nil {
		t.Fatal(err)
	}
	defer pagemap.Close()
	const present = 1 << 63 // Linux: admin-guide/mm/pagemap
	size := os.Getpagesize()
	resident, pages := 0, 0
	for _, block := range ballast {
		first := int64(uintptr(unsafe.Pointer(unsafe.SliceData(block)))) / int64(size)
		entries := make([]byte, 8*len(block)/size)
		if _, err := pagemap.ReadAt(entries, 8*first); err != nil {
			t.Fatal(err)
		}
		for ; len(entries) > 0; entries = entries[8:] {
			pages++
			if binary.NativeEndian.Uint64(entries)&present != 0 {
				resident++
			}
		}
	}
	if resident > pages/4 {
		t.Errorf("%d of %d pages are in memory, want at most a quarter", resident, pages)
	}
}
