// Package tasks keeps tasks: tool calls that continue in the background (2025-11-25: basic/utilities/tasks; since
// 2026-07-28 the extension io.modelcontextprotocol/tasks). A Catalog begins them with Call, and fronts answer tasks/get
// and its like with Handle. Backends need not support tasks. Await turns the task of a backend that does into an
// ordinary call, for callers with and without tasks.
package tasks

import (
	"cmp"
	"context"
	"crypto/rand"
	"math"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/contain"
	"github.com/mcpbridge/mcpbridge/internal/lifecycle"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// Options configure Tasks.
type Options struct {
	// Log receives the events of tasks. The zero value logs nothing.
	Log zerolog.Logger
	// Panics counts panics. If nil, those of this package are counted separately.
	Panics *contain.Panics
	// Limits are the limits of tasks. Defaults replace zero fields.
	Limits limits.Tasks
	// CallTotal is how long a call may last that has not become a task. If zero, it is that of limits.Limits.
	CallTotal time.Duration
	// Store keeps the tasks across runs. If nil, they are lost when the bridge exits.
	Store *Store
	// Lifecycle counts the calls of tasks that the next run does not continue. If nil, none waits for them.
	Lifecycle *lifecycle.Lifecycle
}

// Tasks are the tasks of all callers. Only the principal that created a task can use it; without authentication, its id
// is what authorizes, and cannot be guessed. The methods may be called concurrently.
type Tasks struct {
	o      Options
	panics *contain.Panics
	ctx    context.Context //nolint:containedctx // the context of all calls, which outlive the requests that begin them
	stop   context.CancelFunc

	starting sync.Mutex // held while a call is added to calls, which Close waits for
	calls    sync.WaitGroup

	mu     sync.Mutex // guards what follows; before the locks of tasks
	tasks  map[string]*task
	owners map[principal]int // the number of tasks of each principal
	next   uint64            // the number of the next task

	size atomic.Int64 // bytes of requests, input and results
}

var _ bridge.Handler = (*Tasks)(nil)

// A principal is a verified caller, or the zero value.
type principal struct{ issuer, subject string }

func principalOf(call *bridge.Call) principal {
	p := call.Context().GetVerified().GetPrincipal()
	return principal{p.GetIssuer(), p.GetSubject()}
}

// New returns Tasks, with those of the store. It returns an error if the store cannot be read.
func New(o Options) (*Tasks, error) {
	o.Limits = o.Limits.OrDefaults()
	o.CallTotal = cmp.Or(o.CallTotal, limits.Defaults().CallTotal)
	if o.Lifecycle == nil {
		o.Lifecycle = lifecycle.New()
	}
	t := &Tasks{o: o, panics: o.Panics.With(o.Log), tasks: map[string]*task{}, owners: map[principal]int{}}
	t.ctx, t.stop = context.WithCancel(context.Background())
	if o.Store != nil {
		if err := t.restore(); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// Close cancels the calls of all tasks, waits for them, and closes the store. In the store, these tasks have not ended.
func (t *Tasks) Close() error {
	t.starting.Lock()
	t.stop()
	t.starting.Unlock()
	t.calls.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range t.tasks {
		k.expiry.Stop()
	}
	if t.o.Store != nil {
		return t.o.Store.Close()
	}
	return nil
}

// start calls f in a goroutine. It returns false after Close.
func (t *Tasks) start(f func()) bool {
	t.starting.Lock()
	defer t.starting.Unlock()
	if t.ctx.Err() != nil {
		return false
	}
	t.calls.Go(f)
	return true
}

var errClosed = bridge.Failed(codes.Unavailable, bridge.OutcomeNotExecuted, "SHUTTING_DOWN",
	"the bridge is shutting down: call again later")

// Handle implements bridge.Handler for the methods of tasks.
func (t *Tasks) Handle(ctx context.Context, call *bridge.Call, _ bridge.Emit) (*bridge.Result, error) {
	if r, ok := call.Request.(*pb.ListTasksRequest); ok {
		return t.list(call, r)
	}
	k, err := t.find(call)
	if err != nil {
		return nil, err
	}
	switch r := call.Request.(type) {
	case *pb.GetTaskRequest:
		if wait := r.GetWaitMs(); wait > 0 {
			ctx, cancel := context.WithTimeout(ctx, min(time.Duration(wait)*time.Millisecond, limits.TaskWait))
			defer cancel()
			k.wait(ctx, func() bool { return k.status != Working })
		}
		return &bridge.Result{Complete: &pb.GetTaskResponse{Task: k.describe(call.Revision())}}, nil
	case *pb.UpdateTaskRequest:
		if err := k.update(r.GetInputResponses()); err != nil {
			return nil, err
		}
		return &bridge.Result{Complete: &pb.UpdateTaskResponse{}}, nil
	case *pb.CancelTaskRequest:
		if !k.cancel() && !call.Revision().CancelsEndedTasks() {
			return nil, bridge.Errorf(codes.InvalidArgument, "tasks/cancel: the task has already ended")
		}
		return &bridge.Result{Complete: &pb.CancelTaskResponse{}}, nil
	}
	return nil, bridge.Errorf(codes.Unimplemented, "%s is not a method of tasks", call.Method.Name)
}

// Get returns the task of a call of tasks/get.
func (t *Tasks) Get(call *bridge.Call) (*pb.Task, error) {
	k, err := t.find(call)
	if err != nil {
		return nil, err
	}
	return k.describe(call.Revision()), nil
}

// State is Get with the version of the task, and its last progress, which is nil after its end.
func (t *Tasks) State(call *bridge.Call) (task *pb.Task, version uint64, progress *pb.Progress, err error) {
	k, err := t.find(call)
	if err != nil {
		return nil, 0, nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.describeLocked(call.Revision()), k.version, k.progress, nil
}

// Next is Get once the task has changed since a version, and returns its new version. The first version is 1.
func (t *Tasks) Next(ctx context.Context, call *bridge.Call, since uint64) (*pb.Task, uint64, error) {
	k, err := t.find(call)
	if err != nil {
		return nil, 0, err
	}
	var task *pb.Task
	version := since
	k.wait(ctx, func() bool {
		if version = k.version; version == since {
			return false
		}
		task = k.describeLocked(call.Revision())
		return true
	})
	if task == nil {
		return nil, 0, context.Cause(ctx)
	}
	return task, version, nil
}

// Update gives a task responses to its input requests. The call is one of tasks/get.
func (t *Tasks) Update(call *bridge.Call, responses map[string]*pb.InputResponse) error {
	k, err := t.find(call)
	if err != nil {
		return err
	}
	return k.update(responses)
}

// Watch calls report with the id and the status of a task of the caller, now if the task is not working, and whenever
// it has changed, until it has ended or stop is called. It returns the ids of tasks that exist. report must not block.
func (t *Tasks) Watch(call *bridge.Call, ids []string, report func(id, status string)) (found []string, stop func()) {
	w := &watcher{report: report}
	for _, id := range ids {
		if k := t.owned(call, id); k != nil && k.watch(w) {
			found = append(found, id)
		}
	}
	return found, func() {
		for _, id := range found { // by id: the caller must not keep the tasks
			if k := t.owned(call, id); k != nil {
				k.unwatch(w)
			}
		}
	}
}

// create adds a task for a call, which it retains. It returns an error above a limit, or if the store fails. The task
// is durable when create returns.
func (t *Tasks) create(call *bridge.Call, o CallOptions, ttl time.Duration) (*task, error) {
	k, err := t.admit(call, o, ttl)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	err = k.save()
	k.mu.Unlock()
	if err != nil {
		t.remove(k)
		return nil, bridge.Failed(codes.Unavailable, bridge.OutcomeNotExecuted, "STORE_FAILED",
			"no task can be created: the store of the bridge failed; see its log")
	}
	return k, nil
}

// admit adds a task to those in memory.
func (t *Tasks) admit(call *bridge.Call, o CallOptions, ttl time.Duration) (*task, error) {
	owner := principalOf(call)
	t.mu.Lock()
	defer t.mu.Unlock()
	const refused = "no further task can be created"
	switch limit := &t.o.Limits; {
	case len(t.tasks) >= limit.Most:
		return nil, tooMany(refused, "there are %d (tasks.most)", limit.Most)
	case owner != (principal{}) && t.owners[owner] >= limit.PerCaller:
		return nil, tooMany(refused, "the caller has %d (tasks.perCaller)", limit.PerCaller)
	case !t.fits(int64(proto.Size(call.Request))):
		return nil, t.tooLarge(refused)
	}
	created := now()
	t.next++
	k := &task{
		identity: identity{rand.Text(), t.next, owner, call.Session, o.Backend, created, ttl},
		state:    state{status: Working, version: 1, updated: created},
		handler:  o.Handler, call: call, retry: o.Retry,
	}
	t.add(k, ttl)
	return k, nil
}

// add adds a task that expires after a time. The caller holds mu.
func (t *Tasks) add(k *task, left time.Duration) {
	k.all = t
	k.count(k.measure())
	k.expiry = time.AfterFunc(left, func() {
		defer t.panics.Recover("expiring a task", nil)
		k.cancel()
		t.remove(k)
	})
	t.tasks[k.id] = k
	t.owners[k.owner]++
}

// fits reports whether the tasks may keep more bytes. Results are kept even if they do not fit, because the tools were
// executed; then nothing else fits.
func (t *Tasks) fits(more int64) bool { return t.size.Load()+more <= int64(t.o.Limits.Bytes) }

func (t *Tasks) tooLarge(refused string) error {
	return tooMany(refused, "tasks have %d bytes together (tasks.bytes)", t.o.Limits.Bytes)
}

func tooMany(refused, format string, args ...any) error {
	e := bridge.Failed(codes.ResourceExhausted, bridge.OutcomeNotExecuted, bridge.ReasonTooMany,
		refused+": "+format+"; wait until some have expired (tasks.ttl)", args...)
	e.RetryAfter = time.Second
	return e
}

// remove removes a task, which has ended or was never returned.
func (t *Tasks) remove(k *task) {
	t.mu.Lock()
	if t.tasks[k.id] != k {
		t.mu.Unlock()
		return
	}
	delete(t.tasks, k.id)
	if t.owners[k.owner]--; t.owners[k.owner] == 0 {
		delete(t.owners, k.owner)
	}
	t.mu.Unlock()
	k.expiry.Stop()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.count(0)
	if t.o.Store != nil {
		if err := t.o.Store.remove(k.id); err != nil {
			t.o.Log.Error().Err(err).Str("task", k.id).Msg("the expired task was not removed from the store")
		}
	}
}

// owned returns the task with an id, or nil. It returns nil for a task of another principal.
func (t *Tasks) owned(call *bridge.Call, id string) *task {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k := t.tasks[id]; k != nil && k.owner == principalOf(call) {
		return k
	}
	return nil
}

func (t *Tasks) find(call *bridge.Call) (*task, error) {
	if k := t.owned(call, call.Method.Target(call.Request)); k != nil {
		return k, nil
	}
	return nil, bridge.Errorf(codes.NotFound,
		"there is no such task of this caller: its id is wrong, or its ttl has passed")
}

// list returns a page of the caller's tasks, the newest first. Callers without a principal receive the tasks of their
// session only, and without a session an error: they cannot be distinguished (2025-11-25: basic/utilities/tasks,
// security considerations).
func (t *Tasks) list(call *bridge.Call, r *pb.ListTasksRequest) (*bridge.Result, error) {
	before, err := parseCursor(r.Cursor)
	if err != nil {
		return nil, err
	}
	owner := principalOf(call)
	if owner == (principal{}) && call.Session == "" {
		return nil, bridge.Errorf(codes.FailedPrecondition,
			"tasks/list: only authenticated callers and sessions have a list of tasks: keep the ids of tasks")
	}
	var own []*task
	t.mu.Lock()
	for _, k := range t.tasks {
		if k.owner == owner && (owner != (principal{}) || k.session == call.Session) && k.number < before {
			own = append(own, k)
		}
	}
	t.mu.Unlock()
	slices.SortFunc(own, func(a, b *task) int { return cmp.Compare(b.number, a.number) })
	page := &pb.ListTasksResponse{}
	for _, k := range own[:min(len(own), limits.TasksPage)] {
		page.Tasks = append(page.Tasks, k.summary(call.Revision()))
	}
	if len(own) > limits.TasksPage {
		page.NextCursor = cursorOf(own[limits.TasksPage-1])
	}
	return &bridge.Result{Complete: page}, nil
}

// A cursor is the number of the last task on a page.
func cursorOf(last *task) *string { return proto.String(strconv.FormatUint(last.number, 10)) }

func parseCursor(cursor *string) (before uint64, err error) {
	if cursor == nil {
		return math.MaxUint64, nil
	}
	if before, err = strconv.ParseUint(*cursor, 10, 64); err != nil {
		return 0, bridge.Errorf(codes.InvalidArgument,
			"tasks/list: the cursor is not one of this server: send nextCursor of the previous page unchanged")
	}
	return before, nil
}
