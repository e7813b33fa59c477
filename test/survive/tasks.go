package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mcpbridge/mcpbridge/test/survive/checker"
	"github.com/mcpbridge/mcpbridge/test/survive/loadgen"
)

// The plans of the client of a task.
const (
	answers       = iota // it answers the question of the tool
	cancelsAsked         // it cancels the task while that waits for its answer
	cancelsCalled        // it answers, and cancels the task while the tool runs
)

// A kept task is one as its client has seen it.
type kept struct {
	token, id string
	plan      int
	sent      bool // an answer, acknowledged or not
	// The requests that the bridge has acknowledged.
	updated, cancelled, cancelledAsked bool
	last                               *taskReply // the task when it had ended
	wrong                              []string
}

// A taskReply is the response to a request of tasks.
type taskReply struct {
	Result *struct {
		TaskID        string `json:"taskId"`
		Status        string `json:"status"`
		LastUpdatedAt string `json:"lastUpdatedAt"`
		InputRequests map[string]struct {
			Params struct {
				Message string `json:"message"`
			} `json:"params"`
		} `json:"inputRequests"`
		Result struct {
			IsError bool `json:"isError"`
			Done    struct {
				Token string `json:"token"`
				PID   int    `json:"pid"`
			} `json:"structuredContent"`
		} `json:"result"`
		Error loadgen.RPCError `json:"error"`
	} `json:"result"`
	Error *loadgen.RPCError `json:"error"`
}

func (t *taskReply) ended() bool {
	return t.Result.Status == "completed" || t.Result.Status == "failed" || t.Result.Status == "cancelled"
}

// A taskLaw is the run of R18.
type taskLaw struct {
	rig   *Rig
	setup setup
	url   string
	b     *Bridge // the killer replaces it

	backendKills, bridgeKills, clientKills atomic.Int64
	unacknowledged                         atomic.Int64 // creations without a response
	progress                               atomic.Int64 // tasks created plus tasks ended
}

// keepTasks is R18: tasks with questions and cancellations, while their backend, their bridge and their clients are
// killed.
func keepTasks(ctx context.Context, r *Rig) error {
	n, kills := 10_000, r.cycles(40, 1000)
	if r.laws {
		n, kills = 2000, 20
	}
	l := &taskLaw{rig: r, setup: taskSetup(r, true)}
	var err error
	if l.b, err = r.start(ctx, l.setup); err != nil {
		return err
	}
	l.url = l.b.URL
	l.setup.dir, l.setup.addr = l.b.Dir, strings.TrimSuffix(strings.TrimPrefix(l.url, "http://"), "/mcp")
	all := make([]*kept, n)
	for i := range all {
		plan := []int{answers, answers, answers, cancelsAsked, cancelsCalled}[i%5]
		all[i] = &kept{token: loadgen.NewToken(), plan: plan}
	}
	began := time.Now()
	killer := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { killer <- l.kill(ctx, kills, int64(2*n)) }()
	err = l.each(ctx, all, l.create) // all of them wait at a time
	created := time.Since(began)
	if err == nil {
		err = l.each(ctx, all, l.step)
	}
	cancel()
	if err := errors.Join(err, <-killer); err != nil {
		return err
	}
	took := time.Since(began)
	// All tasks are the same after a last kill of the bridge.
	if err := l.killBridge(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	if err := l.each(context.WithoutCancel(ctx), all, l.check); err != nil {
		return err
	}
	journal, err := l.b.journal(0)
	if err != nil {
		return err
	}
	if _, err := l.b.stop(); err != nil {
		return err
	}
	l.report(all, journal, created, took)
	return nil
}

// taskSetup returns the setup of a bridge whose calls become tasks.
func taskSetup(r *Rig, stored bool) setup {
	return setup{config: func(b *Bridge) string {
		state := ""
		if stored {
			state = fmt.Sprintf("state: {dir: %q}\n", filepath.Join(b.Dir, "state"))
		}
		return fmt.Sprintf("version: 1\n%sbackends: [{name: faultplug, launch: {command: [%q], env: "+
			"{FAULTPLUG_JOURNAL: %q}}, tasks: {after: always}}]\n", state, r.plugin, b.Journal)
	}}
}

// each calls f for all tasks, by 64 clients, until it returns true for each.
func (l *taskLaw) each(ctx context.Context, all []*kept, f func(c *loadgen.Conn, k *kept) bool) error {
	queue := make(chan *kept, len(all))
	for _, k := range all {
		queue <- k
	}
	var left atomic.Int64
	left.Store(int64(len(all)))
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			c, err := loadgen.NewConn(l.url)
			if err != nil {
				return
			}
			defer c.Close()
			for left.Load() > 0 && ctx.Err() == nil {
				select {
				case k := <-queue:
					if f(c, k) || len(k.wrong) > 0 {
						left.Add(-1)
						l.progress.Add(1)
					} else {
						queue <- k
					}
				case <-time.After(10 * time.Millisecond):
				}
			}
		})
	}
	wg.Wait()
	if left.Load() > 0 {
		return fmt.Errorf("%d of %d tasks did not end within 20 minutes", left.Load(), len(all))
	}
	return nil
}

// kill kills the backend or the bridge, evenly over the progress of the clients.
func (l *taskLaw) kill(ctx context.Context, kills int, most int64) error {
	for n := 1; n <= kills; n++ {
		for l.progress.Load() < most*int64(n)/int64(kills+1) {
			time.Sleep(time.Millisecond)
			if ctx.Err() != nil {
				return nil //nolint:nilerr // the clients have finished
			}
		}
		if n%4 == 0 {
			if err := l.killBridge(ctx); err != nil {
				return err
			}
			continue
		}
		for _, pid := range children(l.b.PID) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // may have exited
		}
		l.backendKills.Add(1)
	}
	return nil
}

func (l *taskLaw) killBridge(ctx context.Context) error {
	l.b.kill()
	l.bridgeKills.Add(1)
	b, err := l.rig.start(ctx, l.setup)
	if err == nil {
		l.b = b
	}
	return err
}

// do sends a request. It returns nil if the response was lost. One client in 16 is killed during its request.
func (l *taskLaw) do(c *loadgen.Conn, k *kept, method, name, params string) *taskReply {
	headers := "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: " + method + "\r\nMcp-Name: " + name + "\r\n"
	request := loadgen.TaskRequest(k.token, method, params)
	if rand.IntN(16) == 0 {
		l.clientKills.Add(1)
		c.Abandon(headers, request, time.Duration(rand.IntN(2000))*time.Microsecond)
		return nil
	}
	_, body, err := c.Do(http.MethodPost, headers, request)
	t := &taskReply{}
	if err != nil {
		time.Sleep(time.Millisecond) // the bridge may be starting
		return nil
	}
	if err := json.Unmarshal(body, t); err != nil || t.Result == nil && t.Error == nil {
		k.wrong = append(k.wrong, fmt.Sprintf("%s: invalid response %.200q", method, body))
		return nil
	}
	return t
}

// create creates the task, and returns true once it waits for its answer or has ended.
func (l *taskLaw) create(c *loadgen.Conn, k *kept) bool {
	if k.id != "" {
		t := l.get(c, k)
		return t != nil && t.Result.Status != "working"
	}
	t := l.do(c, k, "tools/call", "question", fmt.Sprintf(`"name":"question","arguments":{"token":%q,"ms":%d}`, k.token,
		map[int]int{cancelsCalled: 100}[k.plan]))
	switch {
	case t == nil || t.Error != nil && t.Error.Data.Outcome == "not_executed":
		l.unacknowledged.Add(1)
		k.token = loadgen.NewToken() // the task may exist
	case t.Error != nil || t.Result.TaskID == "":
		k.wrong = append(k.wrong, fmt.Sprintf("tools/call: %+v, not a task", t))
	default:
		k.id = t.Result.TaskID
	}
	return false
}

// step requests the task once, and answers or cancels it. It returns true when the task has ended.
func (l *taskLaw) step(c *loadgen.Conn, k *kept) bool {
	t := l.get(c, k)
	switch {
	case t == nil:
		return false
	case t.ended():
		k.last = t
		return true
	case t.Result.Status == "input_required":
		l.answer(c, k, t)
	case k.cancelled:
		k.wrong = append(k.wrong, "it continues, and its cancellation was acknowledged")
	case k.sent && k.plan == cancelsCalled:
		if t := l.request(c, k, "tasks/cancel", ""); t != nil {
			k.cancelled = true
		}
	}
	return false
}

// get requests the task.
func (l *taskLaw) get(c *loadgen.Conn, k *kept) *taskReply { return l.request(c, k, "tasks/get", "") }

// request sends a request for the task, which must exist.
func (l *taskLaw) request(c *loadgen.Conn, k *kept, method, params string) *taskReply {
	t := l.do(c, k, method, k.id, fmt.Sprintf(`"taskId":%q%s`, k.id, params))
	if t != nil && t.Error != nil {
		k.wrong = append(k.wrong, fmt.Sprintf("%s: %+v", method, *t.Error))
		return nil
	}
	return t
}

// answer answers the question of the task, or cancels it.
func (l *taskLaw) answer(c *loadgen.Conn, k *kept, t *taskReply) {
	if k.updated || k.cancelled || len(t.Result.InputRequests) != 1 {
		k.wrong = append(k.wrong, fmt.Sprintf("it asks %d questions (acknowledged: answer %t, cancellation %t)",
			len(t.Result.InputRequests), k.updated, k.cancelled))
		return
	}
	for key, q := range t.Result.InputRequests {
		if q.Params.Message != k.token {
			k.wrong = append(k.wrong, "it asks the question of "+q.Params.Message)
			return
		}
		if k.plan == cancelsAsked {
			k.cancelled = l.request(c, k, "tasks/cancel", "") != nil
			k.cancelledAsked = k.cancelled
			return
		}
		k.sent = true
		k.updated = l.request(c, k, "tasks/update", fmt.Sprintf(
			`,"inputResponses":{%q:{"action":"accept","content":{"value":%q}}}`, key, k.token)) != nil
	}
}

// check requests the task again, which must not have changed since it ended.
func (l *taskLaw) check(c *loadgen.Conn, k *kept) bool {
	if k.last == nil {
		return true
	}
	t := l.get(c, k)
	if t == nil {
		return false
	}
	if got, want := fmt.Sprintf("%+v", t.Result), fmt.Sprintf("%+v", k.last.Result); got != want {
		k.wrong = append(k.wrong, fmt.Sprintf("it ended as %s, and later as %s", want, got))
	}
	return true
}

// report compares the tasks with the journal of the backend.
func (l *taskLaw) report(all []*kept, journal []checker.Entry, created, took time.Duration) {
	count := map[string]int{}
	did := map[string]map[string]int{} // the entries by token and kind
	for _, e := range journal {
		if did[e.Token] == nil {
			did[e.Token] = map[string]int{}
		}
		did[e.Token][e.What]++
	}
	why, wrong := "", 0
	for _, k := range all {
		if k.last != nil {
			count[k.last.Result.Status]++
			k.compare(did[k.token])
		}
		if len(k.wrong) > 0 {
			wrong++
			if why == "" {
				why = fmt.Sprintf("; the first: task %s of %s: %.500s", k.id, k.token, strings.Join(k.wrong, "; "))
			}
		}
	}
	l.rig.report("R18", wrong == 0 && count["completed"] > 0 && count["cancelled"] > 0,
		"each task ends once, with its own question and result; nothing that was acknowledged is lost",
		"%d tasks at a time: %d wrong; %d completed, %d cancelled, %d failed; %d kills of the backend, %d of the "+
			"bridge, %d of clients, %d creations without a response; created in %v, ended in %v%s",
		len(all), wrong, count["completed"], count["cancelled"], count["failed"], l.backendKills.Load(),
		l.bridgeKills.Load(), l.clientKills.Load(), l.unacknowledged.Load(), created.Round(time.Millisecond),
		took.Round(time.Millisecond), why)
}

// compare compares an ended task with what the tool did.
func (k *kept) compare(did map[string]int) {
	r := k.last.Result
	outcome := r.Error.Data.Outcome
	expect := func(ok bool, what string) {
		if !ok {
			k.wrong = append(k.wrong, fmt.Sprintf("%s: %+v, executed: %v", what, *r, did))
		}
	}
	expect(did[checker.Begin] <= 1, "executed more than once")
	switch r.Status {
	case "completed":
		expect(!r.Result.IsError && r.Result.Done.Token == k.token, "the result of another")
		expect(did[checker.Begin] == 1 && did[checker.End] == 1, "a result without work")
		expect(!k.cancelledAsked, "its cancellation was acknowledged")
	case "cancelled":
		expect(k.plan != answers, "it was not cancelled")
		expect(k.plan != cancelsAsked || did[checker.Begin] == 0, "executed without an answer")
	case "failed":
		expect(outcome == "not_executed" || outcome == "unknown", "no outcome")
		expect(outcome != "not_executed" || did[checker.Begin] == 0, "executed")
		expect(!k.cancelledAsked, "its cancellation was acknowledged")
	}
}
