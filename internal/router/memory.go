package router

import "sync"

// The maximum size of each of the two halves of a memory.
const (
	maxEntries = 16_384
	maxBytes   = 4 << 20
	maxKey     = 4_096 // longer keys are not stored
)

// A memory is a cache with untrusted strings as keys. Above its size, it evicts approximately the least recently used
// half. Nothing may depend on an entry being present. The zero memory is empty, and may be used concurrently.
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

// add makes a key young. The caller holds mu.
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
