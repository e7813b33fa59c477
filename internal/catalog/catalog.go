// Package catalog knows what a backend has to offer. It is a bridge.Handler around that of the backend: it remembers lists
// for as long as they are true, drops entries that would break their clients, and holds calls of tools to the schemas that the
// tools are published with, arguments and results alike. No user is sent elsewhere than to a web page.
//
// A list is remembered for each principal, revision and what clients can do, and never shown to another. What is remembered of a
// list may be old; it is good enough to accept arguments by, and never to refuse them by: before it refuses, the catalog asks for
// the list again.
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
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// Options are what a Catalog can be told.
type Options struct {
	// Log gets what is wrong with the backend's tools, once each.
	Log zerolog.Logger
	// SkipArguments leaves it to the backend to check the arguments of its tools.
	SkipArguments bool
	// SkipOutput leaves it to the client to check what tools return.
	SkipOutput bool
	// Limits are the limits of what the tools of a backend are. Zero fields are the defaults.
	Limits limits.Limits
}

// A Catalog is a bridge.Handler that knows the tools of another one. The messages that it returns for lists are shared: nobody
// may change them, and an answer that is the same as the one before is the same message.
type Catalog struct {
	h bridge.Handler
	o Options

	// clock counts what happens, so that it can be said what began after what.
	clock atomic.Uint64

	warned onceEach

	mu      sync.RWMutex // guards what follows; not held while the handler is called
	pages   map[pageKey]*page
	bytes   int               // of pages
	before  map[pageKey]*page // the page that names the one of the key as the next
	flights map[pageKey]*flight
	kinds   [kinds]kindState
	known   map[bridge.Audience]*tools
	count   int // of tools in known
	schemas map[string]*schema
	text    int // bytes of schemas
}

var _ bridge.Handler = (*Catalog)(nil)

// New returns a Catalog of h.
func New(h bridge.Handler, o Options) *Catalog {
	o.Limits = o.Limits.OrDefaults()
	c := &Catalog{
		h: h, o: o,
		pages: map[pageKey]*page{}, before: map[pageKey]*page{}, flights: map[pageKey]*flight{}, known: map[bridge.Audience]*tools{},
		schemas: map[string]*schema{},
	}
	c.clock.Store(1) // 0 stands for before everything
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
	res, err := c.h.Handle(ctx, call, emit)
	if bad := checkPages(call, res, err); bad != nil {
		return nil, bad
	}
	if err != nil {
		return nil, err
	}
	return c.checkOutput(ctx, call, r, t, res)
}

// handleOther answers a call that is no tools/call.
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
		if m := lasting(res.Complete); m != res.Complete {
			res = &bridge.Result{Complete: m}
		}
	}
	return res, err
}

// lasting returns an answer that says of its time to live what may be said: it is not negative (2026-07-28: server/utilities/caching).
func lasting(answer proto.Message) proto.Message {
	if has, ok := answer.(interface{ GetTtlMs() int64 }); !ok || has.GetTtlMs() >= 0 {
		return answer
	}
	out := bridge.ShallowCopy(answer)
	m := out.ProtoReflect()
	m.Set(m.Descriptor().Fields().ByName("ttl_ms"), protoreflect.ValueOfInt64(0))
	return out
}

// onceEach remembers what has been said.
type onceEach struct {
	mu   sync.Mutex
	said map[string]struct{}
}

// maxSaid is how many warnings are remembered. A backend that gives reason for more hears of some of them again.
const maxSaid = 4_096

func (o *onceEach) first(what string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.said[what]; ok {
		return false
	}
	if o.said == nil || len(o.said) >= maxSaid {
		o.said = map[string]struct{}{}
	}
	o.said[what] = struct{}{}
	return true
}

// warn logs something about an entry of a list, unless it has been logged.
func (c *Catalog) warn(kind, key, what string, err error) {
	key = rawjson.ShortenTo(key, c.o.Limits.ToolName)
	if c.warned.first(key + "\x00" + what + "\x00" + errText(err)) {
		c.o.Log.Warn().Str(kind, key).Str("reason", errText(err)).Msg(what)
	}
}
