package plugin

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
)

// Concurrent calls, some of them canceled, do not share buffers.
func TestBuffersAreNotShared(t *testing.T) {
	r := run(t, Options{Command: []string{echo}}).ready(t)
	var callers sync.WaitGroup
	for i := range 16 {
		callers.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			for n := range 60 {
				args := `{"` + strings.Repeat(fmt.Sprintf("%d of %d ", n, i), random.IntN(1<<random.IntN(15)+1)) +
					`":1}`
				ctx, cancel := context.WithCancel(t.Context())
				if random.IntN(3) == 0 {
					time.AfterFunc(time.Duration(random.IntN(2000))*time.Microsecond, cancel)
				}
				res, err := r.Handle(ctx, tool("echo", args), ignore)
				switch {
				case err != nil && ctx.Err() == nil:
					t.Errorf("%.50q: %v", args, err)
				case err == nil && textOf(res) != args:
					t.Errorf("%.50q: %.50q", args, textOf(res))
				}
				cancel()
			}
		})
	}
	callers.Wait()
}
