package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/mcpbridge/mcpbridge/internal/child"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

const (
	manySteps  = 10_000
	sideBySide = 64
	soon       = time.Second     // in which a cancelled call ends
	change     = 5 * time.Second // in which a listener is told
	drainTime  = 6 * time.Second // in which a process that is told to stop ends: calls get 5 s
)

// What calls do.

func calling() []row {
	rows := []row{
		{
			name: "result", does: "returns results, failures and exact errors", clause: inService + "CallToolResponse",
			why: "the model reads a tool's failure, the client an error", fix: "a failure is a result with is_error; an exact error is a status with a JsonRpcError in its details",
			run: results,
		},
		{
			name: "bad-arguments", does: "goes on after arguments that make no sense", clause: inService + "CallToolRequest",
			why: "whoever calls may send anything", fix: "answer with is_error or INVALID_ARGUMENT, and say what is wrong with the arguments",
			run: badArguments,
		},
		{
			name: "blobs", does: "takes and returns megabytes", clause: inStart,
			why: "gRPC in most languages refuses more than 4 MiB of its own accord; the bridge has its own limit", fix: "raise the limits of messages that are received and sent, to 64 MiB for instance",
			run: blobs,
		},
		{
			name: "unicode", does: "keeps every character and every digit", clause: inService + "CallToolRequest.arguments",
			why: "arguments are the text that the caller sent", fix: "read numbers as integers or decimals and not as floating point, and text as UTF-8",
			run: unicode,
		},
		{
			name: "progress", does: fmt.Sprintf("tells %d steps of progress in their order, and then the result", manySteps), clause: inService + "CallToolResponse",
			why: "a client shows progress as it comes", fix: "send each event on the call's own stream, and wait until it is taken",
			run: progress,
		},
		{
			name: "logs", does: "logs from the level that the caller asked for", clause: inService + "CallContext.log_level",
			why: "a caller that did not ask is not to be bothered, and unspecified is not asked", fix: "compare the message's level with log_level before sending",
			run: logs,
		},
		{
			name: "cancel", does: "ends a call soon after it is cancelled", clause: inService + "CallTool", why: "nobody waits for it, and it takes room from others",
			fix: "end the handler when gRPC says that the call is cancelled: a context that ends, an exception, a signal",
			run: cancelling,
		},
		{
			name: "deadline", does: "ends a call at its deadline", clause: inService + "CallTool", why: "nobody waits for it any more",
			fix: "treat a deadline as cancelling: gRPC says both in the same way",
			run: deadline,
		},
		{
			name: "unknown-members", does: "keeps members that the contract does not know", clause: inService + "CallToolRequest.extra",
			why: "newer clients and servers say things that this contract has no words for", fix: "pass extra and _meta on as the bytes they are",
			run: unknownMembers,
		},
		{
			name: "questions", does: "asks several things at once, then more, and remembers", clause: inInput + "InputRequired",
			why: "asking is returning: the call is made again with the answers and the state", fix: "ask what is independent in one round; keep in the state what an earlier round learned",
			run: questions,
		},
		{
			name: "answers", does: "tells apart a user who declines, one who closes the question, and a client that cannot or does not answer", clause: inInput + "InputError",
			why: "a no is not the same as no answer", fix: "look at the answer's action and at its error's reason",
			run: answers,
		},
		{
			name: "state", does: "refuses a state that it has not said", clause: inInput + "InputRequired.state", why: "a call that goes on from nonsense does something nobody wanted",
			fix: "fail with INVALID_ARGUMENT if the state cannot be read",
			run: func(t *trial) {
				a, err := t.call(t.ctx, "survey", `{}`, func(r *pb.CallToolRequest) { r.State = []byte("nonsense") })
				switch {
				case err != nil:
					t.fails("a state that it has not said", err, codes.InvalidArgument)
				case a.needs != nil || !a.result.GetIsError():
					t.wrong("a state that it has not said is taken for its own")
				}
			},
		},
		{
			name: "side-by-side", does: fmt.Sprintf("keeps %d calls apart", sideBySide), clause: inService + "McpService", why: "calls come concurrently, of different callers",
			fix: "keep what belongs to a call with the call, and not in variables that all share",
			run: together,
		},
		{
			name: "listen", does: "tells listeners what changes, and only what they asked for", clause: inService + "Listen", why: "clients keep lists and contents until they are told",
			fix: "acknowledge first; then send a change for each list and each resource that was asked for",
			run: listening,
		},
		{
			name: "noise", does: "goes on after it has printed", clause: inStart, why: "what is printed is log, and a tool that prints must not stop",
			fix: "leave standard output and standard error to be read by the bridge; write the handshake to the real standard output only",
			run: func(t *trial) {
				if t.says("noise", `{}`, "quiet") {
					t.says("echo", `{"after":"noise"}`, `{"after":"noise"}`)
				}
				if t.proc != nil {
					t.proc.mu.Lock()
					defer t.proc.mu.Unlock()
					if n := len(t.proc.lines); n != 1 {
						t.wrong("it has printed %d handshakes, or more", n)
					}
				}
			},
		},
	}
	for i := range rows {
		rows[i].needs = needsKit
	}
	return rows
}

func results(t *trial) {
	t.says("echo", `{"b":1,"a":2}`, `{"b":1,"a":2}`)
	a, err := t.call(t.ctx, "fail", `{}`)
	if err != nil {
		t.wrong("fail: %s; want a result with is_error", problem(err))
	} else if !a.result.GetIsError() || a.text() != "it does not work" {
		t.wrong("fail: %s; want is_error and the text it does not work", clip(a.result.String()))
	}
	_, err = t.call(t.ctx, "exact", `{}`)
	var rpc *pb.JsonRpcError
	for _, detail := range status.Convert(err).Details() {
		if e, ok := detail.(*pb.JsonRpcError); ok {
			rpc = e
		}
	}
	if rpc.GetCode() != -7 || rpc.GetMessage() != "no luck" || !sameJSON(rpc.GetData(), []byte(`{"n":[1]}`)) {
		t.wrong("exact: want the JSON-RPC error -7, got %v with the detail %v", err, rpc)
	}
}

func badArguments(t *trial) {
	for _, arguments := range []string{
		`[1]`, `"text"`, `null`, `{"n":`, `{"n":1,"n":2}`, "{\"n\":\"\xff\"}", `{"n":1} {"n":2}`, strings.Repeat(`{"n":`, 5000) + "1" + strings.Repeat("}", 5000),
	} {
		for _, tool := range []string{"echo", "steps"} {
			a, err := t.call(t.ctx, tool, arguments)
			if err != nil && status.Code(err) != codes.InvalidArgument {
				t.wrong("%s %s: %s; want is_error or INVALID_ARGUMENT", tool, clip(arguments), problem(err))
			}
			if err == nil && a.needs != nil {
				t.wrong("%s %s asks something", tool, clip(arguments))
			}
		}
	}
	if a, err := t.call(t.ctx, "steps", `{"n":"three"}`); err == nil && !a.result.GetIsError() {
		t.wrong(`steps {"n":"three"} is answered as if three were a number: %s`, a.text())
	} else if err != nil {
		t.fails(`steps {"n":"three"}`, err, codes.InvalidArgument)
	}
	t.says("echo", `{"after":"nonsense"}`, `{"after":"nonsense"}`)
}

func blobs(t *trial) {
	for _, size := range []int{1 << 20, 4<<20 - 4096, 6 << 20} {
		arguments := `{"x":"` + strings.Repeat("x", size) + `"}`
		t.says("echo", arguments, arguments)
		a, err := t.call(t.ctx, "blob", fmt.Sprintf(`{"size":%d}`, size))
		if err != nil {
			t.wrong("blob of %d bytes: %s", size, problem(err))
			continue
		}
		var got []byte
		if c := a.result.GetContent(); len(c) == 1 {
			got = c[0].GetImage().GetData()
		}
		if len(got) != size || size > 0 && (got[size-1] != byte((size-1)%251) || got[0] != 0) {
			t.wrong("blob of %d bytes came with %d, or with others", size, len(got))
		}
	}
}

func unicode(t *trial) {
	const hard = `{"emoji":"👩‍👩‍👧 é","nul":"a\u0000b","separators":"\u2028 ` + "\u2028\u2029" + `","n":9007199254740993,"d":0.1000000000000000055,"e":1e2,"minus":-0.0,"":"","ключ":"значение","a\u0062":[]}`
	t.says("echo", hard, hard)
	a, err := t.call(t.ctx, "structured", hard)
	if err != nil {
		t.wrong("structured: %s", problem(err))
	} else if !bytes.Equal(a.result.GetStructuredContent(), []byte(hard)) {
		t.wrong("structured content is %s, and the arguments were %s", clip(string(a.result.GetStructuredContent())), clip(hard))
	}
	if a, err = t.call(t.ctx, "count", `{}`); err != nil {
		t.wrong("count: %s", problem(err))
		return
	}
	for _, l := range a.logs {
		if l.GetLevel() == pb.LogLevel_LOG_LEVEL_WARNING && !strings.Contains(string(l.GetData()), "9007199254740993") {
			t.wrong("count logs %s, and the number is 9007199254740993", l.GetData())
		}
	}
}

func progress(t *trial) {
	a, err := t.call(t.ctx, "steps", fmt.Sprintf(`{"n":%d}`, manySteps))
	if err != nil {
		t.wrong("steps: %s", problem(err))
		return
	}
	if n := len(a.progress); n != manySteps {
		t.wrong("of %d steps %d were told", manySteps, n)
	}
	for i, p := range a.progress {
		if p.GetProgress() != float64(i) {
			t.wrong("step %d came as %v", i, p.GetProgress())
			break
		}
	}
	if a, err = t.call(t.ctx, "steps", `{"n":3}`, func(r *pb.CallToolRequest) { r.Context.ProgressWanted = false }); err == nil && len(a.progress) > 0 {
		t.defect(Defect{
			What: fmt.Sprintf("%d steps were told to a caller that does not want them", len(a.progress)),
			Fix:  "send progress only if progress_wanted is set",
		})
	}
}

func logs(t *trial) {
	for wanted := range pb.LogLevel_name {
		level := pb.LogLevel(wanted)
		a, err := t.call(t.ctx, "levels", `{}`, func(r *pb.CallToolRequest) { r.Context.LogLevel = level })
		if err != nil {
			t.wrong("levels: %s", problem(err))
			return
		}
		var got, want []string
		for _, l := range a.logs {
			got = append(got, levelName(l.GetLevel())+"="+string(l.GetData()))
		}
		for l := level; level != 0 && l <= pb.LogLevel_LOG_LEVEL_EMERGENCY; l++ {
			want = append(want, fmt.Sprintf("%s=%q", levelName(l), levelName(l)))
		}
		if !slices.Equal(got, want) {
			t.wrong("asked for %s, it logs %v and not %v", levelName(level), got, want)
		}
	}
}

func levelName(l pb.LogLevel) string {
	return strings.ToLower(strings.TrimPrefix(l.String(), "LOG_LEVEL_"))
}

// waited starts a call of wait, has it ended, and checks that the backend learns of it.
func (t *trial) waited(n int, end func(context.Context) (context.Context, func()), want codes.Code) {
	ctx, begin := end(t.ctx)
	defer begin()
	arguments := fmt.Sprintf(`{"n":%d}`, n)
	var err error
	var wg sync.WaitGroup
	wg.Go(func() { _, err = t.call(ctx, "wait", arguments) })
	if !t.says("started", arguments, "started") {
		begin()
		wg.Wait()
		return
	}
	began := time.Now()
	begin()
	if want == codes.DeadlineExceeded {
		<-ctx.Done()
		began = time.Now()
	}
	wg.Wait()
	t.fails("the call", err, want)
	soonEnough, cancel := context.WithTimeout(t.ctx, 10*soon)
	defer cancel()
	_, err = t.call(soonEnough, "ended", arguments)
	if took := time.Since(began); err != nil || took > soon {
		t.wrong("the tool went on for %v after nobody waited for it any more (%v)", took.Round(100*time.Millisecond), err)
	}
}

func cancelling(t *trial) {
	t.waited(101, func(ctx context.Context) (context.Context, func()) { return context.WithCancel(ctx) }, codes.Canceled)
}

func deadline(t *trial) {
	t.waited(102, func(ctx context.Context) (context.Context, func()) {
		ctx, cancel := context.WithTimeout(ctx, soon)
		return ctx, sync.OnceFunc(func() { <-ctx.Done(); cancel() })
	}, codes.DeadlineExceeded)
}

func unknownMembers(t *trial) {
	const meta, extra = `{"example.com/n":9007199254740993,"progressToken":"t"}`, `{"fromTheFuture":{"n":[1e2,null]}}`
	a, err := t.call(t.ctx, "meta", `{}`, func(r *pb.CallToolRequest) { r.Context.Meta, r.Extra = []byte(meta), []byte(extra) })
	if err != nil {
		t.wrong("meta: %s", problem(err))
		return
	}
	if got := string(a.result.GetMeta()); got != meta {
		t.wrong("_meta is %s and was %s", clip(got), meta)
	}
	if got := string(a.result.GetExtra()); got != extra {
		t.wrong("extra is %s and was %s", clip(got), extra)
	}
}

// sameJSON reports whether two JSON texts mean the same.
func sameJSON(a, b []byte) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	return fmt.Sprint(x) == fmt.Sprint(y)
}

func questions(t *trial) {
	var numbers []int
	for range 2 {
		var asked [][]string
		rounds, err := t.answering(t.ctx, "survey", `{}`, func(message string, q *pb.InputRequest) *pb.InputResponse {
			switch message {
			case "What is your name?":
				return fill(q, "Ada")
			case "How old are you?":
				return fill(q, 36)
			case "Ada is 36, right?":
				return fill(q, true)
			}
			return acted(pb.ElicitAction_ELICIT_ACTION_CANCEL, nil)
		})
		for _, r := range rounds {
			var messages []string
			for _, q := range r.needs.GetRequests() {
				messages = append(messages, q.GetElicit().GetForm().GetMessage())
			}
			slices.Sort(messages)
			asked = append(asked, messages)
		}
		if err != nil {
			t.wrong("after %v: %s", asked, problem(err))
			return
		}
		want := [][]string{{"How old are you?", "What is your name?"}, {"Ada is 36, right?"}, nil}
		if fmt.Sprint(asked) != fmt.Sprint(want) {
			t.wrong("it asks %v, and not %v", asked, want)
			return
		}
		got, number := rounds[2].text(), 0
		if _, err := fmt.Sscanf(got, "Ada is 36: true, %d", &number); err != nil {
			t.wrong("survey says %q after its questions; want Ada is 36: true, and a number", got)
			return
		}
		numbers = append(numbers, number)
	}
	if numbers[1] != numbers[0]+1 {
		t.defect(Defect{
			What: fmt.Sprintf("the numbers of two surveys are %d and %d, so what is to happen once happened in every round", numbers[0], numbers[1]),
			Fix:  "keep in the state what a step that must happen once has returned",
		})
	}
}

func answers(t *trial) {
	noForms := func(r *pb.CallToolRequest) { r.Context.ClientCapabilities.Elicitation = nil }
	for _, try := range []struct {
		of, want string
		answer   func(*pb.InputRequest) *pb.InputResponse
		with     []more
	}{
		{of: "accepts", want: "accepted: Ada", answer: func(q *pb.InputRequest) *pb.InputResponse { return fill(q, "Ada") }},
		{of: "declines", want: "declined", answer: func(*pb.InputRequest) *pb.InputResponse {
			return acted(pb.ElicitAction_ELICIT_ACTION_DECLINE, nil)
		}},
		{of: "closes the question", want: "cancelled", answer: func(*pb.InputRequest) *pb.InputResponse {
			return acted(pb.ElicitAction_ELICIT_ACTION_CANCEL, nil)
		}},
		{of: "does not answer in time", want: "no answer", answer: func(*pb.InputRequest) *pb.InputResponse {
			return failedInput(pb.InputError_REASON_NO_ANSWER, "too late")
		}},
		{of: "answers with an error", want: "refused", answer: func(*pb.InputRequest) *pb.InputResponse {
			return failedInput(pb.InputError_REASON_REFUSED, "no")
		}},
		{of: "turns out not to be able to ask", want: "unsupported", answer: func(*pb.InputRequest) *pb.InputResponse {
			return failedInput(pb.InputError_REASON_UNSUPPORTED, "no forms")
		}},
		{of: "answers something else than was asked for", want: "invalid", answer: func(q *pb.InputRequest) *pb.InputResponse { return fill(q, 7) }},
		{of: "cannot show forms", want: "unsupported", answer: func(*pb.InputRequest) *pb.InputResponse {
			return acted(pb.ElicitAction_ELICIT_ACTION_CANCEL, nil)
		}, with: []more{noForms}},
	} {
		rounds, err := t.answering(t.ctx, "tell", `{}`, func(_ string, q *pb.InputRequest) *pb.InputResponse { return try.answer(q) }, try.with...)
		if err != nil {
			t.wrong("of a client that %s: %s", try.of, problem(err))
			continue
		}
		if try.with != nil && len(rounds) != 1 {
			t.wrong("it asks a client that %s", try.of)
		}
		if got := rounds[len(rounds)-1].text(); got != try.want {
			t.wrong("of a client that %s it says %q, and not %q", try.of, clip(got), try.want)
		}
	}
}

func together(t *trial) {
	type crossed struct{ defect string }
	var mu sync.Mutex
	var found []crossed
	var wg sync.WaitGroup
	for i := range sideBySide {
		wg.Go(func() {
			arguments := fmt.Sprintf(`{"n":%d}`, i+1)
			report := func(format string, args ...any) {
				mu.Lock()
				defer mu.Unlock()
				found = append(found, crossed{fmt.Sprintf(format, args...)})
			}
			a, err := t.call(t.ctx, "echo", arguments)
			if err != nil {
				report("echo: %s", problem(err))
			} else if a.text() != arguments {
				report("echo %s says %s", arguments, clip(a.text()))
			}
			a, err = t.call(t.ctx, "steps", arguments)
			if err != nil {
				report("steps: %s", problem(err))
			} else if len(a.progress) != i+1 || a.text() != fmt.Sprintf("%d steps", i+1) {
				report("steps %s tells %d steps and says %s", arguments, len(a.progress), clip(a.text()))
			}
			client := fmt.Sprintf("client-%d", i)
			a, err = t.call(t.ctx, "who", `{}`, func(r *pb.CallToolRequest) { r.Context.ClientInfo.Name = client })
			if err != nil {
				report("who: %s", problem(err))
			} else if !strings.Contains(a.text()+" ", " "+client+" ") {
				report("who says to %s: %s", client, clip(a.text()))
			}
		})
	}
	wg.Wait()
	for _, c := range found {
		t.wrong("%s", c.defect)
	}
}

func listening(t *trial) {
	yes := true
	uri := "test://a"
	l := t.listen(t.ctx, &pb.SubscriptionFilter{ToolsListChanged: &yes, ResourceSubscriptions: []string{uri}})
	defer l.stop()
	deaf := t.listen(t.ctx, &pb.SubscriptionFilter{ResourceSubscriptions: []string{"test://other"}})
	defer deaf.stop()
	for _, one := range []*listener{l, deaf} {
		if m := one.next(); m.GetAcknowledged() == nil {
			t.wrong("the first event is not the acknowledgement but %v", m)
			return
		}
	}
	told := func(what string, is func(*pb.ListenResponse) bool) {
		if m := l.next(); m == nil || !is(m) {
			t.wrong("a listener is not told that %s, but %v", what, m)
		}
	}
	listed := func() bool {
		return slices.ContainsFunc(t.whole(lists[0]), func(m proto.Message) bool { return m.(*pb.Tool).GetName() == "verify-new" })
	}
	t.says("update", `{"uri":"test://a"}`, "updated")
	told(uri+" has changed", func(m *pb.ListenResponse) bool { return m.GetResourceUpdated().GetUri() == uri })
	t.says("add", `{"name":"verify-new"}`, "added")
	told("the list of tools has changed", func(m *pb.ListenResponse) bool { return m.GetToolsListChanged() != nil })
	if !listed() {
		t.wrong("a tool that was added is not listed")
	}
	t.says("verify-new", `{}`, "verify-new")
	t.says("remove", `{"name":"verify-new"}`, "removed")
	told("the list of tools has changed again", func(m *pb.ListenResponse) bool { return m.GetToolsListChanged() != nil })
	if listed() {
		t.wrong("a tool that was removed is still listed")
	}
	_, err := t.call(t.ctx, "verify-new", `{}`)
	t.fails("a tool that was removed", err, codes.NotFound)
	t.says("update", `{"uri":"test://other"}`, "updated")
	if m := deaf.next(); m.GetResourceUpdated().GetUri() != "test://other" {
		t.wrong("a listener that asked for test://other only is told %v", m)
	}
}

// How it ends.

func ending() []row {
	return []row{
		{
			name: "interrupt", does: "goes on when the terminal's Ctrl-C reaches it", clause: inStart, launch: true,
			why: "a terminal sends it to the bridge and to its backends; the bridge then says stop when calls have ended", fix: "ignore SIGINT where " + cookie + " is set",
			run: func(t *trial) {
				p, err := os.FindProcess(t.proc.Pid())
				if err != nil || p.Signal(os.Interrupt) != nil {
					return // there is no such signal here
				}
				if how, ended := t.proc.exits(500 * time.Millisecond); ended {
					t.wrong("it ended: %s", how)
					return
				}
				if _, err := t.mcp.Discover(t.ctx, &pb.DiscoverRequest{Context: caller()}); err != nil {
					t.wrong("it does not answer any more: %s", problem(err))
				}
			},
		},
		{
			name: "shutdown", does: "lets calls finish when it is told to stop, and exits with 0", clause: inStart, launch: true,
			why: "a process that does not is killed, and its calls are lost", fix: "implement plugin.GRPCController: answer Shutdown, end listeners, take no new calls, let the others finish for 5 s, exit with 0",
			run: func(t *trial) {
				t.drained(func(b *backend) {
					err := b.conn.Invoke(t.ctx, "/plugin.GRPCController/Shutdown", &emptypb.Empty{}, &emptypb.Empty{})
					if err != nil {
						t.wrong("Shutdown: %s", problem(err))
					}
				})
			},
		},
		{
			name: "terminate", does: "does the same at SIGTERM", clause: inStart, launch: true,
			why: "that is how everybody else stops a process", fix: "treat SIGTERM as Shutdown",
			run: func(t *trial) { t.drained(func(b *backend) { b.proc.Signal(child.Terminate) }) },
		},
		{
			name: "orphan", does: "ends when the bridge dies", clause: inStart, launch: true,
			why: "nobody is left to call it or to stop it", fix: "if " + lifeline + " is stdin, read standard input to its end and exit then; else see whether the parent process changes",
			run: func(t *trial) {
				t.launched(nil, func(b *backend) {
					_ = b.proc.Stdin().Close()
					switch how, ended := b.proc.exits(drainTime); {
					case !ended:
						t.wrong("it goes on after its standard input has ended")
					case b.proc.crashed():
						t.wrong("it crashes when its standard input has ended: %s", how)
					}
				})
			},
		},
		{
			name: "killed", does: "starts again after it was killed during a call", clause: inStart, launch: true,
			why: "what a dead process leaves behind must not keep the next one from starting", fix: "give each process a socket of its own, or remove one that nobody listens at",
			run: killed,
		},
	}
}

// drained checks how a process ends that is told to, in the middle of a call.
func (t *trial) drained(stop func(*backend)) {
	for _, ms := range []int{1000, 2000, 4000} {
		early := false
		t.launched(nil, func(b *backend) {
			l := b.listen(t.ctx, &pb.SubscriptionFilter{})
			defer l.stop()
			l.next() // the acknowledgement
			running := &sleeping{done: make(chan struct{})}
			if t.d.kit {
				running.start(t, b, ms)
				defer running.wait()
			}
			select {
			case <-running.done:
				early = running.err == nil // it was done before it could be disturbed: the machine is slow
			default:
			}
			if early {
				return
			}
			stop(b)
			t.ends(b)
			if !t.d.kit {
				return
			}
			if running.wait(); running.err != nil {
				t.wrong("a call that was running did not finish: %s", problem(running.err))
			} else if got := running.answer.text(); got != "slept" {
				t.wrong("a call that was running says %s", clip(got))
			}
		})
		if !early {
			return
		}
	}
	t.wrong("calls are so slow here that none could be disturbed")
}

// ends checks that a process ends, and leaves nothing behind.
func (t *trial) ends(b *backend) {
	how, ended := b.proc.exits(drainTime)
	if !ended {
		t.wrong("it goes on running")
		b.proc.Signal(child.Kill)
		return
	}
	if how != "exit status 0" {
		t.wrong("it ended with %s and not with 0", how)
	}
	if f := b.proc.fields(); f[2] == "unix" {
		if _, err := os.Lstat(f[3]); !errors.Is(err, os.ErrNotExist) {
			t.defect(Defect{What: "its socket is still there after it ended", Fix: "remove the socket before you exit"})
		}
	}
}

// A sleeping is a call of the tool "sleep".
type sleeping struct {
	answer *answer
	err    error
	done   chan struct{} // closed when both are there
}

// start makes the call, and returns once the backend has it.
func (s *sleeping) start(t *trial, b *backend, ms int) {
	sent := make(chan struct{})
	go func() {
		defer close(s.done)
		req := &pb.CallToolRequest{Context: caller(), Name: "sleep", Arguments: fmt.Appendf(nil, `{"ms":%d}`, ms)}
		stream, err := b.mcp.CallTool(t.ctx, req)
		close(sent)
		if s.err = err; err == nil {
			s.answer, s.err = collect(stream)
		}
	}()
	<-sent
	// The call is there once another one that came later is answered.
	if _, err := b.call(t.ctx, "echo", `{}`); err != nil {
		t.wrong("echo: %s", problem(err))
	}
}

// wait waits for the end of the call.
func (s *sleeping) wait() { <-s.done }

func killed(t *trial) {
	p, err := t.d.start(t.ctx)
	if err != nil {
		t.failedStart(nil, err)
		return
	}
	defer p.stop()
	b, err := p.connect(t.ctx)
	if err != nil {
		t.failedStart(nil, err)
		return
	}
	defer b.conn.Close()
	var wg sync.WaitGroup
	if t.d.kit {
		wg.Go(func() { _, _ = b.call(t.ctx, "sleep", `{"ms":60000}`) }) // it dies
	}
	_, _ = b.mcp.Discover(t.ctx, &pb.DiscoverRequest{Context: caller()})
	p.Signal(child.Kill)
	wg.Wait()
	// The next one gets the same directory, with what the first has left in it.
	t.launched([]string{socketDir + "=" + p.dir}, func(again *backend) {
		if _, err := again.mcp.Discover(t.ctx, &pb.DiscoverRequest{Context: caller()}); err != nil {
			t.wrong("the next one does not answer: %s", problem(err))
		}
	})
}
