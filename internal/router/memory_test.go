package router

import (
	"strconv"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
)

func TestMemoryEvictsUnusedEntries(t *testing.T) {
	bridgetest.SkipIfShort(t)
	// The first case reaches the limit of entries, the second that of bytes.
	for _, pad := range []string{"", strings.Repeat("x", 1_000)} {
		var m memory[int]
		put, most := 0, 0
		for i := range 4 * maxEntries {
			m.put(strconv.Itoa(i)+pad, i)
			put++
			if _, ok := m.get("0" + pad); !ok {
				t.Fatalf("an entry in constant use was dropped after %d", i)
			}
			if most = max(most, len(m.young)); most > maxEntries || m.bytes > maxBytes || len(m.old) > maxEntries {
				t.Fatalf("%d + %d entries, %d bytes", len(m.young), len(m.old), m.bytes)
			}
		}
		if _, ok := m.get("1" + pad); ok {
			t.Errorf("the second entry is still there after %d", put)
		}
		if most < maxEntries && m.bytes < maxBytes/2 && pad == "" {
			t.Errorf("got at most %d entries", most)
		}
	}
	var m memory[int]
	for n := maxKey - 1; n <= maxKey+1; n++ {
		key := strings.Repeat("k", n)
		m.put(key, n)
		if _, ok := m.get(key); ok != (n <= maxKey) {
			t.Errorf("key of %d bytes: %v", n, ok)
		}
	}
}
