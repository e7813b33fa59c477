// Package fuzzing contains the checks of all fuzz targets besides their own laws: parsing takes time and memory in
// proportion to its input, and accepts only what a strict parser reads in the same way. It does not import packages
// of the bridge, so that the tests of every package can use it.
package fuzzing

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// maxTime is the time limit for parsing an input.
	maxTime = time.Second
	// Parsing may allocate factor bytes per byte of input, and base bytes for any input.
	factor = 10
	base   = 64 << 10
	// attempts is how often an input must exceed the limits in succession, since other processes can cause it, too.
	attempts = 3
	// One of sampleEvery cheap inputs is measured exactly.
	sampleEvery = 64
)

// Bounded fails the test if read, which parses size bytes, takes too much time or memory. It may call read several
// times.
func Bounded(tb testing.TB, size int, read func()) {
	tb.Helper()
	Within(tb, size, base, read)
}

// Within is Bounded with anyway bytes in place of base.
func Within(tb testing.TB, size, anyway int, read func()) {
	tb.Helper()
	most := uint64(factor*size + anyway)
	if isFuzzing() && seemsCheap(most/4, read) && cheapInputs.Add(1)%sampleEvery > 0 {
		return
	}
	var before, after runtime.MemStats
	for try := 1; ; try++ {
		runtime.ReadMemStats(&before)
		began := time.Now()
		read()
		took := time.Since(began)
		runtime.ReadMemStats(&after)
		taken := after.TotalAlloc - before.TotalAlloc
		if took <= maxTime && taken <= most {
			return
		}
		if try == attempts {
			tb.Fatalf("%d bytes take %v and %d bytes of memory to read; %v and %d bytes are the most", size, took,
				taken, maxTime, most)
			return
		}
	}
}

// isFuzzing reports whether the fuzzing engine generates inputs.
var isFuzzing = sync.OnceValue(func() bool {
	f := flag.Lookup("test.fuzzworker")
	return f != nil && f.Value.String() == "true"
})

// cheapInputs counts inputs that seemed cheap.
var cheapInputs atomic.Uint64

// seemsCheap reports whether read seems to allocate less than most. It counts small objects only when their page is
// full, but takes a hundredth of the time of ReadMemStats, which stops the world.
func seemsCheap(most uint64, read func()) bool {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	before, began := sample[0].Value.Uint64(), time.Now()
	read()
	took := time.Since(began)
	metrics.Read(sample)
	return took <= maxTime && sample[0].Value.Uint64()-before <= most
}

// Value parses JSON with encoding/json/v2 in the simplest way: objects are maps, arrays are slices, strings are
// strings, and everything else is a Literal.
func Value(text []byte) (any, error) {
	d := jsontext.NewDecoder(bytes.NewReader(text))
	v, err := value(d)
	if err != nil {
		return nil, err
	}
	if _, err := d.ReadToken(); err != io.EOF { //nolint:errorlint // the decoder does not wrap it
		return nil, fmt.Errorf("something comes after the value: %w", err)
	}
	return v, nil
}

func value(d *jsontext.Decoder) (any, error) {
	token, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() { //nolint:exhaustive // the others are literals, or do not begin a value
	case '"':
		return token.String(), nil
	case '{':
		all := map[string]any{}
		for d.PeekKind() != '}' {
			name, err := d.ReadToken()
			if err != nil {
				return nil, err
			}
			text := name.String() // the next read overwrites the token
			if all[text], err = value(d); err != nil {
				return nil, err
			}
		}
		_, err := d.ReadToken()
		return all, err
	case '[':
		all := []any{}
		for d.PeekKind() != ']' {
			v, err := value(d)
			if err != nil {
				return nil, err
			}
			all = append(all, v)
		}
		_, err := d.ReadToken()
		return all, err
	}
	return Literal(token.String()), nil
}

// A Literal is the text of a number, true, false or null.
type Literal string
