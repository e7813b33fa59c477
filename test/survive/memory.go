package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/mcpbridge/mcpbridge/test/survive/loadgen"
)

// fillMemory is L8m and L8s: more sessions and long bodies than fit into the memory limit.
func fillMemory(ctx context.Context, r *Rig) error {
	const memory = 64 << 20
	b, err := r.start(ctx, setup{own: []string{fmt.Sprint("MCPBRIDGE_LIMITS__MEMORY=", memory)}})
	if err != nil {
		return err
	}
	one, err := loadgen.NewCaller(b.URL, loadgen.Legacy, 0)
	if err == nil {
		err = one.Open()
	}
	if err != nil {
		return err
	}
	defer one.Close()
	headers := one.Headers("")
	open, refusal := fillSessions(ctx, one)
	modern, err := loadgen.NewCaller(b.URL, loadgen.Modern, 1)
	if err != nil {
		return err
	}
	call := modern.Call(loadgen.Work{}) // while new sessions are refused
	modern.Close()
	answered, refused, err := fillBodies(ctx, b, headers)
	if err != nil {
		return err
	}
	// File-backed memory is reclaimable.
	took := status(b.PID, "VmHWM") - status(b.PID, "RssFile")
	for _, h := range open {
		if _, _, err := one.Do(http.MethodDelete, h, nil); err != nil {
			return err
		}
	}
	again := -1
	for began := time.Now(); time.Since(began) < 5*time.Second && again < 0; time.Sleep(100 * time.Millisecond) {
		if one.Leave(); one.Open() == nil {
			again = int(time.Since(began).Milliseconds())
		}
	}
	_, err = b.stop()
	r.report("L8m", strings.Contains(refusal, "status 503") && call.OK() && answered > 0 && refused > 0 && again >= 0,
		"a bridge that is short of memory refuses sessions and bodies with 503, answers calls, and accepts sessions "+
			"when others end",
		"with %d MiB %d sessions, then %q; call answered: %v; of %d bodies of 4 MiB %d answered and %d refused; new "+
			"sessions after %d ms",
		memory>>20, len(open), refusal, call.OK(), answered+refused, answered, refused, again)
	r.report("L8s", took <= memory*100/85, "at most the memory that the limit is 85 % of",
		"at most %d MiB of %d", took>>20, memory*100/85>>20)
	return err
}

// fillSessions opens sessions until one is rejected, and returns the headers of each, and the reason.
func fillSessions(ctx context.Context, c *loadgen.Caller) (open []string, refusal string) {
	for ctx.Err() == nil {
		c.Leave()
		if err := c.Open(); err != nil {
			return open, err.Error()
		}
		open = append(open, c.Headers(""))
	}
	return open, ""
}

// fillBodies sends long bodies concurrently, and counts their outcomes. All are calls that are answered with an
// error.
func fillBodies(ctx context.Context, b *Bridge, headers string) (answered, refused int, err error) {
	const size = 4<<20 - 4096
	rest := `"` + strings.Repeat("x", size) + `"}}}`
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	var wg sync.WaitGroup
	var mu sync.Mutex
	for n := range 64 {
		body := strings.Replace(start, `"id":1`, fmt.Sprint(`"id":`, n), 1) + rest // ids must be unique
		wg.Go(func() {
			for range 4 {
				if ctx.Err() != nil {
					return
				}
				status, retry, sendErr := sendBody(client, b.URL, headers, body)
				mu.Lock()
				switch {
				case sendErr != nil:
					err = sendErr
				case status == http.StatusOK:
					answered++
				case status == http.StatusServiceUnavailable && retry != "":
					refused++
				default:
					err = fmt.Errorf("a body of 4 MiB: status %d, Retry-After %q", status, retry)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return answered, refused, err
}

func sendBody(c *http.Client, url, headers, body string) (status int, retry string, err error) {
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	for line := range strings.SplitSeq(strings.TrimSpace(headers), "\r\n") {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := c.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	return resp.StatusCode, resp.Header.Get("Retry-After"), nil
}
