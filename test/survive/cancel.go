package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcpbridge/mcpbridge/test/survive/checker"
	"github.com/mcpbridge/mcpbridge/test/survive/loadgen"
)

// prompt is the time limit for the cancellation of a call. After a longer time, the call ended for another reason, such
// as the end of its session.
const prompt = 10 * time.Second

// callConcurrently makes calls of several concurrent callers of an era.
func callConcurrently(url, era string, callers, calls int,
	call func(c *loadgen.Caller, aside *loadgen.Conn) checker.Call,
) ([]checker.Call, error) {
	history := make([][]checker.Call, callers)
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for n := range callers {
		wg.Go(func() {
			c, err := loadgen.NewCaller(url, era, n)
			if err == nil {
				err = c.Open()
			}
			if err != nil {
				errs[n] = err
				return
			}
			defer c.End()
			aside, err := loadgen.NewConn(url)
			if err != nil {
				errs[n] = err
				return
			}
			defer aside.Close()
			for range calls / callers {
				made := call(c, aside)
				history[n] = append(history[n], made)
				if made.Broken != "" || made.End-made.Begin > int64(prompt) { // further calls would take as long
					return
				}
			}
		})
	}
	wg.Wait()
	var all []checker.Call
	for _, h := range history {
		all = append(all, h...)
	}
	return all, errors.Join(errs...)
}

// finished waits until the journal contains the end of every started call.
func finished(b *Bridge, from int64) ([]checker.Entry, error) {
	for until := time.Now().Add(20 * time.Second); ; {
		journal, err := b.journal(from)
		if err != nil {
			return nil, err
		}
		open := 0
		for _, e := range journal {
			switch e.What {
			case checker.Begin:
				open++
			case checker.End, checker.Cancel:
				open--
			}
		}
		if open <= 0 || time.Now().After(until) {
			return journal, nil
		}
		time.Sleep(50 * time.Millisecond) // another process writes the journal
	}
}

// cancelCalls is R8: the time from a caller's cancellation to the end of the work, in both eras.
func cancelCalls(ctx context.Context, r *Rig) error {
	b, err := r.start(ctx, setup{})
	if err != nil {
		return err
	}
	calls := r.cycles(1000, 50_000)
	notified := func(c *loadgen.Caller, aside *loadgen.Conn) checker.Call {
		var notify sync.WaitGroup
		var refused error
		call := c.Call(loadgen.Work{Tool: "hang", OnEvent: func(call *checker.Call) bool {
			if call.Cancelled == 0 {
				call.Cancelled = time.Now().UnixNano()
				token := call.Token
				notify.Go(func() { refused = c.Notify(aside, token) })
			}
			return true
		}})
		notify.Wait()
		if refused != nil {
			call.Broken = refused.Error()
		}
		return call
	}
	legacy, err := callConcurrently(b.URL, loadgen.Legacy, 4, calls, notified)
	if err != nil {
		return err
	}
	disconnected := func(c *loadgen.Caller, _ *loadgen.Conn) checker.Call {
		return c.Call(loadgen.Work{Tool: "hang", OnEvent: func(*checker.Call) bool { return false }})
	}
	modern, err := callConcurrently(b.URL, loadgen.Modern, 4, calls, disconnected)
	if err != nil {
		return err
	}
	journal, err := finished(b, 0)
	if err != nil {
		return err
	}
	if _, err := b.stop(); err != nil {
		return err
	}
	at := map[string]int64{}
	for _, e := range journal {
		if e.What == checker.Cancel {
			at[e.Token] = e.At
		}
	}
	history := slices.Concat(legacy, modern)
	wrongs := checker.Rule{DropCancels: func(era string) bool { return era == loadgen.Modern }}.Judge(history, journal)
	var took [2][]time.Duration
	missed, late := 0, 0
	for i, c := range history {
		canceled := max(c.Cancelled, c.Dropped)
		if canceled == 0 || c.Broken != "" || at[c.Token] == 0 || at[c.Token]-canceled > int64(prompt) {
			missed++
			continue
		}
		late += len(c.Answers) + c.Late // a canceled call gets no response
		which := 0
		if i >= len(legacy) {
			which = 1
		}
		took[which] = append(took[which], time.Duration(at[c.Token]-canceled))
	}
	all := slices.Concat(took[0], took[1])
	if len(wrongs) > 0 {
		if err := r.keepHistory(b, history, wrongs); err != nil {
			return err
		}
	}
	r.report("R8", missed+late+len(wrongs) == 0, "every cancellation ends the work, 0 late messages",
		"%d cancellations: %d missed, %d late, %d wrong %s", len(history), missed, late, len(wrongs), kinds(wrongs))
	r.report("R8t", quantile(all, .5) <= 2*time.Millisecond && quantile(all, .99) <= 10*time.Millisecond &&
		quantile(all, 1) <= 100*time.Millisecond,
		"from the cancellation to the end of the work p50 2 ms, p99 10 ms, max 100 ms",
		"by notification p50 %v, p99 %v, max %v; by disconnect p50 %v, p99 %v, max %v",
		quantile(took[0], .5), quantile(took[0], .99), quantile(took[0], 1),
		quantile(took[1], .5), quantile(took[1], .99), quantile(took[1], 1))
	return nil
}

// dropStream opens the event stream of a client of 2024-11-05, makes a call, and closes the stream when w.OnEvent
// returns false.
func dropStream(ctx context.Context, c *http.Client, endpoint string, number int,
	w loadgen.Work,
) (checker.Call, error) {
	w.Token = loadgen.NewToken()
	call := checker.Call{Token: w.Token, Caller: number, Era: loadgen.Legacy, Tool: "work"}
	ctx, drop := context.WithCancel(ctx)
	defer drop()
	send := func(method, to string, body []byte, status int) (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, method, to, bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "text/event-stream")
		resp, err := c.Do(req)
		if err == nil && resp.StatusCode != status {
			resp.Body.Close()
			err = fmt.Errorf("%s %.100s: %s", method, body, resp.Status)
		}
		return resp, err
	}
	stream, err := send(http.MethodGet, endpoint, nil, http.StatusOK)
	if err != nil {
		return call, err
	}
	defer stream.Body.Close()
	to := "" // URL for messages, from the first event
	post := func(bodies ...[]byte) bool {
		for _, body := range bodies {
			var resp *http.Response
			if resp, err = send(http.MethodPost, to, body, http.StatusAccepted); err != nil {
				return false
			}
			resp.Body.Close()
		}
		return true
	}
	ended := loadgen.ReadEvents(stream.Body, func(m checker.Message) bool {
		switch {
		case to == "":
			to = endpoint + m.Data[strings.IndexByte(m.Data, '?'):]
			return post([]byte(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},` +
				`"clientInfo":{"name":"survive","version":"1"}}}`))
		case call.Begin == 0: // the response to initialize
			call.Begin = time.Now().UnixNano()
			return post([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`),
				loadgen.Request(loadgen.Legacy, w))
		}
		loadgen.Note(&call, m)
		if len(call.Answers) > 0 || w.OnEvent(&call) {
			return len(call.Answers) == 0
		}
		call.Dropped = time.Now().UnixNano()
		drop()
		return false
	})
	call.End = time.Now().UnixNano()
	if call.Dropped == 0 && len(call.Answers) == 0 {
		err = errors.Join(err, ended, errors.New("the stream ended"))
	}
	return call, err
}

// disconnectClients is R9: the disconnect of a legacy client does not cancel its calls.
func disconnectClients(ctx context.Context, r *Rig) error {
	b, err := r.start(ctx, setup{})
	if err != nil {
		return err
	}
	clients := 8
	sessions := make([]*loadgen.Caller, clients) // the end of a session would cancel its calls
	var mu sync.Mutex
	var history []checker.Call
	var failed error
	old := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	var wg sync.WaitGroup
	for n := range clients {
		if sessions[n], err = loadgen.NewCaller(b.URL, loadgen.Legacy, n); err != nil {
			return err
		}
		wg.Go(func() {
			for range r.cycles(2000, 100_000) / clients {
				at := 1 + rand.IntN(5)
				call := sessions[n].Call(loadgen.Work{
					Ms: 10 + rand.IntN(30), Events: 5,
					OnEvent: func(c *checker.Call) bool { return len(c.Events) < at },
				})
				mu.Lock()
				history = append(history, call)
				mu.Unlock()
			}
			for range r.cycles(400, 20_000) / clients {
				at := 1 + rand.IntN(5)
				call, err := dropStream(ctx, old, b.URL, n, loadgen.Work{
					Ms: 10 + rand.IntN(30), Events: 5,
					OnEvent: func(c *checker.Call) bool { return len(c.Events) < at },
				})
				mu.Lock()
				history = append(history, call)
				failed = errors.Join(failed, err)
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	old.CloseIdleConnections()
	if failed != nil {
		return failed
	}
	journal, err := finished(b, 0)
	if err != nil {
		return err
	}
	ends := map[string]bool{}
	for _, e := range journal {
		if e.What == checker.End {
			ends[e.Token] = true
		}
	}
	dropped, unfinished := 0, 0
	for i := range history {
		if history[i].Dropped != 0 {
			dropped++
		}
		if !ends[history[i].Token] {
			unfinished++
		}
	}
	wrongs := checker.Rule{DropCancels: func(string) bool { return false }}.Judge(history, journal)
	for _, c := range sessions {
		c.End()
	}
	if _, err := b.stop(); err != nil {
		return err
	}
	why := ""
	if len(wrongs) > 0 {
		why = fmt.Sprintf("; the first: %+v", wrongs[0])
	}
	r.report("R9", dropped > 0 && unfinished+len(wrongs) == 0, "a legacy disconnect cancels no call",
		"%d disconnects within %d calls, %d of them over HTTP+SSE: %d did not end, %d wrong%s", dropped, len(history),
		r.cycles(400, 20_000), unfinished, len(wrongs), why)
	return nil
}
