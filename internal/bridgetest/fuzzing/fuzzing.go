// Package fuzzing is what every fuzz target holds its parser to, besides the law of its own: reading what comes from outside costs
// time and memory in proportion to it, and what is accepted is what a strict reader takes it for. It imports nothing of the
// bridge, so that the tests of every package can use it.
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
	// longest is how long reading an input may take.
	longest = time.Second
	// factor is how many bytes reading may allocate for each byte of an input, and atAll how many reading anything may.
	factor = 10
	atAll  = 64 << 10
	// tries is how often an input must cost too much. Other work of the machine, or of the process, does so only now and then.
	tries = 3
	// sampled is of how many inputs that seem to cost little one is measured all the same.
	sampled = 64
)

// Bounded calls read, which reads so many bytes from outside. The test fails if that takes too long, or too much memory. Read may be
// called several times.
func Bounded(tb testing.TB, size int, read func()) {
	tb.Helper()
	Within(tb, size, atAll, read)
}

// Within is Bounded for what takes more memory than others whatever it reads, in bytes.
func Within(tb testing.TB, size, anyway int, read func()) {
	tb.Helper()
	most := uint64(factor*size + anyway)
	if searching() && costsLittle(most/4, read) && tried.Add(1)%sampled > 0 {
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
		if took <= longest && taken <= most {
			return
		}
		if try == tries {
			tb.Fatalf("%d bytes take %v and %d bytes of memory to read; %v and %d bytes are the most", size, took, taken, longest, most)
			return
		}
	}
}

// searching reports whether inputs are tried that nobody has seen yet, of which there should be many. It is not so where tests read what
// is known.
var searching = sync.OnceValue(func() bool {
	f := flag.Lookup("test.fuzzworker")
	return f != nil && f.Value.String() == "true"
})

// tried is how many inputs seemed to cost little.
var tried atomic.Uint64

// costsLittle reports whether read seems to allocate less. ReadMemStats knows it exactly and stops the world, which takes longer than
// reading most inputs; this counts small objects only when their page is full, and takes a hundredth of the time.
func costsLittle(most uint64, read func()) bool {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	before, began := sample[0].Value.Uint64(), time.Now()
	read()
	took := time.Since(began)
	metrics.Read(sample)
	return took <= longest && sample[0].Value.Uint64()-before <= most
}

// Value returns what JSON text means to encoding/json/v2, as plainly as can be, or why it means nothing: objects are maps, arrays are
// slices, strings are strings, and everything else is the text that it is.
func Value(text []byte) (any, error) {
	d := jsontext.NewDecoder(bytes.NewReader(text))
	v, err := value(d)
	if err != nil {
		return nil, err
	}
	if _, err := d.ReadToken(); err != io.EOF { //nolint:errorlint // the decoder returns it as it is
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
			text := name.String() // before the token is gone
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

// A Literal is a number, true, false or null, as it is written.
type Literal string
