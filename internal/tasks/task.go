package tasks

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/seal"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// The statuses of tasks.
const (
	Working       = "working"
	inputRequired = "input_required"
	completed     = "completed"
	failed        = "failed"
	cancelled     = "cancelled"
)

// IsFinal reports whether a task with the status has ended.
func IsFinal(status string) bool {
	return status == completed || status == failed || status == cancelled
}

// A task is one task. While it waits for input, no call is in flight and no goroutine exists.
type task struct {
	identity

	all     *Tasks
	expiry  *time.Timer
	handler bridge.Handler

	mu sync.Mutex // guards what follows

	state

	size  int64        // counted in all.size
	call  *bridge.Call // of the current round
	retry bool         // a lost call may be repeated
	round round
	// stop cancels the call in flight. It is nil while none is.
	stop     context.CancelCauseFunc
	release  func()        // ends the wait of a drain for the call in flight
	changed  chan struct{} // closed at the next change, or nil
	watchers map[*watcher]struct{}
}

// An identity is what never changes in a task.
type identity struct {
	// id identifies the task to clients, and number orders the tasks.
	id      string
	number  uint64
	owner   principal
	session string
	backend string
	created string // as clients see it
	ttl     time.Duration
}

// A state is what clients see of a task.
type state struct {
	status  string
	message string
	updated string
	version uint64 // incremented by each change
	// progress is the last one of the tool, in this run, until the task has ended.
	progress *pb.Progress
	result   *pb.CallToolResult
	err      *pb.JsonRpcError
}

// A round is the input that a task waits for.
type round struct {
	number int // of rounds so far
	// requested is the number of requests so far: a task never uses a key again (2026-07-28: extension tasks, task
	// update requests).
	requested int
	pending   []pendingInput               // without a response
	responses map[string]*pb.InputResponse // by the tool's keys
	state     []byte
}

// A pendingInput is a request with the key of the task, and the tool's key.
type pendingInput struct {
	request *pb.InputRequest
	key     string
}

// A watcher receives the changes of tasks.
type watcher struct{ report func(id, status string) }

// describe returns the task with its requests, result and error.
func (k *task) describe(rev bridge.Revision) *pb.Task {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.describeLocked(rev)
}

// describeLocked is describe for callers that hold mu.
func (k *task) describeLocked(rev bridge.Revision) *pb.Task {
	d := k.summaryLocked(rev)
	d.Result, d.Error = k.result, k.err
	for _, p := range k.round.pending {
		d.InputRequests = append(d.InputRequests, p.request)
	}
	return d
}

// summary returns the task without them.
func (k *task) summary(rev bridge.Revision) *pb.Task {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.summaryLocked(rev)
}

// summaryLocked is summary for callers that hold mu.
func (k *task) summaryLocked(rev bridge.Revision) *pb.Task {
	d := &pb.Task{
		TaskId: k.id, Status: k.status, CreatedAt: k.created, LastUpdatedAt: k.updated,
		TtlMs: proto.Int64(k.ttl.Milliseconds()), PollIntervalMs: proto.Int64(limits.TaskPoll.Milliseconds()),
	}
	if k.message != "" {
		d.StatusMessage = proto.String(k.message)
	}
	if k.result.GetIsError() && rev.FailsTaskOfFailedTool() {
		d.Status = failed
	}
	return d
}

// now returns the time as clients see it. A task keeps it in this form, because clients see a time often, and tasks
// change rarely.
func now() string { return time.Now().UTC().Format("2006-01-02T15:04:05.000Z") }

// set changes the status, unless the task has ended, and reports whether it did. The caller holds mu.
func (k *task) set(status, message string) bool {
	if IsFinal(k.status) {
		return false
	}
	k.status, k.message, k.updated = status, message, now()
	k.version++
	if IsFinal(status) {
		k.progress = nil
		k.stop, k.round, k.call = nil, round{}, k.call.Retry(nil, nil)
	}
	k.count(k.measure())
	if status != Working { // progress is not saved, and proceed saves
		_ = k.save() // the error is logged
	}
	if k.changed != nil {
		close(k.changed)
		k.changed = nil
	}
	for w := range k.watchers {
		w.report(k.id, status)
	}
	if IsFinal(status) {
		k.watchers = nil
	}
	return true
}

// wait returns when until returns true, which is called with mu held, or ctx ends.
func (k *task) wait(ctx context.Context, until func() bool) {
	for {
		k.mu.Lock()
		if until() || ctx.Err() != nil {
			k.mu.Unlock()
			return
		}
		if k.changed == nil {
			k.changed = make(chan struct{})
		}
		changed := k.changed
		k.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// watch adds a watcher, unless the task has ended. It returns false if the task has too many.
func (k *task) watch(w *watcher) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.watchers) >= limits.TaskWatchers {
		return false
	}
	if k.status != Working { // it may have changed since the caller last saw it
		w.report(k.id, k.status)
	}
	if IsFinal(k.status) {
		return true
	}
	if k.watchers == nil {
		k.watchers = map[*watcher]struct{}{}
	}
	k.watchers[w] = struct{}{}
	return true
}

func (k *task) unwatch(w *watcher) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.watchers, w)
}

// measure returns the number of bytes of the request, the input and the result of the task. The caller holds mu.
func (k *task) measure() int64 {
	n := proto.Size(k.call.Request) + len(k.round.state) + proto.Size(k.result) + proto.Size(k.err)
	for _, p := range k.round.pending {
		n += proto.Size(p.request) + len(p.key)
	}
	for key, response := range k.round.responses {
		n += len(key) + proto.Size(response)
	}
	return int64(n)
}

// count replaces the bytes that are counted for the task. The caller holds mu.
func (k *task) count(bytes int64) {
	k.all.size.Add(bytes - k.size)
	k.size = bytes
}

var errCancelled = errors.New("the task was cancelled")

// cancel ends the task and its call. It returns false if the task has ended.
func (k *task) cancel() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	stop := k.stop
	if !k.set(cancelled, "") {
		return false
	}
	if stop != nil {
		stop(errCancelled)
	}
	return true
}

// hold makes a drain wait for the call in flight, unless the next run continues it. The caller holds mu.
func (k *task) hold() {
	k.release = func() {}
	if k.all.o.Store == nil || !k.retry && !IsDriven(k.call.Request) {
		k.release = sync.OnceFunc(k.all.o.Lifecycle.Hold())
	}
}

// begin executes the call of the current round in the background. The caller holds mu.
func (k *task) begin() {
	ctx, stop := context.WithCancelCause(k.all.ctx)
	k.stop = stop
	k.hold()
	call := k.call
	started := k.all.start(func() {
		defer stop(nil)
		defer k.all.panics.Recover(call.Method.Name, func(e *bridge.Error) { k.end(nil, e) })
		k.end(k.handler.Handle(ctx, call, func(_ context.Context, e bridge.Event) error {
			k.event(e)
			return nil
		}))
	})
	if !started { // the next run continues
		k.release()
		k.stop = nil
		stop(nil)
	}
}

// event shows progress as the message of the task. Other events have no counterpart (2026-07-28: extension tasks, task
// status notifications).
func (k *task) event(e bridge.Event) {
	if e.Resumable != nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		if !IsFinal(k.status) {
			k.call = k.call.Retry(nil, e.Resumable)
			k.count(k.measure())
			if k.save() == nil && k.all.o.Store != nil {
				k.release()
			}
		}
		return
	}
	if e.Progress == nil {
		return
	}
	message := e.Progress.GetMessage()
	if message == "" {
		message = strconv.FormatFloat(e.Progress.GetProgress(), 'f', -1, 64)
		if total := e.Progress.GetTotal(); total > 0 {
			message += " of " + strconv.FormatFloat(total, 'f', -1, 64)
		}
	}
	message = strings.ToValidUTF8(message[:min(len(message), limits.TaskMessage)], "")
	progress := &pb.Progress{Progress: e.Progress.GetProgress(), Total: e.Progress.Total}
	if e.Progress.GetMessage() != "" {
		progress.Message = &message
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.progress = progress
	k.set(Working, message)
}

// end handles the result of a call.
func (k *task) end(res *bridge.Result, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stop = nil
	defer k.release() // that of this call: another one may begin
	switch {
	case IsFinal(k.status): // it was canceled
	case k.all.ctx.Err() != nil: // the next run decides
	case err != nil && k.retry && bridge.AsError(err).Outcome == bridge.OutcomeUnknown:
		k.retry = false
		k.set(Working, "the backend was lost, and the tool is called again")
		if k.save() == nil { // a tool is not called a third time in the next run
			k.begin()
		}
	case err != nil:
		k.fail(err)
	case res.InputRequired != nil:
		k.require(res.InputRequired)
	default:
		k.result, _ = res.Complete.(*pb.CallToolResult)
		k.set(completed, "")
	}
}

// fail ends the task with an error. The caller holds mu.
func (k *task) fail(err error) {
	e := bridge.AsError(err).Redacted()
	k.err = e.JSONRPC(k.call.Revision(), k.call.Method)
	k.all.o.Log.Debug().Str("task", k.id).Stringer("code", e.Code).Err(err).Msg("task failed")
	k.set(failed, k.err.GetMessage())
}

// require makes the task wait for input. The caller holds mu.
func (k *task) require(needs *pb.InputRequired) {
	err := seal.Check(k.call, needs)
	if err == nil {
		err = seal.CheckCapabilities(k.call, needs)
	}
	if k.round.number++; err == nil && k.round.number >= limits.Rounds {
		err = seal.TooManyRounds(k.call)
	}
	if err != nil {
		k.fail(err)
		return
	}
	k.round = round{
		number: k.round.number, requested: k.round.requested, state: needs.RequestState,
	}
	for _, req := range needs.GetInputRequests() {
		k.round.requested++
		own := bridge.ShallowCopy(req)
		own.Key = strconv.Itoa(k.round.requested)
		k.round.pending = append(k.round.pending, pendingInput{own, req.GetKey()})
	}
	if len(k.round.pending) == 0 { // there is only a state, with which the call continues
		k.proceed()
		return
	}
	k.set(inputRequired, "")
}

// update receives responses to input requests. It ignores others. It returns an error if there is no room for them.
func (k *task) update(responses map[string]*pb.InputResponse) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	before, size := len(k.round.pending), 0
	for _, p := range k.round.pending {
		size += proto.Size(responses[p.request.GetKey()])
	}
	if size > 0 && !k.all.fits(int64(size)) {
		return k.all.tooLarge("tasks/update: the responses are not accepted")
	}
	k.round.pending = slices.DeleteFunc(k.round.pending, func(p pendingInput) bool {
		r := responses[p.request.GetKey()]
		if r == nil {
			return false
		}
		if k.round.responses == nil {
			k.round.responses = map[string]*pb.InputResponse{}
		}
		k.round.responses[p.key] = r
		return true
	})
	switch len(k.round.pending) {
	case before: // none was for this round
	case 0:
		k.proceed()
	default:
		k.set(inputRequired, "")
	}
	return nil
}

// proceed executes the next round. The caller holds mu.
func (k *task) proceed() {
	k.call = k.call.Retry(k.round.responses, k.round.state)
	k.round = round{number: k.round.number, requested: k.round.requested}
	k.set(Working, "")
	_ = k.save() // the error is logged
	k.begin()
}
