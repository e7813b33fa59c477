package mcpclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// The keys of `_meta` that MCP itself defines, and the methods that are handled between the bridge and the server.
const (
	metaProgressToken  = "progressToken"
	metaVersion        = bridge.MetaVersion
	metaCapabilities   = bridge.MetaCapabilities
	metaClientInfo     = bridge.MetaClientInfo
	metaLogLevel       = bridge.MetaLogLevel
	metaServerInfo     = bridge.MetaServerInfo
	metaSubscriptionID = bridge.MetaSubscriptionID

	methodInitialize  = "initialize"
	methodSetLevel    = "logging/setLevel"
	methodSubscribe   = "resources/subscribe"
	methodUnsubscribe = "resources/unsubscribe"

	notifyProgress    = "notifications/progress"
	notifyMessage     = "notifications/message"
	notifyCancelled   = "notifications/cancelled"
	methodRoots       = "roots/list"
	notifyInitialized = "notifications/initialized"
)

// Error codes of JSON-RPC and MCP.
const (
	codeInvalidRequest     = -32600
	codeMethodNotFound     = -32601
	codeInvalidParams      = -32602
	codeInternal           = -32603
	codeRefused            = -1
	codeHeaderMismatch     = -32020
	codeUnsupportedVersion = -32022
)

// A wire transfers messages to a server, and passes received messages to its peer. Its methods may be called
// concurrently.
type wire interface {
	// start sends the request of x, without waiting. The messages of x go to its inbox.
	start(x *exchange)
	// stop cancels the started request of x, without waiting.
	stop(x *exchange)
	// notify sends a message without a response before any request that is started later.
	notify(ctx context.Context, msg []byte) error
	// open starts the standalone stream of a new session. It returns when the stream is open, when that cannot be
	// determined, or when ctx has ended.
	open(ctx context.Context)
	// close ends the connection. When it returns, nothing is left of it.
	close()
}

// A peer is a server on one connection: a session in the legacy era, and only a route to the server in the modern era.
type peer struct {
	c    *Client
	wire wire
	out  *outbox // the wire's, for messages without a response
	// revision is the negotiated revision, or NoRevision.
	revision atomic.Uint32
	declarations
	ownership
	subs subscriptions
	ids  atomic.Int64

	mu       sync.Mutex // guards the rest
	running  map[string]*exchange
	canceled map[string]canceledCall // by id
	stored   []jsonrpc.Message       // requests of the server that wait for the next call
	shutdown
	logging
	refusals
}

// declarations are what both sides have declared.
type declarations struct {
	// clientCapabilities has the client capabilities that were declared to the server, in the legacy era.
	clientCapabilities *pb.ClientCapabilities
	// tasks means that the server supports tasks for tools/call.
	tasks atomic.Bool
}

// A ownership records whose calls a peer is used for. The pool sets it.
type ownership struct {
	// key identifies the callers that can use the session. If empty, every caller can.
	key string
	// exclusive means that the peer is used for one call at a time, and owner is the owner of that call.
	exclusive bool
	owner     string
	// anonymous means that the peer is used for an unidentified caller, and informed that the server has received a
	// response of that caller.
	anonymous, hasResponse bool
	// began is when the session started, and idle is when its last call ended.
	began, idle time.Time
}

// A shutdown is the progress of a peer toward its end. The peer's lock guards closing and reason.
type shutdown struct {
	closing bool          // no exchange starts
	drained chan struct{} // closed when the peer is closing and has no exchange
	drain   func()        // closes drained
	reason  error         // why the server was lost
	done    chan struct{} // closed when the connection is lost
	once    sync.Once
	closed  sync.Once
}

// A logging is the log level of a legacy server. The peer's lock guards the levels.
type logging struct {
	logs   bool        // the server sends log messages
	level  pb.LogLevel // the level of the server
	wanted pb.LogLevel // the requested level, if that is less severe
}

// refusals limits the rates of rejections of requests without a call, and of log lines about ignored messages. The
// peer's lock guards it.
type refusals struct {
	refused       int       // number of rejected requests in this second
	refusalSecond int64     // in seconds of the Unix epoch
	ignored       time.Time // last warning about an ignored message
}

func (c *Client) newPeer() *peer {
	drained := make(chan struct{})
	return &peer{
		c: c,
		shutdown: shutdown{
			done: make(chan struct{}), drained: drained, drain: sync.OnceFunc(func() { close(drained) }),
		},
		running: map[string]*exchange{}, canceled: map[string]canceledCall{},
		declarations: declarations{clientCapabilities: &pb.ClientCapabilities{}},
	}
}

func (p *peer) rev() bridge.Revision { return bridge.Revision(p.revision.Load()) }

func (p *peer) setRev(r bridge.Revision) { p.revision.Store(uint32(r)) }

// keep runs a loop of the connection. A panic in it ends the connection.
func (p *peer) keep(loop func()) {
	defer p.c.panics.Recover("the connection to the server", func(e *bridge.Error) { p.lose(e) })
	loop()
}

// lose marks the connection as lost, which ends everything that waits for it.
func (p *peer) lose(err error) {
	p.shutdown.once.Do(func() {
		p.mu.Lock()
		p.reason = err
		running := make([]*exchange, 0, len(p.running))
		for _, x := range p.running {
			running = append(running, x)
		}
		p.mu.Unlock()
		close(p.done)
		for _, x := range running {
			x.fail(&lostError{err: err})
			x.cancel()
		}
	})
}

// isLost reports whether the peer has been lost.
func (p *peer) isLost() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// why returns why the peer was lost.
func (p *peer) why() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reason
}

// expire marks a peer as closing because the server has rejected its session as unknown. Earlier requests may still
// receive responses.
func (p *peer) expire() {
	if l := p.c.super.Live(); l != nil && l.peer == p {
		l.end() // the supervisor replaces it
		return
	}
	p.c.background(p.closeWhenUnused)
}

// isClosing reports whether the peer is lost or closing: nothing more starts.
func (p *peer) isClosing() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closing || p.reason != nil
}

// closeWhenUnused closes the peer once it is unused: an error of one call need not affect others.
func (p *peer) closeWhenUnused(ctx context.Context) {
	p.mu.Lock()
	p.closing = true
	if len(p.running) == 0 {
		p.drain()
	}
	p.mu.Unlock()
	select {
	case <-p.drained:
	case <-p.done:
	case <-ctx.Done():
	}
	p.close()
}

// close ends the connection. When it returns, nothing is left of it.
func (p *peer) close() {
	p.closed.Do(func() {
		defer p.c.panics.Recover("closing a connection to the server", nil)
		p.lose(errClosed)
		if p.wire != nil {
			p.wire.close()
		}
	})
}

var errClosed = errors.New("the connection was closed")

// A lostError is why an exchange has no response: the connection failed, or the server responded with a status only.
type lostError struct {
	err error
	// answered means that err is the server's response, with a status that no other field describes.
	answered bool
	// gateway means that a gateway responded, behind which the server may be executing the request.
	gateway bool
	// refused means that the server rejected the request with the status of its response.
	refused bool
	// unknownSession means that the status reports an unknown session, which proves that the request was not executed.
	unknownSession bool
	// reprobe means that the server must be probed again.
	reprobe bool
	// responseLost means that the server did not receive a response that it waits for, because of err.
	responseLost bool
}

func (l *lostError) Error() string { return l.err.Error() }

func (l *lostError) Unwrap() error { return l.err }

// A purpose describes the purpose of a request, as far as the handling of other messages depends on it.
type purpose struct {
	// acceptsRequests means that the caller can receive the server's requests during this exchange.
	acceptsRequests bool
	// logs means that the caller requested log messages.
	logs bool
	// listens marks a subscription, which receives changes.
	listens bool
	// owner is the owner of the call, or empty if unknown.
	owner string
}

// begin returns an exchange for a request. The caller must set its body and start it.
func (p *peer) begin(method string, u purpose) (*exchange, error) {
	x := &exchange{
		p: p, id: strconv.FormatInt(p.ids.Add(1), 10), method: method, purpose: u, progress: noProgress,
		inbox: inbox{ready: make(chan struct{}, 1), room: make(chan struct{}, 1)},
	}
	x.ctx, x.cancel = context.WithCancel(p.c.ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing || p.reason != nil {
		x.cancel()
		return nil, &lostError{err: cmp.Or(p.reason, errClosed)}
	}
	p.running[x.id] = x
	return x, nil
}

// start sends the request of an exchange.
func (p *peer) start(x *exchange) {
	x.transition(idle, inFlight)
	p.wire.start(x)
}

// end removes an exchange. If it has no response, it is canceled.
func (p *peer) end(x *exchange) {
	p.mu.Lock()
	delete(p.running, x.id)
	if p.closing && len(p.running) == 0 {
		p.drain()
	}
	was := x.abandon(nil)
	refused := was == failed && isRefusal(x.failure())
	if x.sent.settle() && !was.isAnswered() && !refused {
		p.recordCanceled(x)
	}
	p.mu.Unlock()
	if was != idle && !was.isAnswered() && !p.isLost() {
		p.wire.stop(x)
	}
	if was != answered {
		x.cancel()
	}
}

// A canceledCall is one that the server may still be executing.
type canceledCall struct {
	owner string // as in use
	since time.Time
}

// maxCanceledCalls is the maximum number of canceled calls that are tracked individually.
const maxCanceledCalls = 1024

// recordCanceled records that the server may still be executing a canceled call, and may send messages about it. An
// exclusive peer is not used again after that. The caller holds mu.
func (p *peer) recordCanceled(x *exchange) {
	if call := x.each != nil && !x.listens; !call || p.exclusive {
		return
	}
	id, owner := x.id, x.owner
	if len(p.canceled) >= maxCanceledCalls {
		maps.DeleteFunc(p.canceled, func(_ string, s canceledCall) bool { return p.isOld(s) })
	}
	if len(p.canceled) >= maxCanceledCalls {
		id, owner = "", "" // no response has this id: it stands for all untracked calls, of any owner
	}
	p.canceled[id] = canceledCall{owner, time.Now()}
}

// hasCanceledOfOthers reports whether the server may still be executing a canceled call of another owner: one without a
// response that is not too old. The caller holds mu.
func (p *peer) hasCanceledOfOthers(owner string) bool {
	for id, s := range p.canceled {
		switch {
		case p.isOld(s):
			delete(p.canceled, id)
		case owner == "" || s.owner != owner:
			return true
		}
	}
	return false
}

// isOld reports whether a canceled call is older than any call can be.
func (p *peer) isOld(s canceledCall) bool { return time.Since(s.since) >= p.c.o.Limits.CallTotal }

// do sends a request of the bridge's own and returns the response, which may be an error.
func (p *peer) do(ctx context.Context, method string, params []byte) (*jsonrpc.Message, error) {
	x, err := p.begin(method, purpose{})
	if err != nil {
		return nil, err
	}
	defer p.end(x)
	x.body = jsonrpc.AppendRequest(nil, []byte(x.id), method, params)
	p.start(x)
	return x.await(ctx)
}

// setLevel sets the log level of a legacy server for a caller. The level belongs to the session, so it only becomes
// less severe; the bridge drops messages that are less severe than a caller's level.
func (p *peer) setLevel(ctx context.Context, level pb.LogLevel) error {
	p.mu.Lock()
	enough := level == pb.LogLevel_LOG_LEVEL_UNSPECIFIED || p.level != pb.LogLevel_LOG_LEVEL_UNSPECIFIED &&
		p.level <= level
	if !enough && (p.wanted == pb.LogLevel_LOG_LEVEL_UNSPECIFIED || level < p.wanted) {
		p.wanted = level
	}
	level = p.wanted // another call may be sending it just now
	p.mu.Unlock()
	if enough {
		return nil
	}
	msg, err := p.do(ctx, methodSetLevel, []byte(`{"level":"`+levelName(level)+`"}`))
	if err != nil {
		return err
	}
	if msg.Error != nil {
		p.c.log.Debug().Str("error", rawjson.ShortenTo(msg.Error.GetMessage(), 500)).
			Msg("the server rejected logging/setLevel")
	}
	p.mu.Lock()
	p.level = level
	p.mu.Unlock()
	return nil
}

// asError returns the error in a response to a request of the bridge's own.
func asError(method string, m *jsonrpc.Message) error { return &refusal{method, m.Error} }

// A refusal is an error response to a request of the bridge's own.
type refusal struct {
	method string
	rpc    *pb.JsonRpcError
}

func (r *refusal) Error() string {
	return fmt.Sprintf("%s: the server responded with error %d: %s", r.method, r.rpc.GetCode(),
		rawjson.ShortenTo(r.rpc.GetMessage(), 500))
}

// isModern reports whether only a modern server returns this error.
func (r *refusal) isModern() bool {
	switch r.rpc.GetCode() {
	case codeHeaderMismatch, bridge.CodeMissingCapability:
		return true
	case codeUnsupportedVersion:
		modern, _ := supportedBy(r.rpc)
		return modern
	}
	return false
}
