package plugin

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"
)

// BenchmarkEcho calls echo-go's tool with arguments of several sizes, with GOMAXPROCS concurrent callers and with many.
func BenchmarkEcho(b *testing.B) {
	p, err := New(Options{Command: []string{echo}, Log: zerolog.Nop()})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = p.Run(ctx) })
	defer wg.Wait()
	defer cancel()
	if err := p.Ready(b.Context()); err != nil {
		b.Fatal(err)
	}
	for name, size := range map[string]int{"200B": 200, "64KiB": 64 << 10} {
		call := tool("echo", `{"a":"`+strings.Repeat("x", size)+`"}`)
		b.Run(name, func(b *testing.B) {
			b.SetParallelism(16)
			b.ReportAllocs()
			b.SetBytes(int64(size))
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := p.Handle(b.Context(), call, ignore); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
