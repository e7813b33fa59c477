package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/mcpbridge/mcpbridge/test/survive/checker"
	"github.com/mcpbridge/mcpbridge/test/survive/loadgen"
)

// streamed is the number of progress notifications in a stream: the maximum without rate limiting.
const streamed = 64

// A cutter is a legacy client that drops and resumes streams.
type cutter struct {
	*loadgen.Caller
	other *loadgen.Caller // in another session
	b     *Bridge
}

func newCutter(b *Bridge, n int) (*cutter, error) {
	c := &cutter{b: b}
	for _, to := range []**loadgen.Caller{&c.Caller, &c.other} {
		caller, err := loadgen.NewCaller(b.URL, loadgen.Legacy, n)
		if err == nil {
			err = caller.Open()
		}
		if err != nil {
			return nil, err
		}
		*to = caller
	}
	return c, nil
}

func (c *cutter) end() {
	c.End()
	c.other.End()
}

// cut makes a call and closes the connection after a number of bytes of the stream. It returns the complete events.
func (c *cutter) cut(token string, ms, bytesRead int) (seen []checker.Message, read int, err error) {
	body := loadgen.Request(loadgen.Legacy, loadgen.Work{Token: token, Ms: ms, Events: streamed})
	resp, err := c.Send(http.MethodPost, c.Headers(""), body)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	return c.read(resp, bytesRead)
}

// resume resumes after an event, and closes the connection after a number of bytes, or if negative at the end.
func (c *cutter) resume(after string, bytesRead int) (seen []checker.Message, err error) {
	resp, err := c.Stream(c.Conn, after)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		c.Close()
		return nil, fmt.Errorf("resume after %s: status %d", after, resp.StatusCode)
	}
	seen, _, err = c.read(resp, bytesRead)
	return seen, err
}

// foreign tries to resume after an event of another session.
func (c *cutter) foreign(after string) (*http.Response, []byte, error) {
	return c.other.Do(http.MethodGet, c.other.Headers("")+"Last-Event-ID: "+after+"\r\n", nil)
}

func (c *cutter) read(resp *http.Response, bytesRead int) (seen []checker.Message, read int, err error) {
	var text []byte
	if bytesRead >= 0 {
		text = make([]byte, bytesRead)
		read, err = io.ReadFull(resp.Body, text)
		text = text[:read]
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = nil // the stream is shorter
		}
		c.Close()
	} else {
		text, err = io.ReadAll(resp.Body)
		read = len(text)
	}
	if err != nil {
		c.Close()
		return nil, read, err
	}
	whole := text[:bytes.LastIndex(text, []byte("\n\n"))+1]
	if len(whole) > 0 {
		whole = text[:len(whole)+1]
	}
	err = loadgen.ReadEvents(bytes.NewReader(whole), func(m checker.Message) bool {
		seen = append(seen, m)
		return true
	})
	return seen, read, err
}

// check verifies a complete stream: all progress, in order, and the result.
func check(whole []checker.Message, token string) string {
	messages := slices.DeleteFunc(slices.Clone(whole), func(m checker.Message) bool { return m.Data == "" })
	call := checker.Call{Token: token}
	for _, m := range messages {
		loadgen.Note(&call, m)
	}
	if !call.OK() || len(call.Events) != streamed || len(call.Foreign) > 0 {
		return fmt.Sprintf("%d events, answers %+v, foreign %v", len(call.Events), call.Answers, call.Foreign)
	}
	for i, n := range call.Events {
		if n != i+1 {
			return fmt.Sprintf("progress %v", call.Events)
		}
	}
	return ""
}

// resumeStreams is R10: a stream is cut at every byte, and at random ones, and resumed.
func resumeStreams(ctx context.Context, r *Rig) error {
	b, err := r.start(ctx, setup{})
	if err != nil {
		return err
	}
	first, err := newCutter(b, 0)
	if err != nil {
		return err
	}
	_, length, err := first.cut(fmt.Sprintf("cut-%09d", 0), 0, 1<<20)
	first.end()
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var wrongs []string
	ctx, enough := context.WithCancel(ctx)
	defer enough()
	wrong := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		wrongs = append(wrongs, fmt.Sprintf(format, args...))
		if len(wrongs) == 100 { // a client waits a minute for each lost event
			enough()
		}
	}
	var next, cuts, resumed, foreign, random atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for n := range 4 {
		wg.Go(func() {
			c, err := newCutter(b, n)
			if err != nil {
				errs[n] = err
				return
			}
			defer c.end()
			for ctx.Err() == nil {
				at := int(next.Add(1) - 1)
				if at > length {
					return
				}
				cuts.Add(1)
				token := fmt.Sprintf("cut-%09d", at+1)
				seen, _, err := c.cut(token, 0, at)
				if err != nil {
					wrong("cut at byte %d: %v", at, err)
					continue
				}
				if len(seen) == 0 {
					continue // without an event id there is nothing to resume
				}
				resumed.Add(1)
				last := seen[len(seen)-1].ID
				rest, err := c.resume(last, -1)
				whole, wholeErr := c.resume(seen[0].ID, -1)
				if err = errors.Join(err, wholeErr); err != nil {
					wrong("cut at byte %d: %v", at, err)
					continue
				}
				whole = append(seen[:1:1], whole...)
				for _, why := range []string{
					check(whole, token), checker.Suffix(whole, rest, last),
					checker.Suffix(whole, slices.Concat(seen[1:], rest), seen[0].ID),
				} {
					if why != "" {
						wrong("cut at byte %d: %s", at, why)
					}
				}
				if at%16 == 0 {
					foreign.Add(1)
					resp, text, err := c.foreign(last)
					if err != nil || resp.StatusCode != http.StatusBadRequest {
						wrong("cut at byte %d: resumed in another session: %v %.200s", at, err, text)
					}
				}
			}
		})
	}
	wg.Wait()
	total := int64(r.cycles(1000, 50_000))
	for n := range 8 { // calls in flight, cut twice
		wg.Go(func() {
			c, err := newCutter(b, n)
			if err != nil {
				errs[n] = err
				return
			}
			defer c.end()
			for ctx.Err() == nil {
				i := random.Add(1)
				if i > total {
					return
				}
				token := fmt.Sprintf("run-%09d", i)
				seen, _, err := c.cut(token, 30, rand.IntN(length))
				if err != nil || len(seen) == 0 {
					if err != nil {
						wrong("random cut: %v", err)
					}
					continue
				}
				for again, limit := 0, rand.IntN(length); again < 2; again, limit = again+1, -1 {
					more, err := c.resume(seen[len(seen)-1].ID, limit)
					if err != nil {
						wrong("random cut: %v", err)
					}
					seen = append(seen, more...)
				}
				if why := check(seen, token); why != "" {
					wrong("random cuts: %s", why)
				}
			}
		})
	}
	wg.Wait()
	if _, err := b.stop(); err != nil {
		return err
	}
	why := ""
	if len(wrongs) > 0 {
		why = "; the first: " + strings.Join(wrongs[:1], "")
	}
	r.report("R10", len(wrongs) == 0 && resumed.Load() > 0,
		"a stream of 64 events cut at every byte and at random: 0 events lost, repeated or of other calls",
		"cut at each of %d bytes, %d resumed, %d also tried in another session; %d calls in flight cut twice at "+
			"random; %d wrong%s", cuts.Load(), resumed.Load(),
		foreign.Load(), min(random.Load(), total), len(wrongs), why)
	return errors.Join(errs...)
}
