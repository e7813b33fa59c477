package router

import "sync"

// How much a memory holds at most, in each of its two halves.
const (
	maxEntries = 16_384
	maxBytes   = 4 << 20
	maxKey     = 4_096 // longer keys are not remembered
)

// A memory remembers values by strings that come from outside. When it has too many, it forgets those that were neither put
// nor got for the longest time, about. Nothing may rely on what it remembers. The zero memory is empty, and may be used
// concurrently.
type memory[V any] struct {
	mu         sync.Mutex
	young, old map[string]V
	bytes      int // of the keys in young
}

func (m *memory[V]) get(key string) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.young[key]
	if !ok {
		if v, ok = m.old[key]; ok {
			m.add(key, v)
		}
	}
	return v, ok
}

func (m *memory[V]) put(key string, v V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.add(key, v)
}

// add makes a key one of the young ones. The caller holds mu.
func (m *memory[V]) add(key string, v V) {
	if len(key) > maxKey {
		return
	}
	if _, again := m.young[key]; !again {
		if m.young == nil || len(m.young) >= maxEntries || m.bytes+len(key) > maxBytes {
			m.old, m.young, m.bytes = m.young, map[string]V{}, 0
		}
		m.bytes += len(key)
	}
	m.young[key] = v
}
