package plugin

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
)

// A backend that is reachable again is connected soon, however long it was away.
func TestReturnedBackendIsRedialedSoon(t *testing.T) {
	bridgetest.SkipIfShort(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	came := make(chan time.Time)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer l.Close()
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
			select {
			case came <- time.Now():
			case <-t.Context().Done():
			}
		}
	})
	run(t, Options{Address: "tcp:" + l.Addr().String()})
	last := <-came
	for n := range 11 { // after these attempts gRPC's backoff is at its maximum
		now := <-came
		// 750 ms at most on an idle machine
		if d := now.Sub(last); d > 1500*time.Millisecond {
			t.Errorf("attempt %d followed after %v", n+1, d)
		}
		last = now
	}
}

// A lost SYN packet costs half a second, not the system's retransmission timeout.
func TestUnresponsiveBackendIsRedialed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls, ended int
		var mu sync.Mutex // guards them
		began := time.Now()
		c, err := dialWithRetries(t.Context(), func(ctx context.Context) (net.Conn, error) {
			mu.Lock()
			calls++
			lost := calls < 3
			mu.Unlock()
			if lost {
				<-ctx.Done()
				mu.Lock()
				ended++
				mu.Unlock()
				return nil, ctx.Err()
			}
			c, _ := net.Pipe()
			return c, nil
		})
		if took := time.Since(began); err != nil || c == nil || calls != 3 || ended != 2 ||
			took < 800*time.Millisecond || took > 1200*time.Millisecond {
			t.Errorf("%v, %v after %v; %d calls, %d ended", c, err, took, calls, ended)
		}
		refused := errors.New("refused")
		began = time.Now()
		if _, err := dialWithRetries(t.Context(),
			func(context.Context) (net.Conn, error) { return nil, refused }); !errors.Is(
			err, refused) || time.Since(began) > 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		silent := func(ctx context.Context) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
		if _, err := dialWithRetries(ctx, silent); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("unreachable backend: %v", err)
		}
	})
}
