// Package catalog caches what a backend offers. A Catalog is a bridge.Handler around that of the backend: it caches
// lists for their TTL, drops entries that would break clients, and validates the arguments and results of tools against
// their published schemas. URL elicitation is limited to web pages.
//
// Lists are cached by principal, revision and client capabilities, and never shared beyond their cache scope. A cached
// list may be outdated; it is used to accept arguments, and never to reject them: before a rejection, the list is
// requested again.
package catalog

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	"github.com/mcpbridge/mcpbridge/internal/tasks"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// Options configure a Catalog.
type Options struct {
	// Log receives the errors in the backend's tools, once each.
	Log zerolog.Logger
	// SkipArguments disables the validation of arguments.
	SkipArguments bool
	// SkipOutput disables the validation of results.
	SkipOutput bool
	// Limits are the limits of a backend's tools. Defaults replace zero fields.
	Limits limits.Limits
	// Name is the name of the backend.
	Name string
	// Tasks keeps the calls that become tasks, as TaskPolicy and the tools define. If nil, none do, and callers that
	// accept a task receive those of the backend.
	Tasks      *tasks.Tasks
	TaskPolicy tasks.Policy
}

// A Catalog is a bridge.Handler that caches the lists of another one. The messages that it returns for lists are shared
// and must not be modified; an unchanged list is the same message.
type Catalog struct {
	h bridge.Handler
	o Options

	// clock orders events.
	clock atomic.Uint64

	warned warningSet

	tasks taskSources

	mu      sync.RWMutex // guards what follows; not held while the handler is called
	pages   map[pageKey]*page
	bytes   int               // of pages
	before  map[pageKey]*page // the page whose next cursor leads to the key
	flights map[pageKey]*flight
	kinds   [kinds]kindState
	known   map[bridge.Audience]*tools
	count   int // number of tools in known
	schemas map[string]*schema
	text    int // size of the schemas in bytes
}

var _ bridge.Handler = (*Catalog)(nil)

// New returns a Catalog of h.
func New(h bridge.Handler, o Options) *Catalog {
	o.Limits = o.Limits.OrDefaults()
	c := &Catalog{
		h: h, o: o,
		pages: map[pageKey]*page{}, before: map[pageKey]*page{}, flights: map[pageKey]*flight{},
		known:   map[bridge.Audience]*tools{},
		schemas: map[string]*schema{},
	}
	c.clock.Store(1) // 0 is before every event
	return c
}

// Handle implements bridge.Handler.
func (c *Catalog) Handle(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
	r, ok := call.Request.(*pb.CallToolRequest)
	if !ok {
		res, err := c.handleOther(ctx, call, emit)
		if bad := checkPages(call, res, err); bad != nil {
			return nil, bad
		}
		return res, err
	}
	t, refusal, err := c.checkArguments(ctx, call, r)
	if refusal != nil || err != nil {
		return refusal, err
	}
	o, err := c.taskOptions(call, r, t)
	if err != nil {
		return nil, err
	}
	if o != nil {
		return c.o.Tasks.Call(ctx, call, *o, emit)
	}
	if r.GetTask() != nil {
		call, r = withoutTask(call, r)
	}
	var res *bridge.Result
	if tasks.IsDriven(r) {
		res, err = tasks.Resume(ctx, c.h, call, emit)
	} else if res, err = c.h.Handle(ctx, call, emit); err == nil && res.Task != nil && !c.passesTask(call, r) {
		res, err = tasks.Await(ctx, c.h, call, res.Task, emit)
	}
	if bad := checkPages(call, res, err); bad != nil {
		return nil, bad
	}
	if err != nil {
		return nil, err
	}
	return c.checkOutput(ctx, call, r, t, res)
}

// passesTask reports whether the caller receives a task of the backend.
func (c *Catalog) passesTask(call *bridge.Call, r *pb.CallToolRequest) bool {
	return c.o.Tasks == nil && bridge.AcceptsTask(r, call.Revision())
}

// withoutTask returns the call without the request for a task.
func withoutTask(call *bridge.Call, r *pb.CallToolRequest) (*bridge.Call, *pb.CallToolRequest) {
	r = bridge.ShallowCopy(r)
	r.Task = nil
	return call.With(call.Method, r), r
}

// handleOther executes a call other than tools/call.
func (c *Catalog) handleOther(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
	if call.Method == bridge.Listen {
		return c.listen(ctx, call, emit)
	}
	for k := range kinds {
		if r, ok := call.Request.(interface{ GetExtra() string }); ok && entries[k].method == call.Method {
			return c.list(ctx, call, k, *bridge.Cursor(call.Request), r.GetExtra(), emit)
		}
	}
	res, err := c.h.Handle(ctx, call, emit)
	if err == nil && res.Complete != nil {
		m := withoutNegativeTTL(res.Complete)
		if d, ok := m.(*pb.DiscoverResponse); ok {
			m = c.withTasks(d)
		}
		if m != res.Complete {
			res = &bridge.Result{Complete: m}
		}
	}
	return res, err
}

// withoutNegativeTTL returns a result without a negative TTL (2026-07-28: server/utilities/caching).
func withoutNegativeTTL(answer proto.Message) proto.Message {
	if has, ok := answer.(interface{ GetTtlMs() int64 }); !ok || has.GetTtlMs() >= 0 {
		return answer
	}
	out := bridge.ShallowCopy(answer)
	m := out.ProtoReflect()
	m.Set(m.Descriptor().Fields().ByName("ttl_ms"), protoreflect.ValueOfInt64(0))
	return out
}

// warningSet records the logged warnings.
type warningSet struct {
	mu     sync.Mutex
	logged map[string]struct{}
}

// maxWarnings is the maximum number of recorded warnings. Above it, some are logged again.
const maxWarnings = 4_096

func (o *warningSet) first(what string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.logged[what]; ok {
		return false
	}
	if o.logged == nil || len(o.logged) >= maxWarnings {
		o.logged = map[string]struct{}{}
	}
	o.logged[what] = struct{}{}
	return true
}

// warn logs an error in an entry of a list, once.
func (c *Catalog) warn(kind, key, what string, err error) {
	key = rawjson.ShortenTo(key, c.o.Limits.ToolName)
	if c.warned.first(key + "\x00" + what + "\x00" + errText(err)) {
		c.o.Log.Warn().Str(kind, key).Str("reason", errText(err)).Msg(what)
	}
}
