package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/mcpbridge/mcpbridge/test/survive/loadgen"
)

// measureTasks is L11: the memory of tasks that wait for answers.
func measureTasks(ctx context.Context, r *Rig) error {
	const n, warm = 10_000, 500
	each := map[string]float64{} // KiB
	for _, era := range []string{loadgen.Modern, loadgen.Legacy} {
		// There is little garbage with GOGC=10: at most a tenth of the heap.
		l, err := r.waitingBridge(ctx, "GOGC=10")
		if err != nil {
			return err
		}
		create := l.waiting
		if era == loadgen.Legacy {
			create = l.waitingInSession
		}
		if _, err := create(ctx, warm); err != nil {
			return err
		}
		before := settled(l.b).RSS
		if _, err := create(ctx, n); err != nil {
			return err
		}
		each[era] = float64(settled(l.b).RSS-before) / n / 1024
		if _, err := l.b.stop(); err != nil {
			return err
		}
	}
	r.report("L11", each[loadgen.Modern] <= 4 && each[loadgen.Legacy] <= 4,
		"at most 4 KiB for each task that waits for an answer",
		"%d tasks in %.1f KiB each; in %.1f KiB if a session of 2025-11-25 created them", n, each[loadgen.Modern],
		each[loadgen.Legacy])
	return nil
}

// pollTasks is L12: the CPU time of tasks/get, compared with requests that need no task.
func pollTasks(ctx context.Context, r *Rig) error {
	l, err := r.waitingBridge(ctx)
	if err != nil {
		return err
	}
	all, err := l.waiting(ctx, 10_000)
	if err != nil {
		return err
	}
	took, err := l.comparePolling(all)
	if err != nil {
		return err
	}
	_, err = l.b.stop()
	legacy := float64(took[legacyGet]) / float64(took[ping])
	modern := float64(took[modernGet]) / float64(took[discover])
	r.report("L12", legacy <= 1 && modern <= 1,
		"a tasks/get takes at most the CPU time of a ping, and since 2026-07-28, without pings, of a server/discover",
		"%.2f (%v, %v) and %.2f (%v, %v)", legacy, took[legacyGet], took[ping], modern, took[modernGet], took[discover])
	return err
}

// waitingBridge starts a bridge whose calls become tasks in memory.
func (r *Rig) waitingBridge(ctx context.Context, env ...string) (*taskLaw, error) {
	l := &taskLaw{rig: r, setup: taskSetup(r, false)}
	l.setup.own = env
	var err error
	if l.b, err = r.start(ctx, l.setup); err == nil {
		l.url = l.b.URL
	}
	return l, err
}

// waiting creates tasks that wait for answers.
func (l *taskLaw) waiting(ctx context.Context, n int) ([]*kept, error) {
	all := make([]*kept, n)
	for i := range all {
		all[i] = &kept{token: loadgen.NewToken()}
	}
	err := l.each(ctx, all, l.create)
	for _, k := range all {
		if len(k.wrong) > 0 {
			err = errors.Join(err, errors.New(k.wrong[0]))
			break
		}
	}
	return all, err
}

// waitingInSession creates such tasks in a session of 2025-11-25.
func (l *taskLaw) waitingInSession(_ context.Context, n int) ([]*kept, error) {
	c, err := loadgen.NewCaller(l.url, loadgen.Legacy, 0)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	c.Asked = true
	if err := c.Open(); err != nil {
		return nil, err
	}
	send := func(method, params string) (body []byte, err error) {
		_, body, err = c.Do(http.MethodPost, c.Headers(""),
			fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params))
		return body, err
	}
	all := make([]*kept, n)
	for i := range all {
		body, err := send("tools/call", `{"name":"question","arguments":{"token":"t"},"task":{}}`)
		_, rest, ok := strings.Cut(string(body), `"taskId":"`)
		if err != nil || !ok {
			return nil, fmt.Errorf("tools/call: %w: %.200s", err, body)
		}
		id, _, _ := strings.Cut(rest, `"`)
		all[i] = &kept{id: id}
	}
	for _, k := range all {
		for began := time.Now(); ; time.Sleep(time.Millisecond) {
			body, err := send("tasks/get", fmt.Sprintf(`{"taskId":%q}`, k.id))
			if err != nil || time.Since(began) > time.Minute {
				return nil, fmt.Errorf("tasks/get: %w: %.200s", err, body)
			}
			if bytes.Contains(body, []byte(`"input_required"`)) {
				break
			}
		}
	}
	return all, nil
}

// The kinds of requests whose CPU times are compared.
const (
	ping      = "ping"
	discover  = "server/discover"
	legacyGet = "tasks/get before 2026-07-28"
	modernGet = "tasks/get"
)

// comparePolling sends requests of each kind for each task. It returns the CPU times of the bridge for one.
func (l *taskLaw) comparePolling(all []*kept) (map[string]time.Duration, error) {
	c, err := loadgen.NewCaller(l.url, loadgen.Legacy, 0)
	if err == nil {
		err = c.Open()
	}
	if err != nil {
		return nil, err
	}
	defer c.Close()
	modern := func(k *kept, method, params string) (string, []byte) {
		return "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: " + method + "\r\nMcp-Name: " + k.id + "\r\n",
			loadgen.TaskRequest(k.token, method, params)
	}
	kinds := map[string]func(k *kept) (headers string, body []byte){
		ping: func(k *kept) (string, []byte) {
			return c.Headers(""), fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%q,"method":"ping"}`, k.token)
		},
		legacyGet: func(k *kept) (string, []byte) {
			return c.Headers(""), fmt.Appendf(nil,
				`{"jsonrpc":"2.0","id":%q,"method":"tasks/get","params":{"taskId":%q}}`, k.token, k.id)
		},
		discover:  func(k *kept) (string, []byte) { return modern(k, "server/discover", `"x":0`) },
		modernGet: func(k *kept) (string, []byte) { return modern(k, "tasks/get", fmt.Sprintf(`"taskId":%q`, k.id)) },
	}
	took := map[string]time.Duration{}
	const passes, round = 5, 500 // the kinds alternate, because the machine has other work
	for i := range passes * len(all) / round {
		from := i * round % len(all)
		for kind, request := range kinds {
			before := cpu(l.b.PID)
			for _, k := range all[from : from+round] {
				headers, body := request(k)
				resp, answer, err := c.Do(http.MethodPost, headers, body)
				if err != nil || resp.StatusCode != http.StatusOK || !bytes.Contains(answer, []byte(`"result"`)) {
					return nil, fmt.Errorf("%s: %w: %.200s", kind, err, answer)
				}
			}
			took[kind] += cpu(l.b.PID) - before
		}
	}
	for kind := range took {
		took[kind] = (took[kind] / time.Duration(passes*len(all))).Round(100 * time.Nanosecond)
	}
	return took, nil
}

// cpu returns the CPU time of the threads of a process.
func cpu(pid int) (all time.Duration) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, name := range files {
		text, _ := os.ReadFile(name) // the thread may have exited
		first, _, _ := bytes.Cut(text, []byte{' '})
		ns, _ := strconv.ParseInt(string(first), 10, 64)
		all += time.Duration(ns)
	}
	return all
}
