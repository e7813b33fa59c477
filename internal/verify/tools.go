package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

const (
	manySteps       = 10_000
	concurrentCalls = 64
	cancelTimeout   = time.Second     // for the end of a canceled call
	changeTimeout   = 5 * time.Second // for a change to reach a subscription
)

var toolRows = []row{
	{
		name: "result", does: "returns results, failures and exact errors", needs: needsKit,
		clause: inService + "CallToolResponse",
		why:    "a tool's failure is for the model, an error for the client",
		fix:    "a failure is a result with is_error; an exact error is a status with a JsonRpcError in its details",
		run:    checkResults,
	},
	{
		name: "bad-arguments", does: "continues after invalid arguments", needs: needsKit,
		clause: inService + "CallToolRequest",
		why:    "callers may send anything",
		fix:    "answer with is_error or INVALID_ARGUMENT, and describe what is invalid",
		run:    checkBadArguments,
	},
	{
		name: "blobs", does: "receives and returns megabytes", needs: needsKit, clause: inStart,
		why: "by default, gRPC in most languages rejects more than 4 MiB; the bridge has its own limit",
		fix: "raise the limits of received and sent messages, to 64 MiB for instance",
		run: checkBlobs,
	},
	{
		name: "unicode", does: "keeps every character and every digit", needs: needsKit,
		clause: inService + "CallToolRequest.arguments",
		why:    "arguments are the text that the caller sent",
		fix:    "read numbers as integers or decimals and not as floating point, and text as UTF-8",
		run:    checkUnicode,
	},
	{
		name: "progress", does: fmt.Sprintf("sends %d progress events in order, and then the result", manySteps),
		needs:  needsKit,
		clause: inService + "CallToolResponse",
		why:    "clients show progress as they receive it",
		fix:    "send each event on the call's own stream, and wait until it is sent",
		run:    checkProgress,
	},
	{
		name: "logs", does: "logs at the level that the caller requested", needs: needsKit,
		clause: inService + "CallContext.log_level",
		why:    "a caller without log_level gets no log messages",
		fix:    "compare the message's level with log_level before sending",
		run:    checkLogs,
	},
	{
		name: "cancel", does: "ends a call soon after it is canceled", needs: needsKit, clause: inService + "CallTool",
		why: "nothing waits for it, and it takes resources from others",
		fix: "end the handler when gRPC reports that the call is canceled: by a context, an exception or a signal",
		run: checkCancel,
	},
	{
		name: "deadline", does: "ends a call at its deadline", needs: needsKit, clause: inService + "CallTool",
		why: "nothing waits for it any more",
		fix: "handle a deadline like a cancellation: gRPC reports both in the same way",
		run: checkDeadline,
	},
	{
		name: "unknown-members", does: "keeps members that the contract does not define", needs: needsKit,
		clause: inService + "CallToolRequest.extra",
		why:    "newer clients and servers send members that this contract does not define",
		fix:    "pass extra and _meta on unchanged, byte for byte",
		run:    checkUnknownMembers,
	},
	{
		name: "questions", does: "requires several inputs at once, then more, and keeps its state", needs: needsKit,
		clause: inInput + "InputRequired",
		why:    "input is required by returning: the call is repeated with the responses and the state",
		fix:    "require independent inputs in one round; keep the results of earlier rounds in the state",
		run:    checkInputRequests,
	},
	{
		name: "answers", does: "distinguishes decline, cancel, and a client that cannot or does not respond",
		needs:  needsKit,
		clause: inInput + "InputError",
		why:    "a user who declines is different from no response",
		fix:    "look at the action of the response and at the reason of its error",
		run:    checkInputResponses,
	},
	{
		name: "state", does: "rejects an unknown state", needs: needsKit, clause: inInput + "InputRequired.state",
		why: "a call with an invalid state may have unintended effects",
		fix: "fail with INVALID_ARGUMENT if the state cannot be parsed",
		run: func(t *trial) {
			a, err := t.call(t.ctx, "survey", `{}`, func(r *pb.CallToolRequest) { r.RequestState = []byte("nonsense") })
			switch {
			case err != nil:
				t.checkCode("an unknown state", err, codes.InvalidArgument)
			case a.inputRequired != nil || !a.result.GetIsError():
				t.failf("an unknown state is accepted")
			}
		},
	},
	{
		name: "side-by-side", does: fmt.Sprintf("keeps %d concurrent calls apart", concurrentCalls), needs: needsKit,
		clause: inService + "McpService",
		why:    "calls of different callers are concurrent",
		fix:    "keep the data of a call with the call, and not in shared variables",
		run:    checkConcurrentCalls,
	},
	{
		name: "listen", does: "notifies subscribers of changes, and only of those that they requested", needs: needsKit,
		clause: inService + "Listen",
		why:    "clients cache lists and contents until they are notified",
		fix:    "acknowledge first; then send a change for each requested list and resource",
		run:    checkListen,
	},
	{
		name: "noise", does: "continues after it has printed", needs: needsKit, clause: inStart,
		why: "output goes to the log, and a tool that prints must not block",
		fix: "leave standard output and standard error to the bridge;" +
			" write the handshake to the real standard output only",
		run: checkNoise,
	},
}

// checkNoise calls the tool that prints. A program is launched for it and ended before its handshakes are counted: all
// of its output has been read then.
func checkNoise(t *trial) {
	shared := t.backend
	check := func(b *backend) {
		t.backend = b
		defer func() { t.backend = shared }()
		if t.checkText("noise", `{}`, "quiet") {
			t.checkText("echo", `{"after":"noise"}`, `{"after":"noise"}`)
		}
	}
	if t.proc == nil {
		check(shared)
		return
	}
	var p *process
	t.launch(nil, func(b *backend) { p = b.proc; check(b) })
	if p != nil && len(p.handshakes) != 1 {
		t.failf("it printed %d handshakes, or more", len(p.handshakes))
	}
}

func checkResults(t *trial) {
	t.checkText("echo", `{"b":1,"a":2}`, `{"b":1,"a":2}`)
	a, err := t.call(t.ctx, "fail", `{}`)
	if err != nil {
		t.failf("fail: %s; want a result with is_error", errorText(err))
	} else if !a.result.GetIsError() || a.text() != "it does not work" {
		t.failf("fail: %s; want is_error and the text %q", clip(a.result.String()), "it does not work")
	}
	_, err = t.call(t.ctx, "exact", `{}`)
	var rpc *pb.JsonRpcError
	for _, detail := range status.Convert(err).Details() {
		if e, ok := detail.(*pb.JsonRpcError); ok {
			rpc = e
		}
	}
	if rpc.GetCode() != -7 || rpc.GetMessage() != "no luck" || !sameJSON([]byte(rpc.GetData()), []byte(`{"n":[1]}`)) {
		t.failf("exact: got %v with the detail %v, want the JSON-RPC error -7", err, rpc)
	}
}

func checkBadArguments(t *trial) {
	for _, arguments := range []string{
		`[1]`, `"text"`, `null`, `{"n":`, `{"n":1,"n":2}`, "{\"n\":\"\xff\"}", `{"n":1} {"n":2}`,
		strings.Repeat(`{"n":`, 5000) + "1" + strings.Repeat("}", 5000),
	} {
		for _, tool := range []string{"echo", "steps"} {
			a, err := t.call(t.ctx, tool, arguments)
			if err != nil && status.Code(err) != codes.InvalidArgument {
				t.failf("%s %s: %s; want is_error or INVALID_ARGUMENT", tool, clip(arguments), errorText(err))
			}
			if err == nil && a.inputRequired != nil {
				t.failf("%s %s requires input", tool, clip(arguments))
			}
		}
	}
	if a, err := t.call(t.ctx, "steps", `{"n":"three"}`); err == nil && !a.result.GetIsError() {
		t.failf(`steps {"n":"three"} returns %s, want an error`, a.text())
	} else if err != nil {
		t.checkCode(`steps {"n":"three"}`, err, codes.InvalidArgument)
	}
	t.checkText("echo", `{"after":"nonsense"}`, `{"after":"nonsense"}`)
}

func checkBlobs(t *trial) {
	for _, size := range []int{1 << 20, 4<<20 - 4096, 6 << 20} {
		arguments := `{"x":"` + strings.Repeat("x", size) + `"}`
		t.checkText("echo", arguments, arguments)
		a, err := t.call(t.ctx, "blob", fmt.Sprintf(`{"size":%d}`, size))
		if err != nil {
			t.failf("blob of %d bytes: %s", size, errorText(err))
			continue
		}
		var got []byte
		if c := a.result.GetContent(); len(c) == 1 {
			got = c[0].GetImage().GetData()
		}
		if len(got) != size || size > 0 && (got[size-1] != byte((size-1)%251) || got[0] != 0) {
			t.failf("blob of %d bytes has %d, or other ones", size, len(got))
		}
	}
}

func checkUnicode(t *trial) {
	const hard = `{"emoji":"👩‍👩‍👧 é","nul":"a\u0000b","separators":"\u2028 ` + "\u2028\u2029" +
		`","n":9007199254740993,"d":0.1000000000000000055,"e":1e2,"minus":-0.0,"":"","ключ":"значение","a\u0062":[]}`
	t.checkText("echo", hard, hard)
	a, err := t.call(t.ctx, "structured", hard)
	if err != nil {
		t.failf("structured: %s", errorText(err))
	} else if !bytes.Equal(a.result.GetStructuredContent(), []byte(hard)) {
		t.failf("structured content is %s, want %s", clip(string(a.result.GetStructuredContent())), clip(hard))
	}
	if a, err = t.call(t.ctx, "count", `{}`); err != nil {
		t.failf("count: %s", errorText(err))
		return
	}
	for _, l := range a.logs {
		if l.GetLevel() == pb.LogLevel_LOG_LEVEL_WARNING && !strings.Contains(l.GetData(), "9007199254740993") {
			t.failf("count logs %s, want 9007199254740993", l.GetData())
		}
	}
}

func checkProgress(t *trial) {
	a, err := t.call(t.ctx, "steps", fmt.Sprintf(`{"n":%d}`, manySteps))
	if err != nil {
		t.failf("steps: %s", errorText(err))
		return
	}
	if n := len(a.progress); n != manySteps {
		t.failf("got %d progress events, want %d", n, manySteps)
	}
	for i, p := range a.progress {
		if p.GetProgress() != float64(i) {
			t.failf("progress event %d is %v", i, p.GetProgress())
			break
		}
	}
	a, err = t.call(t.ctx, "steps", `{"n":3}`, func(r *pb.CallToolRequest) { r.Context.ProgressWanted = false })
	if err == nil && len(a.progress) > 0 {
		t.defect(Defect{
			What: fmt.Sprintf("%d progress events for a caller without progress_wanted", len(a.progress)),
			Fix:  "send progress only if progress_wanted is set",
		})
	}
}

func checkLogs(t *trial) {
	for wanted := range pb.LogLevel_name {
		level := pb.LogLevel(wanted)
		a, err := t.call(t.ctx, "levels", `{}`, func(r *pb.CallToolRequest) { r.Context.LogLevel = level })
		if err != nil {
			t.failf("levels: %s", errorText(err))
			return
		}
		var got, want []string
		for _, l := range a.logs {
			got = append(got, levelName(l.GetLevel())+"="+l.GetData())
		}
		for l := level; level != 0 && l <= pb.LogLevel_LOG_LEVEL_EMERGENCY; l++ {
			want = append(want, fmt.Sprintf("%s=%q", levelName(l), levelName(l)))
		}
		if !slices.Equal(got, want) {
			t.failf("with log_level %s, it logs %v, want %v", levelName(level), got, want)
		}
	}
}

func levelName(l pb.LogLevel) string {
	return strings.ToLower(strings.TrimPrefix(l.String(), "LOG_LEVEL_"))
}

// checkEnd starts a call of the tool "wait", ends it in the given way, and checks that the backend ends it in time.
func (t *trial) checkEnd(n int, end func(context.Context) (context.Context, func()), want codes.Code) {
	ctx, finish := end(t.ctx)
	defer finish()
	arguments := fmt.Sprintf(`{"n":%d}`, n)
	var err error
	var wg sync.WaitGroup
	wg.Go(func() { _, err = t.call(ctx, "wait", arguments) })
	if !t.checkText("started", arguments, "started") {
		finish()
		wg.Wait()
		return
	}
	began := time.Now()
	finish()
	if want == codes.DeadlineExceeded {
		<-ctx.Done()
		began = time.Now()
	}
	wg.Wait()
	t.checkCode("the call", err, want)
	limited, cancel := context.WithTimeout(t.ctx, 10*cancelTimeout)
	defer cancel()
	_, err = t.call(limited, "ended", arguments)
	if took := time.Since(began); err != nil || took > cancelTimeout {
		t.failf("the tool ran for %v after the end of the call (%v)", took.Round(100*time.Millisecond), err)
	}
}

func checkCancel(t *trial) {
	t.checkEnd(101, func(ctx context.Context) (context.Context, func()) {
		return context.WithCancel(ctx)
	}, codes.Canceled)
}

func checkDeadline(t *trial) {
	t.checkEnd(102, func(ctx context.Context) (context.Context, func()) {
		ctx, cancel := context.WithTimeout(ctx, cancelTimeout)
		return ctx, sync.OnceFunc(func() { <-ctx.Done(); cancel() })
	}, codes.DeadlineExceeded)
}

func checkUnknownMembers(t *trial) {
	const meta, extra = `{"example.com/n":9007199254740993,"progressToken":"t"}`, `{"fromTheFuture":{"n":[1e2,null]}}`
	a, err := t.call(t.ctx, "meta", `{}`, func(r *pb.CallToolRequest) {
		r.Context.Meta, r.Extra = meta, extra
	})
	if err != nil {
		t.failf("meta: %s", errorText(err))
		return
	}
	if got := a.result.GetMeta(); got != meta {
		t.failf("_meta is %s, want %s", clip(got), meta)
	}
	if got := a.result.GetExtra(); got != extra {
		t.failf("extra is %s, want %s", clip(got), extra)
	}
}

// sameJSON reports whether two JSON texts have the same value.
func sameJSON(a, b []byte) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	return fmt.Sprint(x) == fmt.Sprint(y)
}

func checkConcurrentCalls(t *trial) {
	var mu sync.Mutex
	var found []string
	var wg sync.WaitGroup
	for i := range concurrentCalls {
		wg.Go(func() {
			arguments := fmt.Sprintf(`{"n":%d}`, i+1)
			report := func(format string, args ...any) {
				mu.Lock()
				defer mu.Unlock()
				found = append(found, fmt.Sprintf(format, args...))
			}
			a, err := t.call(t.ctx, "echo", arguments)
			if err != nil {
				report("echo: %s", errorText(err))
			} else if a.text() != arguments {
				report("echo %s returns %s", arguments, clip(a.text()))
			}
			a, err = t.call(t.ctx, "steps", arguments)
			if err != nil {
				report("steps: %s", errorText(err))
			} else if len(a.progress) != i+1 || a.text() != fmt.Sprintf("%d steps", i+1) {
				report("steps %s sends %d progress events and returns %s", arguments, len(a.progress), clip(a.text()))
			}
			client := fmt.Sprintf("client-%d", i)
			a, err = t.call(t.ctx, "who", `{}`, func(r *pb.CallToolRequest) { r.Context.ClientInfo.Name = client })
			if err != nil {
				report("who: %s", errorText(err))
			} else if !strings.Contains(a.text()+" ", " "+client+" ") {
				report("who returns to %s: %s", client, clip(a.text()))
			}
		})
	}
	wg.Wait()
	for _, text := range found {
		t.failf("%s", text)
	}
}

func checkListen(t *trial) {
	yes := true
	uri := "test://a"
	l := t.listen(t.ctx, &pb.SubscriptionFilter{ToolsListChanged: &yes, ResourceSubscriptions: []string{uri}})
	defer l.stop()
	other := t.listen(t.ctx, &pb.SubscriptionFilter{ResourceSubscriptions: []string{"test://other"}})
	defer other.stop()
	for _, s := range []*subscription{l, other} {
		if m := s.next(); m.GetAcknowledged() == nil {
			t.failf("the first event is %v, want acknowledged", m)
			return
		}
	}
	expect := func(change string, is func(*pb.ListenResponse) bool) {
		if m := l.next(); m == nil || !is(m) {
			t.failf("%s: the subscriber gets %v", change, m)
		}
	}
	isListed := func() bool {
		return slices.ContainsFunc(t.readAll(lists[0]), func(m proto.Message) bool {
			return m.(*pb.Tool).GetName() == "verify-new"
		})
	}
	toolsChanged := func(m *pb.ListenResponse) bool { return m.GetToolsListChanged() != nil }
	t.checkText("update", `{"uri":"test://a"}`, "updated")
	expect(uri+" changed", func(m *pb.ListenResponse) bool { return m.GetResourceUpdated().GetUri() == uri })
	t.checkText("add", `{"name":"verify-new"}`, "added")
	expect("a tool was added", toolsChanged)
	if !isListed() {
		t.failf("a tool that was added is not listed")
	}
	t.checkText("verify-new", `{}`, "verify-new")
	t.checkText("remove", `{"name":"verify-new"}`, "removed")
	expect("a tool was removed", toolsChanged)
	if isListed() {
		t.failf("a tool that was removed is still listed")
	}
	_, err := t.call(t.ctx, "verify-new", `{}`)
	t.checkCode("a tool that was removed", err, codes.NotFound)
	t.checkText("update", `{"uri":"test://other"}`, "updated")
	if m := other.next(); m.GetResourceUpdated().GetUri() != "test://other" {
		t.failf("a subscriber to test://other only gets %v", m)
	}
}
